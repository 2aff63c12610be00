"""A blocking call, without a coroutine on the event loop.

The caller's thread writes the request. If the event loop has lent the pipe to this thread
(`session/blocking_reader.py`), the thread also reads the reply. Otherwise it sleeps on a lock until
the thread of the event loop has read the reply. Submitting a coroutine to the thread of the event
loop for each call would take several times as long.
"""

import threading
from _thread import allocate_lock
from collections.abc import Mapping
from typing import Any

from exthost.dialects.meanings import OnProgress
from exthost.errors import CallFailed, ExthostError, UsageError
from exthost.extension.call_queue import CallQueue
from exthost.extension.confirmation import Confirm
from exthost.extension.extension import Extension
from exthost.host.sync.loop_thread import LOOP_SECONDS, LoopThread, not_open_error
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.session.blocking_reader import NO_REPLY
from exthost.session.call import Call
from exthost.session.replies import ReplyHandler
from exthost.tool_result import ToolResult


class BlockingCall(Call):
    """A call whose caller's thread waits for it. If the thread does not read the reply itself, it
    sleeps on a lock, which is cheaper than a condition or an event."""

    def __init__(
        self,
        method: str,
        params: Any,
        reply_handler: ReplyHandler,
        timeout: float,
        queue: CallQueue,
    ) -> None:
        self.method = method
        self.params = params
        self.reply_handler = reply_handler
        self.timeout = timeout
        self.started_at = now = queue.now()
        self.deadline = now + timeout
        self._queue = queue
        self._lock = allocate_lock()
        self._lock.acquire()  # so the next `acquire`, in `wait`, sleeps until `_wake`
        self._value: Any = None
        self._error: BaseException | None = None
        self.ended = False

    @property
    def has_own_timer(self) -> bool:
        # `wait` is the timer of a call of one request. In a call of several requests, each request
        # may have its own, shorter time limit, which the event loop watches.
        return self.reply_handler.is_simple

    def deliver(self, value: Any) -> None:
        """End the call with the value of its reply."""
        self._value = value
        self._wake()

    def reject(self, error: BaseException) -> None:
        """End the call with an error."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        """Release the lock on which the caller's thread sleeps."""
        wakes = self._queue.wakes
        # While the queue handles the replies of one read, it delays (`is_held`) the wake-ups: the
        # locks are collected, and released afterwards. So outcomes are counted before the callers
        # see them.
        if wakes.is_held:
            wakes.locks += (self._lock,)
        else:
            self._lock.release()

    def run(self) -> Any:
        """Submit the call and wait for it, on any thread except that of the loop."""
        queue = self._queue
        try:
            queue.submit_threadsafe(self)
            return self.wait()
        except ExthostError:  # the call could not be sent, or has ended
            if not self.ended and queue.loop.is_closed():
                raise not_open_error() from None  # no restart is possible any more
            raise
        except BaseException as error:
            if not queue.loop.is_closed():
                # A signal handler has raised it: KeyboardInterrupt, SystemExit, a time limit …
                session = self.session  # `cancel` may end it
                queue.loop.call_soon_threadsafe(queue.cancel, self)
                # If the call has ended just now, there is room for waiting calls.
                queue.loop.call_soon_threadsafe(queue.recover, session)
            elif isinstance(error, RuntimeError):
                # `call_soon_threadsafe` raised it: another thread has closed the host.
                raise not_open_error() from None
            raise

    def wait(self) -> Any:
        """Read the reply, or sleep until the call ends. Return its value or raise its error. At its
        deadline, make the event loop end it."""
        queue = self._queue
        seconds = self.deadline - queue.now()
        session = self.session  # another thread may set it to None
        reader = None if session is None else session.blocking_reader
        if reader is not None:  # this thread may read the pipe itself
            value = reader.read_reply(self, seconds)
            if value is not NO_REPLY:
                return value
            seconds = self.deadline - queue.now()
        while not self._lock.acquire(True, min(max(seconds, 0.0), threading.TIMEOUT_MAX)):
            seconds = self.deadline - queue.now()
            if seconds > 0.0:
                continue  # progress has extended the deadline, or a lock cannot wait so long
            queue.loop.call_soon_threadsafe(queue.expire, self)
            if not self._lock.acquire(timeout=LOOP_SECONDS):
                raise UsageError("X1313", "the host's loop does not answer: it is blocked")
            break
        if self._error is not None:
            raise self._error
        if reader is not None:
            reader.count_call()
        return self._value


def call_tool(
    extension: Extension,
    loop_thread: LoopThread,
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
) -> ToolResult:
    """Call a tool of this extension by its own name; see `Extension.call_tool`."""
    loop_thread.refuse_own_thread()
    calls = extension.internals.calls
    if calls.interceptor.is_stale:
        loop_thread.run_plain(calls.interceptor.refresh)
    tool = calls.prepare_announced_tool(name)
    is_plain = tool is not None and on_progress is None and wait
    if tool is None or not (is_plain and hooks and calls.is_unjudged(tool[0])):
        # The other cases run as a coroutine: calls that hooks judge, and rare ones. An unknown tool
        # is one of them: it may be known after a start of the extension, or does not exist.
        return loop_thread.run(
            lambda: calls.call_tool(
                name, arguments, timeout, context, wait, on_progress, check, hooks, confirm
            )
        )
    queue = extension.internals.queue
    method, params, handler, limit = calls.factory.for_tool(tool, arguments, timeout, context)
    call = BlockingCall(method, params, handler, limit, queue)
    call.context, call.tool = context, name
    try:
        raw = call.run()
    except CallFailed as error:
        if check:
            raise
        return ToolResult.from_error_reply(error)
    result = ToolResult(raw, calls.result_reader)
    if check and call.has_error_result:
        # The error contains evidence (exit status, last lines of stderr), which only the thread of
        # the event loop may read.
        raise loop_thread.run_plain(lambda: calls.tool_error(result, name, call))
    return result
