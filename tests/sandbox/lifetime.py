"""Trials of the lifetime: no process remains when the host or an extension has ended in any way."""

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

# The extension and its six forked processes.
FAMILY_COUNT = 7

# The time that SECURITY.md promises.
GONE_SECONDS = 1.0


def pids_with_mark(mark: str) -> list[int]:
    """Return the pids of all processes with this value of EXTHOST_TRIAL."""
    variable = f"EXTHOST_TRIAL={mark}".encode()
    return [pid for pid in all_pids() if variable in environment_of(pid)]


async def check_all_ended(mark: str, since: float) -> None:
    """Check that all processes with this mark end within the promised time."""
    while remaining := pids_with_mark(mark):
        if time.monotonic() - since > GONE_SECONDS:
            raise AssertionError(
                f"left after {GONE_SECONDS} s: {[read_process(pid) for pid in remaining]}"
            )
        await asyncio.sleep(0.005)


class TrialHost:
    """A host in a forked process. Starting an interpreter would take ten times as long as the whole
    trial."""

    def __init__(self, end: str, mark: str) -> None:
        ready_fd, write_fd = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.environ["EXTHOST_TRIAL"] = mark
            trial_host.run_test_host(end, write_fd)
        os.close(write_fd)
        self._ready_fd = ready_fd
        self._exit = os.pidfd_open(self.pid)

    async def ready(self) -> None:
        await _readable(self._ready_fd)
        assert os.read(self._ready_fd, 16) == b"ready"

    def send(self, number: int) -> None:
        os.kill(self.pid, number)  # the process is not reaped, so the pid is still valid

    async def gone(self) -> None:
        await _readable(self._exit)

    def reap(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._ready_fd)
        os.close(self._exit)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(fd, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(fd)


async def ends_without_leftovers(end: str, number: int | None = None) -> None:
    mark = uuid.uuid4().hex
    host = TrialHost(end, mark)
    try:
        await host.ready()
        if number is not None:
            await wait_until(lambda: len(pids_with_mark(mark)) >= FAMILY_COUNT)
            host.send(number)
        await host.gone()
        await check_all_ended(mark, time.monotonic())
    finally:
        host.reap()


@trial
async def a_host_that_gets_sigkill_leaves_no_process() -> None:
    for _ in range(TRIES):
        await ends_without_leftovers("wait", signal.SIGKILL)


@trial
async def a_host_that_is_killed_during_a_spawn_leaves_no_process() -> None:
    for _ in range(TRIES):
        mark = uuid.uuid4().hex
        host = TrialHost("during spawn", mark)
        try:
            await host.ready()
            await asyncio.sleep(random.uniform(0.0, 0.04))
            host.send(signal.SIGKILL)
            await host.gone()
            await asyncio.sleep(0.02)  # so that a process that was just starting is found
            await check_all_ended(mark, time.monotonic())
        finally:
            host.reap()


@trial
async def a_host_that_segfaults_leaves_no_process() -> None:
    await ends_without_leftovers("segv")


@trial
async def a_host_that_aborts_leaves_no_process() -> None:
    await ends_without_leftovers("abort")


@trial
async def a_host_that_exits_without_a_word_leaves_no_process() -> None:
    await ends_without_leftovers("_exit")


@trial
async def a_host_that_raises_leaves_no_process() -> None:
    await ends_without_leftovers("exception")


@trial
async def a_host_that_is_interrupted_leaves_no_process() -> None:
    await ends_without_leftovers("wait", signal.SIGINT)


@trial
async def a_host_that_is_terminated_leaves_no_process() -> None:
    await ends_without_leftovers("wait", signal.SIGTERM)


@trial
async def a_family_does_not_outlive_its_extension() -> None:
    mark = uuid.uuid4().hex
    env = {"EXTHOST_TRIAL": mark}
    async with started_extension(FAMILY, env=env, restart={"strategy": "never"}) as family:
        await wait_until(lambda: len(pids_with_mark(mark)) >= FAMILY_COUNT)
        try:
            await family.call("leave")
        except ExtensionGone as gone:
            assert "exited with 3" in gone.message, gone.message
        await check_all_ended(mark, time.monotonic())


@trial
async def a_family_that_ignores_everything_is_gone_when_its_extension_is_closed() -> None:
    mark = uuid.uuid4().hex
    async with started_extension(FAMILY, env={"EXTHOST_TRIAL": mark}) as family:
        assert await family.call("echo", 1) == 1
    await check_all_ended(mark, time.monotonic())


@trial
async def a_stopped_family_is_gone_when_its_extension_is_closed() -> None:
    mark = uuid.uuid4().hex
    async with started_extension(FAMILY, env={"EXTHOST_TRIAL": mark}):
        for pid in pids_with_mark(mark):
            if (process := read_process(pid)) is not None and "tree_child" in process.command:
                os.kill(pid, signal.SIGSTOP)
    await check_all_ended(mark, time.monotonic())


@trial
async def a_dropped_handle_leaves_no_process() -> None:
    mark = uuid.uuid4().hex
    with contextlib.suppress(RuntimeError):
        async with started_extension(FAMILY, env={"EXTHOST_TRIAL": mark}):
            raise RuntimeError("the block is left by an exception")
    await check_all_ended(mark, time.monotonic())


@trial
async def a_dozen_crashes_cost_no_descriptor_no_thread_and_no_process() -> None:
    mark = uuid.uuid4().hex
    restart = {"strategy": "immediate", "max_retries": "unlimited"}
    async with started_extension(FAMILY, env={"EXTHOST_TRIAL": mark}, restart=restart) as family:

        def count_resources() -> tuple[int, int, int]:
            our_children = sum((read_process(pid) or (0,))[0] == os.getpid() for pid in all_pids())
            return len(our_descriptors()), len(our_threads()), our_children

        counts = set()
        for n in range(12):
            while True:
                try:
                    assert await family.call("echo", n) == n
                    break
                except ExtensionGone:
                    continue
            if n > 1:
                await wait_for_next(family)
                counts.add(count_resources())
            with contextlib.suppress(ExtensionGone):
                await family.call("leave")
        assert len(counts) == 1, counts
    await check_all_ended(mark, time.monotonic())


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
async def an_exit_is_reported_the_same_in_every_tier() -> None:
    for code, expected in ENDS.items():
        for settings in TIERS:
            argv = [sys.executable, "-S", "-E", "-c", code]
            try:
                async with exthost.connect(
                    argv, dialect="morphir", restart={"strategy": "never"}, **settings
                ):
                    raise AssertionError("the handshake cannot have succeeded")
            except exthost.errors.ExthostError as error:
                assert error.evidence.exit.startswith(expected), (code, settings, error.evidence)


TIERS: tuple[dict[str, Any], ...] = ({"lifetime": "plain"}, {"lifetime": "tree"})
