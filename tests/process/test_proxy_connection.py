"""A connection of the network proxy that is resumed late."""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.process.proxy_server import ProxyConnection


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_connection_that_has_no_step_left_or_is_closed_is_not_resumed(is_closed: bool) -> None:
    server: Any = SimpleNamespace(loop=None)
    client: Any = None
    connection = ProxyConnection(server, client)
    sent: list[Any] = []
    steps: Any = SimpleNamespace(send=sent.append)
    connection.is_closed = is_closed
    connection._steps = steps if is_closed else None
    connection.resume(True)
    assert sent == []
