"""The blocking face: the same names as `Host`, for programs without a loop. Any thread may call.

A loop runs in one thread of its own. A call does not go through it: the caller's thread writes
the request itself and sleeps on a lock; the loop's thread reads the reply and wakes it. That is
three times faster than handing a coroutine over for each call. Everything else (streams, facets,
hooks, loading, restarting) is handed over by one mechanism, `blocking.py`: what `Host` and
`Extension` have is there under its own name, and is not written down a second time.
"""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from exthost.blocking import LOOP_SECONDS, Blocking, Runner, mirror, not_open
from exthost.config import Config
from exthost.discovery.configfile import read_config
from exthost.errors import CallFailed, UsageError
from exthost.extension.call_queue import CallQueue
from exthost.extension.extension import Extension
from exthost.host import Host
from exthost.model import EMPTY_MAPPING
from exthost.session.call import Call
from exthost.session.replies import ReplyHandler
from exthost.tool_result import ToolResult


class BlockingCall(Call):
    """A call whose caller's thread sleeps on a lock: the cheapest thing to sleep on."""

    def __init__(
        self, method: str, params: Any, on_reply: ReplyHandler, timeout: float, queue: CallQueue
    ) -> None:
        self.method = method
        self.params = params
        self.on_reply = on_reply
        self.timeout = timeout
        self.deadline = queue.now() + timeout
        self._queue = queue
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: Any = None
        self._error: BaseException | None = None

    def deliver(self, value: Any) -> None:
        self._value = value
        self._lock.release()

    def reject(self, error: BaseException) -> None:
        self._error = error
        self._lock.release()

    def wait(self) -> Any:
        """Sleep until the call ends; at its deadline, have it ended."""
        queue = self._queue
        try:
            while not self._lock.acquire(timeout=max(0.0, self.deadline - queue.now())):
                if self.deadline > queue.now():
                    continue  # progress has extended it
                queue.loop.call_soon_threadsafe(queue.expire, self)
                if not self._lock.acquire(timeout=LOOP_SECONDS):
                    raise UsageError("X1313", "the host's loop does not answer: it is blocked")
                break
        except KeyboardInterrupt:
            queue.loop.call_soon_threadsafe(queue.cancel, self)
            raise
        if self._error is not None:
            raise self._error
        return self._value


class SyncExtension:
    """One extension, blocking. The same names as `Extension`, facets included."""

    def __init__(self, extension: Extension, run: Runner) -> None:
        self.target = extension
        self.runner = run
        for name in extension.dialect.facets:
            self.__dict__[name] = Blocking(getattr(extension, name), run)

    def __repr__(self) -> str:
        return repr(self.target).replace("<Extension", "<SyncExtension")

    def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Ask in the dialect's own words, and wait for the answer."""
        extension = self.target
        queue = extension.queue
        call = BlockingCall(*extension.calls.factory.of_method(method, params, timeout), queue)
        queue.submit_threadsafe(call)
        return call.wait()

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        check: bool = True,
    ) -> ToolResult:
        """Call one of its tools by the tool's own name; see `Extension.call_tool`."""
        extension = self.target
        if not extension.knows(name):  # not started yet, or a mistake: the long way round
            return self.runner(
                lambda: extension.call_tool(
                    name, arguments, timeout=timeout, context=context, check=check
                )
            )
        queue = extension.queue
        calls = extension.calls
        parts = calls.factory.of_tool(calls.tool(name), arguments, timeout, context)
        call = BlockingCall(*parts, queue)
        call.context = context
        queue.submit_threadsafe(call)
        try:
            raw = call.wait()
        except CallFailed as error:
            if check:
                raise
            return ToolResult.from_error_reply(error)
        result = ToolResult(raw, extension.dialect.result_reader)
        if check and result.is_error:

            async def tool_failed() -> CallFailed:  # the loop's thread alone knows the evidence
                return extension.calls.tool_failed(result, name)

            raise self.runner(tool_failed)
        return result

    if TYPE_CHECKING:  # what `mirror` adds, and the facets of the dialect

        def __getattr__(self, name: str) -> Any: ...


class SyncHost:
    """The host, blocking: `with exthost.SyncHost.from_config(…) as host: host.call_tool(…)`.

    The same names as `Host`. Listeners on `events` are called on the loop's thread.
    """

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
        run = Runner({Extension: SyncExtension})

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
        if run is not None and not run.copied:
            try:
                run(self.target.close)
            finally:
                run.close()
                self._wrapped.clear()

    # -- extensions --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> SyncExtension:
        extension = self.target[name]
        wrapped = self._wrapped.get(name)
        if wrapped is None or wrapped.target is not extension:
            wrapped = self._wrapped[name] = SyncExtension(extension, self.runner)
        return wrapped

    def __contains__(self, name: object) -> bool:
        return name in self.target

    def __iter__(self) -> Iterator[str]:
        return iter(self.target)

    def __len__(self) -> int:
        return len(self.target)

    # -- tools -------------------------------------------------------------------------------

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        context: Mapping[str, Any] = EMPTY_MAPPING,
        check: bool = True,
    ) -> ToolResult:
        """Call a tool by any of its names; see `Host.call_tool`."""
        found = self.target.registry.get(name)
        if found is None:
            found = self.runner(lambda: self.target.find_tool(name))
        return self[found.extension].call_tool(
            found.tool, arguments, timeout=timeout, context=context, check=check
        )

    # -- what the mirror looks through ---------------------------------------------------------

    @property
    def target(self) -> Host:
        """The asynchronous host: for its loop's thread alone."""
        if self._host is None:
            raise not_open()
        return self._host

    @property
    def runner(self) -> Runner:
        if self._run is None:
            raise not_open()
        return self._run

    if TYPE_CHECKING:  # what `mirror` adds

        def __getattr__(self, name: str) -> Any: ...


mirror(SyncExtension, Extension, "spec", "dialect")
mirror(SyncHost, Host, "config", "events", "diagnostics", "hooks")
