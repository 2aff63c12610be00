"""What an extension requires: programs on PATH (`bins`) and environment variables (`env`).

Everything that is missing is found before a start, and is reported in one error. The second
argument of `find_missing_requirements` looks up a program.
"""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.launch.prerequisites import MissingRequirements, find_missing_requirements
from exthost.model.spec import Requires

NAMES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6).map(tuple)


def on_path(*programs: str) -> dict[str, str]:
    return {name: f"/usr/bin/{name}" for name in programs}


def test_without_requirements_nothing_is_missing() -> None:
    missing = find_missing_requirements(Requires(), on_path().get, {})
    assert not missing
    assert missing == MissingRequirements()
    assert missing.message() == ""


def test_requirements_that_are_present_are_not_missing() -> None:
    requires = Requires(bins=("git",), env=("API",))
    assert not find_missing_requirements(requires, on_path("git").get, {"API": "x"})


def test_all_missing_requirements_are_named_together() -> None:
    requires = Requires(bins=("git", "node", "jq"), env=("API", "HOME", "CITY"))
    missing = find_missing_requirements(requires, on_path("node").get, {"HOME": "/root"})
    assert missing
    assert missing == MissingRequirements(bins=("git", "jq"), env=("API", "CITY"))
    for name in ("git", "jq", "API", "CITY"):
        assert name in missing.message()
    for name in ("node", "HOME"):
        assert name not in missing.message()


def test_an_empty_variable_is_missing() -> None:
    assert find_missing_requirements(Requires(env=("API",)), on_path().get, {"API": ""}).env == (
        "API",
    )


def test_the_error_for_a_missing_program_alone_does_not_mention_variables() -> None:
    missing = find_missing_requirements(Requires(bins=("git",)), on_path().get, {})
    assert "set" not in missing.message()
    assert "variables" not in missing.help()


def test_the_error_for_a_missing_variable_alone_does_not_mention_path() -> None:
    missing = find_missing_requirements(Requires(env=("API",)), on_path().get, {})
    assert "PATH" not in missing.message()
    assert "PATH" not in missing.help()


def test_a_repeated_requirement_is_named_once() -> None:
    requires = Requires(bins=("git", "git"), env=("API", "API"))
    assert find_missing_requirements(requires, on_path().get, {}) == MissingRequirements(
        bins=("git",), env=("API",)
    )


def test_the_error_has_the_code_the_extension_the_help_and_the_names() -> None:
    missing = find_missing_requirements(Requires(bins=("git",), env=("API",)), on_path().get, {})
    error = missing.to_error("weather")
    assert (error.code, error.extension, error.exit_code) == ("X0301", "weather", 4)
    assert error.message == missing.message()
    assert "install" in error.help
    assert error.evidence.details == ("git", "API")


def test_the_value_of_a_variable_is_never_shown() -> None:
    requires = Requires(bins=("git",), env=("API", "OTHER"))
    missing = find_missing_requirements(requires, on_path().get, {"API": "hunter2"})
    assert "hunter2" not in repr(missing) + str(missing.to_error("x"))


def test_missing_requirements_cannot_be_changed() -> None:
    missing = MissingRequirements(bins=("git",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        missing.bins = ()  # type: ignore[misc]


@given(bins=NAMES, env=NAMES, present_programs=NAMES, set_variables=NAMES)
def test_missing_requirements_are_the_required_without_the_present(
    bins: tuple[str, ...],
    env: tuple[str, ...],
    present_programs: tuple[str, ...],
    set_variables: tuple[str, ...],
) -> None:
    missing = find_missing_requirements(
        Requires(bins=bins, env=env),
        on_path(*present_programs).get,
        dict.fromkeys(set_variables, "1"),
    )
    assert set(missing.bins) == set(bins) - set(present_programs)
    assert set(missing.env) == set(env) - set(set_variables)
    assert bool(missing) == bool(missing.message())
