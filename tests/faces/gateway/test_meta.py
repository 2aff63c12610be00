"""Tests of `without_server_info`: a stateless MCP server puts its name and version into the `_meta`
of each result. The gateway removes them, because its clients would take them for those of the
gateway.
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
