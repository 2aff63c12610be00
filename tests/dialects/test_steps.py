"""How dialects (protocols of extensions) describe operations such as "call a tool".

An operation is one request, or a generator that yields several requests one after the other and
gets their replies. The rest of the file is about error replies in a handshake.
"""

import pytest

from exthost.dialects import find
from exthost.dialects.steps import OneRequest, OneRequestOrMore, handshake_result
from exthost.errors import HandshakeFailed
from exthost.model.messages import Failure


@pytest.mark.parametrize("dialect", find.BUILT_IN)
def test_tools_and_hooks_are_generators_only_if_replies_have_no_ids(dialect: str) -> None:
    """The blocking API runs a generator in another thread, and a generator is never sent
    a second time (`retry`)."""
    dialect_object = find.find_dialect(dialect)
    operations = [dialect_object.operations.get(name) for name in ("call_tool", "hook")]
    are_requests = all(
        isinstance(operation, OneRequest | OneRequestOrMore | None) for operation in operations
    )
    replies_have_no_ids = dialect_object.traits.positional
    assert are_requests is not replies_have_no_ids


def fail_handshake(message: str, code: int | None) -> HandshakeFailed:
    with pytest.raises(HandshakeFailed) as caught:
        handshake_result(Failure(1, message, code))
    assert caught.value.code == "X0502"
    return caught.value


def test_a_refusal_to_initialize_is_quoted_and_the_help_names_the_config() -> None:
    error = fail_handshake("no API key", -32000)
    assert error.message.endswith("refused to initialize: no API key")
    assert "its own answer" in error.help and "`config` or `env`" in error.help
    assert "its entry" in error.help and "dialect" not in error.help


def test_the_help_for_an_unknown_initialize_asks_for_the_dialect() -> None:
    error = fail_handshake("method not found", -32601)
    assert error.help == "it does not know initialize: does it speak this dialect?"


def test_a_refusal_without_a_reason_is_reported() -> None:
    assert fail_handshake("", -32000).message.endswith("it gives no reason")
