"""`sync_attach`: a host that runs in another process, for programs without an event loop.

    with exthost.sync_attach("exthost.toml", start=True) as host:
        host.call_tool("ext_weather_forecast", {"city": "Lima"})

`SyncAttachedHost` has the methods and parameters of `AttachedHost`. Its event loop runs in a
separate thread, on which `on_progress` is called. A method that is made by `forward` runs the
asynchronous method of that name on the loop, and waits for its result.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Self

from exthost.dialects.blocking_methods import forward, forward_stream
from exthost.extension.confirmation import Confirm
from exthost.extension.misuse import already_open_error
from exthost.extension.stats import Stats
from exthost.host.control.attached_host import AttachedExtension, AttachedHost, attach
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.host.sync.loop_thread import LoopThread, not_open_error
from exthost.model.offer import RegisteredTool


def sync_attach(
    config: str | os.PathLike[str] = "exthost.toml",
    *,
    start: bool = False,
    environ: Mapping[str, str] | None = None,
    confirm: Confirm | None = None,
) -> "SyncAttachedHost":
    """Return the running host of this config, for a `with` block; see `attach`."""
    return SyncAttachedHost(attach(config, start=start, environ=environ, confirm=confirm))


class SyncAttachedExtension:
    """One extension of an attached host, with blocking methods; see `AttachedExtension`."""

    def __init__(self, extension: AttachedExtension, loop_thread: LoopThread) -> None:
        self._target = extension
        self._loop_thread = loop_thread

    def __repr__(self) -> str:
        return repr(self._target).replace("<Attached", "<SyncAttached")

    @property
    def id(self) -> str:
        """The name of the extension in its host."""
        return self._target.id

    @property
    def state(self) -> str:
        """Its state at the last refresh."""
        return self._target.state

    @property
    def health(self) -> str:
        """Its health at the last refresh."""
        return self._target.health

    @property
    def stats(self) -> Stats:
        """Its counts, and data about its current process, at the last refresh."""
        return self._target.stats

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """Its tools by their own names, at the last refresh."""
        return self._target.tools

    call = forward(AttachedExtension.call)
    call_tool = forward(AttachedExtension.call_tool)
    notify = forward(AttachedExtension.notify)
    stream = forward_stream(AttachedExtension.stream)
    start = forward(AttachedExtension.start)
    restart = forward(AttachedExtension.restart)
    drain = forward(AttachedExtension.drain)


class SyncAttachedHost:
    """The host of a config that runs in another process, with blocking methods. Use it with
    `with`. Any thread may call it."""

    def __init__(self, host: AttachedHost) -> None:
        self._target = host
        self._opened_loop_thread: LoopThread | None = None

    def __repr__(self) -> str:
        if self._opened_loop_thread is None:
            return "<SyncAttachedHost, not open>"
        return repr(self._target).replace("<Attached", "<SyncAttached")

    # -- life --------------------------------------------------------------------------------

    def open(self) -> Self:
        """Connect to the host, and return it, where a `with` block does not fit. Disconnect with
        `close`."""
        return self.__enter__()

    def __enter__(self) -> Self:
        if self._opened_loop_thread is not None:
            raise already_open_error()
        loop_thread = LoopThread()
        try:
            loop_thread.run(self._target.__aenter__)
        except BaseException:
            loop_thread.close()
            raise
        # If the program drops this object without closing it, the connection is closed all the
        # same.
        loop_thread.before_drop = self._target.close
        self._opened_loop_thread = loop_thread
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and the thread of the event loop. The host keeps running. Closing
        twice is allowed."""
        loop_thread = self._opened_loop_thread
        if loop_thread is not None:
            loop_thread.refuse_own_thread()  # before anything is closed
        self._opened_loop_thread = None
        # In a fork of the process, nothing is closed: thread and connection are the parent's.
        if loop_thread is not None and not loop_thread.is_copy:
            try:
                loop_thread.run(self._target.close)
            finally:
                loop_thread.close()

    # -- extensions --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> SyncAttachedExtension:
        return SyncAttachedExtension(self._target[name], self._loop_thread)

    def __contains__(self, name: object) -> bool:
        return name in self._target

    def __iter__(self) -> Iterator[str]:
        return iter(self._target)

    def __len__(self) -> int:
        return len(self._target)

    @property
    def extensions(self) -> tuple[SyncAttachedExtension, ...]:
        """Every extension, in the order of the host."""
        return tuple(self[name] for name in self._target)

    @property
    def pid(self) -> int:
        """The process id of the host."""
        return self._target.pid

    refresh = forward(AttachedHost.refresh)
    status = forward(AttachedHost.status)
    reload = forward(AttachedHost.reload)
    ask = forward(AttachedHost.ask)
    run_verb = forward(AttachedHost.run_verb)

    def result_reader(self, dialect: str) -> Any:
        """Return the result reader of this dialect; see `AttachedHost.result_reader`."""
        return self._target.result_reader(dialect)

    def row(self, name: str) -> Mapping[str, Any]:
        """Return the state of an extension at the last refresh; see `AttachedHost.row`."""
        return self._target.row(name)

    # -- tools -------------------------------------------------------------------------------

    @property
    def tools(self) -> RegisteredTools:
        """The tools that could be called at the last refresh, by their registered names."""
        return self._target.tools.of_host(self)

    call_tool = forward(AttachedHost.call_tool)
    call_own_tool = forward(AttachedHost.call_own_tool)
    run_calls = forward(AttachedHost.run_calls)
    find_tool = forward(AttachedHost.find_tool)

    # -- used by forwarded methods -------------------------------------------------------------

    @property
    def _loop_thread(self) -> LoopThread:
        """The event loop of the host and its thread."""
        if self._opened_loop_thread is None:
            raise not_open_error()
        return self._opened_loop_thread
