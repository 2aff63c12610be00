"""The base class of endpoints: each speaks one dialect for the extension.

An endpoint translates messages of the host into calls of registered handlers, and results into
messages. It gets whole frames and returns the frame of the reply, or None if there is no reply or
if it is sent later. It reads and writes nothing and starts no threads: the server does both.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from types import GeneratorType
from typing import Any, ClassVar, NamedTuple

from exthost_sdk.answers import PromptMessage
from exthost_sdk.errors import HostError
from exthost_sdk.registry import HandlerRegistry
from exthost_sdk.serving.call import (
    EMPTY_MAPPING,
    Failure,
    HandlerCall,
    ItemWriter,
    Reply,
    encode_failure,
)
from exthost_sdk.serving.server import Server, is_interrupt
from exthost_sdk.types.function import Execution, Function
from exthost_sdk.wire.framing import FrameSplitter


class Identity(NamedTuple):
    """What the handshake sends about the extension.

    registry      the handlers that the author registered
    manifest      the content of its manifest file, for a dialect whose handshake contains it; None
                  if it has no manifest
    capabilities  the capabilities that the author named (cigen only); empty for the default
    """

    name: str
    version: str
    description: str
    registry: HandlerRegistry
    manifest: bytes | None = None
    capabilities: tuple[str, ...] = ()


class Endpoint:
    """The extension's side of one connection. `config` is what the host sent in the handshake."""

    name: ClassVar[str]
    framing: ClassVar[type[FrameSplitter]]
    # The kinds of handlers that the dialect supports (see `HandlerRegistry.names_by_kind`).
    supported_kinds: ClassVar[frozenset[str]]
    # The names of the hooks that a host of the dialect may call, if it has any.
    supported_hooks: ClassVar[tuple[str, ...]] = ()

    def __init__(self, identity: Identity, server: Server) -> None:
        self.identity = identity
        self.registry = identity.registry
        self.server = server
        self.config: Mapping[str, Any] = EMPTY_MAPPING

    def receive(self, frame: bytes) -> bytes | None:
        """Handle one frame. Return the frame of the reply; None if there is none yet, or none at
        all."""
        raise NotImplementedError

    def run(
        self,
        key: Any,
        function: Function,
        arguments: Any,
        reply: Reply,
        failure: Failure,
        *,
        meta: Mapping[str, Any] = EMPTY_MAPPING,
        token: Any = None,
        on_item: ItemWriter | None = None,
    ) -> bytes | None:
        """Call a handler with the arguments that the host sent. Return the frame of the reply; None
        if the server sends it later.

        key      identifies the call when it is cancelled; usually the id of the request
        reply    encodes the result; `failure` encodes an exception
        meta     what the host sent with the call, for the handler's context
        token    what the dialect needs to report the progress of this call; None for nothing
        on_item  encodes one item of a stream; None if the dialect sends no items
        """
        try:
            # The short way for a plain function: it is called here, and nothing else can happen
            # before it returns, so its call needs no object with which it could be cancelled.
            if function.execution is Execution.INLINE and not function.context_name:
                value = function.call(arguments)
                if type(value) is not GeneratorType:
                    return reply(key, function, value)
                self.server.start_items(
                    key, function, value, reply, failure, meta=meta, token=token, on_item=on_item
                )
                return None
            bound = function.bind(arguments)
        except BaseException as error:
            if is_interrupt(error):
                raise
            return encode_failure(key, function, error, failure)
        self.server.start(
            key, function, bound, reply, failure, meta=meta, token=token, on_item=on_item
        )
        return None

    # -- for `Context`, the object that a handler may ask for -----------------------------------

    def progress(
        self, call: HandlerCall, current: float, total: float | None, message: str
    ) -> bytes | None:
        """Return the frame that reports progress, or None if the dialect has no message for it."""
        return None

    def log(self, call: HandlerCall, level: str, text: str) -> bytes | None:
        """Return the frame of a line for the host's log, or None if the dialect has no message for
        it. The line is then written to stderr."""
        return None

    def request(self, number: int, method: str, params: Any) -> bytes:
        """Return the frame of a request to the host. `number` is its id. Raises HostError if the
        dialect has no such requests."""
        raise HostError(f"the {self.name} dialect does not support requests to the host")

    def cancel_request(self, number: int) -> bytes | None:
        """Return the frame that cancels a request to the host, or None if the dialect has no
        message for it."""
        return None

    def ask_host(self, call: HandlerCall, method: str, params: Any) -> Any:
        """Send a request to the host for a handler. Return a `HostReply` that gets the value later,
        or the value itself if it is known already."""
        return call.send_request(method, params)

    def elicitation(
        self, call: HandlerCall, message: str, schema: Mapping[str, Any]
    ) -> tuple[str, Any]:
        """Return the method and the params of the request that shows a form to a person. Raises
        HostError if the dialect, or the client, has no such request."""
        raise HostError(
            f"the {self.name} dialect does not support elicitation: it cannot ask a person"
        )

    def sampling(
        self, call: HandlerCall, messages: Sequence[PromptMessage], system: str, max_tokens: int
    ) -> tuple[str, Any]:
        """Return the method and the params of the request for an answer of the client's model.
        Raises HostError if the dialect, or the client, has no such request."""
        raise HostError(f"the {self.name} dialect does not support sampling: it cannot ask a model")

    def widget(self, id: str, fields: Mapping[str, Any] | None) -> bytes | None:
        """Return the frame that shows a widget, or removes it if `fields` is None. Return None if
        the dialect has no widgets."""
        return None


def progress_text(current: float, total: float | None, message: str) -> str:
    """Return progress as a line of text, for dialects that have no message for it."""
    steps = "/".join(_number_text(number) for number in (current, total) if number is not None)
    return f"progress {steps}: {message}" if message else f"progress {steps}"


def _number_text(number: float) -> str:
    try:
        return f"{number:g}"
    except OverflowError:  # an integer that is too large for a float
        return "a huge number"


def can_be_id(value: Any) -> bool:
    """Return whether a reply can repeat this value as the id of its request. A number such as 1e999
    cannot: it is read as infinity, which JSON cannot express."""
    return isinstance(value, str | int | None) or (type(value) is float and isfinite(value))
