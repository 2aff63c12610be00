"""Every rule of a page has a test, and every test names rules that exist."""

from tests.dialects import requirements


def test_every_rule_is_shown_by_a_test_or_a_vector_and_every_named_rule_exists() -> None:
    # One test, because reading all tests for their rules takes seconds.
    rules, shown = requirements.rules(), requirements.shown()
    assert "morphir-wire-01" in rules and shown["morphir-wire-01"]
    unshown = rules.keys() - shown.keys()
    assert not unshown, f"no test shows {sorted(unshown)}"
    unknown = shown.keys() - rules.keys()
    assert not unknown, {id: shown[id] for id in unknown}
