"""The thread that runs the event loop of the blocking API (`SyncHost`, `sync_connect`).

It ends with the last object that uses it, even without `close`. It cannot run in a program that
replaces threads by greenlets, and a call that it was running when it was closed fails.
"""

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
from tests.extensions.harness import wait_until
from tests.extensions.proc import is_gone
from tests.host.test_host import TEXT, config, entry

LOOP_THREAD = "exthost loop"

# A program that opens a host, prints the process id of its extension and ends without `close`.
PROGRAM_WITHOUT_CLOSE = """
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


@pytest.mark.parametrize("open_extension", [open_host, open_connection])
def test_an_extension_deleted_without_close_warns_and_its_process_ends(
    open_extension: Callable[[], SyncExtension],
) -> None:
    extension = open_extension()
    gc.collect()  # only the extension refers to its host now
    assert extension.call("echo", 1) == 1
    pid = extension.stats.pid
    assert pid is not None
    thread = next(item for item in threading.enumerate() if item.name == LOOP_THREAD)
    with pytest.warns(ResourceWarning, match=r"without close"):
        del extension
        gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    assert is_gone(pid)


def test_a_host_that_is_open_at_the_end_of_the_program_leaves_no_process() -> None:
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", PROGRAM_WITHOUT_CLOSE]
    command.append(json.dumps(config(entry("a"))))
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "ResourceWarning" in result.stderr and "without close" in result.stderr
    assert "Traceback" not in result.stderr
    asyncio.run(wait_until(lambda: is_gone(int(result.stdout))))


@pytest.mark.parametrize(
    ("attribute", "module"),
    [
        ("_thread.start_new_thread", "gevent.thread"),
        ("queue.SimpleQueue", "gevent._gevent_cqueue"),
        ("subprocess.Popen", "eventlet.green.subprocess"),
    ],
)
def test_a_host_in_a_program_with_greenlets_instead_of_threads_is_an_error(
    monkeypatch: pytest.MonkeyPatch, attribute: str, module: str
) -> None:
    # gevent and eventlet replace functions of the standard library by their own, which the host
    # recognises by the name of the module.
    monkeypatch.setattr(attribute, type("Replacement", (), {"__module__": module}))
    with pytest.raises(errors.UsageError) as caught:
        exthost.SyncHost.from_config(config(entry("a"))).__enter__()
    assert caught.value.code == "X1337"  # monkey patching by gevent or eventlet
    assert caught.value.message.startswith(module.partition(".")[0])
    assert "gthread" in caught.value.help


@pytest.mark.parametrize("can_be_cancelled", [True, False])
def test_a_call_in_progress_when_the_thread_is_closed_is_an_error(
    can_be_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long `close` waits for calls that do not end when they are cancelled.
    monkeypatch.setattr("exthost.host.sync.loop_thread.LOOP_SECONDS", 0.2)
    loop_thread = LoopThread()
    started = threading.Event()

    async def wait_for_ever() -> None:
        started.set()
        while True:
            with nullcontext() if can_be_cancelled else suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    with ThreadPoolExecutor() as threads:
        call = threads.submit(loop_thread.run, wait_for_ever)
        assert started.wait(60)
        loop_thread.close()
        error = call.exception(60)
    assert isinstance(error, errors.UsageError) and error.code == "X1315"  # used after `with`
    with pytest.raises(errors.UsageError, match="not open"):
        loop_thread.run(wait_for_ever)
