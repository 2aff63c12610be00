"""The command that connects to a remote server, made from its keys in a config."""

import pytest

from exthost.model.documents.remote_server import bridge_arguments

URL = "https://example.org/mcp"


@pytest.mark.parametrize(
    ("transport", "options"), [(None, ()), ("sse", ("--transport", "sse")), ("auto", ())]
)
def test_the_transport_is_an_option_unless_it_is_found_out(
    transport: str | None, options: tuple[str, ...]
) -> None:
    argv, env, problem = bridge_arguments({"url": URL, "transport": transport})
    assert (argv, env, problem) == ((URL, *options), {}, "")


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
    assert (
        "not the name of an HTTP header"
        in bridge_arguments({"url": URL, "headers": {"a b": "x"}}).problem
    )
