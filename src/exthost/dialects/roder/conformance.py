"""How `exthost check` checks roder extensions: which requirement each check tests."""

from exthost.dialects.conformance import Conformance, audit_by_readers, read_rules
from exthost.dialects.roder.dialect import DIALECT

CONFORMANCE = Conformance(
    # Extensions of this dialect do not check arguments, because the host does so before a call.
    refused_calls=frozenset({"unknown-tool"}),
    rules=read_rules("exthost.dialects.roder"),
    audit_notification=audit_by_readers(DIALECT.notifications),
)
