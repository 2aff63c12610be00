"""The process of a session: its exit, the end of its pipes, and how the host ends it.

The exit and the end of a pipe are seen in either order, or one without the other. The first of them
starts a short grace period for the other; then `on_end` is called, once. The shutdown steps run
here. After `release` there is no zombie and no open descriptor.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from exthost.events import Bus, Exited
from exthost.messages import Notification, Request
from exthost.process.child_process import ChildProcess
from exthost.process.shutdown import KILL_SECONDS, run_steps
from exthost.process.stdin_writer import StdinWriter
from exthost.session.diagnostics import Diagnostics
from exthost.session.failures import Died, EndCause
from exthost.shutdown_steps import ShutdownStep, Write

__all__ = [
    "KILL_SECONDS",
    "LAST_OUTPUT_SECONDS",
    "EXIT_SECONDS",
    "ProcessLifetime",
    "Send",
    "scale_steps",
]

_log = logging.getLogger("exthost.session")

# After the exit: how long to wait for the child's last output from a pipe that another process
# still has open.
LAST_OUTPUT_SECONDS = 0.25

# After the end of a pipe: how long to wait for the exit. A process that exits closes its pipes
# first, and on a busy machine the rest may take a while.
EXIT_SECONDS = 2.0

Send = Callable[[Request | Notification], "asyncio.Future[None] | None"]
"""Sends a message; the future, if there is one, is done when the reply or an error came."""


def scale_steps(steps: tuple[ShutdownStep, ...], seconds: float | None) -> tuple[ShutdownStep, ...]:
    """Return shutdown steps that wait this long in all, each its share; None: as they are."""
    total = sum(step.wait for step in steps if not isinstance(step, Write))
    if seconds is None or not total:
        return steps
    factor = seconds / total
    return tuple(
        step if isinstance(step, Write) else step._replace(wait=step.wait * factor)
        for step in steps
    )


class ProcessLifetime:
    """One process, from its spawn to its end."""

    __slots__ = (
        "_bus",
        "_diagnostics",
        "_grace",
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
        self.exited: asyncio.Future[None] = loop.create_future()
        self.released: asyncio.Future[None] = loop.create_future()
        self._writer = writer
        self._diagnostics = diagnostics
        self._bus = bus
        self._loop = loop
        self._on_end = on_end
        self._on_exit = on_exit
        self._grace: asyncio.TimerHandle | None = None
        loop.add_reader(child.exit_fd, self._exit_seen)

    def _exit_seen(self) -> None:
        """Handle the exit of the process; its last output may still be in the pipes."""
        self._loop.remove_reader(self.child.exit_fd)
        status = self.child.see_exit()
        if Exited in self._bus.kinds:
            self._diagnostics.drain_stderr()  # its last lines come before the news of its end
            self._diagnostics.flush()
            pid, node = self.child.pid, self.child.node
            self._bus.publish(Exited(self._diagnostics.extension, pid, str(status), node))
        if not self.exited.done():
            self.exited.set_result(None)
        self._over_within(LAST_OUTPUT_SECONDS, Died())
        self._on_exit()

    def pipe_closed(self, cause: EndCause) -> None:
        """Handle the end of a pipe: the session ends with the exit, or after the grace period."""
        if not self.exited.done():
            self._over_within(EXIT_SECONDS, cause)

    def _over_within(self, seconds: float, cause: EndCause) -> None:
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(seconds, self._on_end, cause)

    def release_after_exit(self) -> None:
        """Release the process as soon as it has exited: the session is over."""
        if self._grace is not None:
            self._grace.cancel()
        if self.exited.done():
            self.release()
        else:
            self.exited.add_done_callback(lambda _: self.release())

    def release(self) -> None:
        if self.released.done():
            return
        self._diagnostics.close()
        self._writer.close()
        self.child.close_outputs()
        self.child.reap()
        self.released.set_result(None)

    async def shut_down(self, steps: Sequence[ShutdownStep], send: Send) -> None:
        """Run the shutdown steps. Returns when the process has exited, or cannot be ended."""
        self._send = send
        if not await run_steps(steps, self):
            _log.error("%s: its process survived SIGKILL", self._diagnostics.extension)

    # The methods that the shutdown steps use.

    async def say(self, message: Request | Notification, wait: float) -> None:
        answered = self._send(message)
        if answered is not None:
            await asyncio.wait([answered, self.exited], timeout=wait, return_when="FIRST_COMPLETED")
            answered.cancel()

    def write_raw(self, data: bytes) -> None:
        self._writer.write_locked(data)

    def close_stdin(self) -> None:
        self._writer.close()

    def terminate(self) -> None:
        self.child.terminate()

    def kill(self) -> None:
        self.child.kill()

    async def exits_within(self, seconds: float) -> bool:
        if not self.exited.done() and seconds > 0:
            await asyncio.wait([self.exited], timeout=seconds)
        return self.exited.done()
