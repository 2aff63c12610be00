"""How `exthost check`, which tests whether an extension follows its dialect, checks roder
extensions.

The fields are explained at `Conformance`. `rules` comes from `check_rules.toml` beside this file.
"""

from exthost.dialects.conformance import Conformance, audit_by_readers, read_rules
from exthost.dialects.roder.dialect import DIALECT

CONFORMANCE = Conformance(
    # Extensions of this dialect do not check arguments, because the host does so before a call.
    refused_calls=frozenset({"unknown-tool"}),
    rules=read_rules("exthost.dialects.roder"),
    audit_notification=audit_by_readers(DIALECT.notifications),
)
