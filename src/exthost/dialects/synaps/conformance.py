"""How `exthost check` checks synaps extensions.

Names the requirement that each check tests, requests without an effect, and the replies to requests
of the extension.
"""

from types import MappingProxyType

from exthost.dialects.conformance import UNKNOWN_METHOD, Conformance, audit_by_readers
from exthost.dialects.synaps.dialect import DIALECT
from exthost.model.messages import Request

CONFORMANCE = Conformance(
    rules=MappingProxyType(
        {
            "manifest": "synaps-mani-03",
            "handshake": "synaps-hand-02",
            "stdout-noise": "synaps-frame-07",
            "json": "synaps-frame-06",
            "message-form": "synaps-frame-06",
            "utf8": "synaps-frame-01",
            "number": "synaps-frame-04",
            "frame": "synaps-frame-04",
            "message-size": "synaps-frame-04",
            "reply-id": "synaps-route-01",
            "reply-id-type": "synaps-route-02",
            "error-form": "synaps-route-03",
            "unknown-method": "synaps-ask-04",
            "shutdown": "synaps-life-06",
            "end-of-input": "synaps-life-06",
            "early-end": "synaps-frame-05",
            "restart": "synaps-hand-11",
            "tools": "synaps-hand-04",
            "input-schema": "synaps-hand-04",
        }
    ),
    pings=(Request("info.get", {}), Request(UNKNOWN_METHOD, {})),
    audit_notification=audit_by_readers(DIALECT.notifications),
    # The replies of a host that has stored nothing. The check itself stores nothing, either.
    host_results=MappingProxyType(
        {
            "memory.append": {"ok": True, "timestamp_ms": 0},
            "memory.query": {"records": []},
            "config.get": {"value": None},
            "config.set": {"ok": True},
            "config.subscribe": {"ok": True},
        }
    ),
)
