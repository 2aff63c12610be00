"""The context and the session of a tool call that a transport of ours serves without the package's
dispatcher."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp_types.methods import validate_client_result
from pydantic import BaseModel

from exthost.gateway.exchanges import Context

__all__ = ["CallSession", "Caller", "make_context"]

ResultT = TypeVar("ResultT", bound=BaseModel)
Notify = Callable[[types.ServerNotification], Awaitable[None]]
Ask = Callable[[str, Any], Awaitable[dict[str, Any]]]
"""Sends a request to the client, and returns the result. Raises MCPError."""


class Caller:
    """The client of a call: its revision, and what it declared about itself."""

    __slots__ = ("capabilities", "params", "version")

    def __init__(
        self,
        version: str,
        params: types.InitializeRequestParams | None,
        capabilities: types.ClientCapabilities | None,
    ) -> None:
        self.version = version
        self.params = params
        self.capabilities = capabilities


class CallSession(ServerSession):
    """What `ctx.session` is for such a call. `notify` sends a notification to its client, before
    the result. Requests are sent by `ask`, or by the session that the package made for the
    connection; with neither, the client cannot be asked."""

    def __init__(
        self,
        caller: Caller,
        progress_token: types.ProgressToken | None,
        notify: Notify,
        ask: Ask | None,
        connection: ServerSession | None,
    ) -> None:
        # The parts of the package's own session are not needed: every method used is overridden.
        self._caller = caller
        self._progress_token = progress_token
        self._send = notify
        self._ask = ask
        self._connection_session = connection

    @property
    def client_params(self) -> types.InitializeRequestParams | None:
        return self._caller.params

    @property
    def client_capabilities(self) -> types.ClientCapabilities | None:
        return self._caller.capabilities

    @property
    def protocol_version(self) -> str:
        return self._caller.version

    async def send_request(
        self,
        request: types.ServerRequest,
        result_type: type[ResultT],
        request_read_timeout_seconds: float | None = None,
        metadata: ServerMessageMetadata | None = None,
        progress_callback: ProgressFnT | None = None,
    ) -> ResultT:
        if self._connection_session is not None:
            return await self._connection_session.send_request(
                request, result_type, request_read_timeout_seconds, None, progress_callback
            )
        if self._ask is None:
            raise NoBackChannelError(request.method)
        sent = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        result = await self._ask(sent["method"], sent.get("params"))
        try:
            validate_client_result(request.method, self.protocol_version, result)
        except KeyError:  # its revision does not know this method
            pass
        return result_type.model_validate(result, by_name=False)

    async def send_notification(
        self,
        notification: types.ServerNotification,
        related_request_id: types.RequestId | None = None,
    ) -> None:
        await self._send(notification)

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        if self._progress_token is not None:
            params = types.ProgressNotificationParams(
                progress_token=self._progress_token,
                progress=progress,
                total=total,
                message=message,
            )
            await self._send(types.ProgressNotification(params=params))


def make_context(
    id: types.RequestId,
    params: dict[str, Any],
    caller: Caller,
    notify: Notify,
    *,
    ask: Ask | None = None,
    connection: ServerSession | None = None,
    request: Any = None,
) -> Context:
    """Return the context of a `tools/call` request; `request` is that of HTTP."""
    token = progress_token_from_params(params) if "_meta" in params else None
    return Context(
        session=CallSession(caller, token, notify, ask, connection),
        lifespan_context={},
        protocol_version=caller.version,
        method="tools/call",
        params=params,
        request_id=id,
        request=request,
    )
