"""The rules of `exthost check` (`rules.toml`), and the requirements that they check.

Each dialect (the protocol of an extension) says which of its requirements a rule checks, by the id
of the requirement, such as "morphir-wire-09".
"""

import re
from pathlib import Path

import pytest

import exthost.authoring.check
from exthost.dialects.conformance import Conformance
from exthost.dialects.find import BUILT_IN, find_conformance
from exthost.dialects.rules import all_rules
from tests.dialects.requirements import texts_by_id

CHECK = Path(exthost.authoring.check.__file__).parent


@pytest.mark.parametrize("dialect", BUILT_IN)
def test_the_requirement_ids_exist_in_the_dialect(dialect: str) -> None:
    requirement_ids = find_conformance(dialect).rules
    names = {rule.name for rule in all_rules(Conformance())}
    assert set(requirement_ids) <= names
    assert set(requirement_ids.values()) <= texts_by_id().keys()
    assert all(id.startswith(f"{dialect}-") for id in requirement_ids.values())


def test_every_rule_that_the_checks_name_exists() -> None:
    sources = [*CHECK.glob("*.py"), CHECK.parents[1] / "dialects" / "message_audit.py"]
    source = "".join(path.read_text() for path in sources)
    names = {rule.name for rule in all_rules(Conformance())}
    for name in re.findall(
        r'(?:add_finding|mark_checked|skip|Problem|find_rule)\(\s*"([a-z0-9-]+)"', source
    ):
        assert name in names


def test_a_rule_states_its_requirement_and_the_fix() -> None:
    for rule in all_rules(Conformance()):
        assert rule.text.endswith(".") and rule.fix, rule.name
        assert rule.id == f"check-{rule.name}"
