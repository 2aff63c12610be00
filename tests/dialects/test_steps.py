"""The steps of operations: which dialects call a tool by one request, and the errors of an error
reply to a handshake."""

import pytest

from exthost.dialects import find
from exthost.dialects.steps import OneRequest, OneRequestOrMore, handshake_result
from exthost.errors import HandshakeFailed
from exthost.model.messages import Failure


@pytest.mark.parametrize("dialect", find.BUILT_IN)
def test_tools_and_hooks_are_not_generators_except_where_replies_have_no_ids(dialect: str) -> None:
    """The blocking API sends a generator by way of another thread, and a generator is never sent
    a second time (`retry`)."""
    found = find.find_dialect(dialect)
    operations = [found.operations.get(name) for name in ("call_tool", "hook")]
    are_requests = all(
        isinstance(operation, OneRequest | OneRequestOrMore | None) for operation in operations
    )
    assert are_requests is not found.traits.positional


def refused(message: str, code: int | None) -> HandshakeFailed:
    with pytest.raises(HandshakeFailed) as caught:
        handshake_result(Failure(1, message, code))
    assert caught.value.code == "X0502"
    return caught.value


def test_an_extension_that_refuses_to_initialize_is_quoted_and_its_config_is_named() -> None:
    error = refused("no API key", -32000)
    assert error.message.endswith("refused to initialize: no API key")
    assert "its own answer" in error.help and "`config` or `env`" in error.help
    assert "its entry" in error.help and "dialect" not in error.help


def test_one_that_does_not_know_initialize_may_speak_another_dialect() -> None:
    error = refused("method not found", -32601)
    assert error.help == "it does not know initialize: does it speak this dialect?"


def test_one_that_gives_no_reason_is_not_quoted() -> None:
    assert refused("", -32000).message.endswith("it gives no reason")
