"""The command that connects to a remote MCP server, made from its keys in a config.

exthost talks only to child processes. For a server with a `url` it starts `exthost bridge URL`,
a process that passes messages between its stdin and stdout and the server. `bridge_arguments`
returns the arguments of this command, its environment variables, and a problem or "". Secrets are
passed as variables, because other users of the machine can see the arguments of a process.
"""

import pytest

from exthost.errors import ConfigError
from exthost.model.documents.problems import Place, Problems
from exthost.model.documents.remote_server import REMOTE_KEYS, bridge_arguments
from exthost.model.spec import HostEnvRef

URL = "https://example.org/mcp"


@pytest.mark.parametrize(
    ("transport", "options"), [(None, ()), ("sse", ("--transport", "sse")), ("auto", ())]
)
def test_the_transport_is_an_option_unless_the_bridge_has_to_detect_it(
    transport: str | None, options: tuple[str, ...]
) -> None:
    argv, env, problem = bridge_arguments({"url": URL, "transport": transport})
    assert (argv, env, problem) == ((URL, *options), {}, "")


def test_the_scheme_of_a_url_may_be_in_capitals() -> None:
    argv, _, problem = bridge_arguments({"url": "HTTPS://Example.org/mcp"})
    assert (argv, problem) == (("HTTPS://Example.org/mcp",), "")


def test_an_unknown_transport_is_a_problem() -> None:
    assert "'carrier'" in bridge_arguments({"url": URL, "transport": "carrier"}).problem


def test_headers_and_the_token_are_passed_as_variables() -> None:
    argv, env, problem = bridge_arguments({"url": URL, "headers": {"X-Key": "k"}, "token": "t"})
    assert argv == (
        *(URL, "--header", "X-Key=EXTHOST_BRIDGE_HEADER_1"),
        *("--token-from", "EXTHOST_BRIDGE_TOKEN"),
    )
    assert env == {"EXTHOST_BRIDGE_HEADER_1": "k", "EXTHOST_BRIDGE_TOKEN": "t"} and not problem


def test_a_header_with_an_invalid_name_is_a_problem() -> None:
    problem = bridge_arguments({"url": URL, "headers": {"a b": "x"}}).problem
    assert "not the name of an HTTP header" in problem


def test_a_url_can_come_from_a_variable_of_the_host() -> None:
    problems = Problems("x.toml")
    url = REMOTE_KEYS["url"].type.read({"from": "SERVER_URL"}, Place(problems))
    argv, env, problem = bridge_arguments({"url": url})
    assert (argv, problem) == (("--url-from", "EXTHOST_BRIDGE_URL"), "")
    assert env == {"EXTHOST_BRIDGE_URL": HostEnvRef("SERVER_URL")}


def test_a_misspelt_reference_to_a_variable_is_a_problem() -> None:
    problems = Problems("x.toml")
    assert REMOTE_KEYS["url"].type.read({"form": "SERVER_URL"}, Place(problems)) is None
    with pytest.raises(ConfigError):
        problems.raise_first()
