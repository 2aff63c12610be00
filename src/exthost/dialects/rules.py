"""The rules, as data: name, text, how to mend a fault, and whether it is one or a warning."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from exthost.dialects.conformance import Conformance

Severity: TypeAlias = Literal["fault", "warning"]


class Rule(NamedTuple):
    """One rule. `id` is that of the dialect's own rule, or `check-` and the name."""

    name: str
    id: str
    text: str
    fix: str
    severity: Severity


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    text = resources.files("exthost.dialects").joinpath("rules.toml").read_text("utf-8")
    return MappingProxyType(tomllib.loads(text))


def find_rule(name: str, conformance: Conformance) -> Rule:
    """Return the rule of this name, as it applies to a dialect."""
    row = _table()[name]
    only_warns = name in conformance.warnings or row.get("severity") == "warning"
    id = conformance.rules.get(name, f"check-{name}")
    return Rule(name, id, row["rule"], row["fix"], "warning" if only_warns else "fault")


def all_rules(conformance: Conformance) -> list[Rule]:
    """Return every rule, in the order in which they are listed."""
    return [find_rule(name, conformance) for name in _table()]
