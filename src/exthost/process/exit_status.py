"""How a process ended, and a file descriptor that becomes readable when it ends.

End-of-file on the pipes does not show the exit: a grandchild can keep the pipes open for hours
after the child has exited, and a child can close them and keep running. So the process itself is
watched.

On Linux the descriptor is a pidfd. Where there are no pidfds, a thread waits for the exit without
reaping and then closes a pipe.
"""

import os
import signal
import threading
from typing import NamedTuple


class ExitStatus(NamedTuple):
    """How a process ended.

    code         its exit code; None if a signal killed it, or if that is unknown
    signal       the signal that killed it; None if it exited, or if that is unknown
    not_started  why the program was never executed; "" if it was
    limit        the limit for which the host killed it; "" for none
    lost         why the node (the machine) on which it ran was lost; "" if it was not
    """

    code: int | None
    signal: int | None
    not_started: str = ""
    limit: str = ""
    lost: str = ""

    def __str__(self) -> str:
        if self.not_started:
            return f"never ran: {self.not_started}"
        if self.lost:
            return f"lost: {self.lost}"
        return f"{self._describe()}: {self.limit}" if self.limit else self._describe()

    def _describe(self) -> str:
        """Return how the process ended, with what a usual exit code means."""
        if self.signal is not None:
            return f"killed by {_signal_name(self.signal)}"
        if self.code is None:
            return "ended, and something else in this program took its exit status"
        # Shells and wrappers report a child that was killed by a signal as 128 + its number.
        if self.code > 128 and _signal_name(self.code - 128).startswith("SIG"):
            return f"exited with {self.code} (its program was {_killed(self.code - 128)})"
        if self.code == 127:
            return "exited with 127 (a shell or env did not find the command)"
        if self.code == 126:
            return "exited with 126 (a shell or env could not execute the command)"
        return f"exited with {self.code}"


def _killed(number: int) -> str:
    return f"killed by {_signal_name(number)}"


def _signal_name(number: int) -> str:
    """Return a name such as "SIGTERM"; "signal 99" for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ExitWatch:
    """Watches one child process. `fd` is readable once it has exited. The process stays a zombie
    until `reap`, so that its pid is not used again."""

    __slots__ = ("_pidfd", "_reaped", "_thread", "fd", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._reaped: ExitStatus | None = None
        self._thread: threading.Thread | None = None
        try:
            self.fd = os.pidfd_open(pid)
            self._pidfd = True
        except (AttributeError, OSError):
            self._pidfd = False
            self.fd, write_end = os.pipe()
            self._thread = threading.Thread(
                target=_wait_for_exit, args=(pid, write_end), name=f"exit of {pid}", daemon=True
            )
            self._thread.start()

    def peek(self) -> ExitStatus | None:
        """Return how the process ended; None if it is running. The process is not reaped, so its
        pid is not reused."""
        return self._reaped or self._wait(os.WNOWAIT)

    def reap(self) -> ExitStatus | None:
        """Reap the process and return how it ended; None if it is running."""
        if self._reaped is None:
            self._reaped = self._wait(0)
        return self._reaped

    def _wait(self, flags: int) -> ExitStatus | None:
        """Return how the process ended; None if it is running. `flags` are those of waitid(2)."""
        try:
            info = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | flags)
        except ChildProcessError:
            # Other code in this program reaped it, so the status is lost. The pid may be in use
            # again, so it is not signalled any more.
            self._reaped = ExitStatus(None, None)
            return self._reaped
        if info is None:
            return None
        if info.si_code == os.CLD_EXITED:
            return ExitStatus(info.si_status, None)
        return ExitStatus(None, info.si_status)

    def signal(self, number: int) -> None:
        """Signal the process; does nothing if it has ended."""
        if self._reaped is not None:
            return
        try:
            if self._pidfd:
                signal.pidfd_send_signal(self.fd, number)
            else:
                os.kill(self.pid, number)  # not reaped, so the pid is not reused
        except (ProcessLookupError, PermissionError):
            pass

    def signal_group(self, number: int) -> None:
        """Signal the process group; safe, since the pid of an unreaped leader is not reused."""
        if self._reaped is not None:
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # no process is left in the group, or only processes of another user

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)
        if self._thread is not None:
            self._thread.join(timeout=1)


def _wait_for_exit(pid: int, write_end: int) -> None:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except OSError:
        pass  # other code has reaped it, so it has exited
    finally:
        os.close(write_end)
