"""`sync_attach`: the running host of a config, for programs without an event loop.

    with exthost.sync_attach("exthost.toml", start=True) as host:
        host.call_tool("ext_weather_forecast", {"city": "Lima"})

Its methods are the blocking forms of those of `AttachedHost`.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Self

from exthost.dialects.blocking_methods import forward, forward_stream
from exthost.extension.confirmation import Confirm
from exthost.extension.misuse import already_open_error
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


class SyncAttachedHost:
    """The host of a config that runs in another process, with blocking methods. Use it with
    `with`."""

    def __init__(self, target: AttachedHost) -> None:
        self._target = target
        self._opened_loop_thread: LoopThread | None = None

    def __enter__(self) -> Self:
        if self._opened_loop_thread is not None:
            raise already_open_error()
        loop_thread = LoopThread()
        try:
            loop_thread.run(self._target.__aenter__)
        except BaseException:
            loop_thread.close()
            raise
        loop_thread.before_drop = self._target.close
        self._opened_loop_thread = loop_thread
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The host keeps running. Closing twice is allowed."""
        loop_thread, self._opened_loop_thread = self._opened_loop_thread, None
        if loop_thread is not None and not loop_thread.is_copy:
            try:
                loop_thread.run(self._target.close)
            finally:
                loop_thread.close()

    @property
    def _loop_thread(self) -> LoopThread:
        if self._opened_loop_thread is None:
            raise not_open_error()
        return self._opened_loop_thread

    @property
    def pid(self) -> int:
        """The process of the host."""
        return self._target.pid

    @property
    def tools(self) -> RegisteredTools:
        """The tools that could be called at the last refresh, by their registered names."""
        return self._target.tools

    def __getitem__(self, name: str) -> "SyncAttachedExtension":
        return SyncAttachedExtension(self._target[name], self._loop_thread)

    def __contains__(self, name: object) -> bool:
        return name in self._target

    def __iter__(self) -> Iterator[str]:
        return iter(self._target)

    def __len__(self) -> int:
        return len(self._target)

    @property
    def extensions(self) -> "tuple[SyncAttachedExtension, ...]":
        """Every extension, in the order of the host."""
        return tuple(self[name] for name in self._target)

    refresh = forward(AttachedHost.refresh)
    status = forward(AttachedHost.status)
    reload = forward(AttachedHost.reload)
    find_tool = forward(AttachedHost.find_tool)
    call_tool = forward(AttachedHost.call_tool)
    run_calls = forward(AttachedHost.run_calls)


class SyncAttachedExtension:
    """One extension of an attached host, with blocking methods."""

    def __init__(self, target: AttachedExtension, loop_thread: LoopThread) -> None:
        self._target = target
        self._loop_thread = loop_thread
        self.id = target.id

    def __repr__(self) -> str:
        return repr(self._target)

    @property
    def state(self) -> str:
        """Its state at the last refresh."""
        return self._target.state

    @property
    def health(self) -> str:
        """Its health at the last refresh."""
        return self._target.health

    @property
    def stats(self) -> Mapping[str, Any]:
        """Its counts at the last refresh, as `exthost status --json` prints them."""
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
