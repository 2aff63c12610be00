"""Asks the client of a call whether the call may be made, if a rule or a hook requests that.

Rules are in the config; hooks are functions of extensions that judge calls. The client is an MCP
client of the gateway, which shows the question to a person. The question is an elicitation of MCP:
a form with one checkbox. Only a client that has declared elicitation is asked. The answer belongs
to the one request that it was sent for. Anything but an accepted form with the box checked is a no.
"""

from collections.abc import Mapping
from typing import Any, Final

from exthost.extension.confirmation import Confirm, Confirmation
from exthost.faces.gateway.exchanges import Exchange, can_answer
from exthost.faces.gateway.mcp_values import replace_surrogates
from exthost.wire import jsontext

_METHOD: Final = "elicitation/create"

# The number of characters of arguments that a person can read. The message says how many are
# missing.
_MAX_ARGUMENT_CHARS: Final = 4000


def make_confirm(exchange: Exchange) -> Confirm | None:
    """Return a function that asks the client of this exchange; None if the client cannot be
    asked."""
    if not can_answer(exchange.ctx.session, _METHOD, {}):
        return None

    async def confirm(confirmation: Confirmation) -> bool:
        answer = await exchange.ask(_METHOD, _make_params(confirmation))
        content = answer.get("content") if isinstance(answer, Mapping) else None
        if not isinstance(content, Mapping) or answer.get("action") != "accept":
            return False
        return content.get("agree") is True

    return confirm


def _make_params(confirmation: Confirmation) -> dict[str, Any]:
    """Return the params of the elicitation: the text of the question, and the form."""
    event = confirmation.event
    arguments = jsontext.encode(event.get("arguments")).decode()
    missing = len(arguments) - _MAX_ARGUMENT_CHARS
    if missing > 0:
        shown = arguments[:_MAX_ARGUMENT_CHARS]
        more = (
            "1 more character that is" if missing == 1 else f"{missing:,} more characters that are"
        )
        arguments = f"{shown} … and {more} not shown"
    # If a rule of the config asks instead of a hook, there is no extension to name.
    asker = f"[{confirmation.extension}] asks: " if confirmation.extension else ""
    lines = (
        f"{asker}{confirmation.message}",
        f"tool: {event.get('tool_name', confirmation.hook)}",
        f"arguments: {arguments}",
    )
    return {
        "message": replace_surrogates("\n".join(lines)),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "agree": {"type": "boolean", "title": "Call the tool?", "default": False}
            },
            "required": ["agree"],
        },
    }
