"""Tests of the checks of requests about tasks: their header, and what the client declares.

A task is a tool call that continues after its reply. On HTTP, the header `Mcp-Name` must repeat the
id of the task, and the client must declare in `_meta` that it supports tasks.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import types
from mcp.shared.exceptions import MCPError

from exthost.dialects.mcp.tasks import TASKS
from exthost.faces.gateway.tasks import check_name_header, require_tasks


def request_with(headers: object) -> Any:
    """Return the context of a request with these HTTP headers."""
    return SimpleNamespace(request=SimpleNamespace(headers=headers))


@pytest.mark.parametrize(
    "context",
    [
        request_with({"mcp-name": "agent/1"}),
        request_with(None),
        SimpleNamespace(request=None),  # on stdio
    ],
)
def test_a_request_with_its_task_in_the_header_or_without_headers_is_accepted(context: Any) -> None:
    check_name_header(context, "agent/1")


@pytest.mark.parametrize("headers", [{}, {"mcp-name": "agent/2"}])
def test_a_request_with_another_task_in_the_header_is_refused(headers: Mapping[str, str]) -> None:
    with pytest.raises(MCPError, match="Mcp-Name") as raised:
        check_name_header(request_with(headers), "agent/1")
    assert raised.value.error.code == types.HEADER_MISMATCH


def declared(capabilities: object) -> dict[str, Any]:
    """Return the params of a request of a client with these capabilities."""
    return {"_meta": {types.CLIENT_CAPABILITIES_META_KEY: capabilities}}


def test_a_client_that_declares_tasks_can_use_them() -> None:
    require_tasks(request_with(None), declared({"extensions": {TASKS: {}}}))


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"_meta": None},
        declared(None),
        declared("text"),
        declared({}),
        declared({"extensions": None}),
        declared({"extensions": {"other": {}}}),
    ],
)
def test_a_client_that_does_not_declare_tasks_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(MCPError, match="does not declare"):
        require_tasks(request_with(None), params)
