"""The host's end of the proxy of one sandboxed process (`proxy_server`): starts the proxy, reads
its reports, and starts it again if it ends.

The host creates a Unix socket pair. "Our init", the program of the host that starts in the sandbox
first, gets one end, and sends the listening socket of the sandbox over it. The proxy gets the other
end, and reads the message without removing it from the socket. So if the proxy is killed and
started again, the new process also finds the message. Connections that clients open meanwhile wait
for the new process. If the proxy ends too often, the host closes its end of the pair, and with it
the listening socket: connections are then refused.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from exthost.errors import SpawnFailed
from exthost.model.launch_plan import ProxyPolicy
from exthost.process.after_fork import replace_by_null
from exthost.process.memory_file import memory_file

# How often the proxy is started again within this time. Then connections are refused for good.
MAX_RESTARTS = 5
RESTART_WINDOW_SECONDS = 60.0

_READ_BYTES = 64 * 1024

# How long a proxy that is ended may take to write its last reports.
LAST_REPORT_SECONDS = 0.1

# Imports nothing but the package exthost and the standard library: with -I and -S, the interpreter
# ignores variables such as PYTHONPATH, and has no site-packages.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from exthost.process.proxy_server import main; main(*map(int, sys.argv[2:]))"
)
# The folder that contains the package exthost.
_PACKAGES = str(Path(__file__).parents[2])

# The variable by which a Python finds its libraries, if it is installed in an unusual place.
_LIBRARY_VARIABLE = "LD_LIBRARY_PATH"


class RefusedTarget(NamedTuple):
    """Connections that the proxy refused. `entry` is the entry of `permissions.network` that would
    allow them; "" if none can."""

    target: str
    reason: str
    entry: str
    connections: int


class ProxyObserver(Protocol):
    """Gets the reports of a proxy."""

    def reached(self, target: str, count: int) -> None: ...
    def refused(self, refused: RefusedTarget) -> None: ...
    def proxy_ended(self, reason: str, is_final: bool) -> None: ...


class NetworkProxy:
    """A running proxy. `child_end` is the descriptor for our init, until `close_child_end`."""

    __slots__ = (
        "_channel",
        "_has_listener",
        "_observer",
        "_policy",
        "_process",
        "_remove_reader",
        "_restarts",
        "_splicer",
        "_unread",
        "child_end",
    )

    def __init__(self, policy: ProxyPolicy, extension: str) -> None:
        """Start the proxy. Raises SpawnFailed if it cannot be started."""
        self._policy = policy
        self._observer: ProxyObserver | None = None
        self._remove_reader: Callable[[], None] | None = None
        self._restarts: list[float] = []
        self._splicer: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._has_listener = False  # whether the proxy accepts connections
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel, self.child_end = ours.detach(), theirs.detach()
        try:
            self._process: subprocess.Popen[bytes] | None = self._start()
        except BaseException as error:
            self.close_child_end()
            os.close(self._channel)
            if isinstance(error, OSError | ValueError):
                raise SpawnFailed(
                    "X1850",
                    f"the proxy for its network could not be started: {error}",
                    extension=extension,
                    help="check that this Python can start itself, and the limits of processes "
                    "and open files",
                ) from None
            raise

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the process of the proxy, and its splicer. Raises OSError or ValueError."""
        library_path = os.environ.get(_LIBRARY_VARIABLE)
        policy = memory_file("exthost-network", json.dumps(self._policy._asdict()).encode())
        splicer = -1
        try:
            splicer = self._start_splicer()
            return subprocess.Popen(
                (
                    *(sys.executable, "-I", "-S", "-c", _PROGRAM, _PACKAGES),
                    *(str(self._channel), str(policy), str(splicer)),
                ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={_LIBRARY_VARIABLE: library_path} if library_path else {},
                cwd="/",
                start_new_session=True,
                pass_fds=[fd for fd in (self._channel, policy, splicer) if fd >= 0],
            )
        except BaseException:
            self._end_splicer()
            raise
        finally:
            for fd in (policy, splicer):
                if fd >= 0:
                    os.close(fd)

    def _start_splicer(self) -> int:
        """Start the splicer, and return the proxy's end of the socket to it; -1 if it cannot be
        started. The proxy works without it."""
        from exthost.process.splicer_process import start_splicer

        started = start_splicer()
        if started is None:
            return -1
        self._splicer, channel = started
        return channel

    def _end_splicer(self) -> None:
        splicer, self._splicer = self._splicer, None
        if splicer is not None:
            splicer.kill()
            splicer.wait()

    @property
    def pid(self) -> int | None:
        """The pid of the proxy; None if it has ended for good."""
        return None if self._process is None else self._process.pid

    @property
    def splicer_pid(self) -> int | None:
        """The pid of the process that moves the large transfers of the proxy; None without one."""
        return None if self._splicer is None else self._splicer.pid

    def close_child_end(self) -> None:
        """Close the end that our init has inherited."""
        if self.child_end >= 0:
            os.close(self.child_end)
            self.child_end = -1

    def watch(self, loop: Any, observer: ProxyObserver) -> None:
        """Read the reports of the proxy, and start it again if it ends. `loop` is an event loop."""
        self._observer = observer
        if self._process is None or self._process.stdout is None:
            return
        fd = self._process.stdout.fileno()
        os.set_blocking(fd, False)
        loop.add_reader(fd, self._read, loop)
        self._remove_reader = lambda: loop.remove_reader(fd)

    def _read(self, loop: Any) -> None:
        """Read reports. At the end of the output the proxy has ended: start it again."""
        if self._read_reports():
            return
        status = self._end_process()
        now = time.monotonic()
        self._restarts = [at for at in self._restarts if at > now - RESTART_WINDOW_SECONDS]
        reason = f"the proxy for its network ended ({status})"
        is_final = len(self._restarts) >= MAX_RESTARTS
        if not is_final:
            self._restarts.append(now)
            try:
                self._process = self._start()
            except (OSError, ValueError) as error:
                reason, is_final = f"{reason}, and could not be started again: {error}", True
        if is_final:
            self._close_channel()
        elif self._observer is not None:
            self.watch(loop, self._observer)
        if self._observer is not None:
            self._observer.proxy_ended(reason, is_final)

    def _read_reports(self) -> bool:
        """Read what the proxy has reported. Return False at the end of its output."""
        assert self._process is not None and self._process.stdout is not None
        try:
            data = os.read(self._process.stdout.fileno(), _READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        *lines, self._unread = (self._unread + data).split(b"\n")
        self._has_listener = True
        for line in lines:
            if line and self._observer is not None:
                report = json.loads(line)
                for target, count in report["reached"].items():
                    self._observer.reached(target, count)
                for item in report["refused"]:
                    self._observer.refused(RefusedTarget(*item))
        return True

    def _end_process(self) -> int:
        """Kill the proxy, which may have ended, and return its exit status."""
        process, self._process = self._process, None
        assert process is not None
        if self._remove_reader is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._remove_reader()
            self._remove_reader = None
        self._unread, self._has_listener = b"", False
        process.kill()
        status = process.wait()
        self._end_splicer()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return status

    def _close_channel(self) -> None:
        if self._channel >= 0:
            os.close(self._channel)
            self._channel = -1

    def close(self) -> None:
        """End the proxy, after its last reports."""
        if self._process is not None:
            if self._remove_reader is not None:  # `watch` has made the pipe non-blocking
                self._read_last_reports()
            self._end_process()
        self.close_child_end()
        self._close_channel()
        self._observer = None

    def _read_last_reports(self) -> None:
        """Let the proxy end, and read what it still reports, for a limited time."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        while self._has_report(0.0):
            if not self._read_reports():
                return
        if not self._has_listener:  # there are no reports, and it may still be starting
            return
        deadline = time.monotonic() + LAST_REPORT_SECONDS
        while self._has_report(max(0.0, deadline - time.monotonic())) and self._read_reports():
            pass

    def _has_report(self, seconds: float) -> bool:
        """Wait for a report, or the end of the output. Return False if neither comes in time."""
        assert self._process is not None and self._process.stdout is not None
        ready = select.poll()  # `select.select` fails for descriptors above 1023
        ready.register(self._process.stdout, select.POLLIN)
        return bool(ready.poll(seconds * 1000))

    def disown(self) -> None:
        """Release the proxy in a forked copy of the host."""
        process, self._process = self._process, None
        fds = [self._channel, self.child_end]
        if process is not None:
            fds += [pipe.fileno() for pipe in (process.stdin, process.stdout) if pipe is not None]
            process.returncode = 0  # it is not a child of the copy
        if self._splicer is not None:
            self._splicer.returncode = 0
            self._splicer = None
        replace_by_null(fds)
        self._channel = self.child_end = -1
