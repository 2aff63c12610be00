"""The host's end of the connection to the agent of one node.

A node is another machine, and its agent is the program that runs the host's processes there.
`AgentConnection.start` starts a process and returns a `RemoteChild`. What the agent sends is
delivered: bytes to the streams of the processes, and messages to the processes. One heartbeat
covers all of them. If the agent sends nothing for `silence` seconds, or the connection ends, the
node is lost, and so are all its processes.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, perf_counter
from typing import Any

from exthost.cluster.folders import write_folder
from exthost.cluster.link import HEARTBEAT_SECONDS, Link, NodeConnection
from exthost.cluster.messages import NUMBERS_PER_PROCESS, Order, encode_order, stream_numbers
from exthost.cluster.multiplexer import FrameEvent, Kind, ProtocolError
from exthost.cluster.remote_child import RemoteChild
from exthost.cluster.streams import IncomingStream, OutgoingStream
from exthost.launch.package_tree import PackageTree
from exthost.model.launch_plan import LaunchPlan
from exthost.process.after_fork import disown_after_fork, replace_by_null

# After this number of missed heartbeats, the node counts as silent: calls use the processes of
# other nodes if any are free. The node may still be alive.
_MISSED_BEATS = 2.5

# How long the sender of a folder waits for room before it gives up.
_FOLDER_STALL_SECONDS = 60.0

_DATA = int(Kind.DATA)


class NodeLost(ConnectionError):
    """The node was lost. The argument is the reason."""


class StartRefused(Exception):
    """The agent could not start the process. The argument is its error, as an object of JSON."""


class AgentConnection:
    """The connection to one agent.

    connection  the connection that the agent has opened
    node        the name of the node
    silence     after this number of seconds without a message the node is lost
    on_lost     called once, with the reason, when the connection has ended
    hello       the first message of the agent, with its version; None until it arrives
    """

    def __init__(
        self, connection: NodeConnection, node: str, silence: float, on_lost: Callable[[str], None]
    ) -> None:
        self.node = node
        self.hello: Mapping[str, Any] | None = None
        self.lost_reason = ""  # why the connection has ended, "" while it is open
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._link = Link(connection, self._watch_writable)
        self._silence = silence
        self._on_lost = on_lost
        self._last_received = monotonic()
        self._next_number = NUMBERS_PER_PROCESS
        # By the number of a process: the process, the future of its pid while it starts, and the
        # sender of its folder.
        self._children: dict[int, RemoteChild] = {}
        self._starts: dict[int, asyncio.Future[int]] = {}
        self._folders: dict[int, _FolderSender] = {}
        # By the number of a stream.
        self._incoming: dict[int, IncomingStream] = {}
        self._outgoing: dict[int, OutgoingStream] = {}
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self.is_draining = False
        self._is_silent = False
        disown_after_fork(self)
        self._loop.add_reader(self._link.fileno(), self._on_readable)
        self._timer = self._loop.call_later(HEARTBEAT_SECONDS, self._beat)
        self._link.send_message(0, {"welcome": {"silence": silence}})

    @property
    def process_count(self) -> int:
        """How many processes run or start there."""
        return len(self._children)

    @property
    def descriptor(self) -> int:
        """The descriptor of the connection."""
        return self._link.fileno()

    async def greeted(self) -> None:
        """Wait until `hello` has arrived. Raises NodeLost."""
        await asyncio.shield(self._greeted)

    # -- starting ----------------------------------------------------------------------------

    async def start(
        self, plan: LaunchPlan, order: Order, folder: tuple[str, PackageTree] | None
    ) -> RemoteChild:
        """Start a process. `folder` is sent if the agent asks for it. Raises StartRefused, and
        NodeLost."""
        if self.lost_reason:
            raise NodeLost(self.lost_reason)
        began = perf_counter()
        number = self._next_number
        self._next_number += NUMBERS_PER_PROCESS
        child = RemoteChild(
            self._link,
            number,
            node=self.node,
            argv=plan.argv,
            cwd=plan.cwd or "",
            loop=self._loop,
        )
        child.is_node_draining = self.is_draining
        child.is_node_silent = self._is_silent
        self._children[number] = child
        stdin, stdout, stderr = stream_numbers(number)
        self._outgoing[stdin] = child.stdin
        self._incoming[stdout], self._incoming[stderr] = child.stdout, child.stderr
        if folder is not None:
            self._folders[number] = _FolderSender(self._link, number, *folder)
        started = self._loop.create_future()
        self._starts[number] = started
        self._link.send_message(number, encode_order(order))
        try:
            child.pid = await started
        except BaseException:
            self._forget(number)
            child.kill()
            child.reap()  # ends its streams
            raise
        finally:
            del self._starts[number]
            sender = self._folders.pop(number, None)
            if sender is not None:
                sender.stop()
        child.spawn_seconds = perf_counter() - began
        return child

    def release(self, child: RemoteChild) -> None:
        """Forget a process that has ended and was reaped."""
        self._forget(child.number)

    def _forget(self, number: int) -> None:
        self._children.pop(number, None)
        for stream in stream_numbers(number):
            self._incoming.pop(stream, None)
            self._outgoing.pop(stream, None)

    # -- receiving ---------------------------------------------------------------------------

    def _on_readable(self) -> None:
        """Read from the connection, and handle everything that arrived."""
        try:
            data = self._link.read()
            # Most reads are one frame of data, which is decoded faster.
            frame = self._link.multiplexer.receive_one(data)
            events = self._link.decode(data) if frame is None else ()
        except BlockingIOError:
            return
        except ProtocolError as error:
            self.lose(f"node {self.node} has broken the protocol: {error}")
            return
        except OSError as error:
            self.lose(f"the connection to node {self.node} has ended: {error}")
            return
        self._last_received = monotonic()
        if frame is not None:
            number, payload = frame
            stream = self._incoming.get(number)
            if stream is not None:
                stream.feed(payload)
                stream.notify()
        else:
            self._deliver(events)

    def _deliver(self, events: Sequence[FrameEvent]) -> None:
        """Handle each event. Notify each stream once, after it has got all of its data."""
        readable: dict[IncomingStream, None] = {}  # an ordered set
        for kind, number, payload in events:
            if kind == _DATA:
                stream = self._incoming.get(number)
                if stream is not None:
                    stream.feed(payload)
                    readable[stream] = None
            elif not self.lost_reason:
                self._on_event(kind, number, payload)
        for stream in readable:
            stream.notify()

    def _on_event(self, kind: int, stream: int, payload: Any) -> None:
        """Handle a frame that is not data."""
        match kind:
            case Kind.CREDIT:
                if (outgoing := self._outgoing.get(stream)) is not None:
                    outgoing.notify()
                elif (folder := self._folders.get(stream)) is not None:
                    folder.has_room.set()
            case Kind.END:
                if (incoming := self._incoming.get(stream)) is not None:
                    incoming.end()
            case Kind.RESET:
                if (outgoing := self._outgoing.get(stream)) is not None:
                    outgoing.abort()
            case Kind.MESSAGE:
                try:
                    self._on_message(stream, payload)
                except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
                    self.lose(f"node {self.node} sent an invalid message: {error!r:.200}")

    def _on_message(self, number: int, message: Mapping[str, Any]) -> None:
        """Handle a message of the agent. Raises TypeError, ValueError, KeyError, AttributeError or
        OverflowError for an invalid message."""
        started = self._starts.get(number)
        child = self._children.get(number)
        if number == 0:
            self._on_agent_message(message)
        elif started is not None and not started.done():
            self._on_start_message(number, started, message)
        elif child is not None:
            child.on_message(message)
        elif "wants_folder" in message:
            # The start was cancelled. The agent waits for the folder until its stream ends.
            self._link.perform(self._link.multiplexer.open_outgoing, number)
            self._link.perform(self._link.multiplexer.end, number)

    def _on_agent_message(self, message: Mapping[str, Any]) -> None:
        """Handle a message about the agent itself, not about one process."""
        if "hello" in message:
            self.hello = message
            if not self._greeted.done():
                self._greeted.set_result(None)
        elif "farewell" in message:
            self.lose(f"node {self.node}: {str(message['farewell'])[:500]}")
        elif "usage" in message:
            self._on_usage(message["usage"])

    def _on_start_message(
        self, number: int, started: "asyncio.Future[int]", message: Mapping[str, Any]
    ) -> None:
        """Handle a message about a process that is being started."""
        if "started" in message:
            started.set_result(_read_pid(message["started"]))
        elif "failed" in message:
            started.set_exception(StartRefused(_check_failure(message["failed"])))
        elif "wants_folder" in message and number in self._folders:
            self._folders[number].start()

    # -- the heartbeat -----------------------------------------------------------------------

    def _beat(self) -> None:
        """Send a heartbeat. If the agent has sent nothing for too long, mark the node as silent, or
        as lost."""
        now = monotonic()
        if now - self._last_received > HEARTBEAT_SECONDS:
            self._on_readable()  # the host may have been too busy to read what has arrived
            if self.lost_reason:
                return
        quiet = now - self._last_received
        if quiet > self._silence:
            self.lose(f"node {self.node} has not answered for {quiet:.1f} s")
            return
        is_silent = quiet > _MISSED_BEATS * HEARTBEAT_SECONDS
        if is_silent != self._is_silent:
            self._is_silent = is_silent
            for child in self._children.values():
                child.is_node_silent = is_silent
        self._link.send_beat()
        self._timer = self._loop.call_later(HEARTBEAT_SECONDS, self._beat)

    def _on_usage(self, rows: Any) -> None:
        for number, seconds, memory in rows:
            child = self._children.get(number)
            if child is not None:
                child.node_usage = float(seconds), int(memory)

    # -- sending, and the end ----------------------------------------------------------------

    def _watch_writable(self, is_waiting: bool) -> None:
        if threading.get_ident() == self._thread:
            self._set_writer(is_waiting)
        else:
            self._loop.call_soon_threadsafe(self._set_writer, is_waiting)

    def _set_writer(self, is_waiting: bool) -> None:
        if self._link.is_closed:
            return
        if is_waiting:
            self._loop.add_writer(self._link.fileno(), self._on_writable)
        else:
            self._loop.remove_writer(self._link.fileno())

    def _on_writable(self) -> None:
        self._link.flush()
        if self._link.has_room:
            for outgoing in list(self._outgoing.values()):
                if outgoing.is_watched:
                    outgoing.notify()
            for folder in self._folders.values():
                folder.has_room.set()

    def report_draining(self) -> None:
        """Notify the supervisors of the processes that the node is being drained."""
        self.is_draining = True
        for child in list(self._children.values()):
            child.report_node_draining()

    def lose(self, reason: str) -> None:
        """End the connection, and report every process there as ended, for this reason."""
        if self.lost_reason:
            return
        self.lost_reason = reason
        self._close()
        error = NodeLost(reason)
        futures: list[asyncio.Future[Any]] = [*self._starts.values(), self._greeted]
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # counts as read: asyncio logs errors that no task has read
        for child in list(self._children.values()):
            child.lose(reason)
        self._on_lost(reason)

    def close(self) -> None:
        """Close the connection, so that the agent ends. All processes must have ended before."""
        self.lose(f"the connection to node {self.node} was closed")

    def _close(self) -> None:
        self._timer.cancel()
        for folder in self._folders.values():
            folder.stop()
        if self._link.fileno() >= 0:
            self._loop.remove_reader(self._link.fileno())
            self._loop.remove_writer(self._link.fileno())
        self._link.close()

    def disown(self) -> None:
        """Give up the connection in a forked copy of the host: it belongs to the original."""
        if self._link.fileno() >= 0:
            replace_by_null([self._link.fileno()])


def _read_pid(value: Any) -> int:
    """Return the pid that an agent reports. Raises ValueError if it is not one."""
    if type(value) is not int or value <= 0:
        raise ValueError(f"it reported the pid {value!r:.40}")
    return value


def _check_failure(value: Any) -> dict[str, Any]:
    """Return the error that an agent reports. Raises ValueError if it is not one."""
    names = {"code", "message", "help", "permanent", "refused", "path"}
    if not isinstance(value, dict) or value.keys() != names:
        raise ValueError(f"it reported the error {value!r:.100}")
    return value


class _FolderSender:
    """Sends a folder in a stream, from a thread of its own."""

    def __init__(self, link: Link, stream: int, root: str, tree: PackageTree) -> None:
        self._link = link
        self._stream = stream
        self._root = root
        self._tree = tree
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        self.has_room = threading.Event()

    def start(self) -> None:
        """Start the thread that sends. Does nothing if it was started before."""
        if self._thread is None:
            self._link.perform(self._link.multiplexer.open_outgoing, self._stream)
            self._thread = threading.Thread(target=self._send, name="exthost-folder", daemon=True)
            self._thread.start()

    def _send(self) -> None:
        try:
            write_folder(self, self._root, self._tree)
        except OSError:
            pass  # the agent reports that the folder is incomplete
        self._link.perform(self._link.multiplexer.end, self._stream)

    def write(self, data: bytes) -> int:
        """Send all of the data, and wait for room if there is none. Raises OSError."""
        view = memoryview(bytes(data))
        while view:
            self.has_room.clear()
            count = self._link.send(self._stream, view)
            view = view[count:]
            if not count and not self.has_room.wait(_FOLDER_STALL_SECONDS):
                raise TimeoutError
            if self._is_stopped:
                raise ConnectionError
        return len(data)

    def stop(self) -> None:
        """Stop sending, and wait for the thread."""
        self._is_stopped = True
        self.has_room.set()
        if self._thread is not None:
            self._thread.join(5)
