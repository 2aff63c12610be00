"""Advice about variables that a program misses."""

from pathlib import Path

import pytest

from exthost.launch.advice import suggest_grant_to_tool, suggest_variable
from exthost.launch_plan import LaunchPlan, Wrapper
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


SANDBOXED = LaunchPlan(
    argv=("/bin/true",), wrapper=Wrapper(options=(), init=b"", filter=b"a filter")
)


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 101] Network is unreachable",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "getaddrinfo EAI_AGAIN api.example.org",
        "dial tcp: lookup api.example.org: no such host",
        "curl: (6) Could not resolve host: api.example.org",
    ],
)
def test_a_tool_without_a_network_is_told_of_its_sandbox(text: str) -> None:
    assert "permissions.network" in suggest_grant_to_tool(SANDBOXED, {"network": "netns"}, text)
    assert suggest_grant_to_tool(SANDBOXED, {"network": "open"}, text) == ""


def test_a_tool_that_misses_a_hidden_file_is_told_of_its_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.touch(0o644)
    text = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    assert f"its sandbox hides {path}" in suggest_grant_to_tool(SANDBOXED, {}, text)


@pytest.mark.parametrize("text", ["no such city: Atlantis", "ZeroDivisionError", "", "x" * 10**6])
def test_any_other_failure_of_a_tool_names_no_sandbox(text: str) -> None:
    assert suggest_grant_to_tool(SANDBOXED, {"network": "netns"}, text) == ""
