"""The `_meta` of results that servers send."""

from typing import Any

import pytest

from exthost.faces.gateway.meta import without_server_info

SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "fast", "version": "1"}}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": []}, {"content": []}),
        ({"content": [], "_meta": SERVER}, {"content": []}),
        ({"content": [], "_meta": {**SERVER, "a": 1}}, {"content": [], "_meta": {"a": 1}}),
        ({"content": [], "_meta": {"a": 1}}, {"content": [], "_meta": {"a": 1}}),
        ({"content": [], "_meta": None}, {"content": [], "_meta": None}),
        ("text", "text"),
    ],
)
def test_the_name_of_the_server_is_not_passed_on(result: Any, expected: Any) -> None:
    assert without_server_info(result) == expected
