"""The thread of the blocking API ends with the last object that uses it, also without `close`."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import pytest

import exthost
from exthost import errors
from exthost.host.sync.loop_thread import LoopThread
from exthost.host.sync.sync_extension import SyncExtension
from tests.extensions.harness import until
from tests.extensions.proc import gone
from tests.host.test_host import TEXT, config, entry

LOOP_THREAD = "exthost loop"

# A program that opens a host, keeps it, prints the process id of its extension and ends.
LEAVES_OPEN = """
import json, sys, exthost
host = exthost.SyncHost.from_config(json.loads(sys.argv[1])).__enter__()
print(host["a"].stats.pid)
"""


def open_host() -> SyncExtension:
    return exthost.SyncHost.from_config(config(entry("a"))).__enter__()["a"]


def open_connection() -> SyncExtension:
    return exthost.sync_connect(
        [sys.executable, "-S", "-E", TEXT], dialect="morphir", name="a"
    ).__enter__()


@pytest.mark.parametrize("open_one", [open_host, open_connection])
def test_an_extension_dropped_without_close_warns_and_ends(
    open_one: Callable[[], SyncExtension],
) -> None:
    extension = open_one()
    gc.collect()  # the extension alone keeps its processes
    assert extension.call("echo", 1) == 1
    pid = extension.stats.pid
    assert pid is not None
    thread = next(item for item in threading.enumerate() if item.name == LOOP_THREAD)
    with pytest.warns(ResourceWarning, match=r"without close"):
        del extension
        gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    assert gone(pid)


def test_a_host_that_is_open_at_the_end_of_the_program_leaves_nothing() -> None:
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", LEAVES_OPEN]
    command.append(json.dumps(config(entry("a"))))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "ResourceWarning" in ended.stderr and "without close" in ended.stderr
    assert "Traceback" not in ended.stderr
    asyncio.run(until(lambda: gone(int(ended.stdout))))


@pytest.mark.parametrize(
    ("part", "replaced_by"),
    [
        ("_thread.start_new_thread", "gevent.thread"),
        ("queue.SimpleQueue", "gevent._gevent_cqueue"),
        ("subprocess.Popen", "eventlet.green.subprocess"),
    ],
)
def test_with_greenlets_instead_of_threads_a_host_says_so_and_does_not_hang(
    monkeypatch: pytest.MonkeyPatch, part: str, replaced_by: str
) -> None:
    monkeypatch.setattr(part, type("Replacement", (), {"__module__": replaced_by}))
    with pytest.raises(errors.UsageError) as caught:
        exthost.SyncHost.from_config(config(entry("a"))).__enter__()
    assert caught.value.code == "X1337"
    assert caught.value.message.startswith(replaced_by.partition(".")[0])
    assert "gthread" in caught.value.help


@pytest.mark.parametrize("obeys", [True, False])
def test_a_call_that_runs_as_the_thread_is_closed_raises_that_it_is_not_open(
    obeys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.host.sync.loop_thread.LOOP_SECONDS", 0.2)
    loop_thread = LoopThread()
    started = threading.Event()

    async def wait_for_ever() -> None:
        started.set()
        while True:
            with nullcontext() if obeys else suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(loop_thread.run, wait_for_ever)
        assert started.wait(60)
        loop_thread.close()
        error = waiting.exception(60)
    assert isinstance(error, errors.UsageError) and error.code == "X1315"
    with pytest.raises(errors.UsageError, match="not open"):
        loop_thread.run(wait_for_ever)
