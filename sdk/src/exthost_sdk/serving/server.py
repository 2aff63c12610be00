"""Starts, cancels and waits for the calls of one connection. A call runs one handler, a function
that the author of the extension has registered.

Everything in this module runs on the thread that reads the input, except `_run_in_thread` and what
it calls: those may run on a worker thread. The writer is thread-safe.
"""

import inspect
import sys
import threading
import time
from collections.abc import Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any

from exthost_sdk.errors import CallCancelled, ToolError
from exthost_sdk.serving.call import (
    EMPTY_MAPPING,
    CallEndpoint,
    Failure,
    HandlerCall,
    ItemWriter,
    Reply,
    encode_failure,
)
from exthost_sdk.serving.host_requests import HostRequests
from exthost_sdk.serving.thread_pool import ThreadPool
from exthost_sdk.types.function import Execution, Function
from exthost_sdk.wire.writer import Writer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task


class Server:
    """The running calls of one connection, and what they share: writer, threads, requests.

    The key of a call, by which the host cancels it, is usually the id of its request. `thread` is
    the id of the thread that reads the input.
    """

    endpoint: CallEndpoint  # set by the code that creates the server and the endpoint

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
        # Not a dict by the keys: the host can use the id of a running call again.
        self._calls: set[HandlerCall] = set()
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
        meta: Mapping[str, Any] = EMPTY_MAPPING,
        token: Any = None,
        on_item: ItemWriter | None = None,
        collects: bool = True,
    ) -> None:
        """Run a handler with bound arguments. Its result or its error is sent when it ends. The
        parameters are those of `HandlerCall`."""
        call = HandlerCall(
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
        self._calls.add(call)
        if function.execution is Execution.ASYNC:
            if self._loop is None:
                raise RuntimeError("an asynchronous handler was registered after the start")
            task = call.task = self._create_task(self._run_async(call))
            if sys.version_info < (3, 12):  # the task starts later, and may be cancelled before
                task.add_done_callback(lambda task: self._end_unstarted(call, task))
        elif function.execution is Execution.THREAD:
            self._pool.submit(lambda: self._run_in_thread(call))
        else:
            self._run_in_thread(call)

    def start_items(
        self,
        key: Any,
        function: Function,
        items: Generator[Any, Any, Any],
        reply: Reply,
        failure: Failure,
        *,
        meta: Mapping[str, Any] = EMPTY_MAPPING,
        token: Any = None,
        on_item: ItemWriter | None = None,
    ) -> None:
        """Send the items of a generator that a plain function has returned. It runs in a worker
        thread, as a generator function does."""
        call = HandlerCall(
            self, key, function, {}, reply, failure, meta=meta, token=token, on_item=on_item
        )
        self._calls.add(call)
        self._pool.submit(lambda: self._run_in_thread(call, items))

    def _create_task(self, work: Coroutine[Any, Any, None]) -> "Task[None]":
        """Return a task for the coroutine. From Python 3.12 on it is started eagerly, so that a
        handler which does not wait for anything needs no further event-loop iteration."""
        if sys.version_info >= (3, 12):
            from asyncio import Task

            return Task(work, loop=self._loop, eager_start=True)
        assert self._loop is not None
        return self._loop.create_task(work)

    def cancel(self, key: Any) -> None:
        """Cancel a call. An unknown call, or one that has ended, is ignored."""
        for call in tuple(self._calls):
            if call.key == key:
                call.cancel()

    # -- running -----------------------------------------------------------------------------

    def _run_in_thread(
        self, call: HandlerCall, items: Generator[Any, Any, Any] | None = None
    ) -> None:
        """Run the handler of a call, or only the generator that it has returned."""
        frame: bytes | None = None
        try:
            if not call.is_cancelled:
                value = call.function.handler(**call.arguments) if items is None else items
                if inspect.isgenerator(value):
                    value = _drain(call, value)
                frame = call.reply(call.key, call.function, value)
        except BaseException as error:
            if is_interrupt(error):
                raise
            frame = self._encode_failure(call, error)
        finally:
            self._end(call, frame)

    async def _run_async(self, call: HandlerCall) -> None:
        """Run the handler of a call in a task of the event loop."""
        import asyncio  # lazily imported, since that takes longer than importing the SDK

        frame: bytes | None = None
        is_handed_over = False
        try:
            value = call.function.handler(**call.arguments)
            if not inspect.isasyncgen(value):
                value = await value
            # A coroutine function, too, may return a generator.
            if inspect.isasyncgen(value):
                value = await _drain_async(call, value)
            elif inspect.isgenerator(value):
                # It may block the loop, so a worker thread runs it.
                is_handed_over = True
                self._pool.submit(lambda: self._run_in_thread(call, value))
                return
            frame = call.reply(call.key, call.function, value)
        except asyncio.CancelledError:
            # A call that the host or the shutdown cancelled gets no reply. Otherwise the handler
            # cancelled itself, and the host still waits for a reply.
            if not call.is_cancelled:
                frame = self._encode_failure(call, ToolError("the call was cancelled"))
        except BaseException as error:
            frame = self._encode_failure(call, error)
        finally:
            if not is_handed_over:
                self._end(call, frame)

    def _end_unstarted(self, call: HandlerCall, task: "Task[None]") -> None:
        """End a call whose task was cancelled before its first step. Later, `_run_async` catches
        the cancellation."""
        if task.cancelled():
            self._end(call, None)

    def _encode_failure(self, call: HandlerCall, error: BaseException) -> bytes | None:
        """Return the frame of the error; None if the call was cancelled, which needs no reply."""
        if call.is_cancelled:
            return None
        return encode_failure(call.key, call.function, error, call.failure)

    def _end(self, call: HandlerCall, frame: bytes | None) -> None:
        call.is_over = True
        if frame is not None and not call.is_cancelled:
            self.writer.send(frame)
        # After the reply: when the server is idle, the extension may end.
        self._calls.discard(call)
        with self._ended:
            self._ended.notify_all()

    # -- shutdown ----------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not self._calls

    def cancel_all(self) -> None:
        """Cancel every call, and fail every request to the host."""
        self.requests.fail("the host has gone")
        for call in tuple(self._calls):
            call.cancel()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait at most this long until no call is running. Return whether none is running then."""
        deadline = time.monotonic() + seconds
        with self._ended:
            return self._ended.wait_for(lambda: self.is_idle, max(0, deadline - time.monotonic()))

    async def wait_until_idle_async(self, seconds: float) -> bool:
        """Do the same as `wait_until_idle`, on an event loop."""
        import asyncio

        tasks = [call.task for call in self._calls if call.task is not None]
        deadline = time.monotonic() + seconds
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        # Worker threads do not wake the event loop when a call ends. Polling is good enough here,
        # since it happens only during the shutdown.
        while not self.is_idle and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return self.is_idle

    def close(self, seconds: float = 0.0) -> None:
        """End the idle worker threads, and wait at most `seconds` for all threads."""
        self._pool.close(seconds)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception of a synchronous handler ends the extension: Ctrl+C, which Python
    raises in the main thread. Any other becomes an error reply, also SystemExit."""
    is_main_thread = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and is_main_thread


def _drain(call: HandlerCall, items: Any) -> Any:
    """Send the items that a handler's generator yields, as they come. Return the value that the
    generator returned, if there is one, else the list of the items; None if the call does not
    collect them."""
    collected: list[Any] = []
    try:
        while True:
            try:
                item = next(items)
            except StopIteration as end:
                return end.value if end.value is not None or not call.collects else collected
            if call.is_cancelled:
                raise CallCancelled
            if call.collects:
                collected.append(item)
            call.send_item(item)
    finally:
        items.close()


async def _drain_async(call: HandlerCall, items: Any) -> Any:
    """Do the same as `_drain` for an asynchronous generator, which cannot return a value. A
    cancelled call ends here by the CancelledError of its task."""
    collected: list[Any] = []
    try:
        async for item in items:
            if call.collects:
                collected.append(item)
            await call.send_item(item)
    finally:
        await items.aclose()
    return collected if call.collects else None
