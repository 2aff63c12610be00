"""How `exthost check` checks synaps extensions.

Names the requirement that each check tests, requests without an effect, and the replies to requests
of the extension.
"""

from exthost.dialects.conformance import UNKNOWN_METHOD, Conformance, audit_by_readers, read_rules
from exthost.dialects.synaps.dialect import DIALECT
from exthost.model.messages import Request

CONFORMANCE = Conformance(
    rules=read_rules("exthost.dialects.synaps"),
    pings=(Request("info.get", {}), Request(UNKNOWN_METHOD, {})),
    audit_notification=audit_by_readers(DIALECT.notifications),
    # The replies of a host that has stored nothing. The check itself stores nothing, either.
    host_results={
        "memory.append": {"ok": True, "timestamp_ms": 0},
        "memory.query": {"records": []},
        "config.get": {"value": None},
        "config.set": {"ok": True},
        "config.subscribe": {"ok": True},
    },
)
