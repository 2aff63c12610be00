"""Watches the process of a session (the child) for its exit and the end of its pipes, and shuts it
down.

The exit and the end of a pipe come in either order, or only one of them comes. The first of them
starts a short grace period, in which the other may follow; then `on_end` is called. The shutdown
steps of the dialect run here. After `release` there is no zombie process and no open file
descriptor.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from exthost.events import Bus, Exited
from exthost.model.messages import Notification, Request
from exthost.model.shutdown_steps import ShutdownStep, Write, total_seconds
from exthost.process.child_process import ChildProcess
from exthost.process.shutdown import run_steps
from exthost.process.stdin_writer import StdinWriter
from exthost.session.diagnostics import Diagnostics
from exthost.session.failures import Died, EndCause
from exthost.session.latch import Latch

_log = logging.getLogger("exthost.session")

# How long to wait after the exit for the last output, if another process still has the pipe open.
LAST_OUTPUT_SECONDS = 0.25

# How long to wait for the exit after the end of a pipe. A process that exits closes its pipes
# first, and on a busy machine the exit may take a while.
EXIT_SECONDS = 2.0

Send = Callable[[Request | Notification], "asyncio.Future[None] | None"]
"""Sends a message. For a request, returns a future that is done when the reply or an error has
arrived."""


def scale_steps(steps: tuple[ShutdownStep, ...], seconds: float | None) -> tuple[ShutdownStep, ...]:
    """Return the steps with their waiting times scaled so that the sum is `seconds`; None leaves
    them unchanged."""
    total = total_seconds(steps)
    if seconds is None or not total:
        return steps
    factor = seconds / total
    return tuple(
        step if isinstance(step, Write) else step._replace(wait=step.wait * factor)
        for step in steps
    )


class ProcessLifetime:
    """One process, from its spawn to its end.

    child     the process
    exited    is set when the process has exited
    released  is set when the process is reaped and its pipes are closed
    """

    __slots__ = (
        "_bus",
        "_diagnostics",
        "_grace_timer",
        "_loop",
        "_on_end",
        "_on_exit",
        "_send",
        "_writer",
        "child",
        "exited",
        "released",
    )

    def __init__(
        self,
        child: ChildProcess,
        writer: StdinWriter,
        diagnostics: Diagnostics,
        bus: Bus,
        loop: asyncio.AbstractEventLoop,
        *,
        on_end: Callable[[EndCause], None],
        on_exit: Callable[[], None],
    ) -> None:
        self.child = child
        self.exited = Latch(loop)
        self.released = Latch(loop)
        self._writer = writer
        self._diagnostics = diagnostics
        self._bus = bus
        self._loop = loop
        self._on_end = on_end
        self._on_exit = on_exit
        self._grace_timer: asyncio.TimerHandle | None = None
        child.watch_exit(loop, self._on_exit_seen)

    def _on_exit_seen(self) -> None:
        """Handle the exit of the process; its last output may still be in the pipes."""
        self.child.unwatch_exit(self._loop)
        status = self.child.poll_exit()
        if Exited in self._bus.listeners:
            self._diagnostics.drain_stderr()  # its last lines must be published before its exit
            self._diagnostics.flush()
            pid, node = self.child.pid, self.child.node
            self._bus.publish(Exited(self._diagnostics.extension, pid, str(status), node))
        self.exited.set()
        self._end_after(LAST_OUTPUT_SECONDS, Died())
        self._on_exit()

    def pipe_closed(self, cause: EndCause) -> None:
        """Handle the end of a pipe: the session ends with the exit, or after the grace period."""
        if not self.exited.is_set:
            self._end_after(EXIT_SECONDS, cause)

    def _end_after(self, seconds: float, cause: EndCause) -> None:
        if self._grace_timer is not None:
            self._grace_timer.cancel()
        self._grace_timer = self._loop.call_later(seconds, self._on_end, cause)

    def release_after_exit(self) -> None:
        """Release the process as soon as it has exited, because the session has ended."""
        if self._grace_timer is not None:
            self._grace_timer.cancel()
        if self.exited.is_set:
            self.release()
        else:
            self.exited.future().add_done_callback(lambda _: self.release())

    def release(self) -> None:
        """Reap the process and close its pipes."""
        if self.released.is_set:
            return
        self._diagnostics.close()
        self._writer.close()
        self.child.close_outputs()
        self.child.reap()
        self.released.set()

    async def shut_down(self, steps: Sequence[ShutdownStep], send: Send) -> None:
        """Run the shutdown steps. Returns when the process has exited, or cannot be ended."""
        self._send = send
        if not await run_steps(steps, self):
            _log.error("%s: its process survived SIGKILL", self._diagnostics.extension)

    # The methods by which `run_steps` performs the shutdown steps.

    async def send_message(self, message: Request | Notification, wait: float) -> None:
        reply_future = self._send(message)
        if reply_future is not None:
            await asyncio.wait(
                [reply_future, self.exited.future()], timeout=wait, return_when="FIRST_COMPLETED"
            )
            reply_future.cancel()

    def write_raw(self, data: bytes) -> None:
        self._writer.write_locked(data)

    def close_stdin(self) -> None:
        self._writer.close()

    def terminate(self) -> None:
        self.child.terminate()

    def kill(self) -> None:
        self.child.kill()

    async def exits_within(self, seconds: float) -> bool:
        if not self.exited.is_set and seconds > 0:
            await asyncio.wait([self.exited.future()], timeout=seconds)
        return self.exited.is_set
