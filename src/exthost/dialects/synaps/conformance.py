"""How `exthost check`, which tests whether an extension follows its dialect, checks synaps
extensions.

The fields are explained at `Conformance`. `rules` comes from `check_rules.toml` beside this file.
"""

from exthost.dialects.conformance import UNKNOWN_METHOD, Conformance, audit_by_readers, read_rules
from exthost.dialects.synaps.dialect import DIALECT
from exthost.model.messages import Request

CONFORMANCE = Conformance(
    # Extensions of this dialect do not check arguments, because the host does so before a call.
    refused_calls=frozenset({"unknown-tool"}),
    rules=read_rules("exthost.dialects.synaps"),
    pings=(Request("info.get", {}), Request(UNKNOWN_METHOD, {})),
    audit_notification=audit_by_readers(DIALECT.notifications),
)
