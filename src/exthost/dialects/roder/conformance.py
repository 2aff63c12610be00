"""How `exthost check` checks roder extensions: which requirement each check tests."""

from exthost.dialects.conformance import Conformance, audit_by_readers, read_rules
from exthost.dialects.roder.dialect import DIALECT

CONFORMANCE = Conformance(
    # Programs of this dialect rely on the host, which checks arguments before a call.
    refused_calls=frozenset({"unknown-tool"}),
    rules=read_rules("exthost.dialects.roder"),
    audit_notification=audit_by_readers(DIALECT.notifications),
)
