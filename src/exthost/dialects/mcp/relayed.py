"""Requests that the host passes on for another MCP client.

The gateway does so: it is exthost as an MCP server, which offers the tools of all its extensions.
Such a client speaks the protocol itself. The request is sent with the client's own `_meta` and
answers. A result that requests input (`input_required`) is returned to the client, and the host's
own handlers are not called.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The key of the RelayedRequest in the context of a tool call.
RELAYED = "mcp_relayed"


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """The params that a client sent besides the name and the arguments of a tool: `_meta`,
    `inputResponses` and `requestState`. `repr` hides them, because the context of a call is logged.
    """

    members: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RelayedParams:
    """The params of a request as the client sent them. The gateway passes them to `ext.call`."""

    params: dict[str, Any]


def relayed_members(context: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the client's params to be sent with a tool call; None if the call is not relayed."""
    relayed = context.get(RELAYED) if context else None
    return relayed.members if type(relayed) is RelayedRequest else None
