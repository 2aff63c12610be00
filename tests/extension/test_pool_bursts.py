"""A burst of slow calls on a pool: each process gets one, the others wait for the first free one.

The programs work until the test creates a file, so nothing depends on the speed of the machine.
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
from tests.extensions.harness import NEVER, until

# Handles one call after the other. With `staggered`, the second process waits for the file
# `start-2` before it is ready, and so on. The call `work` records the pid and waits for its file.
SERIAL = """\
import json, os, sys, time
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
for line in sys.stdin:
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

# Handles every call in a thread of its own.
CONCURRENT = SERIAL.replace("for line in sys.stdin:\n", "import threading\ndef handle(line):\n") + (
    "for line in sys.stdin:\n    threading.Thread(target=handle, args=[line]).start()\n"
)


@pytest.fixture(autouse=True)
def _calls_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every call for a slow one, however soon a test lets it end."""
    monkeypatch.setattr(process_choice, "_AHEAD_SECONDS", 0.0)


class Pool:
    """A pool of one of the programs, and the folder by which the test steers it."""

    def __init__(self, extension: exthost.Extension, folder: Path) -> None:
        self.extension = extension
        self._folder = folder
        self.calls: list[asyncio.Task[Any]] = []

    def work(self, count: int, until: str) -> None:
        for _ in range(count):
            call = self.extension.call("work", {"until": until})
            self.calls.append(asyncio.ensure_future(call))

    def create(self, name: str) -> None:
        (self._folder / name).touch()

    def begun(self) -> Counter[int]:
        """Return how many calls each process has begun, by pid."""
        file = self._folder / "begun"
        return Counter(map(int, file.read_text().split())) if file.exists() else Counter()


@asynccontextmanager
async def running(
    folder: Path, program: str, *flags: str, processes: int = 3, min: int | None = None
) -> AsyncIterator[Pool]:
    argv = [sys.executable, "-S", "-E", "-c", program, str(folder), *flags]
    async with exthost.connect(
        argv,
        dialect="morphir",
        lifetime="plain",
        pool={"min": min or processes, "max": processes},
        limits={"call": NEVER, "handshake": NEVER},
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
async def test_a_burst_on_a_fresh_pool_waits_for_the_processes_that_are_starting(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, SERIAL, "staggered") as pool:
        pool.work(6, until="first")
        await until(lambda: len(pool.begun()) == 1)
        pool.create("start-2")
        await until(lambda: len(pool.begun()) == 2)
        pool.create("start-3")
        await until(lambda: len(pool.begun()) == 3)
        assert sum(pool.begun().values()) == 3
        pool.create("first")
        await asyncio.gather(*pool.calls)
        assert sum(pool.begun().values()) == 6


async def test_each_call_of_a_burst_on_a_fresh_pool_gets_its_own_process(tmp_path: Path) -> None:
    async with running(tmp_path, SERIAL) as pool:
        pool.work(3, until="first")
        await until(lambda: len(pool.begun()) == 3)
        pool.create("first")
        await asyncio.gather(*pool.calls)


async def test_twice_as_many_calls_as_processes_are_two_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "PATIENCE_SECONDS", 3600.0)  # one trial, and no other
    async with running(tmp_path, SERIAL) as pool:
        await until(lambda: pool.extension.stats.processes == 3)
        pool.work(3, until="first")
        pool.work(3, until="second")
        await until(lambda: len(pool.begun()) == 3)
        trial = pool.extension.internals.queue.read_ahead
        assert trial is not None
        await until(lambda: trial._interval == 3600.0)  # a process did not read its second call
        pool.create("first")
        await until(lambda: sum(pool.begun().values()) == 6)
        assert set(pool.begun().values()) == {2}
        pool.create("second")
        await asyncio.gather(*pool.calls)


async def test_a_pool_that_has_to_grow_gives_each_new_process_a_call(tmp_path: Path) -> None:
    async with running(tmp_path, SERIAL, min=1) as pool:
        pool.work(3, until="first")
        await until(lambda: len(pool.begun()) == 3)
        pool.create("first")
        await asyncio.gather(*pool.calls)


async def test_calls_do_not_queue_behind_a_long_one_while_another_process_is_free(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, SERIAL, processes=2) as pool:
        await until(lambda: pool.extension.stats.processes == 2)
        pool.work(1, until="long")
        pool.work(10, until="short")
        await until(lambda: len(pool.begun()) == 2)
        pool.create("short")
        # One may have been sent behind the long one, as the trial whether it would be read.
        await until(lambda: sum(call.done() for call in pool.calls) >= 9)
        assert not pool.calls[0].done()
        pool.create("long")
        await asyncio.gather(*pool.calls)


async def test_a_program_that_handles_several_calls_at_once_gets_them(tmp_path: Path) -> None:
    async with running(tmp_path, CONCURRENT, processes=2) as pool:
        await until(lambda: pool.extension.stats.processes == 2)
        pool.work(20, until="first")
        await until(lambda: sum(pool.begun().values()) == 20)
        assert max(pool.begun().values()) <= 12, "the load is even, but for the trial"
        pool.create("first")
        await asyncio.gather(*pool.calls)


async def test_a_start_that_hangs_does_not_block_calls_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "PATIENCE_SECONDS", 0.05)
    async with running(tmp_path, CONCURRENT, "staggered") as pool:
        pool.work(5, until="first")
        await until(lambda: sum(pool.begun().values()) == 5)
        assert len(pool.begun()) == 1
        pool.create("first")
        await asyncio.gather(*pool.calls)


def test_the_blocking_calls_of_several_threads_get_a_process_each(tmp_path: Path) -> None:
    argv = [sys.executable, "-S", "-E", "-c", SERIAL, str(tmp_path)]
    pool: PoolSettings = {"min": 3, "max": 3}
    with (
        exthost.sync_connect(
            argv, dialect="morphir", lifetime="plain", pool=pool, limits={"call": NEVER}
        ) as extension,
        ThreadPoolExecutor(3) as threads,
    ):
        calls = [threads.submit(extension.call, "work", {"until": "go"}) for _ in range(3)]
        deadline = time.monotonic() + 60
        begun = tmp_path / "begun"
        while not begun.exists() or len(begun.read_text().splitlines()) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        (tmp_path / "go").touch()
        assert len({call.result(60) for call in calls}) == 3
