"""The rules of `exthost check`, which are data in `rules.toml`.

`exthost check` tests whether an extension follows its dialect. A broken rule is either a fault,
which fails the check, or a warning.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from exthost.dialects.conformance import Conformance
from exthost.model.package_tables import read_tables

Severity: TypeAlias = Literal["fault", "warning"]


class Rule(NamedTuple):
    """One rule, as it applies to a dialect.

    name      the name of the rule in `rules.toml`
    id        the id of the dialect's requirement that states this rule; without such a requirement
              `check-` and the name
    text      what is required
    fix       how an author fixes an extension that breaks the rule
    severity  whether a broken rule fails the check ("fault") or is only reported ("warning")
    """

    name: str
    id: str
    text: str
    fix: str
    severity: Severity


@cache
def _load_rules() -> Mapping[str, Mapping[str, str]]:
    return MappingProxyType(read_tables("exthost.dialects", "rules.toml"))


def find_rule(name: str, conformance: Conformance) -> Rule:
    """Return the rule of this name, as it applies to a dialect."""
    fields = _load_rules()[name]
    only_warns = name in conformance.warnings or fields.get("severity") == "warning"
    id = conformance.rules.get(name, f"check-{name}")
    return Rule(name, id, fields["rule"], fields["fix"], "warning" if only_warns else "fault")


def all_rules(conformance: Conformance) -> list[Rule]:
    """Return every rule, in the order of `rules.toml`."""
    return [find_rule(name, conformance) for name in _load_rules()]
