"""Requests of servers to a client on HTTP: they are sent on the stream of a call, and their answers
come as messages of their own."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

__all__ = ["ANSWER", "ClientRequests"]

# The ids of these requests begin so; those of the package are numbers.
_PREFIX = "exthost-"

# The bytes of a message that may be an answer to one of them.
ANSWER = b'"' + _PREFIX.encode()

Send = Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]]


class ClientRequests:
    """The requests to one client that wait for its answer."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def ask(self, send: Send, method: str, params: Any) -> dict[str, Any]:
        """Send a request and return the result of its answer. Raises MCPError for an error."""
        self._count += 1
        id = f"{_PREFIX}{self._count}"
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

    def take(self, message: Mapping[str, Any]) -> bool:
        """Take the answer to a request; return False if nobody waits for it."""
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
