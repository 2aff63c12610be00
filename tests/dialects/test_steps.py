"""The errors of steps: an error reply to a handshake says what can be done about it."""

import pytest

from exthost.dialects.steps import handshake_result
from exthost.errors import HandshakeFailed
from exthost.messages import Failure


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
    assert refused("", -32000).message.endswith("it does not say why")
