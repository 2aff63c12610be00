"""One extension, for programs without an event loop. Thread-safe.

`SyncExtension` has the methods and parameters of `Extension`. `call` and `call_tool` write the
request in the caller's thread (`blocking_call`), because that is fast. Every other method runs on
the thread of the event loop (`dialects.blocking_methods`).
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

from exthost.dialects.base import Dialect
from exthost.dialects.blocking_methods import forward, forward_plain, forward_stream
from exthost.dialects.meanings import OnProgress
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.extension.lifecycle import Health, State
from exthost.extension.stats import Stats
from exthost.extension.toolbox import Toolbox
from exthost.host.sync.blocking_call import BlockingCall, call_tool
from exthost.host.sync.facet_property import blocking_facet
from exthost.host.sync.loop_thread import LoopThread
from exthost.host.sync.sync_facet_attributes import SyncFacetAttributes
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Spec
from exthost.process.environment import Environment
from exthost.session.trace.traffic import Traffic
from exthost.tool_result import ToolResult

__all__ = ["SyncExtension", "SyncToolbox"]


class SyncToolbox(Mapping[str, Tool]):
    """The tools of one extension by their own names. `call` returns an error where `call_tool` of
    the extension raises it."""

    def __init__(self, target: Toolbox, loop_thread: LoopThread) -> None:
        self.target = target
        self.loop_thread = loop_thread

    def __getitem__(self, name: str) -> Tool:
        return self.target[name]

    def __contains__(self, name: object) -> bool:
        return name in self.target

    def __iter__(self) -> Iterator[str]:
        return iter(self.target)

    def __len__(self) -> int:
        return len(self.target)

    def __repr__(self) -> str:
        return repr(self.target)

    call = forward(Toolbox.call)


class SyncExtension(SyncFacetAttributes):
    """One extension, with blocking methods. `SyncHost` and `sync_connect` create it."""

    def __init__(self, extension: Extension, loop_thread: LoopThread) -> None:
        self.target = extension
        self.loop_thread = loop_thread
        for name in extension.dialect.facets:
            # The class has an attribute for each facet of the built-in dialects only.
            if not hasattr(type(self), name):
                target = getattr(extension, name)
                vars(self)[name] = blocking_facet(extension.dialect, name, target, loop_thread)

    def __repr__(self) -> str:
        return repr(self.target).replace("<Extension", "<SyncExtension")

    # -- calls -------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None = None,
        wait: bool = True,
    ) -> Any:
        """Call a method of the dialect, and return its result; see `Extension.call`."""
        extension = self.target
        if not wait:
            call = extension.call
            return self.loop_thread.run(lambda: call(method, params, timeout=timeout, wait=False))
        self.loop_thread.refuse_own_thread()
        queue, factory = extension.queue, extension.calls.factory
        wire_method, wire_params, handler, limit = factory.for_method(method, params, timeout)
        return BlockingCall(wire_method, wire_params, handler, limit, queue).run()

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        wait: bool = True,
        on_progress: OnProgress | None = None,
        check: bool = True,
        hooks: bool = True,
    ) -> ToolResult:
        """Call one of its tools by the tool's own name; see `Extension.call_tool`. `on_progress`
        is called on the thread of the event loop."""
        return call_tool(
            self.target,
            self.loop_thread,
            name,
            arguments,
            timeout,
            context,
            wait,
            on_progress,
            check,
            hooks,
        )

    list_tools = forward(Extension.list_tools)
    run_hook = forward(Extension.run_hook)
    check_health = forward(Extension.check_health)
    notify = forward(Extension.notify)
    try_notify = forward_plain(Extension.try_notify)
    stream = forward_stream(Extension.stream)

    # -- life --------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the extension and wait until it is ready. Raises the error that prevented it."""
        self.loop_thread.run(self.target.start)
        return self

    def take_over(self, old: "SyncExtension | None") -> None:
        """Replace `old` as the extension of this id; see `Extension.take_over`."""
        replaced = old.target if old is not None else None
        self.loop_thread.run_plain(lambda: self.target.take_over(replaced))

    def hold(self) -> AbstractContextManager[None]:
        """Prevent that the extension is ended as idle (`limits.idle`): `with ext.hold(): …`."""
        return self.target.hold()

    admit = forward_plain(Extension.admit)
    restart = forward(Extension.restart)
    close = forward(Extension.close)
    drain = forward(Extension.drain)
    kill = forward_plain(Extension.kill)

    # -- facts -------------------------------------------------------------------------------

    registered_name = forward_plain(Extension.registered_name)
    knows = forward_plain(Extension.knows)
    not_running_error = forward_plain(Extension.not_running_error)

    def facet(self, kind: type) -> Any:
        """Return the blocking form of the facet of this class; see `Extension.facet`."""
        facet: Any = self.target.facet(kind)
        name = next(name for name in self.dialect.facets if vars(self.target)[name] is facet)
        return getattr(self, name)

    @property
    def spec(self) -> Spec:
        """The configuration of the extension."""
        return self.target.spec

    @property
    def dialect(self) -> Dialect:
        """The dialect of the extension."""
        return self.target.dialect

    @property
    def id(self) -> str:
        """The name of the extension in its host."""
        return self.target.id

    @property
    def state(self) -> State:
        """Its state in the life-cycle table. It is equal to a string: `ext.state == "ready"`."""
        return self.target.state

    @property
    def health(self) -> Health:
        """A summary of its state; see `Extension.health`."""
        return self.target.health

    @property
    def cause(self) -> ExthostError | None:
        """The error because of which it is not ready, or None."""
        return self.target.cause

    @property
    def lost_process(self) -> tuple[ExthostError, float] | None:
        """The last process that its pool lost; see `Extension.lost_process`."""
        return self.target.lost_process

    @property
    def offer(self) -> Offer:
        """Its offer (the tools, hooks and capabilities that it announced), from its last handshake
        or its manifest."""
        return self.target.offer

    @property
    def tools(self) -> SyncToolbox:
        """Its tools by their own names. `tools.call` returns an error where `call_tool` raises
        it."""
        return SyncToolbox(self.target.tools, self.loop_thread)

    @property
    def manifest(self) -> Any:
        """The manifest as the dialect has read it; None without a manifest."""
        return self.target.manifest

    @property
    def serves(self) -> bool:
        """Whether its tools can be called: it is ready, or a call will start it."""
        return self.target.serves

    @property
    def starts_eagerly(self) -> bool:
        """Whether a host starts it when the host opens, and not at its first use."""
        return self.target.starts_eagerly

    @property
    def is_offer_unknown(self) -> bool:
        """Whether its offer is not known before it is started."""
        return self.target.is_offer_unknown

    @property
    def is_offer_remembered(self) -> bool:
        """Whether the offer is the one of an earlier host: there was no handshake since."""
        return self.target.is_offer_remembered

    @property
    def may_have_hooks(self) -> bool:
        """Whether it may have hooks that are not known before its handshake."""
        return self.target.may_have_hooks

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line that was executed, or would be."""
        return self.target.argv

    @property
    def traffic(self) -> Traffic:
        """The messages of the extension, or of all extensions of its host, for subscribers."""
        return self.target.traffic

    @property
    def environment(self) -> Environment:
        """The environment variables that its process gets, and those that are held back."""
        return self.target.environment

    @property
    def closed_paths(self) -> list[tuple[str, ...]]:
        """For each process on this machine, the paths in its writable folders that it cannot
        write."""
        return self.target.closed_paths

    @property
    def enforced(self) -> Mapping[str, Any]:
        """How its process is sandboxed, as data."""
        return self.target.enforced

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 digests that a config could pin, by the keys of its `sha256` setting."""
        return self.target.digests

    @property
    def stats(self) -> Stats:
        """Counts since it was loaded, and data about its current process."""
        return self.target.stats
