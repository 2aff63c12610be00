"""The context and the session of a tool call that bypasses the dispatcher of the `mcp` package.

The gateway handles tool calls of its clients without that dispatcher, which costs more than the
call. The handlers of requests expect the package's `ServerRequestContext` with a `ServerSession`.
This module makes both for the calls that `stdio_calls` and `http_calls` handle themselves.
"""

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

from exthost.faces.gateway.exchanges import Context

ResultT = TypeVar("ResultT", bound=BaseModel)
Notify = Callable[[types.ServerNotification], Awaitable[None]]
SendRequest = Callable[[str, Any], Awaitable[dict[str, Any]]]
"""Sends a request to the client, and returns the result. Raises MCPError."""


class CallingClient:
    """The client of a call. `version` is its protocol revision, `params` are the params of its
    `initialize` request, and `capabilities` are the capabilities that it declared. A stateless
    client (of the protocol versions without sessions) sends no `initialize`: its `params` are made
    from its request, and are None if the request has no client name."""

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
    """The session in the context of a call that bypasses the package.

    `caller` is the client, and `progress_token` is the token of its request (None if the client
    wants no progress). `notify` sends a notification to the client before the result. Requests to
    the client are sent by `connection_session`, the package's session of the connection, or else by
    `send_to_client`. If both are None, `send_request` raises NoBackChannelError.
    """

    def __init__(
        self,
        caller: CallingClient,
        progress_token: types.ProgressToken | None,
        notify: Notify,
        send_to_client: SendRequest | None,
        connection_session: ServerSession | None,
    ) -> None:
        # super().__init__() is not called: every method that is used is overridden.
        self._caller = caller
        self._progress_token = progress_token
        self._notify_caller = notify
        self._send_to_client = send_to_client
        self._connection_session = connection_session

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
        if self._send_to_client is None:
            raise NoBackChannelError(request.method)
        message = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        result = await self._send_to_client(message["method"], message.get("params"))
        try:
            validate_client_result(request.method, self.protocol_version, result)
        except KeyError:  # the client's revision does not have this method: nothing to check
            pass
        return result_type.model_validate(result, by_name=False)

    async def send_notification(
        self,
        notification: types.ServerNotification,
        related_request_id: types.RequestId | None = None,
    ) -> None:
        await self._notify_caller(notification)

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
            await self._notify_caller(types.ProgressNotification(params=params))


def make_context(
    id: types.RequestId,
    params: dict[str, Any],
    caller: CallingClient,
    notify: Notify,
    *,
    send_to_client: SendRequest | None = None,
    connection_session: ServerSession | None = None,
    request: Any = None,
) -> Context:
    """Return the context of a `tools/call` request. `request` is the HTTP request, None on stdio.
    For the other parameters see `CallSession`."""
    token = progress_token_from_params(params) if "_meta" in params else None
    return Context(
        session=CallSession(caller, token, notify, send_to_client, connection_session),
        lifespan_context={},
        protocol_version=caller.version,
        method="tools/call",
        params=params,
        request_id=id,
        request=request,
    )
