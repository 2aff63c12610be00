"""The errors by which the relay answers requests, whose ids it must repeat exactly."""

import json
from typing import Any

import pytest

from exthost.faces.relay.client_lines import make_error, parse


@pytest.mark.parametrize("id", [0, -1, 2**70, 7.0, 1.5, "", "a", "1", "\ud800", "\n"])
def test_an_error_has_the_id_of_its_request(id: Any) -> None:
    request = json.dumps({"jsonrpc": "2.0", "id": id, "method": "ping"}).encode()
    reply = json.loads(make_error(parse(request), "the host has ended"))
    assert reply["id"] == id and type(reply["id"]) is type(id)
    assert reply["error"]["message"] == "the host has ended"


@pytest.mark.parametrize("id", ["null", "true", "[1]", "{}", "1e999", "-1e999", "NaN"])
def test_an_id_that_cannot_be_repeated_gets_no_error(id: str) -> None:
    request = b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id.encode()
    reply = make_error(parse(request), "the host has ended")
    assert reply == b""
