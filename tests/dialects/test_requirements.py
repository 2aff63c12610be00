"""Every rule of a page has a test, and every test names rules that exist."""

from tests.dialects import requirements


def test_every_rule_is_shown_by_a_test_or_a_vector() -> None:
    unshown = requirements.rules().keys() - requirements.shown().keys()
    assert not unshown, f"no test shows {sorted(unshown)}"


def test_every_id_that_a_test_names_is_a_rule() -> None:
    unknown = requirements.shown().keys() - requirements.rules().keys()
    assert not unknown, {id: requirements.shown()[id] for id in unknown}


def test_there_are_rules_and_they_are_found() -> None:
    assert "morphir-wire-01" in requirements.rules()
    assert len(requirements.shown()["morphir-wire-01"]) >= 1
