"""How a process ended, in words; and a file descriptor that becomes readable when it has.

Exit is not end-of-file: a grandchild can hold the pipes for hours after the child is gone, and a
child can close them and live. So the process itself is watched.

On Linux that descriptor is a pidfd. Where there is none, a thread waits for the exit without
reaping and then closes a pipe: the same descriptor to everyone above.
"""

import os
import signal
import threading
from typing import NamedTuple


class ExitStatus(NamedTuple):
    """`code` of a normal exit, or the `signal` that ended it; both None if nobody knows. `never`
    says why the program did not even begin, where something around it ended instead; `why` says
    what it was ended for, where that was a limit."""

    code: int | None
    signal: int | None
    never: str = ""
    why: str = ""

    def __str__(self) -> str:
        if self.never:
            return f"never ran: {self.never}"
        return f"{self._how()}: {self.why}" if self.why else self._how()

    def _how(self) -> str:
        if self.signal is not None:
            return f"killed by {_signal_name(self.signal)}"
        if self.code is None:
            return "ended, and something else in this program took its exit status"
        # Shells and sandbox wrappers report the signal of what they ran as 128 + its number.
        if self.code > 128 and _signal_name(self.code - 128)[0] == "S":
            return f"exited with {self.code} (what it ran was {_killed(self.code - 128)})"
        if self.code == 127:
            return "exited with 127 (a shell or env did not find the command)"
        if self.code == 126:
            return "exited with 126 (a shell or env could not execute the command)"
        return f"exited with {self.code}"


def _killed(number: int) -> str:
    return f"killed by {_signal_name(number)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ExitWatch:
    """Watches one child of ours. `fd` is readable from its exit on; `reap` takes its status."""

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
            self.fd, told = os.pipe()
            self._thread = threading.Thread(
                target=_wait_for_exit, args=(pid, told), name=f"exit of {pid}", daemon=True
            )
            self._thread.start()

    def peek(self) -> ExitStatus | None:
        """How it ended, leaving it a zombie: until it is reaped its pid belongs to nobody else."""
        return self._reaped or self._wait(os.WNOWAIT)

    def reap(self) -> ExitStatus | None:
        """How it ended, or None if it has not."""
        if self._reaped is None:
            self._reaped = self._wait(0)
        return self._reaped

    def _wait(self, flags: int) -> ExitStatus | None:
        try:
            seen = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | flags)
        except ChildProcessError:
            # Somebody else in this program waited for it: gone, and nobody knows how. Its pid may
            # be another's by now, so nothing is signalled by it any more.
            self._reaped = ExitStatus(None, None)
            return self._reaped
        if seen is None:
            return None
        if seen.si_code == os.CLD_EXITED:
            return ExitStatus(seen.si_status, None)
        return ExitStatus(None, seen.si_status)

    def signal(self, number: int) -> None:
        """Signal the process itself; nothing happens if it is gone."""
        if self._reaped is not None:
            return
        try:
            if self._pidfd:
                signal.pidfd_send_signal(self.fd, number)
            else:
                os.kill(self.pid, number)  # not reaped, so the pid is still its own
        except (ProcessLookupError, PermissionError):
            pass

    def signal_group(self, number: int) -> None:
        """Signal the process group it leads; safe, since a group outlives no unreaped leader."""
        if self._reaped is not None:
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def close(self) -> None:
        os.close(self.fd)
        if self._thread is not None:
            self._thread.join(timeout=1)


def _wait_for_exit(pid: int, told: int) -> None:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except OSError:
        pass
    finally:
        os.close(told)
