"""One extension for programs without an event loop. Any thread may call it.

It has the names and parameters of `Extension`. `call` and `call_tool` write the request from the
caller's thread (`blocking_call`); everything else runs on the loop's thread
(`dialects.blocking_methods`).
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

from exthost.dialects.base import Dialect
from exthost.dialects.blocking_methods import forward, forward_plain, forward_stream
from exthost.dialects.meanings import OnProgress
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.extension.lifecycle import Health, State
from exthost.extension.stats import Stats
from exthost.extension.toolbox import Toolbox
from exthost.offer import Offer, Tool
from exthost.process.environment import Environment
from exthost.spec import Spec
from exthost.sync.blocking_call import BlockingCall, call_tool
from exthost.sync.facet_property import blocking_facet
from exthost.sync.loop_thread import LoopThread
from exthost.sync.sync_facet_attributes import SyncFacetAttributes
from exthost.tool_result import ToolResult
from exthost.trace.traffic import Traffic

__all__ = ["SyncExtension", "SyncToolbox"]


class SyncToolbox(Mapping[str, Tool]):
    """The tools of one extension; `call` returns an error where `call_tool` raises."""

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
    """One extension, blocking. Made by `SyncHost` or `sync_connect`."""

    def __init__(self, extension: Extension, loop_thread: LoopThread) -> None:
        self.target = extension
        self.loop_thread = loop_thread
        for name in extension.dialect.facets:  # those of dialects that others bring
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
        queue, factory = extension.queue, extension.calls.factory
        wire_method, wire_params, handler, limit = factory.for_method(method, params, timeout)
        blocking = BlockingCall(wire_method, wire_params, handler, limit, queue)
        queue.submit_threadsafe(blocking)
        return blocking.wait()

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
    ) -> ToolResult:
        """Call one of its tools by the tool's own name; see `Extension.call_tool`. `on_progress`
        is called on the loop's thread."""
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
        )

    list_tools = forward(Extension.list_tools)
    run_hook = forward(Extension.run_hook)
    check_health = forward(Extension.check_health)
    notify = forward(Extension.notify)
    try_notify = forward_plain(Extension.try_notify)
    stream = forward_stream(Extension.stream)

    # -- life --------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start it and wait until it is ready; raises why it did not get ready."""
        self.loop_thread.run(self.target.start)
        return self

    def take_over(self, old: "SyncExtension | None") -> None:
        """Be the extension of this id from now on; see `Extension.take_over`."""
        replaced = old.target if old is not None else None
        self.loop_thread.run_plain(lambda: self.target.take_over(replaced))

    def hold(self) -> AbstractContextManager[None]:
        """Keep it from being ended as idle (`limits.idle`): `with ext.hold(): …`."""
        return self.target.hold()

    admit = forward_plain(Extension.admit)
    restart = forward(Extension.restart)
    close = forward(Extension.close)
    drain = forward(Extension.drain)
    kill = forward_plain(Extension.kill)

    # -- facts -------------------------------------------------------------------------------

    registered_name = forward_plain(Extension.registered_name)
    knows = forward_plain(Extension.knows)
    absence = forward_plain(Extension.absence)

    def facet(self, kind: type) -> Any:
        """Return the blocking form of the facet of this class; see `Extension.facet`."""
        facet: Any = self.target.facet(kind)
        name = next(name for name in self.dialect.facets if vars(self.target)[name] is facet)
        return getattr(self, name)

    @property
    def spec(self) -> Spec:
        """The extension as it is configured."""
        return self.target.spec

    @property
    def dialect(self) -> Dialect:
        """The dialect that it speaks."""
        return self.target.dialect

    @property
    def id(self) -> str:
        """Its name in the host."""
        return self.target.id

    @property
    def state(self) -> State:
        """Its state in the life-cycle table: equal to its word, as in `ext.state == "ready"`."""
        return self.target.state

    @property
    def health(self) -> Health:
        """Its health in one word; see `Extension.health`."""
        return self.target.health

    @property
    def cause(self) -> ExthostError | None:
        """Why it is not ready, when it is not."""
        return self.target.cause

    @property
    def offer(self) -> Offer:
        """What it offers, by its last handshake or its manifest."""
        return self.target.offer

    @property
    def tools(self) -> SyncToolbox:
        """Its tools by their own names; `tools.call` returns an error where `call_tool` raises."""
        return SyncToolbox(self.target.tools, self.loop_thread)

    @property
    def manifest(self) -> Any:
        """Its manifest as the dialect reads it; None where there is none."""
        return self.target.manifest

    @property
    def serves(self) -> bool:
        """Whether its tools are listed: it can serve them, or will be started for a call."""
        return self.target.serves

    @property
    def starts_eagerly(self) -> bool:
        """Whether a host starts it at once, or at its first use."""
        return self.target.starts_eagerly

    @property
    def is_silent(self) -> bool:
        """Whether nobody knows what it offers until it is started."""
        return self.target.is_silent

    @property
    def may_have_hooks(self) -> bool:
        """Whether only its handshake, still to come, tells whether it has hooks."""
        return self.target.may_have_hooks

    @property
    def argv(self) -> tuple[str, ...]:
        """What was executed, or would be."""
        return self.target.argv

    @property
    def traffic(self) -> Traffic:
        """Its messages, or those of all extensions of its host, for whoever wants to see them."""
        return self.target.traffic

    @property
    def environment(self) -> Environment:
        """Which variables its process gets, and which are held back."""
        return self.target.environment

    @property
    def enforced(self) -> Mapping[str, Any]:
        """What contains its process, as data."""
        return self.target.enforced

    @property
    def digests(self) -> dict[str, str]:
        """What could be pinned of it, by the keys of `sha256` in a config."""
        return self.target.digests

    @property
    def stats(self) -> Stats:
        """Counts since it was loaded, and facts of the process that is there now."""
        return self.target.stats
