"""Requests of MCP servers to a client on HTTP.

Such a request is sent on the response stream of the call that caused it. The client's answer
arrives as a separate HTTP request.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

__all__ = ["ANSWER_MARK", "ClientRequests"]

# The prefix of the ids of these requests. The ids of the package's own requests are numbers.
_ID_PREFIX = "exthost-"

# A message without these bytes is not an answer to one of these requests.
ANSWER_MARK = b'"' + _ID_PREFIX.encode()

SendMessage = Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]]


class ClientRequests:
    """The requests to one client that wait for an answer."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def ask(self, send: SendMessage, method: str, params: Any) -> dict[str, Any]:
        """Send a request and return the client's result. Raises MCPError if it answers with an
        error."""
        self._count += 1
        id = f"{_ID_PREFIX}{self._count}"
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        try:
            await send(message)
            return await answer
        finally:
            del self._waiting[id]

    def deliver_answer(self, message: Mapping[str, Any]) -> bool:
        """Deliver an answer to the request that waits for it. Return False if the message is not an
        answer to a waiting request, or if the answer is not valid."""
        id = message.get("id")
        answer = self._waiting.get(id) if isinstance(id, str) else None
        if answer is None or answer.done() or "method" in message:
            return False
        result, error = message.get("result"), message.get("error")
        if isinstance(result, dict) and error is None:
            answer.set_result(result)
            return True
        if not isinstance(error, dict) or "result" in message:
            return False
        code, text = error.get("code"), error.get("message")
        if type(code) is not int or not isinstance(text, str):
            return False
        answer.set_exception(MCPError.from_error_data(types.ErrorData.model_validate(error)))
        return True
