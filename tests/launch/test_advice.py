"""Advice about variables that a program misses."""

import pytest

from exthost.launch.advice import suggest_variable
from exthost.process.environment import child_environment

ENVIRONMENT = child_environment(
    {"GITHUB_TOKEN": "x", "CITY_NAME": "Lima"}, "minimal", names=["CITY_NAME"]
)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("GITHUB_TOKEN must be set", "held back: GITHUB_TOKEN"),
        ("KeyError: 'WEATHER_API_KEY'", "-e WEATHER_API_KEY=VALUE"),
        ("Error: BRAVE_API_KEY environment variable is required", "-e BRAVE_API_KEY=VALUE"),
        ("Please set SLACK_TOKEN before you start", "-e SLACK_TOKEN=VALUE"),
        ("missing variable: DATABASE_URL", "-e DATABASE_URL=VALUE"),
    ],
)
def test_a_variable_that_is_missed_is_named(line: str, advice: str) -> None:
    assert advice in suggest_variable(ENVIRONMENT, ["starting", line])


@pytest.mark.parametrize(
    "line", ["KeyError: 'name'", "ERR_MODULE_NOT_FOUND", "CITY_NAME is missing", "set -e", ""]
)
def test_other_lines_name_none(line: str) -> None:
    assert suggest_variable(ENVIRONMENT, [line]) == ""
