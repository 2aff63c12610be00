"""The options of package runners whose value is the next argument."""

import pytest

from exthost.launch import managers


@pytest.mark.parametrize("options", [managers._UV_VALUES, managers._NPM_VALUES])
def test_every_name_of_an_option_begins_with_a_dash(options: frozenset[str]) -> None:
    assert all(option.startswith("-") and len(option) > 1 for option in options)


def test_the_value_of_an_option_is_not_the_package() -> None:
    arguments = ("--node-options", "quiet", "server")
    _, name = managers._split_options(arguments, managers._NPM_VALUES)
    assert name == "server"
