"""The agent: the program that runs on a node (another machine) and starts processes there for one
host.

    python -m exthost.cluster.agent HOST:PORT [CERTIFICATES]

It reads one line from stdin: its nonce (the random text by which the host recognises it). It
connects to the host and carries out its orders (`messages.py`) for any number of processes. One
thread runs an event loop for the connection and all pipes; each start has a thread of its own.
CERTIFICATES is the folder with the certificate of the node; without it, the connection is not
encrypted.

The agent ends when its stdin is closed (with `--with PID`: when that process ends), when the
connection is closed, or when the host has been silent for too long. Before it ends, it kills its
processes. It imports only the standard library, and of exthost only what is needed to start
processes.
"""

import argparse
import os
import queue
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import IO, Any

from exthost.cluster.agent_process import AgentProcess, PipeWriter
from exthost.cluster.folders import FolderStore
from exthost.cluster.link import HEARTBEAT_SECONDS, Link, NodeConnection, tune
from exthost.cluster.messages import Order, decode_order, hello, stream_numbers
from exthost.cluster.multiplexer import Kind
from exthost.cluster.poller import Poller
from exthost.cluster.preparation import encode_error, prepare_on_node
from exthost.errors import ExthostError
from exthost.process.child import Child
from exthost.process.procfs import descendants, memory_use
from exthost.process.spawn_errors import spawn_error
from exthost.process.state_root import state_root

# How long the host may take to send its first message, before its own limit is known.
_WELCOME_SECONDS = 30.0

# How long the agent tries to reach the host.
_CONNECT_SECONDS = 10.0

# How long killed processes may take to end. In a PID namespace the first call of `Child.kill` only
# asks exthost's init process there to end them; the second call sends SIGKILL.
_KILL_SECONDS = 1.0

# How often the host gets the processor time and memory of the processes.
_USAGE_SECONDS = 3.0

_MAX_PORT = 65535

_DATA = int(Kind.DATA)

# The most starts at a time, without those that wait for a folder. Each checks files, which may take
# seconds.
_MAX_STARTS = 4


def main() -> int:
    """Run an agent. Return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("certificates", nargs="?", default="")
    parser.add_argument("--with", dest="companion", type=int, default=0)
    arguments = parser.parse_args()
    nonce = sys.stdin.readline().strip()
    _reset_inherited()
    try:
        connection = _connect(arguments.address, arguments.certificates, nonce)
    except (OSError, ValueError) as error:
        print(f"the host cannot be reached at {arguments.address}: {error}", file=sys.stderr)
        return 1
    agent = Agent(connection, arguments.companion)
    agent.run()
    if not agent.is_welcome:  # with TLS 1.3, a refused certificate is only noticed here
        reason = f"before its first message, {agent.end_reason}"
        print(f"the host cannot be reached at {arguments.address}: {reason}", file=sys.stderr)
        return 1
    return 0


def _close_output() -> None:
    """Close stdin, stdout and stderr. The program that has started the agent waits for the end of
    its output, which shows that the host has accepted the agent."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _connect(address: str, certificates: str, nonce: str) -> NodeConnection:
    """Connect to the host and present the nonce. Raises OSError, and ValueError if the address is
    not HOST:PORT."""
    host, _, port = address.rpartition(":")
    # A greater port would be taken modulo 65536.
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= _MAX_PORT):
        raise ValueError("its address is not HOST:PORT")
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS)
    tune(connection)
    tls, line = None, nonce.encode() + b"\n"
    if certificates:
        # Imported only if needed, because it takes as long as all other imports together.
        from exthost.cluster.tls import connect_as_node

        tls = connect_as_node(connection, certificates)
        line = tls.encrypt([line])
    connection.sendall(line)
    connection.setblocking(False)
    return NodeConnection(connection, tls)


