"""The event loop of an agent, the program that starts processes for a host on another node.

Other threads of the agent let the loop call functions (`_call_soon`), since only the loop may use
the connection to the host. Here the test has the host's end of that connection.
"""

import os
import socket
import threading
import time
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exthost.cluster.agent import Agent
from exthost.cluster.link import Link, NodeConnection
from exthost.cluster.messages import Order, SentFolder, encode_order
from exthost.cluster.multiplexer import Kind
from exthost.model.launch_plan import LaunchPlan
from exthost.process.child import Child
from exthost.process.environment import Variables
from tests.extensions.proc import is_running

SECONDS = 60


class RunningAgent:
    """An agent that runs in a thread, and the host's end of its connection."""

    def __init__(self) -> None:
        host, ours = socket.socketpair()
        ours.setblocking(False)
        host.settimeout(SECONDS)
        self.link = Link(NodeConnection(host), lambda is_waiting: None)
        # An agent ends with its companion, another process. Here that is the parent of the test.
        self.agent = Agent(NodeConnection(ours), companion=os.getppid())
        self._messages: list[tuple[int, dict[str, Any]]] = []
        self.thread = threading.Thread(target=self.agent.run)
        self.thread.start()

    def order_process(self, number: int, folder: SentFolder | None = None) -> None:
        """Order a process that runs until it is killed."""
        plan = LaunchPlan(argv=("/bin/sleep", "1000"), env=Variables({}))
        self.link.send_message(number, encode_order(Order("a", plan, folder=folder)))

    def start_process(self, number: int) -> dict[str, Any]:
        """Order such a process, and return the reply."""
        self.order_process(number)
        return self.receive([number], "started", "failed")[1]

    def receive(self, numbers: Collection[int], *names: str) -> tuple[int, dict[str, Any]]:
        """Return the next message of these numbers that has one of these members. Others are kept
        for later calls."""
        give_up_at = time.monotonic() + SECONDS
        while time.monotonic() < give_up_at:
            for received in self._messages:
                if received[0] in numbers and not received[1].keys().isdisjoint(names):
                    self._messages.remove(received)
                    return received
            events = self.link.decode(self.link.read())
            self._messages += [(event[1], event[2]) for event in events if event[0] == Kind.MESSAGE]
        raise TimeoutError

    def close(self) -> None:
        self.link.close()
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        self.agent._poller.close()
        for fd in (self.agent._companion, self.agent._wake_read, self.agent._wake_write):
            os.close(fd)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningAgent]:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path))
    running = RunningAgent()
    yield running
    running.close()


def test_a_start_without_a_free_thread_fails_alone(
    running: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = running.start_process(4)["started"]

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        failure = running.start_process(8)["failed"]
    assert failure["code"] == "X0405" and "can't start new thread" in failure["message"]
    assert is_running(pid)
    assert running.start_process(12)["started"] != pid


def test_starts_that_wait_for_a_folder_do_not_delay_other_starts(running: RunningAgent) -> None:
    waiting = range(4, 44, 4)
    for number in waiting:
        running.order_process(number, SentFolder("/extension", "0" * 64))
    assert running.start_process(44)["started"]
    for _ in waiting:
        number, _ = running.receive(waiting, "wants_folder")
        running.link.perform(running.link.multiplexer.open_outgoing, number)
        running.link.perform(running.link.multiplexer.end, number)
        assert running.receive([number], "failed")


def test_a_process_that_is_spawned_while_the_agent_ends_is_killed(
    running: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def spawn(plan: LaunchPlan, extension: str) -> Child:
        child = Child(plan, extension)
        pids.append(child.pid)
        running.link.close()
        give_up_at = time.monotonic() + SECONDS
        while not running.agent.end_reason and time.monotonic() < give_up_at:
            time.sleep(0.001)
        return child

    monkeypatch.setattr("exthost.cluster.agent.Child", spawn)
    for number in (4, 8):  # the second one is not spawned any more
        running.order_process(number)
    running.thread.join(SECONDS)
    assert len(pids) == 1 and not is_running(pids[0])


def test_an_agent_that_fails_kills_its_processes_and_reports_the_reason(
    running: RunningAgent,
) -> None:
    pid = running.start_process(4)["started"]

    def fail() -> None:
        raise MemoryError("out of memory")

    running.agent._call_soon(fail)
    assert "out of memory" in running.receive([0], "farewell")[1]["farewell"]
    running.thread.join(SECONDS)
    assert not is_running(pid)


def test_functions_of_other_threads_are_called_in_order_by_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path))
    host, ours = socket.socketpair()
    ours.setblocking(False)
    # An agent ends with its companion, another process. Here that is the parent of the test.
    agent = Agent(NodeConnection(ours), companion=os.getppid())
    called: list[int] = []
    loop_thread = threading.Thread(target=agent.run)
    loop_thread.start()
    for number in range(100):
        agent._call_soon(partial(called.append, number))
    agent._call_soon_with(agent._end, "the test has ended")
    loop_thread.join(SECONDS)
    assert not loop_thread.is_alive()
    assert called == list(range(100))
    host.close()
    for fd in (agent._companion, agent._wake_read, agent._wake_write):
        os.close(fd)
