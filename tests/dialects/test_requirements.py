"""Every requirement of a dialect (a protocol of extensions) has a test or a vector that shows it,
and every requirement that a test names exists.

A requirement has an id, such as "morphir-wire-01", and a text in `requirements.toml`. A test names
it by `@shows("morphir-wire-01")`; a vector is an example in a data file.
"""

from tests.dialects import requirements


def test_every_requirement_is_shown_and_every_named_requirement_exists() -> None:
    # This is one test because reading all tests takes seconds.
    texts, tests = requirements.texts_by_id(), requirements.tests_by_id()
    assert "morphir-wire-01" in texts and tests["morphir-wire-01"]
    not_shown = texts.keys() - tests.keys()
    assert not not_shown, f"no test shows {sorted(not_shown)}"
    unknown = tests.keys() - texts.keys()
    assert not unknown, {id: tests[id] for id in unknown}
