"""`RemoteChild`, a process on another node, as the host sees it: exit, loss, signals and release.

A real agent on the node reports what happens to the process. Here the tests call the methods that
are called for its messages, and the connection records the messages to the agent.
"""

import asyncio
import signal
from typing import Any, cast

import pytest

from exthost.cluster import remote_child
from exthost.cluster.link import Link
from exthost.cluster.messages import KILL, encode_exit
from exthost.cluster.remote_child import RemoteChild
from exthost.process.exit_status import ExitStatus
from exthost.process.shutdown import CLEAN_KILL_SECONDS
from tests.cluster.fake_link import FakeLink

NUMBER = 4
EXITED = ExitStatus(3, None)


class MessageLink(FakeLink):
    """Records the messages to the agent."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[int, Any]] = []

    def send_message(self, number: int, message: Any) -> None:
        self.messages.append((number, message))


def make_child() -> tuple[RemoteChild, MessageLink]:
    link = MessageLink()
    loop = asyncio.get_running_loop()
    child = RemoteChild(cast(Link, link), NUMBER, node="n", argv=("x",), cwd="/", loop=loop)
    return child, link


async def test_an_exit_is_reported_once_and_ends_the_streams() -> None:
    child, _ = make_child()
    exits: list[ExitStatus | None] = []
    child.watch_exit(asyncio.get_running_loop(), lambda: exits.append(child.poll_exit()))
    child.on_message({"usage": 1})
    await asyncio.sleep(0)
    assert exits == [] and child.poll_exit() is None
    child.on_message(encode_exit(EXITED))
    child.lose("a later loss changes nothing")
    await asyncio.sleep(0)
    assert exits == [EXITED]
    assert child.stdin.is_broken and child.stdout.is_ended and child.stderr.is_ended


async def test_the_exit_of_an_ended_process_is_reported_to_a_late_watcher() -> None:
    child, _ = make_child()
    child.lose("gone")
    exited = asyncio.Event()
    child.watch_exit(asyncio.get_running_loop(), exited.set)
    await asyncio.wait_for(exited.wait(), 30)
    status = child.poll_exit()
    assert status is not None and str(status) == "lost: gone"


async def test_draining_is_reported_once_to_an_early_or_a_late_listener() -> None:
    reports: list[str] = []
    child, _ = make_child()
    child.on_node_draining(lambda: reports.append("early"))
    assert reports == []
    child.report_node_draining()
    child.report_node_draining()
    child.on_node_draining(lambda: reports.append("late"))
    assert reports == ["early", "late"]
    child, _ = make_child()
    child.report_node_draining()  # without a listener
    assert child.is_node_draining


async def test_a_kill_some_time_after_the_first_does_not_wait_for_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert remote_child.REPORT_SECONDS < CLEAN_KILL_SECONDS
    child, link = make_child()
    child.terminate()
    child.kill()
    child.kill()
    assert child.poll_exit() is None  # the agent may still report it
    monkeypatch.setattr(remote_child, "REPORT_SECONDS", -1.0)  # as if that time were over
    child.kill()
    status = child.poll_exit()
    assert status is not None and "node n did not report the end" in status.lost
    assert link.messages == [(NUMBER, {"signal": signal.SIGTERM}), *[(NUMBER, KILL)] * 3]


async def test_a_process_is_released_once() -> None:
    releases: list[str] = []
    child, _ = make_child()
    child.reap()  # without `on_released`, nothing is called
    child, _ = make_child()
    child.on_released = lambda: releases.append("released")
    child.reap()
    child.reap()
    assert releases == ["released"]
