"""Requests that the host passes on for another MCP client, as the gateway does.

Such a client speaks the protocol itself. Its `_meta` and its answers go out with the request, and a
result that asks for input (`input_required`) is returned to it; the host's own handlers are not
asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["RELAYED", "RelayedParams", "RelayedRequest", "relayed_members"]

# The key in the context of a tool call under which a RelayedRequest stands.
RELAYED = "mcp_relayed"


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """What a client sent beside the name and the arguments of a tool: `_meta`, `inputResponses`,
    `requestState`. Not shown by `repr`, since the context of a call is logged."""

    members: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RelayedParams:
    """The params of a request, as the client sent them; for `ext.call`."""

    params: dict[str, Any]


def relayed_members(context: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the members that a tool call is sent with; None if it is not relayed."""
    relayed = context.get(RELAYED) if context else None
    return relayed.members if type(relayed) is RelayedRequest else None
