"""`AgentConnection`, the host's end of a connection to an agent on another node.

An agent starts processes of extensions on its node. The host sends it an Order, and the agent
answers `{"started": PID}` or `{"failed": ERROR}`. Each message has a number: 0 for the connection
itself, or the first of the numbers that belong to one process (then follow those of its stdin,
stdout and stderr). Here the tests play the agent, at the other end of a socket pair.
"""

import asyncio
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from exthost.cluster import agent_connection
from exthost.cluster.agent_connection import AgentConnection, NodeLost, StartRefused
from exthost.cluster.folders import read_folder
from exthost.cluster.link import HEARTBEAT_SECONDS, MAX_UNSENT_BYTES, Link, NodeConnection
from exthost.cluster.messages import NUMBERS_PER_PROCESS, Order, stream_numbers
from exthost.cluster.multiplexer import Kind
from exthost.cluster.remote_child import RemoteChild
from exthost.launch.package_tree import PackageTree
from exthost.model.launch_plan import LaunchPlan
from tests.cluster.fake_link import FakeLink

PLAN = LaunchPlan(argv=("program",), cwd=None)
ORDER = Order(extension="a", plan=PLAN)
# The number of the first process of a connection.
FIRST = NUMBERS_PER_PROCESS
STDIN, STDOUT, STDERR = stream_numbers(FIRST)
FAILURE = {
    "code": "X0301",
    "message": "no",
    "help": "",
    "permanent": True,
    "refused": False,
    "path": "",
}
SILENCE = 10.0


class Node:
    """A connection to an agent, and the agent's end of it."""

    def __init__(self) -> None:
        own, other = socket.socketpair()
        for end in (own, other):
            end.setblocking(False)
        self.losses: list[str] = []
        self.host = AgentConnection(NodeConnection(own), "n", SILENCE, self.losses.append)
        self.agent = Link(NodeConnection(other), lambda is_waiting: None)

    def send_to_host(self, number: int, message: Any) -> None:
        """Send a message of the agent to the host, and let the host read it."""
        self.agent.send_message(number, message)
        self.host._on_readable()

    def received(self) -> list[tuple[int, int, Any]]:
        """Return what the agent has received since the last call."""
        events = []
        try:
            while True:
                events += self.agent.decode(self.agent.read())
        except BlockingIOError:
            return events

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.host.close()
        self.agent.close()

    async def begin_start(
        self, folder: tuple[str, PackageTree] | None = None
    ) -> "asyncio.Task[RemoteChild]":
        """Begin to start a process, and return when the order is sent."""
        starting = asyncio.ensure_future(self.host.start(PLAN, ORDER, folder))
        await asyncio.sleep(0)
        return starting

    async def start(self) -> RemoteChild:
        starting = await self.begin_start()
        self.send_to_host(FIRST, {"started": 77})
        return await starting


async def test_the_first_message_of_an_agent_is_kept_and_may_be_repeated() -> None:
    with Node() as node:
        waiting = asyncio.ensure_future(node.host.greeted())
        await asyncio.sleep(0)
        assert not waiting.done()
        node.send_to_host(0, {"hello": 1})
        await waiting
        node.send_to_host(0, {"hello": 2})
        assert node.host.hello == {"hello": 2} and node.losses == []


async def test_the_farewell_of_an_agent_is_the_reason_of_the_loss() -> None:
    with Node() as node:
        starting = await node.begin_start()
        node.send_to_host(0, {"farewell": "the disk is full"})
        with pytest.raises(NodeLost, match="node n: the disk is full"):
            await starting
        node.host.close()
        assert node.losses == ["node n: the disk is full"]
        with pytest.raises(NodeLost, match="the disk is full"):
            await node.host.start(PLAN, ORDER, None)


async def test_a_started_process_has_the_pid_and_the_usage_that_the_agent_reports() -> None:
    with Node() as node:
        child = await node.start()
        assert child.pid == 77 and node.host.process_count == 1
        node.send_to_host(0, {"usage": [[FIRST, 1.5, 1000], [FIRST + NUMBERS_PER_PROCESS, 1, 1]]})
        assert child.node_usage == (1.5, 1000) and node.losses == []
        node.send_to_host(FIRST, {"exit": [3, None, "", "", ""]})
        status = child.poll_exit()
        assert status is not None and status.code == 3
        node.host.release(child)
        assert node.host.process_count == 0
        node.send_to_host(FIRST, {"exit": [4, None, "", "", ""]})  # it is not known any more
        assert node.losses == []


