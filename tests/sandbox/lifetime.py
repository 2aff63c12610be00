"""Lifetime trials: however the host or an extension ends, no process of it is left."""

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
from tests.extensions.harness import until
from tests.extensions.proc import (
    all_pids,
    environment_of,
    our_descriptors,
    our_threads,
    read_process,
)
from tests.sandbox import trial_host
from tests.sandbox.trial_host import FAMILY, impatient
from tests.sandbox.trials import TRIES, trial

# It forks three times twice.
FAMILY_COUNT = 7

# What SECURITY.md promises.
GONE_SECONDS = 1.0


def marked(mark: str) -> list[int]:
    """Return the processes with this marker variable: all that an extension has started."""
    wanted = f"EXTHOST_TRIAL={mark}".encode()
    return [pid for pid in all_pids() if wanted in environment_of(pid)]


async def all_gone(mark: str, since: float) -> None:
    """Check that all processes with this marker end in time."""
    while left := marked(mark):
        if time.monotonic() - since > GONE_SECONDS:
            raise AssertionError(
                f"left after {GONE_SECONDS} s: {[read_process(pid) for pid in left]}"
            )
        await asyncio.sleep(0.005)


class TrialHost:
    """A host in a process of its own. It is forked, because starting an interpreter would take ten
    times as long as everything else."""

    def __init__(self, end: str, mark: str) -> None:
        report, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.environ["EXTHOST_TRIAL"] = mark
            trial_host.become(end, tell)
        os.close(tell)
        self._told = report
        self._exit = os.pidfd_open(self.pid)

    async def ready(self) -> None:
        await _readable(self._told)
        assert os.read(self._told, 16) == b"ready"

    def send(self, number: int) -> None:
        os.kill(self.pid, number)  # not reaped, so it is still its own

    async def gone(self) -> None:
        await _readable(self._exit)

    def reap(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._told)
        os.close(self._exit)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    happened = asyncio.Event()
    loop.add_reader(fd, happened.set)
    try:
        await happened.wait()
    finally:
        loop.remove_reader(fd)


async def ends_without_leftovers(end: str, number: int | None = None) -> None:
    mark = uuid.uuid4().hex
    host = TrialHost(end, mark)
    try:
        await host.ready()
        if number is not None:
            await until(lambda: len(marked(mark)) >= FAMILY_COUNT)
            host.send(number)
        await host.gone()
        await all_gone(mark, time.monotonic())
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
            await asyncio.sleep(0.02)  # one that was only being made shows by then
            await all_gone(mark, time.monotonic())
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
    async with impatient(FAMILY, env=env, restart={"strategy": "never"}) as family:
        await until(lambda: len(marked(mark)) >= FAMILY_COUNT)
        try:
            await family.call("leave")
        except ExtensionGone as gone:
            assert "exited with 3" in gone.message, gone.message
        await all_gone(mark, time.monotonic())


@trial
async def a_family_that_ignores_everything_is_gone_when_its_extension_is_closed() -> None:
    mark = uuid.uuid4().hex
    async with impatient(FAMILY, env={"EXTHOST_TRIAL": mark}) as family:
        assert await family.call("echo", 1) == 1
    await all_gone(mark, time.monotonic())


@trial
async def a_stopped_family_is_gone_when_its_extension_is_closed() -> None:
    mark = uuid.uuid4().hex
    async with impatient(FAMILY, env={"EXTHOST_TRIAL": mark}):
        for pid in marked(mark):
            if (observed := read_process(pid)) is not None and "tree_child" in observed.command:
                os.kill(pid, signal.SIGSTOP)
    await all_gone(mark, time.monotonic())


@trial
async def a_dropped_handle_leaves_no_process() -> None:
    mark = uuid.uuid4().hex
    with contextlib.suppress(RuntimeError):
        async with impatient(FAMILY, env={"EXTHOST_TRIAL": mark}):
            raise RuntimeError("the block is left by an exception")
    await all_gone(mark, time.monotonic())


@trial
async def a_dozen_crashes_cost_no_descriptor_no_thread_and_no_process() -> None:
    mark = uuid.uuid4().hex
    restart = {"strategy": "immediate", "max_retries": "unlimited"}
    async with impatient(FAMILY, env={"EXTHOST_TRIAL": mark}, restart=restart) as family:

        def held() -> tuple[int, int, int]:
            ours = sum((read_process(pid) or (0,))[0] == os.getpid() for pid in all_pids())
            return len(our_descriptors()), len(our_threads()), ours

        counts = set()
        for n in range(12):
            while True:
                try:
                    assert await family.call("echo", n) == n
                    break
                except ExtensionGone:
                    continue
            if n > 1:
                counts.add(held())
            with contextlib.suppress(ExtensionGone):
                await family.call("leave")
        assert len(counts) == 1, counts
    await all_gone(mark, time.monotonic())


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
    for code, report in ENDS.items():
        for settings in TIERS:
            words = [sys.executable, "-S", "-E", "-c", code]
            try:
                async with exthost.connect(
                    words, dialect="morphir", restart={"strategy": "never"}, **settings
                ):
                    raise AssertionError("it cannot have shaken hands")
            except exthost.errors.ExthostError as error:
                assert error.evidence.exit.startswith(report), (code, settings, error.evidence)


TIERS: tuple[dict[str, Any], ...] = ({"lifetime": "plain"}, {"lifetime": "tree"})