def _reset_inherited() -> None:
    """Reset what is inherited from a worker of a cluster: a low priority, and a high OOM score."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        pass  # only root may raise the priority
    try:
        Path("/proc/self/oom_score_adj").write_text("0")
    except OSError:
        pass  # only root may lower the score


class Agent:
    """Runs processes for one host until the host, or the process `companion`, is gone.

    is_welcome  whether the host has accepted the agent
    end_reason  why the agent ends; "" before that
    """

    def __init__(self, connection: NodeConnection, companion: int = 0) -> None:
        self._poller = Poller()
        self._link = Link(connection, self._watch_writable)
        self._processes: dict[int, AgentProcess] = {}  # by their numbers
        # By the number of a stream: the process whose stdout or stderr it carries, and the writer
        # to the stdin of a process or to the pipe for its folder.
        self._outputs: dict[int, AgentProcess] = {}
        self._inputs: dict[int, PipeWriter] = {}
        # The numbers of processes that are being started, and of those that the host has killed
        # during their start.
        self._starting: set[int] = set()
        self._killed_starts: set[int] = set()
        self._copies: dict[int, Path] = {}  # the copy of the folder that each process uses
        self._store = FolderStore(Path(state_root(os.environ), "folders"))
        self._start_slots = threading.Semaphore(_MAX_STARTS)
        # Kept from the check that the agent does not end until the new process is in `_calls`.
        self._spawn_lock = threading.Lock()
        self._silence = _WELCOME_SECONDS
        self._last_received = monotonic()
        self.is_welcome = False
        self.end_reason = ""
        self._has_companion = bool(companion)
        self._next_usage = 0.0
        # Functions that other threads pass to the agent's thread, which a byte in the pipe wakes.
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self._poller.on_readable(self._link.fileno(), self._on_readable)
        self._poller.on_readable(self._wake_read, self._on_wake)
        if not companion:
            self._poller.on_readable(0, self._on_stdin)
        else:
            self._companion = os.pidfd_open(companion)
            self._poller.on_readable(self._companion, self._on_companion_ended)

    def run(self) -> None:
        """Carry out orders until the end."""
        wait = self._poller.wait
        next_beat = 0.0
        try:
            while not self.end_reason:
                now = monotonic()
                if now >= next_beat:
                    self._beat(now)
                    next_beat = now + HEARTBEAT_SECONDS
                wait(next_beat - now)
        except Exception as error:  # such as too little memory
            self._end(f"its agent has failed: {error!r:.300}")
        self._close()

    def _beat(self, now: float) -> None:
        """Send a heartbeat, and do the work that is due from time to time. End the agent if the
        host has been silent for too long."""
        if now - self._last_received > self._silence:
            self._on_readable()  # the agent may have been stopped for a while
            quiet = now - self._last_received
            if quiet > self._silence:
                self._end(f"it has not heard from this host for {quiet:.1f} s, and has ended")
        self._link.send_beat()
        for process in list(self._processes.values()):
            process.finish()
        self._store.delete_unused()
        if self._processes and now >= self._next_usage:
            self._next_usage = now + _USAGE_SECONDS
            rows = [
                (number, *_read_usage(process.child.pid))
                for number, process in self._processes.items()
            ]
            self._link.send_message(0, {"usage": rows})

    # -- receiving ---------------------------------------------------------------------------

    def _on_readable(self) -> None:
        """Read from the connection, and handle everything that arrived."""
        try:
            data = self._link.read()
            frame = self._link.multiplexer.receive_one(data)
            events = self._link.decode(data) if frame is None else ()
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            self._end(f"its connection has ended: {error}")
            return
        self._last_received = monotonic()
        if frame is not None:
            pipe = self._inputs.get(frame[0])
            if pipe is not None:
                pipe.feed(frame[1])
            return
        for kind, stream, payload in events:
            if kind == _DATA:
                pipe = self._inputs.get(stream)
                if pipe is not None:
                    pipe.feed(payload)
            else:
                self._on_event(kind, stream, payload)

    def _on_event(self, kind: int, stream: int, payload: Any) -> None:
        """Handle a frame that is not data."""
        match kind:
            case Kind.CREDIT:
                if (process := self._outputs.get(stream)) is not None:
                    process.outputs[stream].resume()
                    process.finish()
            case Kind.END:
                if (pipe := self._inputs.get(stream)) is not None:
                    pipe.end()
            case Kind.RESET:
                if (process := self._outputs.get(stream)) is not None:
                    process.outputs[stream].close()
            case Kind.MESSAGE:
                try:
                    self._on_message(stream, payload)
                except (KeyError, TypeError, ValueError) as error:
                    self._end(f"the host sent an invalid message: {error!r:.200}")

    def _on_message(self, number: int, message: Mapping[str, Any]) -> None:
        """Handle a message of the host. Raises KeyError, TypeError or ValueError for an invalid
        message."""
        if "order" in message:
            self._starting.add(number)
            try:
                threading.Thread(
                    target=self._start, args=(number, message), name="exthost-start", daemon=True
                ).start()
            except RuntimeError as error:  # out of threads
                order = decode_order(message)
                failure = encode_error(spawn_error(error, order.plan, order.extension))
                self._on_start_failed(number, failure, [])
        elif "welcome" in message:
            self._silence = float(message["welcome"]["silence"])
            self.is_welcome = True
            if self._has_companion:
                _close_output()
            self._link.send_message(0, hello())
        elif number in self._processes:
            if "kill" in message:
                self._processes[number].child.kill()
            elif message.get("signal") == signal.SIGTERM:
                self._processes[number].child.terminate()
        elif "kill" in message and number in self._starting:
            self._killed_starts.add(number)

    # -- starting ----------------------------------------------------------------------------

    def _start(self, number: int, message: Mapping[str, Any]) -> None:
        """Start a process, in a thread of its own. Its pipes are relayed by the agent's thread."""
        # The path of the copy of its folder; empty if it needs none. It is a list, so that
        # `fetch_folder` can add the path.
        copy: list[Path] = []
        with self._start_slots:
            try:
                order = decode_order(message)

                def fetch_folder() -> Path:
                    assert order.folder is not None
                    fetch = lambda: self._receive_folder(number)  # noqa: E731
                    self._start_slots.release()  # so that other starts do not wait for the folder
                    try:
                        copy.append(self._store.acquire(order.folder, fetch, order.extension))
                    finally:
                        self._start_slots.acquire()
                    return copy[0]

                self._spawn(number, prepare_on_node(order, fetch_folder), copy)
            except ExthostError as error:
                failure = encode_error(error)
                self._call_soon(lambda: self._on_start_failed(number, failure, copy))
            except (KeyError, TypeError, ValueError, OSError) as error:
                reason = f"the order could not be carried out: {error!r:.300}"
                self._call_soon(lambda: self._end(reason))

    def _spawn(self, number: int, order: Order, copy: list[Path]) -> None:
        """Spawn a process, unless the agent is about to end: then nothing would kill the process.
        Raises SpawnFailed."""
        with self._spawn_lock:
            if not self.end_reason:
                child = Child(order.plan, order.extension)
                self._call_soon(lambda: self._on_started(number, child, copy))

    def _receive_folder(self, number: int) -> IO[bytes]:
        """Ask the host for the folder. Return a pipe from which the archive is read."""
        read_end, write_end = os.pipe()

        def receive() -> None:
            self._inputs[number] = PipeWriter(self._link, number, self._poller, write_end)
            self._link.send_message(number, {"wants_folder": True})

        self._call_soon(receive)
        return os.fdopen(read_end, "rb")

    def _on_start_failed(self, number: int, failure: dict[str, Any], copy: list[Path]) -> None:
        self._end_start(number)
        for path in copy:
            self._store.release(path)
        self._link.send_message(number, {"failed": failure})

    def _on_started(self, number: int, child: Child, copy: list[Path]) -> None:
        """Relay the pipes of a started process, and report its start to the host."""
        is_killed = number in self._killed_starts
        self._end_start(number)
        if copy:
            self._copies[number] = copy[0]
        process = AgentProcess(self._link, number, self._poller, child, self._on_ended)
        self._processes[number] = process
        stdin, _, _ = stream_numbers(number)
        self._inputs[stdin] = process.stdin
        for stream in process.outputs:
            self._outputs[stream] = process
        child.start_watchdog(self._call_soon_with)
        if is_killed or self.end_reason:
            child.kill()
        self._link.send_message(number, {"started": child.pid})

    def _end_start(self, number: int) -> None:
        """Forget the start of a process, which has succeeded or failed."""
        self._starting.discard(number)
        self._killed_starts.discard(number)
        folder = self._inputs.pop(number, None)
        if folder is not None:
            folder.close()

    def _on_ended(self, process: AgentProcess) -> None:
        """Forget a process whose end was reported to the host."""
        del self._processes[process.number]
        stdin, _, _ = stream_numbers(process.number)
        self._inputs.pop(stdin, None)
        for stream in process.outputs:
            self._outputs.pop(stream, None)
        copy = self._copies.pop(process.number, None)
        if copy is not None:
            self._store.release(copy)

    # -- the event loop ----------------------------------------------------------------------

    def _watch_writable(self, is_waiting: bool) -> None:
        # Only the agent's thread sends.
        self._poller.watch_writable(self._link.fileno(), is_waiting, self._on_writable)

    def _on_writable(self) -> None:
        self._link.flush()
        if self._link.has_room:
            for process in list(self._processes.values()):
                for output in process.outputs.values():
                    output.resume()

    def _on_stdin(self) -> None:
        """End when stdin is closed: the placer, which has its other end, is gone."""
        if not os.read(0, 4096):
            self._end("the program that has started its agent is gone")

    def _on_companion_ended(self) -> None:
        self._poller.forget(self._companion)
        self._end("the cluster's own process on the node has ended")

    def _call_soon(self, function: Callable[[], None]) -> None:
        self._calls.put(function)
        try:
            os.write(self._wake_write, b"w")
        except BlockingIOError:
            pass  # the pipe is full, so it will wake the loop anyway

    def _call_soon_with(self, function: Callable[[str], None], argument: str) -> None:
        self._call_soon(lambda: function(argument))

    def _on_wake(self) -> None:
        os.read(self._wake_read, 4096)
        while not self._calls.empty():
            self._calls.get()()

    # -- the end -----------------------------------------------------------------------------

    def _end(self, reason: str) -> None:
        self.end_reason = self.end_reason or reason

    def _close(self) -> None:
        """Kill the processes, wait for them, and close the connection."""
        self._link.send_message(0, {"farewell": self.end_reason})
        if self._spawn_lock.acquire(timeout=_KILL_SECONDS):
            self._spawn_lock.release()
        while not self._calls.empty():  # they may have processes that were spawned just now
            self._calls.get()()
        for process in self._processes.values():
            process.abandon()
        children = [process.child for process in self._processes.values()]
        for _ in range(2):  # `abandon` was the first kill; why others follow, see _KILL_SECONDS
            _wait_for_exits(children)
            for child in children:
                if child.poll_exit() is None:
                    child.kill()
        for child in children:
            if child.poll_exit() is not None:
                child.reap()
        self._link.close()
        self._store.close()


def _read_usage(pid: int) -> tuple[float, int]:
    """Return what a process and its descendants use: seconds of processor time, and bytes of
    memory."""
    clocks = descendants(pid)
    seconds = sum(max(0, clock) for clock in clocks.values()) / 10**9
    try:
        return seconds, sum(memory_use(each).total for each in clocks)
    except PermissionError:
        return seconds, 0


def _wait_for_exits(children: list[Child]) -> None:
    deadline = monotonic() + _KILL_SECONDS
    for child in children:
        exited = select.poll()
        exited.register(child.exit_fd, select.POLLIN)
        exited.poll(max(0.0, deadline - monotonic()) * 1000)


if __name__ == "__main__":
    sys.exit(main())
