"""Observers that start late get the events that they missed, in order and within limits.

An observer is an extension with a hook that is only informed of an event, such as
`after_tool_call`. No call waits for it. While it starts, its events are kept in a queue; if there
are too many, the oldest are dropped and reported. In the last test, the observer `eye` is a process
that is ready when the file `ready` exists, and writes what it receives to the file `heard`.
"""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import ExtensionGone
from exthost.events import HookFailed
from exthost.host import observer_queues
from exthost.host.hook_policy import HookFailure
from exthost.host.observer_queues import ObserverQueues
from exthost.model.spec import Spec
from tests.extensions.clock import Clock, run_loop
from tests.extensions.synaps_tree import write_plugin

TOOL = "ext_tools_echo"
AFTER = {"hook": "after_tool_call"}


class FakeObserver:
    """An extension that is starting until `is_ready` is set, and records the events it gets."""

    def __init__(self, *, fails: bool = False) -> None:
        self.id = "eye"
        self.spec = Spec(id="eye", argv=(), observer_hooks=("after_tool_call",))
        self.state = "starting"
        self.is_ready = asyncio.Event()
        self.received: list[Any] = []
        self._fails = fails

    async def start(self) -> None:
        await self.is_ready.wait()
        self.state = "failed" if self._fails else "ready"

    async def run_hook(self, name: str, event: Any, *, timeout: float | None = None) -> None:
        await asyncio.sleep(0)
        if self._fails:
            raise ExtensionGone("X1007", "it failed", extension=self.id)
        self.received.append(event["n"])


class Reports(list[tuple[HookFailure, Any]]):
    """The failures that the queues report, each with its event."""

    def __call__(self, failure: HookFailure, event: Any) -> None:
        self.append((failure, event))


async def wait_for_tasks(queues: ObserverQueues) -> None:
    tasks = [queue.task for queue in queues._queues.values() if queue.task is not None]
    async with asyncio.timeout(60):
        await asyncio.wait(tasks)


async def test_events_are_delivered_in_order_also_while_older_ones_wait() -> None:
    observer, reports = FakeObserver(), Reports()
    queues = ObserverQueues(reports)
    for n in range(3):  # each returns True: the event was put into the queue
        assert queues.queue_if_not_ready(observer, "after_tool_call", {"n": n}, None)
    observer.is_ready.set()
    await run_loop(2)  # it is ready, but has not received all earlier events
    assert observer.state == "ready" and observer.received != [0, 1, 2]
    assert queues.queue_if_not_ready(observer, "after_tool_call", {"n": 3}, None)
    await wait_for_tasks(queues)
    assert observer.received == [0, 1, 2, 3] and not reports
    assert not queues.queue_if_not_ready(observer, "after_tool_call", {"n": 4}, None)


async def test_a_full_queue_drops_the_oldest_events_and_reports_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(observer_queues, "MAX_EVENTS", 3)
    observer, reports = FakeObserver(), Reports()
    queues = ObserverQueues(reports)
    for n in range(5):
        queues.queue_if_not_ready(observer, "after_tool_call", {"n": n}, None)
    assert [event["n"] for _, event in reports] == [0, 1]
    assert {failure.error.code for failure, _ in reports} == {"X0355"}  # the queue was full
    observer.is_ready.set()
    with caplog.at_level(logging.WARNING, "exthost.hooks"):
        await wait_for_tasks(queues)
    assert observer.received == [2, 3, 4]
    assert any("2 are lost" in record.getMessage() for record in caplog.records)


async def test_the_size_of_waiting_events_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer_queues, "MAX_BYTES", 1000)
    observer, reports = FakeObserver(), Reports()
    queues = ObserverQueues(reports)
    for n in range(5):
        queues.queue_if_not_ready(observer, "after_tool_call", {"n": n, "result": "x" * 400}, None)
    assert [event["n"] for _, event in reports] == [0, 1, 2]
    await queues.close()


async def test_a_waiting_event_does_not_change_with_its_object() -> None:
    observer = FakeObserver()
    queues = ObserverQueues(Reports())
    result = [1]
    queues.queue_if_not_ready(observer, "after_tool_call", {"n": result}, None)
    result.append(2)
    observer.is_ready.set()
    await wait_for_tasks(queues)
    assert observer.received == [[1]]


async def test_each_event_fails_if_the_observer_does_not_start() -> None:
    observer, reports = FakeObserver(fails=True), Reports()
    queues = ObserverQueues(reports)
    for n in range(2):
        queues.queue_if_not_ready(observer, "after_tool_call", {"n": n}, None)
    observer.is_ready.set()
    await wait_for_tasks(queues)
    # The error of each event is that of the observer.
    assert [failure.error.code for failure, _ in reports] == ["X1007", "X1007"]


async def test_only_hooks_of_an_observer_that_can_become_ready_are_queued() -> None:
    observer = FakeObserver()
    queues = ObserverQueues(Reports())
    # A call waits for the answer of this hook, so it is not the hook of an observer.
    assert not queues.queue_if_not_ready(observer, "before_tool_call", {"n": 1}, None)
    observer.state = "failed"
    assert not queues.queue_if_not_ready(observer, "after_tool_call", {"n": 1}, None)


async def test_an_observer_gets_the_calls_that_were_made_while_it_started(
    tmp_path: Path, clock: Clock
) -> None:
    write_plugin(tmp_path / "tools")
    ready, received = tmp_path / "ready", tmp_path / "heard"
    write_plugin(tmp_path / "eye", {"ready": str(ready), "heard": str(received)}, hooks=[AFTER])
    document = {
        "discovery": {"search_paths": [str(tmp_path)]},
        "overrides": {"eye": {"start": "lazy"}},
    }
    failed: list[HookFailed] = []
    async with exthost.Host.from_config(document) as host:
        host.events.subscribe(HookFailed, failed.append)
        starting = asyncio.ensure_future(host["eye"].start())
        await clock.until(lambda: host["eye"].state == "starting")
        for n in range(5):  # no call waits for the observer
            result = await host.call_tool(TOOL, {"n": n})
            assert result.data == {"n": n} and not result.warnings
        assert host["eye"].state == "starting"
        ready.touch()
        await starting
        await host.call_tool(TOOL, {"n": 5})
        await clock.until(lambda: received.read_text().count("hook.handle") == 6)
    messages = [json.loads(line) for line in received.read_text().splitlines()]
    hooks = [message["params"] for message in messages if message["method"] == "hook.handle"]
    assert [hook["tool_input"] for hook in hooks] == [{"n": n} for n in range(6)]
    assert not failed
