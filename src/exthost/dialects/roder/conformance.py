"""How `exthost check` checks roder extensions: which requirement each check tests."""

from exthost.dialects.conformance import Conformance, audit_by_readers, read_rules
from exthost.dialects.roder.dialect import DIALECT

CONFORMANCE = Conformance(
    rules=read_rules("exthost.dialects.roder"),
    audit_notification=audit_by_readers(DIALECT.notifications),
)
