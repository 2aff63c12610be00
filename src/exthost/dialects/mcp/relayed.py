"""Requests that the host passes on for another MCP client.

The gateway does so: it is exthost as an MCP server, which offers the tools of all its extensions.
Such a client speaks the protocol itself. The request is sent with the client's own `_meta`, and
with the client's answers to what the server asked for earlier. A result that asks for input
(`"resultType": "input_required"`) is returned to the client. In its own calls, the host would call
its handlers for the input, and send the request again.

The call of a tool is marked by a RelayedRequest in its context, because its params are made from
the name and the arguments. Other requests, such as `prompts/get`, are marked by their params, which
are RelayedParams in place of a dict.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The key of the RelayedRequest in the context of a tool call (`call_tool(…, context=…)`).
RELAYED = "mcp_relayed"


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """The params that a client sent besides the name and the arguments of a tool: `_meta`,
    `inputResponses` and `requestState`. `repr` hides them, because the context of a call is logged.
    """

    members: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RelayedParams:
    """The params of a request as the client sent them, for `ext.call`. The type only says that a
    result that asks for input is returned, and that the host's own handlers are not called."""

    params: dict[str, Any]


def relayed_members(context: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the client's params to be sent with a tool call, given the context of the call; None
    if the call is not relayed."""
    relayed = context.get(RELAYED) if context else None
    return relayed.members if type(relayed) is RelayedRequest else None
