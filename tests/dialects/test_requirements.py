"""Every requirement has a test or vector, and every test names requirements that exist."""

from tests.dialects import requirements


def test_every_requirement_is_shown_and_every_named_requirement_exists() -> None:
    # This is one test because reading all tests takes seconds.
    rules, shown = requirements.rules(), requirements.shown()
    assert "morphir-wire-01" in rules and shown["morphir-wire-01"]
    unshown = rules.keys() - shown.keys()
    assert not unshown, f"no test shows {sorted(unshown)}"
    unknown = shown.keys() - rules.keys()
    assert not unknown, {id: shown[id] for id in unknown}
