"""Tests of `without_server_info`, which removes the name of an MCP server from a result.

A stateless server puts its name into the `_meta` of each result. To a client of the gateway, the
gateway is the server, so the gateway removes that name.
"""

from typing import Any

import pytest

from exthost.faces.gateway.meta import without_server_info

SERVER_INFO = {"io.modelcontextprotocol/serverInfo": {"name": "fast", "version": "1"}}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": []}, {"content": []}),
        ({"content": [], "_meta": SERVER_INFO}, {"content": []}),
        ({"content": [], "_meta": {**SERVER_INFO, "a": 1}}, {"content": [], "_meta": {"a": 1}}),
        ({"content": [], "_meta": {"a": 1}}, {"content": [], "_meta": {"a": 1}}),
        ({"content": [], "_meta": None}, {"content": [], "_meta": None}),
        ("text", "text"),
    ],
)
def test_the_server_info_is_removed_and_other_meta_is_kept(result: Any, expected: Any) -> None:
    assert without_server_info(result) == expected
