"""Tasks (calls that an MCP server runs in the background), as clients of the gateway see them.

A stateless server (one whose protocol version has no sessions) may run a call as a task, if its
client has declared the MCP extension "tasks". The client then sends requests about the task, which
name it by its id alone. Two servers may use the same id, so a client gets an id that also contains
the extension: `EXTENSION/ID`. The gateway keeps nothing about tasks.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from exthost.dialects.mcp.tasks import TASKS
from exthost.faces.gateway.exchanges import Context

# The error code for a request that needs a capability which its client has not declared.
_MISSING_CAPABILITY = -32021


def with_public_id(extension: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task with the id that clients use, such as "github/17" for the task "17" of the
    extension "github"."""
    return {**task, "taskId": f"{quote(extension, safe='')}/{task.get('taskId')}"}


def split_public_id(task_id: str) -> tuple[str, str]:
    """Return the id of the extension, and the id that the server gave to the task."""
    extension, _, own_id = task_id.partition("/")
    return unquote(extension), own_id


def check_name_header(ctx: Context, task_id: str) -> None:
    """Raise MCPError unless an HTTP request repeats the id of its task in the header `Mcp-Name`,
    for proxies that do not read its body. The `mcp` package checks this for other methods."""
    headers = getattr(ctx.request, "headers", None)
    if isinstance(headers, Mapping) and headers.get("mcp-name") != task_id:
        raise MCPError(types.HEADER_MISMATCH, "the header Mcp-Name is not the taskId")


def require_tasks(ctx: Context, params: Mapping[str, Any]) -> None:
    """Raise MCPError unless the client of a request has declared that it supports tasks."""
    meta = params.get("_meta")
    declared = meta.get(types.CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, Mapping) else None
    extensions = declared.get("extensions") if isinstance(declared, Mapping) else None
    if not isinstance(extensions, Mapping) or TASKS not in extensions:
        raise MCPError(
            _MISSING_CAPABILITY,
            f"the client does not declare the extension {TASKS}",
            {"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )
