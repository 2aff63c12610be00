"""What an endpoint is: the registry of an extension in the words of one dialect.

An endpoint is given whole frames and returns the frame of the reply, or None if there is none or
if it comes later. It does no input or output and starts nothing itself: the server does both.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from exthost.sdk.errors import HostError
from exthost.sdk.registry import Registry
from exthost.sdk.serving.call import NOTHING, Call, Failure, ItemWriter, Reply
from exthost.sdk.serving.server import FAILURES, Server, report
from exthost.sdk.types.function import Execution, Function
from exthost.sdk.wire.framing import Framing


class Identity(NamedTuple):
    """Who the extension is. `manifest` is the content of its manifest, for dialects whose
    handshake repeats it."""

    name: str
    version: str
    description: str
    registry: Registry
    manifest: bytes | None = None
    capabilities: tuple[str, ...] = ()


class Endpoint:
    """The extension's end of one connection."""

    name: ClassVar[str]
    framing: ClassVar[type[Framing]]
    offers: ClassVar[frozenset[str]]  # the kinds of the registry that the dialect has a place for

    def __init__(self, identity: Identity, server: Server) -> None:
        self.identity = identity
        self.registry = identity.registry
        self.server = server
        self.config: Mapping[str, Any] = NOTHING

    def receive(self, frame: bytes) -> bytes | None:
        """Handle one frame; return the reply, if there is one now."""
        raise NotImplementedError

    def run(
        self,
        key: Any,
        function: Function,
        arguments: Any,
        reply: Reply,
        failure: Failure,
        *,
        meta: Mapping[str, Any] = NOTHING,
        token: Any = None,
        on_item: ItemWriter | None = None,
    ) -> bytes | None:
        """Call a handler with arguments from the wire; return the reply if there is one now."""
        try:
            if function.execution is Execution.INLINE and not function.context_name:
                return reply(key, function, function.call(arguments))
            bound = function.bind(arguments)
        except FAILURES as error:
            report(error)
            return failure(key, function, error)
        self.server.start(
            key, function, bound, reply, failure, meta=meta, token=token, on_item=on_item
        )
        return None

    # -- for the context of a call -----------------------------------------------------------

    def progress(
        self, call: Call, current: float, total: float | None, message: str
    ) -> bytes | None:
        """Return the frame that reports progress, or None where the dialect has none."""
        return None

    def log(self, call: Call, level: str, text: str) -> bytes | None:
        """Return the frame of a line for the host's log, or None if it belongs on stderr."""
        return None

    def request(self, number: int, method: str, params: Any) -> bytes:
        """Return the frame of a request to the host."""
        raise HostError(f"the {self.name} dialect has no requests to the host")

    def ask_host(self, call: Call, method: str, params: Any) -> Any:
        """Send a request to the host; return its `Answer`, or the value if it is known already."""
        return call.send_request(method, params)


def progress_text(current: float, total: float | None, message: str) -> str:
    """Return progress as a line of text, for dialects that have no form for it."""
    steps = f"{current:g}" if total is None else f"{current:g}/{total:g}"
    return f"progress {steps}: {message}" if message else f"progress {steps}"
