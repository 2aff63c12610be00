"""One extension of a host that runs in another process: its state, and its calls."""

from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from exthost.dialects.meanings import OnProgress
from exthost.extension.confirmation import Confirm
from exthost.extension.misuse import check_name, check_timeout
from exthost.host.control.async_client import OnEvent
from exthost.host.control.attached_stream import AttachedStream
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.offer import RegisteredTool
from exthost.tool_result import ToolResult

# JSON has no infinity: a call without a time limit has this one, of thirty years.
_ENDLESS_SECONDS = 1e9


def finite_timeout(timeout: float | None) -> float | None:
    """Return the time limit as it is sent to the host. Raises UsageError if it is not a number."""
    if timeout is None or (type(timeout) is float and 0.0 < timeout < _ENDLESS_SECONDS):
        return timeout
    return min(check_timeout(timeout), _ENDLESS_SECONDS)


class AttachedCalls(Protocol):
    """The part of the attached host that an extension uses."""

    @property
    def tools(self) -> Mapping[str, RegisteredTool]: ...

    def __contains__(self, name: object) -> bool: ...

    def row(self, name: str) -> Mapping[str, Any]: ...

    def ask(
        self,
        verb: str,
        name: str = "",
        params: Mapping[str, Any] = EMPTY_MAPPING,
        on_event: OnEvent | None = None,
    ) -> Coroutine[Any, Any, Any]: ...

    async def run_verb(self, verb: str, name: str) -> None: ...

    def call_own_tool(
        self,
        extension: str,
        name: str,
        arguments: Any,
        timeout: float | None,
        context: Mapping[str, Any],
        wait: bool,
        on_progress: OnProgress | None,
        check: bool,
        hooks: bool,
        confirm: Confirm | None,
    ) -> Coroutine[Any, Any, ToolResult]: ...


class AttachedExtension:
    """One extension of an attached host. Its attributes have the values of the last refresh."""

    def __init__(self, host: AttachedCalls, id: str) -> None:
        self._host = host
        self.id = id

    def __repr__(self) -> str:
        state = self.state if self.id in self._host else "removed"
        return f"<AttachedExtension {self.id!r} {state}>"

    @property
    def state(self) -> str:
        """Its state at the last refresh."""
        return str(self._host.row(self.id)["state"])

    @property
    def health(self) -> str:
        """Its health at the last refresh."""
        return str(self._host.row(self.id)["health"])

    @property
    def stats(self) -> Mapping[str, Any]:
        """Its counts at the last refresh, as `exthost status --json` prints them."""
        return self._host.row(self.id)

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """Its tools by their own names, at the last refresh."""
        return {tool.tool: tool for tool in self._host.tools.values() if tool.extension == self.id}

    async def call(
        self, method: str, params: Any = None, *, timeout: float | None = None, wait: bool = True
    ) -> Any:
        """Call a method of the dialect, and return its result as data."""
        check_name(method)
        seconds = finite_timeout(timeout)
        request = {"method": method, "arguments": params, "timeout": seconds, "wait": wait}
        return (await self._host.ask("call", self.id, params=request))["raw"]

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
        confirm: Confirm | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Call one of its tools by the tool's own name, as `Extension.call_tool` does."""
        return self._host.call_own_tool(
            self.id, name, arguments, timeout, context, wait, on_progress, check, hooks, confirm
        )

    async def notify(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> None:
        """Send a notification, as `Extension.notify` does."""
        check_name(method)
        request = {"method": method, "params": params, "timeout": finite_timeout(timeout)}
        await self._host.ask("notify", self.id, params=request)

    @asynccontextmanager
    async def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> AsyncIterator[AttachedStream]:
        """Call a method that replies with a stream of events. Each event is data: `{"type": …,
        "data": …}`."""
        check_name(method)
        seconds = finite_timeout(timeout)
        request = {"method": method, "arguments": params, "timeout": seconds, "stream": True}
        stream = AttachedStream()
        stream.start(self._host.ask("call", self.id, params=request, on_event=stream.push))
        try:
            yield stream
        finally:
            await stream.close()

    async def start(self) -> None:
        """Start the extension and wait until it is ready. Raises the error that prevented the
        start."""
        await self._host.run_verb("start", self.id)

    async def restart(self) -> None:
        """Replace its processes by new ones, as `Extension.restart` does."""
        await self._host.run_verb("restart", self.id)

    async def drain(self) -> None:
        """End the extension after its calls in flight have finished, or after `limits.stop`
        seconds."""
        await self._host.run_verb("stop", self.id)
