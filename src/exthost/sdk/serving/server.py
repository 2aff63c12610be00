"""The calls of one connection: started, cancelled, and waited for at the end.

Everything here runs on the thread that reads, save `_run_in_thread`, which runs on a worker. The
writer takes frames from both.
"""

import inspect
import os
import sys
import threading
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from exthost.sdk.errors import Cancelled, InputRequired, ToolError
from exthost.sdk.serving.call import NOTHING, Call, CallEndpoint, Failure, ItemWriter, Reply
from exthost.sdk.serving.host_requests import HostRequests
from exthost.sdk.serving.thread_pool import ThreadPool
from exthost.sdk.types.function import Execution, Function
from exthost.sdk.wire.writer import Writer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

# What a handler may end with. One that calls sys.exit fails, and does not end the extension.
FAILURES = (Exception, SystemExit, InputRequired)

_SDK_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120 - slow to import


def report(error: BaseException) -> None:
    """Write the traceback of a handler's exception to stderr, unless it was raised on purpose."""
    if not isinstance(error, ToolError | Cancelled | InputRequired):
        import traceback  # seldom needed

        trace = error.__traceback__
        while trace is not None and _is_of_sdk(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        # An error of the SDK itself is shown whole.
        shown = trace or error.__traceback__
        traceback.print_exception(type(error), error, shown, file=sys.stderr)


def _is_of_sdk(path: str) -> bool:
    return path.startswith(_SDK_FOLDER)


class Server:
    """One connection to a host, as the endpoint and the calls see it."""

    endpoint: CallEndpoint  # set by the code that creates both

    def __init__(
        self,
        writer: Writer,
        *,
        loop: "AbstractEventLoop | None" = None,
        max_threads: int = 128,
    ) -> None:
        self.writer = writer
        self.requests = HostRequests()
        self.thread = threading.get_ident()
        self._is_stopping = False
        self._loop = loop
        self._pool = ThreadPool(max_threads)
        self._calls: dict[Any, Call] = {}
        self._ended = threading.Condition()

    def stop(self) -> None:
        """Stop reading after the current frame."""
        self._is_stopping = True

    def is_stopping(self) -> bool:
        return self._is_stopping

    def start(
        self,
        key: Any,
        function: Function,
        arguments: dict[str, Any],
        reply: Reply,
        failure: Failure,
        *,
        meta: Mapping[str, Any] = NOTHING,
        token: Any = None,
        on_item: ItemWriter | None = None,
        collects: bool = True,
    ) -> None:
        """Run a handler with bound arguments; its result or its error is sent when it has one."""
        call = Call(
            self,
            key,
            function,
            arguments,
            reply,
            failure,
            meta=meta,
            token=token,
            on_item=on_item,
            collects=collects,
        )
        self._calls[key] = call
        if function.execution is Execution.ASYNC:
            if self._loop is None:
                raise RuntimeError("an asynchronous handler was registered after the start")
            call.task = self._create_task(self._run_async(call))
        elif function.execution is Execution.THREAD:
            self._pool.submit(lambda: self._run_in_thread(call))
        else:
            self._run_in_thread(call)

    def _create_task(self, work: Coroutine[Any, Any, None]) -> "Task[None]":
        """Return a task that has begun already, where Python can: a handler that does not wait for
        anything then needs no further turn of the loop."""
        if sys.version_info >= (3, 12):
            from asyncio import Task

            return Task(work, loop=self._loop, eager_start=True)
        assert self._loop is not None
        return self._loop.create_task(work)

    def cancel(self, key: Any) -> None:
        """Cancel a call. An unknown call, or one that has ended, is ignored."""
        call = self._calls.get(key)
        if call is not None:
            call.cancel()

    # -- running -----------------------------------------------------------------------------

    def _run_in_thread(self, call: Call) -> None:
        frame: bytes | None = None
        try:
            if not call.is_cancelled:
                value = call.function.handler(**call.arguments)
                if inspect.isgenerator(value):
                    value = _drain(call, value)
                frame = call.reply(call.key, call.function, value)
        except FAILURES as error:
            frame = self._failed(call, error)
        finally:
            self._end(call, frame)

    async def _run_async(self, call: Call) -> None:
        import asyncio  # only here: it takes longer to import than the SDK

        frame: bytes | None = None
        try:
            value = call.function.handler(**call.arguments)
            if inspect.isasyncgen(value):
                value = await _drain_async(call, value)
            else:
                value = await value
            frame = call.reply(call.key, call.function, value)
        except asyncio.CancelledError:
            # Cancelled by the host, or at the end; if the handler cancelled itself, say so.
            if not call.is_cancelled:
                frame = self._failed(call, ToolError("the call was cancelled"))
        except FAILURES as error:
            frame = self._failed(call, error)
        finally:
            self._end(call, frame)

    def _failed(self, call: Call, error: BaseException) -> bytes | None:
        if call.is_cancelled:
            return None
        report(error)
        return call.failure(call.key, call.function, error)

    def _end(self, call: Call, frame: bytes | None) -> None:
        call.is_over = True
        if self._calls.get(call.key) is call:
            del self._calls[call.key]
        if frame is not None and not call.is_cancelled:
            self.writer.send(frame)
        with self._ended:
            self._ended.notify_all()

    # -- the end -----------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not self._calls

    def cancel_all(self) -> None:
        """Cancel every call, and fail every request to the host."""
        self.requests.fail("the host has gone")
        for call in tuple(self._calls.values()):
            call.cancel()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait for the calls under way; return whether all have ended."""
        deadline = time.monotonic() + seconds
        with self._ended:
            return self._ended.wait_for(lambda: self.is_idle, max(0, deadline - time.monotonic()))

    async def wait_until_idle_async(self, seconds: float) -> bool:
        """The same on the loop."""
        import asyncio

        tasks = [call.task for call in self._calls.values() if call.task is not None]
        deadline = time.monotonic() + seconds
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        # Worker threads do not wake the loop when they end; at the end a poll is good enough.
        while not self.is_idle and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return self.is_idle

    def close(self, seconds: float = 0.0) -> None:
        """Let the worker threads end; `seconds` is how long to wait for each."""
        self._pool.close(seconds)


def _drain(call: Call, items: Any) -> Any:
    """Send the items of a generator; return the list of them, or what the generator returned."""
    collected: list[Any] = []
    try:
        while True:
            try:
                item = next(items)
            except StopIteration as end:
                return end.value if end.value is not None or not call.collects else collected
            if call.is_cancelled:
                raise Cancelled
            if call.collects:
                collected.append(item)
            call.send_item(item)
    finally:
        items.close()


async def _drain_async(call: Call, items: Any) -> Any:
    collected: list[Any] = []
    try:
        async for item in items:
            if call.collects:
                collected.append(item)
            await call.send_item(item)
    finally:
        await items.aclose()
    return collected if call.collects else None
