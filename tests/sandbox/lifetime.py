"""Trials that no process of an extension is left after the extension or its host has ended, however
it ended.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. The
extension is `FAMILY` (`tree_child.py`), which starts processes that are hard to end. All of them
inherit a variable with a mark, by which they are found.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
import uuid
from typing import Any

import exthost
from exthost.errors import ExtensionGone
from tests.extensions.harness import wait_until
from tests.extensions.proc import (
    all_pids,
    environment_of,
    our_descriptors,
    our_threads,
    read_process,
)
from tests.sandbox import trial_host
from tests.sandbox.trial_host import FAMILY, started_extension, wait_for_next
from tests.sandbox.trials import TRIES, trial

# The processes of the extension `FAMILY`: itself, and six forked ones, which ignore all signals.
FAMILY_COUNT = 7

# The time that SECURITY.md promises.
MAX_SECONDS_UNTIL_GONE = 1.0


def pids_with_mark(mark: str) -> list[int]:
    """Return the pids of all processes with this value of EXTHOST_TRIAL. Descendants inherit the
    variable. The host, which sets it after its start, is not among them."""
    variable = f"EXTHOST_TRIAL={mark}".encode()
    return [pid for pid in all_pids() if variable in environment_of(pid)]


async def check_all_ended(mark: str, since: float) -> None:
    """Check that all processes with this mark end within the promised time."""
    while remaining := pids_with_mark(mark):
        if time.monotonic() - since > MAX_SECONDS_UNTIL_GONE:
            raise AssertionError(
                f"left after {MAX_SECONDS_UNTIL_GONE} s: {[read_process(pid) for pid in remaining]}"
            )
        await asyncio.sleep(0.005)


class TrialHost:
    """A host in a forked process. Starting an interpreter would take ten times as long as the whole
    trial. `end` is how it ends: see `trial_host.run_test_host`."""

    def __init__(self, end: str, mark: str) -> None:
        ready_fd, write_fd = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.environ["EXTHOST_TRIAL"] = mark
            trial_host.run_test_host(end, write_fd)
        os.close(write_fd)
        self._ready_fd = ready_fd
        self._exit = os.pidfd_open(self.pid)

    async def wait_ready(self) -> None:
        await _wait_readable(self._ready_fd)
        assert os.read(self._ready_fd, 16) == b"ready"

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)  # the process is not reaped, so the pid is still valid

    async def wait_gone(self) -> None:
        await _wait_readable(self._exit)

    def kill_and_reap(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._ready_fd)
        os.close(self._exit)


async def _wait_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(fd, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(fd)


async def check_host_leaves_no_process(end: str, signal_number: int | None = None) -> None:
    """Check that no process is left of a host that ends in this way, or by this signal."""
    mark = uuid.uuid4().hex
    host = TrialHost(end, mark)
    try:
        await host.wait_ready()
        if signal_number is not None:
            await wait_until(lambda: len(pids_with_mark(mark)) >= FAMILY_COUNT)
            host.send_signal(signal_number)
        await host.wait_gone()
        await check_all_ended(mark, time.monotonic())
    finally:
        host.kill_and_reap()


@trial
async def a_host_that_gets_sigkill_leaves_no_process() -> None:
    for _ in range(TRIES):
        await check_host_leaves_no_process("wait", signal.SIGKILL)


@trial
async def a_host_that_is_killed_during_a_spawn_leaves_no_process() -> None:
    for _ in range(TRIES):
        mark = uuid.uuid4().hex
        host = TrialHost("during spawn", mark)
        try:
            await host.wait_ready()
            await asyncio.sleep(random.uniform(0.0, 0.04))  # a random moment of the spawn
            host.send_signal(signal.SIGKILL)
            await host.wait_gone()
            await asyncio.sleep(0.02)  # a process that was just forked becomes visible
            await check_all_ended(mark, time.monotonic())
        finally:
            host.kill_and_reap()


@trial
async def a_host_that_segfaults_leaves_no_process() -> None:
    await check_host_leaves_no_process("segv")


@trial
async def a_host_that_aborts_leaves_no_process() -> None:
    await check_host_leaves_no_process("abort")


@trial
async def a_host_that_calls_os_exit_leaves_no_process() -> None:
    await check_host_leaves_no_process("_exit")


@trial
async def a_host_that_raises_leaves_no_process() -> None:
    await check_host_leaves_no_process("exception")


@trial
async def a_host_that_is_interrupted_leaves_no_process() -> None:
    await check_host_leaves_no_process("wait", signal.SIGINT)


@trial
async def a_host_that_is_terminated_leaves_no_process() -> None:
    await check_host_leaves_no_process("wait", signal.SIGTERM)


@trial
async def a_crashed_extension_leaves_no_process() -> None:
    mark = uuid.uuid4().hex
    env = {"EXTHOST_TRIAL": mark}
    async with started_extension(FAMILY, env=env, restart={"strategy": "never"}) as family:
        await wait_until(lambda: len(pids_with_mark(mark)) >= FAMILY_COUNT)
        try:
            await family.call("leave")
        except ExtensionGone as gone:
            assert "exited with 3" in gone.message, gone.message
        else:
            raise AssertionError("the extension did not exit")
        await check_all_ended(mark, time.monotonic())


@trial
async def a_family_that_ignores_all_signals_is_gone_when_its_extension_is_closed() -> None:
    mark = uuid.uuid4().hex
    async with started_extension(FAMILY, env={"EXTHOST_TRIAL": mark}) as family:
        assert await family.call("echo", 1) == 1
    await check_all_ended(mark, time.monotonic())


@trial
async def a_stopped_family_is_gone_when_its_extension_is_closed() -> None:
    mark = uuid.uuid4().hex
    async with started_extension(FAMILY, env={"EXTHOST_TRIAL": mark}):
        await wait_until(lambda: len(pids_with_mark(mark)) >= FAMILY_COUNT)
        for pid in pids_with_mark(mark):
            # The first process of the namespace is not stopped.
            if (process := read_process(pid)) is not None and "tree_child" in process.command:
                os.kill(pid, signal.SIGSTOP)
    await check_all_ended(mark, time.monotonic())


@trial
async def a_block_that_raises_leaves_no_process() -> None:
    mark = uuid.uuid4().hex
    with contextlib.suppress(RuntimeError):
        async with started_extension(FAMILY, env={"EXTHOST_TRIAL": mark}):
            raise RuntimeError("the block is left by an exception")
    await check_all_ended(mark, time.monotonic())


@trial
async def a_dozen_crashes_leak_no_descriptor_thread_or_process() -> None:
    mark = uuid.uuid4().hex
    restart = {"strategy": "immediate", "max_retries": "unlimited"}
    async with started_extension(FAMILY, env={"EXTHOST_TRIAL": mark}, restart=restart) as family:

        def count_resources() -> tuple[int, int, int]:
            processes = [process for pid in all_pids() if (process := read_process(pid))]
            our_children = sum(process.parent == os.getpid() for process in processes)
            return len(our_descriptors()), len(our_threads()), our_children

        counts = set()
        for n in range(12):
            while True:
                try:
                    assert await family.call("echo", n) == n
                    break
                except ExtensionGone:
                    continue
            if n > 1:  # the first two starts still allocate
                await wait_for_next(family)
                counts.add(count_resources())
            with contextlib.suppress(ExtensionGone):
                await family.call("leave")
        assert len(counts) == 1, counts
    await check_all_ended(mark, time.monotonic())


LIFETIMES: tuple[dict[str, Any], ...] = ({"lifetime": "plain"}, {"lifetime": "tree"})

ENDS = {
    "import os; os._exit(0)": "exited with 0",
    "import os; os._exit(3)": "exited with 3",
    "import os; os._exit(139)": "exited with 139",
    "import os; os.abort()": "killed by SIGABRT",
    "import os; os.kill(os.getpid(), 11)": "killed by SIGSEGV",
    "import os; os.kill(os.getpid(), 9)": "killed by SIGKILL",
    "import os; os.kill(os.getpid(), 15)": "killed by SIGTERM",
}


@trial
async def an_exit_is_reported_the_same_in_every_lifetime() -> None:
    for code, expected in ENDS.items():
        for settings in LIFETIMES:
            argv = [sys.executable, "-S", "-E", "-c", code]
            try:
                async with exthost.connect(
                    argv, dialect="morphir", restart={"strategy": "never"}, **settings
                ):
                    raise AssertionError("the handshake cannot have succeeded")
            except exthost.errors.ExthostError as error:
                assert error.evidence.exit.startswith(expected), (code, settings, error.evidence)