async def test_a_refused_start_raises_the_error_of_the_agent() -> None:
    with Node() as node:
        starting = await node.begin_start()
        node.send_to_host(FIRST, {"failed": FAILURE})
        with pytest.raises(StartRefused) as caught:
            await starting
        assert caught.value.args == (FAILURE,) and node.host.process_count == 0
        multiplexer = node.host._link.multiplexer
        assert multiplexer.credits == {} and multiplexer._incoming == {}  # no stream is left
        assert node.losses == []


@pytest.mark.parametrize(
    "message",
    [
        {"started": 0},
        {"started": True},
        {"started": "77"},
        {"failed": list(FAILURE)},
        {"failed": {"code": "X0301"}},
        {"failed": FAILURE | {"other": 1}},
    ],
)
async def test_an_invalid_reply_to_a_start_ends_the_connection(message: dict[str, Any]) -> None:
    with Node() as node:
        starting = await node.begin_start()
        node.send_to_host(FIRST, message)
        with pytest.raises(NodeLost, match="sent an invalid message"):
            await starting


@pytest.mark.parametrize(
    "status", [5, [], [0], "ab", ["x", None], [None, 1.5], [True, None], [0, None, 5]]
)
async def test_an_invalid_exit_status_ends_the_connection(status: Any) -> None:
    with Node() as node:
        child = await node.start()
        node.send_to_host(FIRST, {"exit": status})
        assert len(node.losses) == 1 and "invalid message" in node.losses[0]
        assert "invalid message" in str(child.poll_exit())


@pytest.mark.parametrize("usage", [5, [[]], [[FIRST, "x", 1]], [[FIRST, 1.0, 1e999]]])
async def test_an_invalid_report_of_usage_ends_the_connection(usage: Any) -> None:
    with Node() as node:
        await node.start()
        node.send_to_host(0, {"usage": usage})
        assert len(node.losses) == 1 and "invalid message" in node.losses[0]


async def test_the_streams_of_a_process_get_their_data_and_their_end() -> None:
    with Node() as node:
        child = await node.start()
        for stream in (STDOUT, STDERR, STDERR + NUMBERS_PER_PROCESS):
            node.agent.multiplexer.open_outgoing(stream)
        node.agent.send(STDOUT, b"one frame")
        node.host._on_readable()
        assert child.stdout.read(100) == b"one frame"
        node.agent.send(STDOUT, b"out")
        node.agent.send(STDERR, b"err")
        node.agent.perform(node.agent.multiplexer.end, STDERR)
        node.host._on_readable()
        assert child.stdout.read(100) == b"out" and child.stderr.read(100) == b"err"
        assert child.stderr.is_ended and not child.stdout.is_ended
        node.agent.multiplexer.open_incoming(STDIN)
        node.agent.perform(node.agent.multiplexer.reset, STDIN)
        node.host._on_readable()
        assert child.stdin.is_broken and node.losses == []


async def test_a_folder_is_sent_once_if_the_agent_asks_for_it(tmp_path: Path) -> None:
    with Node() as node:
        (tmp_path / "program.py").write_text("print()")
        starting = await node.begin_start((str(tmp_path), read_folder(str(tmp_path), "a")[1]))
        node.agent.multiplexer.open_incoming(FIRST)
        sender = node.host._folders[FIRST]
        node.received()
        for _ in range(2):
            node.send_to_host(FIRST, {"wants_folder": True})
        assert sender._thread is not None
        await asyncio.to_thread(sender._thread.join, 60)
        events = node.received()
        archive = b"".join(payload for kind, _, payload in events if kind == Kind.DATA)
        assert archive.count(b"program.py") == 1 and b"print()" in archive
        assert [kind for kind, _, _ in events].count(Kind.END) == 1
        node.send_to_host(FIRST, {"started": 77})
        await starting
        assert node.host._folders == {}


async def test_the_folder_of_a_cancelled_start_ends_at_once(tmp_path: Path) -> None:
    with Node() as node:
        (tmp_path / "program.py").touch()
        starting = await node.begin_start((str(tmp_path), read_folder(str(tmp_path), "a")[1]))
        starting.cancel()
        await asyncio.wait([starting])
        node.received()
        # The agent has sent this before it has received that the process is to be killed.
        node.agent.multiplexer.open_incoming(FIRST)
        node.send_to_host(FIRST, {"wants_folder": True})
        assert (Kind.END, FIRST, None) in node.received()
        node.send_to_host(FIRST, {"failed": FAILURE})
        assert node.losses == []


