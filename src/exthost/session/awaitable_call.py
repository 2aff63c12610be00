"""A call that a task awaits directly, without a future between the two.

An `asyncio.Future` wakes its task through the loop's queue. That costs one more object and one more
event-loop iteration, which polls every file descriptor. This class implements the part of the
future protocol that a task needs (`asyncio.isfuture` recognises it), so the callback that reads a
reply resumes the task directly. docs/architecture.md has the measurements with and without.

One task awaits a call, once, on the loop's thread. Every other use needs a real future
(`FutureCall`).
"""

import asyncio
from _thread import LockType
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Protocol, TypeAlias, cast

from exthost.session.call import Call
from exthost.session.replies import ReplyHandler

Done: TypeAlias = "asyncio.Future[None]"
"""A future of asyncio that has a result."""


class _NoLoop:
    """Stands for the loop of a future that no task waits for."""

    def get_debug(self) -> bool:
        return False


# A task calls only `result()` of the object that resumes it, to find out whether there is an error.
# It does that faster with a future of asyncio than with a call. So this future resumes every task
# whose call succeeded.
DONE: Done = asyncio.Future(loop=cast(asyncio.AbstractEventLoop, _NoLoop()))
DONE.set_result(None)


class WakeBatch:
    """The calls of one queue that have ended and whose callers are not resumed yet.

    ended    calls that tasks await
    locks    locks that callers of the blocking API, on other threads, wait for
    is_held  True while a read is handled: no caller is resumed until the reader calls `wake`
    in_task  True while a task itself reads: the loop resumes callers later, because a task cannot
             run inside another one
    """

    __slots__ = ("_loop", "ended", "in_task", "is_held", "locks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ended: list[AwaitableCall] = []
        self.locks: tuple[LockType, ...] = ()
        self.is_held = False
        self.in_task = False

    def schedule(self) -> None:
        """Call `wake` in the loop's next iteration, because no reader will do it. `deliver` uses
        this for the first call that ends; calls that end later in the iteration are resumed with
        it."""
        self._loop.call_soon(self.wake)

    def wake(self) -> None:
        """Resume the callers. Must run in a callback of the loop, unless `in_task` is set."""
        if self.locks:
            self._wake_threads()
        if self.in_task:
            self._loop.call_soon(self.wake)
            return
        calls, self.ended = self.ended, []
        done = DONE
        try:
            for call in calls:
                context = call.task_context
                if context is not None:  # None: the call ended before it was awaited
                    context.run(call.resume_task, done if call.error is None else call)
        except BaseException:  # a KeyboardInterrupt in one task must not keep the others waiting
            self.is_held = False  # the reader does not reach the line that would clear it
            self.ended[:0] = calls[calls.index(call) + 1 :]  # the calls not resumed yet
            self._loop.call_soon(self.wake)
            raise

    def _wake_threads(self) -> None:
        locks, self.locks = self.locks, ()
        for lock in locks:
            lock.release()


class Queue(Protocol):
    """The part of the call queue that an awaitable call uses."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    wakes: WakeBatch

    def cancel(self, call: Call) -> None: ...


class AwaitableCall(Call):
    """A call that is also the future of its outcome. Use `await call`, then `call.value`.

    value         the result; None until the call has ended, and if it failed
    error         the error that the call ended with; None if it succeeded or has not ended
    resume_task   asyncio's function that runs the next step of the waiting task
    task_context  the context in which `resume_task` must run; None until the call is awaited
    """

    # asyncio recognises a future, and its loop, by these two attributes. The first says that the
    # future was awaited; a call is awaited only once, so it can always be true.
    _asyncio_future_blocking = True
    _loop: asyncio.AbstractEventLoop

    value: Any = None
    error: BaseException | None = None
    resume_task: Callable[["AwaitableCall | Done"], object]
    task_context: Context | None = None

    def __init__(
        self, method: str, params: Any, reply_handler: ReplyHandler, timeout: float, queue: Queue
    ) -> None:
        self.method = method
        self.params = params
        self.reply_handler = reply_handler
        self.timeout = timeout
        self.started_at = now = queue.now()
        self.deadline = now + timeout
        self._queue = queue
        self._loop = queue.loop
        # Every call reads these; in the instance they are found faster than in the class.
        self.ended = False
        self.error = None
        self.has_error_result = False
        self.trace_number = None

    # -- from the call queue, which has set `ended` ------------------------------------------------

    def deliver(self, value: Any) -> None:
        self.value = value
        wakes = self._queue.wakes
        wakes.ended.append(self)
        if not wakes.is_held and len(wakes.ended) == 1:
            wakes.schedule()

    def reject(self, error: BaseException) -> None:
        self.error = error
        self.deliver(None)

    # -- from the task -------------------------------------------------------------------------

    def __await__(self) -> Generator["AwaitableCall", None, None]:
        """Return when there is a `value`; raise the error that the call ended with."""
        if self.ended:
            if asyncio.get_running_loop() is not self._loop:
                # asyncio raises the same for a call that has not ended.
                raise RuntimeError("a call of another loop")
            self.result()
            return iter(())  # type: ignore[return-value]
        # A task needs only an iterator, and a tuple's iterator costs no Python frame.
        return iter((self,))  # type: ignore[return-value]

    def add_done_callback(
        self, callback: Callable[["AwaitableCall | Done"], object], *, context: Context
    ) -> None:
        self.resume_task = callback
        self.task_context = context

    def result(self) -> Any:
        """Return the value, or raise the error that the call ended with."""
        if self.error is not None:
            raise self.error
        return self.value

    def cancel(self, msg: object = None) -> bool:
        """End the call because its task is being cancelled; the task gets a CancelledError."""
        if self.ended:
            return False
        self._queue.cancel(self)
        self.reject(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True
