"""The blocking API: a host for programs without an event loop, used from any thread.

The extension `a` is `text.py`, with the tools `echo`, `shout` and `count`; `h` is the hostile
extension of the tests, whose method `keep` is answered only after `release`. `config` and `entry`
make the config of a host and the entry of an extension in it.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

import exthost
from exthost import errors
from exthost.dialects.meanings import Progress
from exthost.extension.extension import Extension
from exthost.host.sync.blocking_call import BlockingCall
from exthost.host.sync.loop_thread import LoopThread
from exthost.session.replies import DELIVER
from tests.extensions.harness import hostile_command
from tests.host.test_host import FRAGILE, HOST_NOT_OPEN, TEXT, config, entry
from tests.toys import stepper


def hostile(**settings: Any) -> dict[str, Any]:
    program, *args = hostile_command()
    return {
        "name": "h",
        "source": {"type": "process", "command": program, "args": args},
        **settings,
    }


def test_methods_and_tools_can_be_called() -> None:
    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        assert host["a"].call("echo", {"n": 1}) == {"n": 1}
        assert host["a"].call_tool("shout", {"text": "x"}).data == {"text": "X"}
        assert host.call_tool("ext_a_shout", {"text": "x"}).data == {"text": "X"}
        assert host.call_tool("a:count", {"text": "x y"}).data == {"words": 2}
        assert host["a"].stats.result == 4


def test_calls_of_many_threads_get_their_own_results() -> None:
    with exthost.SyncHost.from_config(config(entry("a"), entry("b"))) as host:

        def make_calls(n: int) -> bool:
            name = "ab"[n % 2]
            return all(host[name].call("echo", [n, i]) == [n, i] for i in range(50))

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(make_calls, range(32)))
        assert host["a"].stats.result + host["b"].stats.result == 1600


def test_threads_wait_if_only_one_call_may_be_in_flight() -> None:
    with exthost.SyncHost.from_config(config(entry("a", limits={"max_in_flight": 1}))) as host:
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda n: host["a"].call("echo", n), range(400))
            assert list(answers) == list(range(400))
        assert host["a"].stats.in_flight == host["a"].stats.waiting == 0


def test_a_timeout_ends_only_its_call() -> None:
    with exthost.SyncHost.from_config(config(hostile())) as host:
        with pytest.raises(errors.CallTimeout):
            host["h"].call("keep", timeout=0.2)
        assert host["h"].call("echo", 1) == 1
        assert host["h"].stats.timeout == 1


def test_a_crash_is_raised_in_the_calling_thread() -> None:
    restart = {"strategy": "immediate", "max_retries": 1}
    with exthost.SyncHost.from_config(config(entry("a", FRAGILE, restart=restart))) as host:
        with pytest.raises(errors.ExtensionGone) as caught:
            host.call_tool("ext_a_divide", {"a": 1, "b": 0})
        assert "ZeroDivisionError" in caught.value.evidence.stderr[-1]
        assert host.call_tool("ext_a_divide", {"a": 4, "b": 2}).data == 2


def test_extensions_can_be_loaded_and_unloaded_at_run_time() -> None:
    with exthost.SyncHost() as host:
        extension = host.load(entry("a"))
        assert extension.call("echo", 1) == 1
        assert [item.id for item in host.extensions] == list(host) == ["a"]
        extension.restart()
        assert extension.call("echo", 2) == 2
        host.unload("a")
        assert "a" not in host
        with pytest.raises(errors.ExtensionGone):
            extension.call("echo", 3)


def test_a_lazy_extension_is_found_by_its_registered_name() -> None:
    with exthost.SyncHost.from_config(config(entry("a", start="lazy"))) as host:
        assert host["a"].state == "admitted"
        assert host.call_tool("ext_a_echo", {"n": 1}).data == {"n": 1}
        assert host["a"].state == "ready"


def test_using_a_host_that_is_not_open_is_an_error() -> None:
    host = exthost.SyncHost()
    with pytest.raises(errors.UsageError):
        host.call_tool("x")
    host.close()
    with host:
        pass
    uses: list[Callable[[], Any]] = [lambda: host["x"], lambda: host.call_tool("x")]
    for use in uses:
        with pytest.raises(errors.UsageError) as caught:
            use()
        assert caught.value.code == HOST_NOT_OPEN and "with `with`" in caught.value.help


def test_only_one_of_several_threads_opens_a_host() -> None:
    host = exthost.SyncHost.from_config(config(entry("a")))
    barrier = threading.Barrier(4)

    def open_host(_: int) -> str:
        barrier.wait(60)
        try:
            host.open()
        except errors.UsageError as error:
            return error.code
        return "open"

    with ThreadPoolExecutor(4) as pool:
        outcomes = sorted(pool.map(open_host, range(4)))
    host.close()
    assert outcomes == ["X1311", "X1311", "X1311", "open"]


def test_using_an_extension_after_its_host_was_closed_is_an_error() -> None:
    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        extension_of_host = host["a"]
        assert extension_of_host.call_tool("echo", {"n": 1}).data == {"n": 1}
    with exthost.sync_connect([sys.executable, "-S", "-E", TEXT], dialect="morphir") as connection:
        assert connection.call("echo", 1) == 1
    for ext in (extension_of_host, connection):
        uses: list[Callable[[], Any]] = [
            partial(ext.call_tool, "echo", {"n": 1}),
            partial(ext.call, "echo", 1),
            ext.restart,
            ext.start,
        ]
        for use in uses:
            with pytest.raises(errors.UsageError) as caught:
                use()
            assert caught.value.code == HOST_NOT_OPEN


@pytest.mark.parametrize("name", [None, ["a"], {"a": 1}])
def test_a_name_that_is_not_a_string_is_reported(name: Any) -> None:
    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        uses: list[Callable[[], Any]] = [
            lambda: host["a"].call(name),
            lambda: host["a"].call_tool(name),
            lambda: host["a"].stream(name),
            lambda: host.call_tool(name),
            lambda: host.find_tool(name),
            lambda: host.unload(name),
            lambda: host[name],
        ]
        for use in uses:
            with pytest.raises(errors.UsageError, match="must be a string, not") as caught:
                use()
            assert caught.value.code == "X1335"


def test_a_large_message_is_passed_between_threads() -> None:
    with exthost.SyncHost.from_config(config(hostile())) as host:
        text = "x" * (4 * 2**20)
        assert host["h"].call("echo", {"text": text}, timeout=40) == {"text": text}


def test_events_are_published_in_the_loop_thread() -> None:
    threads: set[str] = set()
    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        host.events.subscribe(
            exthost.events.EVERYTHING, lambda _: threads.add(threading.current_thread().name)
        )
        host["a"].call("echo", 1)
        host["a"].restart()
    assert threads == {"exthost loop"}


@pytest.fixture
def installed_toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(stepper.installed(tmp_path)))


@pytest.mark.usefixtures("installed_toys")
def test_progress_is_reported_in_the_loop_thread() -> None:
    reports: list[tuple[str, Any]] = []

    def on_progress(progress: Progress) -> None:
        reports.append((threading.current_thread().name, progress[1:]))

    with exthost.SyncHost() as host:
        climber = host.load(stepper.spec("climber"))
        result = host.call_tool("ext_climber_climb", {"steps": 3}, on_progress=on_progress)
        assert result.data == {"climbed": 3}
        climber.call_tool("climb", {"steps": 1}, on_progress=on_progress)
    steps = [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3"), (1, 1, "step 1")]
    assert reports == [("exthost loop", step) for step in steps]


def test_with_wait_false_a_call_fails_if_the_extension_is_not_running() -> None:
    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        assert host["a"].call("echo", 1, wait=False) == 1
        assert host.call_tool("a:shout", {"text": "x"}, wait=False).data == {"text": "X"}
        host["a"].close()
        for call in (
            lambda: host["a"].call("echo", 1, wait=False),
            lambda: host["a"].call_tool("shout", {"text": "x"}, wait=False),
        ):
            with pytest.raises(errors.ExtensionGone):
                call()


def test_closing_with_drain_drains_each_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    drained: list[str] = []
    drain = Extension.drain

    async def record(extension: Extension) -> None:
        drained.append(extension.id)
        await drain(extension)

    monkeypatch.setattr(Extension, "drain", record)
    host = exthost.SyncHost.from_config(config(entry("a"))).__enter__()
    host.close(drain=True)
    assert drained == ["a"]


def test_sync_connect_runs_an_extension_without_a_host() -> None:
    states: list[str] = []
    bus = exthost.Bus()
    bus.subscribe(exthost.events.StateChanged, lambda change: states.append(change.after))
    with exthost.sync_connect(hostile_command(), name="h", events=bus, dialect="morphir") as ext:
        assert (ext.id, ext.state) == ("h", "ready")
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda n: ext.call("echo", n), range(100))) == list(range(100))
    assert states[-1] == "stopped"
    with pytest.raises(errors.UsageError):
        ext.restart()


def test_a_connection_that_fails_raises_its_cause_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with (
        pytest.raises(errors.SpawnFailed),
        exthost.sync_connect(["/nowhere/at/all"], restart={"strategy": "never"}, dialect="morphir"),
    ):
        raise AssertionError("the extension was started")
    assert threading.active_count() == before


def test_the_loop_is_that_of_uvloop_if_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = LoopThread()
    assert isinstance(thread.loop, uvloop.Loop) == (sys.platform == "linux")
    thread.close()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    thread = LoopThread()
    assert isinstance(thread.loop, asyncio.BaseEventLoop)
    thread.close()


def test_calls_work_with_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exthost.host.sync.loop_thread.new_event_loop", asyncio.new_event_loop)
    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        assert host.call_tool("ext_a_shout", {"text": "x"}).data == {"text": "X"}


def test_the_start_of_a_call_is_not_the_outdated_time_of_the_loop() -> None:
    """uvloop keeps the time of the beginning of an iteration, which may be long ago."""
    with exthost.SyncHost.from_config(config(entry("a"))) as host:
        host["a"].call("echo", 1)
        queue = host._target["a"].internals.queue
        before = time.monotonic()
        call = BlockingCall("echo", {}, DELIVER, 1.0, queue)
        assert call.started_at >= before
