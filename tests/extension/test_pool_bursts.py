"""A burst of slow calls on a pool: each process gets one call, and the others wait for a process.

A pool is a number of processes of one extension. The calls of a program that handles one call after
the other must not wait behind a long call while another process is free. To find out whether the
program "reads ahead" (reads a call while it handles another), the pool sends a second call to a
busy process once.

Each call lasts until the test creates a file, so nothing depends on the speed of the machine.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config.extension_settings import PoolSettings
from exthost.extension import process_choice, read_ahead
from tests.extensions.harness import ONE_HOUR, wait_until

# The functions of both programs. With `staggered`, the second process waits for the file `start-2`
# before it is ready, and so on. The call `work` records the pid and waits for its file.
# The program speaks morphir: one JSON object per line.
FUNCTIONS = """\
import json, os, sys, threading, time
folder = sys.argv[1]
def wait_for(name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.005)
def number_of_this_process():
    for number in range(1, 100):
        try:
            os.mkdir(os.path.join(folder, f"process-{number}"))
            return number
        except FileExistsError:
            pass
def handle(line):
    request = json.loads(line)
    method, result = request["method"], os.getpid()
    if method == "initialize":
        if "staggered" in sys.argv:
            number = number_of_this_process()
            if number > 1:
                wait_for(f"start-{number}")
        result = {"capabilities": []}
    elif method == "capabilities":
        result = []
    elif method == "work":
        with open(os.path.join(folder, "begun"), "a") as file:
            file.write(f"{os.getpid()}\\n")
        wait_for(request["params"]["until"])
    if "id" in request:
        print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""

# A program that handles one call after the other.
SERIAL = f"""{FUNCTIONS}
for line in sys.stdin:
    handle(line)
"""

# A program that handles each call in a new thread.
CONCURRENT = f"""{FUNCTIONS}
for line in sys.stdin:
    threading.Thread(target=handle, args=[line]).start()
"""

# The processes of a pool, unless a test says otherwise.
PROCESSES = 3


