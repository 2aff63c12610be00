"""The requests of clients that are in progress, and the requests that MCP servers send meanwhile.

An exchange is one request of a client of the gateway, from its arrival until its result. The
gateway passes the request on to an extension, here an MCP server. During the exchange that server
may itself send a request to the client: to sample a model, to have a person fill in a form, or to
list the roots of a workspace. A server on stdio does not say for which call it sends its request.
If only one client has calls in progress at the server, that client gets the request. If several
clients have calls there, the request is refused, because no client may see a request that is meant
for another.

A client of the handshake era (it has opened a session) gets the request itself. In the stateless
era (there is no session) servers cannot send requests, so the client gets a result of the type
`input_required` (see `held_calls`).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from exthost.errors import CallFailed
from exthost.faces.gateway.client_stream import CURRENT_STREAM, ClientStream
from exthost.faces.gateway.meta import is_stateless, to_json_object
from exthost.faces.gateway.outbox import Outbox

Context = ServerRequestContext[Any, Any]

_METHOD_NOT_FOUND = -32601

# The types of the `mcp` package for a request and its result, by method.
_REQUESTS: Mapping[str, type[types.ServerRequest]] = {
    "sampling/createMessage": types.CreateMessageRequest,
    "elicitation/create": types.ElicitRequest,
    "roots/list": types.ListRootsRequest,
}
_RESULTS: Mapping[str, Any] = {
    "sampling/createMessage": types.CreateMessageResultWithTools,
    "elicitation/create": types.ElicitResult,
    "roots/list": types.ListRootsResult,
}

# The methods that a server may request of a client.
METHODS = tuple(_REQUESTS)


class Question(NamedTuple):
    """A request of a server that waits for the answer of a stateless client."""

    method: str
    params: Any
    answer: "asyncio.Future[Any]"


class Exchange:
    """One request of a client that an extension is answering.

    ctx        the context of the request in the `mcp` package. A stateless client that is asked for
               input sends its request again with the input; this is the context of the latest one
    extension  the id of the extension
    stream     the connection of the client; None on HTTP
    outbox     the notifications to the client
    """

    __slots__ = ("_questions", "ctx", "extension", "outbox", "stream")

    def __init__(self, ctx: Context, extension: str) -> None:
        self.ctx = ctx
        self.extension = extension
        self.stream = CURRENT_STREAM.get()
        self.outbox = Outbox()
        self._questions: asyncio.Queue[Question] | None = None

    @property
    def questions(self) -> "asyncio.Queue[Question]":
        """The requests of the server that a stateless client has to answer. The queue is created at
        first use, because most calls need no queue."""
        if self._questions is None:
            self._questions = asyncio.Queue()
        return self._questions

    @property
    def client_key(self) -> object:
        """A key that is equal for the requests of one client."""
        if is_stateless(self.ctx.protocol_version):
            # On HTTP, two stateless requests cannot be known to come from one client, so each has a
            # key of its own.
            return id(self) if self.stream is None else id(self.stream)
        # The `mcp` package has one `client_params` object for each connection, but another session
        # object for each request.
        return id(self.ctx.session.client_params)

    async def ask(self, method: str, params: Any) -> Any:
        """Send a request of the server to the client, and return the answer. For a stateless client
        the request is queued in `questions`."""
        if not is_stateless(self.ctx.protocol_version):
            return await ask_client(self.ctx.session, method, params, self.ctx.request_id)
        answer = asyncio.get_running_loop().create_future()
        self.questions.put_nowait(Question(method, params, answer))
        return await answer


class Exchanges:
    """The exchanges in progress, by extension."""

    def __init__(self) -> None:
        # A dict without values is a set that keeps the order.
        self._by_extension: dict[str, dict[Exchange, None]] = {}

    def add(self, exchange: Exchange) -> None:
        self._by_extension.setdefault(exchange.extension, {})[exchange] = None

    def remove(self, exchange: Exchange) -> None:
        exchanges = self._by_extension.get(exchange.extension)
        if exchanges is not None:
            exchanges.pop(exchange, None)
            if not exchanges:
                del self._by_extension[exchange.extension]

    def list_for(self, extension: str) -> tuple[Exchange, ...]:
        """Return the exchanges of this extension, the oldest first."""
        return tuple(self._by_extension.get(extension, ()))

    def choose(
        self, extension: str, method: str, params: Any, stream: ClientStream | None = None
    ) -> Exchange | None:
        """Return the exchange that a request of this extension belongs to, or None if no exchange
        is in progress. With `stream`, only exchanges of this client are considered. Raises
        CallFailed if several clients have exchanges at this extension, or if the client has not
        declared that it answers this method."""
        exchanges = list(self.list_for(extension))
        if stream is not None:
            exchanges = [exchange for exchange in exchanges if exchange.stream is stream]
        if not exchanges:
            return None
        if len({exchange.client_key for exchange in exchanges}) > 1:
            raise CallFailed(
                "X0741",
                f"several clients have calls at {extension}, and its request {method} does not say "
                "which client it is for",
                extension=extension,
                error_code=_METHOD_NOT_FOUND,
                error_message=f"{method}: several clients have calls in progress here",
                help='set options.era = "stateless" if the server has MCP without sessions, or '
                "start one gateway for each client",
            )
        # All of them are of one client. Which of its calls the request belongs to is not known.
        latest = exchanges[-1]
        if not can_answer(latest.ctx.session, method, params):
            raise no_client_error(extension, method)
        return latest


def no_client_error(extension: str, method: str) -> CallFailed:
    """Return the error for a request of a server that no client can answer."""
    return CallFailed(
        "X0742",
        f"no client serves {method}",
        extension=extension,
        error_code=_METHOD_NOT_FOUND,
        error_message=f"Method not found: the client does not support {method}",
    )


def can_answer(session: ServerSession, method: str, params: Any) -> bool:
    """Return whether the client of this session has declared that it answers requests of this
    method with these params."""
    capabilities = session.client_capabilities
    if capabilities is None:
        return False
    if method == "sampling/createMessage":
        return capabilities.sampling is not None
    if method == "roots/list":
        return capabilities.roots is not None
    if capabilities.elicitation is None:
        return False
    # Opening a URL, in place of a form, is a separate capability.
    is_url = isinstance(params, Mapping) and params.get("mode") == "url"
    return not is_url or capabilities.elicitation.url is not None


async def ask_client(
    session: ServerSession, method: str, params: Any, request_id: types.RequestId | None
) -> Any:
    """Send a server's request to a client of the handshake era, and return the answer. `request_id`
    is the client's request that caused it: on HTTP it is sent on the stream of that request. Raises
    CallFailed if the client answers with an error."""
    sent_params = dict(params) if isinstance(params, Mapping) else {}
    meta = sent_params.get("_meta")
    if isinstance(meta, Mapping):
        # The server's progress token means nothing to the client, which may send progress with it.
        sent_params["_meta"] = {key: value for key, value in meta.items() if key != "progressToken"}
    metadata = ServerMessageMetadata(related_request_id=request_id)
    try:
        request = _REQUESTS[method].model_validate({"method": method, "params": sent_params})
        answer = await session.send_request(request, _RESULTS[method], metadata=metadata)
    except MCPError as error:
        raise CallFailed(
            "X0743",
            f"the client answered {method} with an error: {error.message}",
            error_code=error.code,
            error_message=error.message,
            data=error.data,
        ) from None
    except ValidationError as error:
        raise CallFailed(
            "X0743",
            f"{method} or the client's answer to it is not valid: {error}",
            error_code=types.INVALID_PARAMS,
            error_message=f"Invalid params of {method}, or an invalid answer of the client",
        ) from None
    return to_json_object(answer)
