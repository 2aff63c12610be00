"""The blocking face: the same names as `Host`, for programs without a loop. Any thread may call.

A loop runs in one thread of its own. A call does not go through it: the caller's thread writes
the request itself and sleeps on a lock; the loop's thread reads the reply and wakes it. That is
three times faster than handing a coroutine over for each call. Everything that is not a call
(loading, restarting, closing) is handed over, since nobody does it a thousand times a second.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from exthost.config import Config
from exthost.discovery.configfile import read_config
from exthost.errors import ExthostError, UsageError
from exthost.events import Bus
from exthost.host import Host
from exthost.model import NONE, Offer, Spec, Tool
from exthost.registry import RegisteredTool
from exthost.session.desk import Desk
from exthost.session.state import Call
from exthost.supervision.extension import Extension

T = TypeVar("T")

# The loop ends what it was told to end; this is for a loop that is itself stuck.
_LOOP_SECONDS = 5.0


class Wait:
    """Where a thread waits for the outcome of its call: a lock, the cheapest thing to sleep on."""

    __slots__ = ("_done", "_error", "_gate", "_result")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._done

    def set_result(self, result: Any, /) -> None:
        self._result = result
        self._done = True
        self._gate.release()

    def set_exception(self, exception: BaseException, /) -> None:
        self._error = exception
        self._done = True
        self._gate.release()

    def outcome(self, call: Call, desk: Desk) -> Any:
        """Sleep until the call ends; at its deadline, have it ended."""
        try:
            while not self._gate.acquire(timeout=max(0.0, call.deadline - desk.now())):
                if call.deadline > desk.now():
                    continue  # progress has extended it
                desk.loop.call_soon_threadsafe(desk.expire, call)
                if not self._gate.acquire(timeout=_LOOP_SECONDS):
                    raise UsageError("X1313", "the host's loop does not answer: it is blocked")
                break
        except KeyboardInterrupt:
            desk.loop.call_soon_threadsafe(desk.cancel, call)
            raise
        if self._error is not None:
            raise self._error
        return self._result


class SyncExtension:
    """One extension, blocking. The same names as `Extension`."""

    def __init__(self, extension: Extension, run: "Runner") -> None:
        self._extension = extension
        self._run = run

    def __repr__(self) -> str:
        return repr(self._extension).replace("<Extension", "<SyncExtension")

    def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Ask in the dialect's own words, and wait for the answer."""
        wait = Wait()
        call = self._extension.begin(method, params, timeout, wait)
        return wait.outcome(call, self._extension.desk)

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = NONE,
    ) -> Any:
        """Call one of its tools by the tool's own name."""
        extension = self._extension
        if not extension.knows(name):  # not started yet, or a mistake: the long way round
            return self._run(
                lambda: extension.call_tool(name, arguments, timeout=timeout, context=context)
            )
        wait = Wait()
        call = extension.begin_tool(name, arguments, timeout, context, wait)
        return wait.outcome(call, extension.desk)

    def stream(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> "SyncStream":
        """Ask for something that answers in events: `with ext.stream(…) as events`."""
        return SyncStream(
            lambda: self._extension.stream(method, params, timeout=timeout), self._run
        )

    def check_health(self, *, timeout: float | None = None) -> Any:
        """Ask it how it is, where its dialect has a way to ask."""
        return self._run(lambda: self._extension.check_health(timeout=timeout))

    def notify(self, method: str, params: Any = None) -> None:
        """Tell it something that has no answer."""
        self._run(lambda: self._extension.notify(method, params))

    def restart(self) -> None:
        """End its process if there is one, and start a fresh one."""
        self._run(self._extension.restart)

    @property
    def id(self) -> str:
        return self._extension.id

    @property
    def spec(self) -> Spec:
        return self._extension.spec

    @property
    def state(self) -> str:
        return self._extension.state

    @property
    def health(self) -> str:
        return self._extension.health

    @property
    def cause(self) -> ExthostError | None:
        return self._extension.cause

    @property
    def offer(self) -> Offer:
        return self._extension.offer

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._extension.tools

    @property
    def stats(self) -> Mapping[str, Any]:
        return self._extension.stats


class SyncStream:
    """Events of one call, blocking: `with … as events: for event in events`."""

    def __init__(self, make: Callable[[], Any], run: "Runner") -> None:
        self._make = make
        self._run = run
        self._stream: Any = None

    def __enter__(self) -> Self:
        async def enter() -> Any:
            return await self._make().__aenter__()

        self._stream = self._run(enter)
        return self

    def __exit__(self, *error: object) -> None:
        self._run(lambda: self._stream.__aexit__(*error))

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                yield self._run(self._stream.__anext__)
            except StopAsyncIteration:
                return

    @property
    def result(self) -> Any:
        return self._stream.result


class Runner:
    """A loop in a thread of its own, and how others have it do something."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn, name="exthost loop", daemon=True)
        self._thread.start()

    def _turn(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def __call__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Have the loop's thread run this, and wait for it."""
        if threading.current_thread() is self._thread:
            raise UsageError("X1314", "a blocking call from the host's own loop would never return")

        async def run() -> T:
            return await make()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_LOOP_SECONDS)
        self.loop.close()


