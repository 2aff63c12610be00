"""`sync_attach`: the running host of a config, for programs without an event loop.

    with exthost.sync_attach("exthost.toml", start=True) as host:
        host.call_tool("ext_weather_forecast", {"city": "Lima"})

Its methods are the blocking forms of those of `AttachedHost`.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Self

from exthost.dialects.blocking_methods import SyncStream
from exthost.dialects.meanings import OnProgress
from exthost.extension.misuse import already_open_error
from exthost.host.control.attached_extension import AttachedExtension
from exthost.host.control.attached_host import AttachedHost, attach
from exthost.host.control.served_host import ReloadOutcome
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.host.sync.loop_thread import LoopThread, not_open_error
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.offer import RegisteredTool
from exthost.tool_result import ToolResult

__all__ = ["SyncAttachedExtension", "SyncAttachedHost", "sync_attach"]


def sync_attach(
    config: str | os.PathLike[str] = "exthost.toml",
    *,
    start: bool = False,
    environ: Mapping[str, str] | None = None,
) -> "SyncAttachedHost":
    """Return the running host of this config, for a `with` block; see `attach`."""
    return SyncAttachedHost(attach(config, start=start, environ=environ))


class SyncAttachedHost:
    """The host of a config that runs in another process, with blocking methods. Use it with
    `with`."""

    def __init__(self, target: AttachedHost) -> None:
        self._target = target
        self._loop_thread: LoopThread | None = None

    def __enter__(self) -> Self:
        if self._loop_thread is not None:
            raise already_open_error()
        loop_thread = LoopThread()
        try:
            loop_thread.run(self._target.__aenter__)
        except BaseException:
            loop_thread.close()
            raise
        loop_thread.before_drop = self._target.close
        self._loop_thread = loop_thread
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The host keeps running. Closing twice is allowed."""
        loop_thread, self._loop_thread = self._loop_thread, None
        if loop_thread is not None and not loop_thread.is_copy:
            try:
                loop_thread.run(self._target.close)
            finally:
                loop_thread.close()

    @property
    def _runner(self) -> LoopThread:
        if self._loop_thread is None:
            raise not_open_error()
        return self._loop_thread

    @property
    def pid(self) -> int:
        """The process of the host."""
        return self._target.pid

    @property
    def tools(self) -> RegisteredTools:
        """The tools that could be called at the last refresh, by their registered names."""
        return self._target.tools

    def __getitem__(self, name: str) -> "SyncAttachedExtension":
        return SyncAttachedExtension(self._target[name], self._runner)

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

    def refresh(self) -> None:
        """Read the extensions, their states and their tools again."""
        self._runner.run(self._target.refresh)

    def status(self) -> list[Mapping[str, Any]]:
        """Return the state of each extension, as `exthost status --json` prints it."""
        return self._runner.run(self._target.status)

    def reload(self) -> ReloadOutcome:
        """Let the host read its config again, and apply what has changed. No call is lost."""
        return self._runner.run(self._target.reload)

    def find_tool(
        self, name: str, *, capability: str = "", ask_all: bool = False
    ) -> RegisteredTool:
        """Return the tool of this name, as `Host.find_tool` does."""
        return self._runner.run(
            lambda: self._target.find_tool(name, capability=capability, ask_all=ask_all)
        )

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
        """Call a tool, as `Host.call_tool` does."""
        return self._runner.run(
            lambda: self._target.call_tool(
                name,
                arguments,
                timeout=timeout,
                context=context,
                wait=wait,
                on_progress=on_progress,
                check=check,
                hooks=hooks,
            )
        )

    def run_calls(
        self, response: Any, *, context: Mapping[str, Any] = EMPTY_MAPPING
    ) -> list[dict[str, Any]]:
        """Run the tool calls in a model's response, as `Host.run_calls` does."""
        return self._runner.run(lambda: self._target.run_calls(response, context=context))


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

    def call(
        self, method: str, params: Any = None, *, timeout: float | None = None, wait: bool = True
    ) -> Any:
        """Call a method of the dialect, and return its result as data."""
        return self._loop_thread.run(
            lambda: self._target.call(method, params, timeout=timeout, wait=wait)
        )

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
        """Call one of its tools by the tool's own name, as `Extension.call_tool` does."""
        return self._loop_thread.run(
            lambda: self._target.call_tool(
                name,
                arguments,
                timeout=timeout,
                context=context,
                wait=wait,
                on_progress=on_progress,
                check=check,
                hooks=hooks,
            )
        )

    def notify(self, method: str, params: Any = None, *, timeout: float | None = None) -> None:
        """Send a notification, as `Extension.notify` does."""
        self._loop_thread.run(lambda: self._target.notify(method, params, timeout=timeout))

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> SyncStream:
        """Call a method that replies with a stream of events, which are data."""
        return SyncStream(self._target.stream(method, params, timeout=timeout), self._loop_thread)

    def start(self) -> None:
        """Start the extension and wait until it is ready."""
        self._loop_thread.run(self._target.start)

    def restart(self) -> None:
        """Replace its processes by new ones."""
        self._loop_thread.run(self._target.restart)

    def drain(self) -> None:
        """End the extension after its calls in flight have finished, or after `limits.stop`
        seconds."""
        self._loop_thread.run(self._target.drain)