@pytest.fixture(autouse=True)
def _calls_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pool treat every call as slow, even if it ends immediately."""
    monkeypatch.setattr(process_choice, "_AHEAD_SECONDS", 0.0)


class Pool:
    """A pool that runs one of the programs. Files that the test creates end the calls."""

    def __init__(self, extension: exthost.Extension, folder: Path) -> None:
        self.extension = extension
        self._folder = folder
        self.calls: list[asyncio.Task[Any]] = []

    def start_calls(self, count: int, until: str) -> None:
        """Start this many calls, which last until the test creates the file `until`."""
        for _ in range(count):
            call = self.extension.call("work", {"until": until})
            self.calls.append(asyncio.ensure_future(call))

    def create(self, name: str) -> None:
        (self._folder / name).touch()

    def begun_calls_by_pid(self) -> Counter[int]:
        """Return how many calls each process has begun, by pid."""
        file = self._folder / "begun"
        return Counter(map(int, file.read_text().split())) if file.exists() else Counter()


@asynccontextmanager
async def running_pool(
    folder: Path,
    program: str,
    *flags: str,
    processes: int = PROCESSES,
    min_processes: int | None = None,
) -> AsyncIterator[Pool]:
    """Yield a pool of this program, and kill its processes at the end of the block."""
    argv = [sys.executable, "-S", "-E", "-c", program, str(folder), *flags]
    async with exthost.connect(
        argv,
        dialect="morphir",
        lifetime="plain",
        pool={"min": min_processes or processes, "max": processes},
        limits={"call": ONE_HOUR, "handshake": ONE_HOUR},
    ) as extension:
        pool = Pool(extension, folder)
        try:
            yield pool
        finally:
            for call in pool.calls:
                call.cancel()
            await asyncio.gather(*pool.calls, return_exceptions=True)
            extension.kill()


@pytest.mark.both_loops
async def test_a_burst_on_a_new_pool_waits_for_the_processes_that_are_starting(
    tmp_path: Path,
) -> None:
    async with running_pool(tmp_path, SERIAL, "staggered") as pool:
        pool.start_calls(6, until="first")
        await wait_until(lambda: len(pool.begun_calls_by_pid()) == 1)
        pool.create("start-2")
        await wait_until(lambda: len(pool.begun_calls_by_pid()) == 2)
        pool.create("start-3")
        await wait_until(lambda: len(pool.begun_calls_by_pid()) == 3)
        assert sum(pool.begun_calls_by_pid().values()) == 3
        pool.create("first")
        await asyncio.gather(*pool.calls)
        assert sum(pool.begun_calls_by_pid().values()) == 6


async def test_each_call_of_a_burst_on_a_new_pool_gets_a_process(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SERIAL) as pool:
        pool.start_calls(3, until="first")
        await wait_until(lambda: len(pool.begun_calls_by_pid()) == 3)
        pool.create("first")
        await asyncio.gather(*pool.calls)


async def test_six_calls_on_three_processes_are_spread_evenly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The pool tests only once whether the program reads calls while it handles another.
    monkeypatch.setattr(read_ahead, "PATIENCE_SECONDS", 3600.0)
    async with running_pool(tmp_path, SERIAL) as pool:
        await wait_until(lambda: pool.extension.stats.processes == 3)
        pool.start_calls(3, until="first")
        pool.start_calls(3, until="second")
        await wait_until(lambda: len(pool.begun_calls_by_pid()) == 3)
        read_ahead_test = pool.extension.internals.queue.read_ahead
        assert read_ahead_test is not None
        # The result: the program does not read ahead.
        await wait_until(lambda: read_ahead_test._interval == 3600.0)
        pool.create("first")
        await wait_until(lambda: sum(pool.begun_calls_by_pid().values()) == 6)
        assert set(pool.begun_calls_by_pid().values()) == {2}
        pool.create("second")
        await asyncio.gather(*pool.calls)


async def test_each_process_that_a_pool_adds_gets_a_call(tmp_path: Path) -> None:
    async with running_pool(tmp_path, SERIAL, min_processes=1) as pool:
        pool.start_calls(3, until="first")
        await wait_until(lambda: len(pool.begun_calls_by_pid()) == 3)
        pool.create("first")
        await asyncio.gather(*pool.calls)


async def test_calls_do_not_queue_behind_a_long_one_while_another_process_is_free(
    tmp_path: Path,
) -> None:
    async with running_pool(tmp_path, SERIAL, processes=2) as pool:
        await wait_until(lambda: pool.extension.stats.processes == 2)
        pool.start_calls(1, until="long")
        pool.start_calls(10, until="short")
        await wait_until(lambda: len(pool.begun_calls_by_pid()) == 2)
        pool.create("short")
        # One short call may wait behind the long one: the pool tests whether it would be read.
        await wait_until(lambda: sum(call.done() for call in pool.calls) >= 9)
        assert not pool.calls[0].done()
        pool.create("long")
        await asyncio.gather(*pool.calls)


async def test_a_concurrent_program_gets_all_calls_at_once(tmp_path: Path) -> None:
    async with running_pool(tmp_path, CONCURRENT, processes=2) as pool:
        await wait_until(lambda: pool.extension.stats.processes == 2)
        pool.start_calls(20, until="first")
        await wait_until(lambda: sum(pool.begun_calls_by_pid().values()) == 20)
        # Ten calls each, and at most two more that tested whether the program reads ahead.
        assert max(pool.begun_calls_by_pid().values()) <= 12
        pool.create("first")
        await asyncio.gather(*pool.calls)


async def test_a_start_that_hangs_does_not_block_calls_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After this time the pool sends another call to the only process that has started.
    monkeypatch.setattr(read_ahead, "PATIENCE_SECONDS", 0.05)
    async with running_pool(tmp_path, CONCURRENT, "staggered") as pool:
        pool.start_calls(5, until="first")
        await wait_until(lambda: sum(pool.begun_calls_by_pid().values()) == 5)
        assert len(pool.begun_calls_by_pid()) == 1
        pool.create("first")
        await asyncio.gather(*pool.calls)


def test_blocking_calls_of_three_threads_get_a_process_each(tmp_path: Path) -> None:
    argv = [sys.executable, "-S", "-E", "-c", SERIAL, str(tmp_path)]
    pool: PoolSettings = {"min": 3, "max": 3}
    with (
        exthost.sync_connect(
            argv, dialect="morphir", lifetime="plain", pool=pool, limits={"call": ONE_HOUR}
        ) as extension,
        ThreadPoolExecutor(3) as threads,
    ):
        calls = [threads.submit(extension.call, "work", {"until": "go"}) for _ in range(3)]
        deadline = time.monotonic() + 60
        begun_file = tmp_path / "begun"
        while not begun_file.exists() or len(begun_file.read_text().splitlines()) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        (tmp_path / "go").touch()
        assert len({call.result(60) for call in calls}) == 3