class SyncHost:
    """The host, blocking: `with exthost.SyncHost.from_config(…) as host: host.call_tool(…)`."""

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        self._config = config
        self._settings = settings
        self._run: Runner | None = None
        self._host: Host | None = None
        self._wrapped: dict[str, SyncExtension] = {}

    @classmethod
    def from_config(cls, source: str | Path | Mapping[str, Any], **settings: Any) -> Self:
        """A host for this config: the path of a file, or the same as a dict."""
        return cls(read_config(source), **settings)

    def __enter__(self) -> Self:
        run = Runner()

        async def enter() -> Host:
            return await Host(self._config, shared=True, **self._settings).__aenter__()

        try:
            self._host = run(enter)
        except BaseException:
            run.close()
            raise
        self._run = run
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every extension, and the loop's thread. Closing twice is fine."""
        run, self._run = self._run, None
        if run is not None:
            try:
                run(self._opened.close)
            finally:
                run.close()
                self._wrapped.clear()

    # -- extensions --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> SyncExtension:
        extension = self._opened[name]
        wrapped = self._wrapped.get(name)
        if wrapped is None or wrapped._extension is not extension:
            wrapped = self._wrapped[name] = SyncExtension(extension, self._runner)
        return wrapped

    def __contains__(self, name: object) -> bool:
        return name in self._opened

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened)

    def __len__(self) -> int:
        return len(self._opened)

    @property
    def extensions(self) -> tuple[SyncExtension, ...]:
        """Every extension, in the order in which they came."""
        return tuple(self[name] for name in self._opened)

    def load(self, entry: Mapping[str, Any] | Spec) -> SyncExtension:
        """Add an extension at run time."""
        return self[self._runner(lambda: self._opened.load(entry)).id]

    def unload(self, name: str) -> None:
        """End an extension and forget it."""
        self._wrapped.pop(name, None)
        self._runner(lambda: self._opened.unload(name))

    def emit(self, kind: str, event: Any = None, **about: Any) -> None:
        """Tell what happens in your own program; see `Host.emit`."""

        async def tell() -> None:
            self._opened.emit(kind, event, **about)

        self._runner(tell)

    # -- tools -------------------------------------------------------------------------------

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """What can be called right now: registered name → tool."""
        return self._opened.tools

    @property
    def events(self) -> Bus:
        """Everything that happens. Listeners are called on the loop's thread."""
        return self._opened.events

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = NONE,
    ) -> Any:
        """Call a tool by any of its names; see `Host.call_tool`."""
        found = self._opened.tools.get(name)
        if found is None:
            found = self._runner(lambda: self._opened.find_tool(name))
        return self[found.extension].call_tool(
            found.tool, arguments, timeout=timeout, context=context
        )

    def run_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = NONE,
    ) -> Any:
        """Call a tool between its hooks; see `Host.run_tool`."""
        return self._runner(
            lambda: self._opened.run_tool(name, arguments, timeout=timeout, context=context)
        )

    def complete(self, model: str, messages: Sequence[Any], **options: Any) -> Any:
        """Have a model answer, and run the tools that it asks for; see `Host.complete`."""
        return self._runner(lambda: self._opened.complete(model, messages, **options))

    def configure(self, extension: str, key: str, value: str) -> None:
        """Keep a setting for an extension; see `Host.configure`."""
        self._runner(lambda: self._opened.configure(extension, key, value))

    @property
    def _opened(self) -> Host:
        if self._host is None:
            raise UsageError("X1315", "this host is not open", help="use it with `with`")
        return self._host

    @property
    def _runner(self) -> Runner:
        if self._run is None:
            raise UsageError("X1315", "this host is not open", help="use it with `with`")
        return self._run
