"""The session of one tool call that a transport of ours serves without the package's dispatcher.

It sends by the session that the package made for the connection, and has the client of the call.
"""

from typing import TypeVar

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel

from exthost.gateway.exchanges import Context

__all__ = ["CallSession", "Caller", "make_context"]

ResultT = TypeVar("ResultT", bound=BaseModel)


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
    """What `ctx.session` is for such a call. On one pipe, every message takes the same way: which
    request it belongs to makes no difference."""

    def __init__(
        self, base: ServerSession, caller: Caller, progress_token: types.ProgressToken | None
    ) -> None:
        # The parts of the package's own session are not needed: every method used is overridden.
        self._base = base
        self._caller = caller
        self._progress_token = progress_token

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
        return await self._base.send_request(
            request, result_type, request_read_timeout_seconds, None, progress_callback
        )

    async def send_notification(
        self,
        notification: types.ServerNotification,
        related_request_id: types.RequestId | None = None,
    ) -> None:
        await self._base.send_notification(notification)

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
            await self._base.send_notification(types.ProgressNotification(params=params))


def make_context(
    id: types.RequestId, params: dict[str, object], base: ServerSession, caller: Caller
) -> Context:
    """Return the context of a `tools/call` request."""
    token = progress_token_from_params(params) if "_meta" in params else None
    return Context(
        session=CallSession(base, caller, token),
        lifespan_context={},
        protocol_version=caller.version,
        method="tools/call",
        params=params,
        request_id=id,
    )
