"""When the bridge to a remote MCP server may start, and the variables that it gets.

The bridge is a process of exthost that connects to a server at a URL. For the host it is the
program of the extension. It needs an optional package, and the network if it has `permissions`.
"""

import pytest

from exthost.errors import Refused
from exthost.launch import bridge
from exthost.model.spec import Permissions, Spec

SERVER = Spec(id="a", dialect="mcp", argv=("https://example.org/mcp",), source="http")


def test_a_bridge_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "find_spec", lambda name: None)
    with pytest.raises(Refused) as caught:
        bridge.check_bridge(SERVER, None)
    assert caught.value.code == "X1804"


def test_a_bridge_needs_the_network_if_it_has_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "find_spec", lambda name: object())
    bridge.check_bridge(SERVER, None)
    bridge.check_bridge(SERVER, Permissions(network=True))
    with pytest.raises(Refused) as caught:
        bridge.check_bridge(SERVER, Permissions())
    assert caught.value.code == "X1805"


def test_a_bridge_gets_the_variables_of_connections_that_are_set() -> None:
    environ = {"HTTPS_PROXY": "http://p:1", "no_proxy": "x", "TOKEN": "t"}
    expected = {"HTTPS_PROXY": "http://p:1", "no_proxy": "x", bridge.FOLDER_VARIABLE: "/tokens"}
    assert bridge.bridge_variables("/tokens", environ) == expected
