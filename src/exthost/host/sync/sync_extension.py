"""One extension, for programs without an event loop. Thread-safe.

`SyncExtension` has the methods and parameters of `Extension`. `call` and `call_tool` write the
request in the caller's thread (`blocking_call`), because that is fast. The other methods that are
asynchronous in `Extension` run on the thread of the event loop: `forward` makes a method that runs
the asynchronous method there, and waits for its result (`dialects.blocking_methods`). A facet (an
attribute that only extensions of one dialect have) has a blocking form, too.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.dialects.blocking_methods import (
    forward,
    forward_plain,
    forward_stream,
    parameters_of,
)
from exthost.dialects.missing_facet import missing_attribute_error
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.extension.lifecycle import Health, State
from exthost.extension.stats import Stats
from exthost.extension.toolbox import Toolbox
from exthost.host.sync.blocking_call import BlockingCall, call_tool
from exthost.host.sync.blocking_view import BlockingView
from exthost.host.sync.loop_thread import LoopThread
from exthost.host.sync.sync_facet_attributes import SyncFacetAttributes
from exthost.model.lock_record import Quarantine
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Spec
from exthost.process.environment import Environment
from exthost.tool_result import ToolResult


class SyncToolbox(Mapping[str, Tool]):
    """The tools of one extension by their own names. `call` returns an error where `call_tool` of
    the extension raises it."""

    def __init__(self, target: Toolbox, loop_thread: LoopThread) -> None:
        self._target = target
        self._loop_thread = loop_thread

    def __getitem__(self, name: str) -> Tool:
        return self._target[name]

    def __contains__(self, name: object) -> bool:
        return name in self._target

    def __iter__(self) -> Iterator[str]:
        return iter(self._target)

    def __len__(self) -> int:
        return len(self._target)

    def __repr__(self) -> str:
        return repr(self._target)

    call = forward(Toolbox.call)


class SyncExtension(SyncFacetAttributes):
    """One extension, with blocking methods. `SyncHost` and `sync_connect` create it."""

    def __init__(self, extension: Extension, loop_thread: LoopThread) -> None:
        self._target = extension
        self._loop_thread = loop_thread

    if not TYPE_CHECKING:  # a type checker would accept any name then

        def __getattr__(self, name: str) -> Any:
            """Return the blocking form of a facet, created at its first use. Raise the error for a
            missing name; for a facet, it says which dialect has it."""
            if name.startswith("_") or name not in self.dialect.facets:
                raise missing_attribute_error(self, name)
            facet = getattr(self._target, name)
            blocking = blocking_facet(self.dialect, name, facet, self._loop_thread)
            vars(self)[name] = blocking  # later accesses find this attribute first
            return blocking

    def __repr__(self) -> str:
        return repr(self._target).replace("<Extension", "<SyncExtension")

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
        extension = self._target
        if not wait:  # rare, so it has no fast path
            call = extension.call
            return self._loop_thread.run(lambda: call(method, params, timeout=timeout, wait=False))
        self._loop_thread.refuse_own_thread()
        queue, factory = extension.internals.queue, extension.internals.calls.factory
        wire_method, wire_params, handler, limit = factory.for_method(method, params, timeout)
        return BlockingCall(wire_method, wire_params, handler, limit, queue).run()

    @parameters_of(Extension.call_tool)
    def call_tool(self, name: str, *arguments: Any, **options: Any) -> ToolResult:
        """Call one of its tools by the tool's own name; see `Extension.call_tool`. `on_progress`
        is called on the thread of the event loop."""
        return call_tool(self._target, self._loop_thread, name, *arguments, **options)

    list_tools = forward(Extension.list_tools)
    run_hook = forward(Extension.run_hook)
    check_health = forward(Extension.check_health)
    notify = forward(Extension.notify)
    stream = forward_stream(Extension.stream)

    # -- life --------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the extension and wait until it is ready. Raises the error that prevented it."""
        self._loop_thread.run(self._target.start)
        return self

    def hold(self) -> AbstractContextManager[None]:
        """Prevent `limits.idle` from ending the extension inside a block: `with ext.hold(): …`."""
        return self._target.hold()

    restart = forward(Extension.restart)
    close = forward(Extension.close)
    drain = forward(Extension.drain)
    kill = forward_plain(Extension.kill)

    # -- facts -------------------------------------------------------------------------------

    def facet(self, kind: type) -> Any:
        """Return the blocking form of the facet of this class; see `Extension.facet`."""
        facet: Any = self._target.facet(kind)
        name = next(name for name in self.dialect.facets if vars(self._target)[name] is facet)
        return getattr(self, name)

    @property
    def spec(self) -> Spec:
        """The configuration of the extension."""
        return self._target.spec

    @property
    def dialect(self) -> Dialect:
        """The dialect of the extension."""
        return self._target.dialect

    @property
    def id(self) -> str:
        """The name of the extension in its host."""
        return self._target.id

    @property
    def state(self) -> State:
        """Its state in the life-cycle table. It is equal to a string: `ext.state == "ready"`."""
        return self._target.state

    @property
    def health(self) -> Health:
        """A summary of its state; see `Extension.health`."""
        return self._target.health

    @property
    def cause(self) -> ExthostError | None:
        """The error because of which it is not ready, or None."""
        return self._target.cause

    @property
    def quarantined(self) -> Mapping[str, Quarantine]:
        """The tools that differ from its lock; see `Extension.quarantined`."""
        return self._target.quarantined

    @property
    def offer(self) -> Offer:
        """Its offer (the tools, hooks and capabilities that it announced), from its last handshake
        or its manifest."""
        return self._target.offer

    @property
    def tools(self) -> SyncToolbox:
        """Its tools by their own names. `tools.call` returns an error where `call_tool` raises
        it."""
        return SyncToolbox(self._target.tools, self._loop_thread)

    @property
    def manifest(self) -> Any:
        """The manifest as the dialect has read it; None without a manifest."""
        return self._target.manifest

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line that was executed, or would be."""
        return self._target.argv

    @property
    def environment(self) -> Environment:
        """The environment variables that its process gets, and those that are held back."""
        return self._target.environment

    @property
    def enforced(self) -> Mapping[str, Any]:
        """How its process is sandboxed, as data."""
        return self._target.enforced

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 digests that a config could pin, by the keys of its `sha256` setting."""
        return self._target.digests

    @property
    def stats(self) -> Stats:
        """Counts since it was loaded, and data about its current process."""
        return self._target.stats


def blocking_facet(dialect: Dialect, name: str, facet: Any, loop_thread: LoopThread) -> Any:
    """Return the blocking form of a facet of this dialect: an object of the class that the
    dialect's package names (`DialectPackage.blocking_facets`), or else a `BlockingView`."""
    if dialect.name in find.DIALECT_NAMES:  # a program may use a dialect that is not installed
        package = find.find_package(dialect.name)
        if reference := package.blocking_facets.get(name):
            return find.load_reference(package, reference)(facet, loop_thread)
    return BlockingView(facet, loop_thread)
