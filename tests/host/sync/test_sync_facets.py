"""The blocking API beyond plain calls: facets, streams and hooks.

A facet is an attribute of an extension with the methods of one kind of extension. The extension
`toy` of the dialect roder has the facets `subagents`, `inference` and `tasks`. A request of a test
contains what `toy` answers, as a script: [["ack"], ["event", TICK]] accepts a stream and sends an
event. Its tool `heard` returns the messages that it has received.
"""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.extension.extension import Extension
from exthost.host.host import Host
from exthost.host.sync.sync_extension import SyncExtension
from exthost.host.sync.sync_host import SyncHost
from tests.dialects.test_roder import DELTA, DONE, FINISHED, TICK
from tests.extensions.clock import Clock
from tests.extensions.nexo_tree import config as nexo_config
from tests.extensions.nexo_tree import write_plugin
from tests.extensions.roder import config_entry as roder_entry
from tests.host.test_hooks import guard
from tests.host.test_host import HOST_NOT_OPEN, config, entry


@pytest.mark.parametrize(
    ("blocking_class", "async_class"), [(SyncExtension, Extension), (SyncHost, Host)]
)
def test_the_blocking_class_has_every_public_name(blocking_class: type, async_class: type) -> None:
    public = {name for name in dir(async_class) if not name.startswith("_")}
    assert public - set(dir(blocking_class)) == set()


def test_a_facet_answers_and_streams(tmp_path: Path) -> None:
    with SyncHost.from_config({"process_extensions": [roder_entry(tmp_path)]}) as host:
        ext = host["toy"]
        [definition] = ext.subagents.definitions()
        assert definition.agent_type == "a"
        script = [["ack"], ["event", DELTA], ["event", DONE]]
        with ext.inference.stream_turn({"script": script}) as events:
            event_types = [type(event).__name__ for event in events]
        assert event_types == ["MessageDelta", "Completed"]
        assert events.result.stop_reason == "end_turn"


def test_leaving_a_stream_early_cancels_it(tmp_path: Path) -> None:
    with SyncHost.from_config({"process_extensions": [roder_entry(tmp_path)]}) as host:
        ext = host["toy"]
        with ext.tasks.execute({"script": [["ack"], ["event", TICK]]}) as events:
            assert next(iter(events)).chunk == "tick"
        received = ext.call_tool("heard").data
        assert [message for message in received if message.get("method") == "tasks/cancel"]
        with ext.stream(
            "tasks/execute",
            {
                "executorId": "wire-task_executor",
                "executionId": "e",
                "taskId": "t",
                "input": {"script": [["ack"], ["event", FINISHED]]},
            },
        ) as events:
            assert len(list(events)) == 1


def run_when_waiting(
    action: Callable[[], object], function: str = Future.result.__name__
) -> threading.Thread:
    """Start a thread that runs the action as soon as the current thread waits for the host (it
    executes the function of this name). The caller must join the returned thread."""
    waiting_thread = threading.get_ident()

    def run() -> None:
        names: list[str] = []
        deadline = time.monotonic() + 40
        while function not in names and time.monotonic() < deadline:
            time.sleep(0.01)
            frames = traceback.walk_stack(sys._current_frames()[waiting_thread])
            names = [frame.f_code.co_name for frame, _ in frames]
        action()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_stream_that_times_out_raises_in_the_reading_thread(tmp_path: Path, clock: Clock) -> None:
    with SyncHost.from_config({"process_extensions": [roder_entry(tmp_path)]}) as host:
        ext = host["toy"].start()

        def move_clock() -> None:
            clock.move(601)
            ext.call_tool("heard")  # the loop reads the clock when it handles this call

        with ext.tasks.execute({"script": [["ack"], ["event", TICK]]}, timeout=600) as events:
            iterator = iter(events)
            next(iterator)
            thread = run_when_waiting(move_clock)
            with pytest.raises(errors.CallTimeout):
                next(iterator)
            thread.join()


def test_the_error_for_a_missing_facet_names_the_dialect(tmp_path: Path) -> None:
    with SyncHost.from_config(config(entry("a"))) as host:
        with pytest.raises(errors.UsageError) as caught:
            host["a"].inference.list_models()
        assert caught.value.code == "X1309" and "morphir" in caught.value.message  # no such facet
        assert not hasattr(host["a"], "inference")
        with pytest.raises(AttributeError):
            _ = host["a"].no_such_thing  # type: ignore[attr-defined]


def test_tool_calls_run_hooks_and_hooks_can_be_run_alone(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tool", "tool")
    guard(tmp_path, "g", before_tool_call={"override": {"arguments": {"a": 7}}})
    with SyncHost(nexo_config(tmp_path)) as host:
        assert host.call_tool("ext_tool_echo", {"a": 1}).data == {"a": 7}
        outcome = host.hooks.run("before_tool_call", {"arguments": {}})
        assert outcome.event["arguments"] == {"a": 7}
        assert [type(item) for item in host.hooks.extensions_with("before_tool_call")] == [
            SyncExtension
        ]
        answer = host["g"].run_hook("before_tool_call", {"arguments": {}})
        assert answer.override == {"arguments": {"a": 7}}


def test_an_extension_can_be_stopped_and_started(tmp_path: Path) -> None:
    with SyncHost.from_config(config(entry("a"), entry("b"))) as host:
        ext = host["a"]
        assert (ext.state, ext.health, ext.id, ext.spec.id) == ("ready", "running", "a", "a")
        assert set(ext.tools) == {"echo", "shout", "count"} and len(ext.tools) == 3
        assert "echo" in ext.tools and ext.tools["echo"].name == "echo"
        assert host.find_tool("ext_a_echo").extension == "a"
        ext.close()
        assert ext.state == "stopped"
        ext.restart()
        assert isinstance(ext.start(), SyncExtension) and ext.call("echo", 1) == 1
        assert [type(extension) for extension in host.extensions] == [SyncExtension] * 2
        assert host.diagnostics == () and host.find_tool("a:echo").tool == "echo"
    with pytest.raises(errors.UsageError) as caught:
        ext.restart()
    assert caught.value.code == HOST_NOT_OPEN


def test_tools_call_returns_a_failed_result(tmp_path: Path) -> None:
    with SyncHost.from_config({"process_extensions": [roder_entry(tmp_path)]}) as host:
        report: Any = host["toy"].tools.call("fail")
        assert report.is_error is True


def test_ctrl_c_interrupts_the_wait_for_a_stream_event(tmp_path: Path) -> None:
    script = {"script": [["ack"], ["event", TICK]]}
    with SyncHost.from_config({"process_extensions": [roder_entry(tmp_path)]}) as host:
        with host["toy"].tasks.execute(script, timeout=3600) as events:
            iterator = iter(events)
            next(iterator)
            thread = run_when_waiting(lambda: os.kill(os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                next(iterator)
            thread.join()
        assert host["toy"].call_tool("echo", {}).is_error is False


def test_a_listener_cannot_make_blocking_calls(tmp_path: Path) -> None:
    codes: set[str] = set()
    with SyncHost.from_config(config(entry("a"))) as host:

        def listen(_: object) -> None:
            try:
                host["a"].restart()
            except errors.UsageError as error:
                codes.add(error.code)

        host.events.subscribe(exthost.events.StateChanged, listen)
        host["a"].restart()
    assert codes == {"X1314"}  # it would block the event loop
