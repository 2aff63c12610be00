"""A connection of the network proxy that is resumed after it has ended.

A connection runs as a generator, which stops where it has to wait, for example for the look-up of a
name, and is resumed with the result. By then the client may have left.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.process.proxy_server import ProxyConnection


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_connection_that_is_closed_or_has_no_step_left_is_not_resumed(is_closed: bool) -> None:
    server: Any = SimpleNamespace(loop=None)
    client: Any = None
    connection = ProxyConnection(server, client)
    results_sent: list[Any] = []
    generator: Any = SimpleNamespace(send=results_sent.append)
    connection.is_closed = is_closed
    connection._steps = generator if is_closed else None
    connection.resume(True)
    assert results_sent == []
