"""Tests of `listen`, which opens the listening socket of an HTTP service, and of its errors."""

import pytest

from exthost.errors import UsageError
from exthost.faces.http_server.listener import listen, listener_url


@pytest.mark.parametrize(
    ("host", "advice"),
    [
        ("127.0.0.1", "choose another port"),
        ("no-such-host.invalid", "choose an address of this machine"),
        ("192.0.2.7", "choose an address of this machine"),
    ],
)
def test_an_unavailable_address_is_reported(host: str, advice: str) -> None:
    with listen("127.0.0.1", 0) as listener, pytest.raises(UsageError) as caught:
        listen(host, listener.getsockname()[1])
    assert caught.value.code == "X1365" and caught.value.help.startswith(advice)


@pytest.mark.parametrize("port", [-1, 2**16, 99_999])
def test_a_port_that_does_not_exist_is_reported(port: int) -> None:
    with pytest.raises(UsageError) as caught:
        listen("127.0.0.1", port)
    assert caught.value.code == "X1365" and "no such port" in caught.value.message


def test_the_url_has_the_port_that_the_system_chose() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert listener_url(listener, "127.0.0.1", "/mcp") == f"http://127.0.0.1:{port}/mcp"
        assert listener_url(listener, "::1", "/") == f"http://[::1]:{port}/"