async def test_a_request_for_a_folder_is_ignored_if_there_is_none() -> None:
    with Node() as node:
        starting = await node.begin_start()
        node.send_to_host(FIRST, {"wants_folder": True})
        node.send_to_host(FIRST, {"started": 77})
        assert (await starting).pid == 77


async def test_a_node_is_silent_and_then_lost_if_no_message_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Node() as node:
        child = await node.start()
        began = node.host._last_received
        states = []  # whether the node is silent, and whether it is lost
        # A node is silent after 2.5 s without a message, and lost after SILENCE.
        for seconds in (HEARTBEAT_SECONDS, 2.5, 2.6, SILENCE, SILENCE + 0.1):
            monkeypatch.setattr(agent_connection, "monotonic", lambda now=began + seconds: now)
            node.host._timer.cancel()
            node.host._beat()
            states.append((child.is_node_silent, bool(node.losses)))
        assert states == [
            (False, False),
            (False, False),
            (True, False),
            (True, False),
            (True, True),
        ]
        assert node.losses == ["node n has not answered for 10.1 s"]


async def test_a_message_that_was_not_read_yet_prevents_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Node() as node:
        late = node.host._last_received + 2 * SILENCE
        monkeypatch.setattr(agent_connection, "monotonic", lambda: late)
        node.agent.send_beat()
        node.host._timer.cancel()
        node.host._beat()
        assert node.losses == []


async def test_a_closed_connection_is_reported_by_the_next_read() -> None:
    with Node() as node:
        node.received()  # with unread data, the kernel would reset the connection
        node.agent.close()
        node.host._timer.cancel()
        node.host._on_readable()
        (reason,) = node.losses
        assert reason == "the connection to node n has ended: the connection was closed"


async def test_an_order_that_the_socket_does_not_accept_at_once_is_sent_later() -> None:
    with Node() as node:
        text = "x" * 2_000_000
        node.host._link.send_message(FIRST, {"text": text})
        assert node.host._link.unsent_bytes
        events: list[Any] = []
        # Each iteration of the loop writes, because the socket has room again.
        for _ in range(1000):
            events += node.received()
            await asyncio.sleep(0)
        assert {"text": text} in [payload for _, _, payload in events]
        node.host.close()
        node.host._set_writer(True)  # a thread that calls this after the end causes no error


async def test_the_loop_watches_the_socket_for_every_thread() -> None:
    with Node() as node:
        threads: list[int] = []
        node.host._set_writer = (  # type: ignore[method-assign]
            lambda is_waiting: threads.append(threading.get_ident())
        )
        node.host._watch_writable(True)
        assert threads == [threading.get_ident()]
        await asyncio.to_thread(node.host._watch_writable, False)
        await asyncio.sleep(0)
        assert threads == [threading.get_ident()] * 2


async def test_writers_are_notified_when_there_is_room_or_credit() -> None:
    with Node() as node:
        notified: list[int] = []

        def writer(number: int, is_watched: bool) -> Any:
            return SimpleNamespace(is_watched=is_watched, notify=lambda: notified.append(number))

        sender: Any = SimpleNamespace(has_room=threading.Event(), stop=lambda: None)
        node.host._outgoing = {1: writer(1, True), 2: writer(2, False)}
        node.host._folders = {3: sender}
        node.host._link.unsent_bytes = MAX_UNSENT_BYTES
        node.host._on_writable()
        assert notified == [] and not sender.has_room.is_set()
        node.host._link.unsent_bytes = 0
        node.host._on_writable()
        assert notified == [1] and sender.has_room.is_set()
        sender.has_room.clear()
        node.host._on_event(Kind.CREDIT, 2, None)
        assert notified == [1, 2] and not sender.has_room.is_set()
        node.host._on_event(Kind.CREDIT, 3, None)
        node.host._on_event(Kind.CREDIT, 4, None)
        assert notified == [1, 2] and sender.has_room.is_set()


def test_the_sender_of_a_folder_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    link = FakeLink(room=2)
    sender = agent_connection._FolderSender(cast(Link, link), FIRST, "/", PackageTree(()))
    monkeypatch.setattr(agent_connection, "_FOLDER_STALL_SECONDS", 0.0)
    with pytest.raises(TimeoutError):
        sender.write(b"abc")
    assert link.sent == b"ab"

    def wait(seconds: float) -> bool:
        link.room = 10
        return True

    monkeypatch.setattr(sender.has_room, "wait", wait)
    assert sender.write(b"cde") == 3 and link.sent == b"abcde"
    sender.stop()
    with pytest.raises(ConnectionError):
        sender.write(b"f")
