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
from pydantic import BaseModel

from exthost.gateway.exchanges import Context

__all__ = ["CallSession", "Caller", "make_context"]

ResultT = TypeVar("ResultT", bound=BaseModel)
Notify = Callable[[types.ServerNotification], Awaitable[None]]


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
    the result; `connection` is the package's session that requests to the client are sent by."""

    def __init__(
        self,
        caller: Caller,
        progress_token: types.ProgressToken | None,
        notify: Notify,
        connection: ServerSession | None = None,
    ) -> None:
        # The parts of the package's own session are not needed: every method used is overridden.
        self._caller = caller
        self._progress_token = progress_token
        self._send = notify
        self._back = connection

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
        if self._back is None:
            raise NoBackChannelError(request.method)
        return await self._back.send_request(
            request, result_type, request_read_timeout_seconds, None, progress_callback
        )

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
    connection: ServerSession | None = None,
    request: Any = None,
) -> Context:
    """Return the context of a `tools/call` request; `request` is that of HTTP."""
    token = progress_token_from_params(params) if "_meta" in params else None
    return Context(
        session=CallSession(caller, token, notify, connection),
        lifespan_context={},
        protocol_version=caller.version,
        method="tools/call",
        params=params,
        request_id=id,
        request=request,
    )
