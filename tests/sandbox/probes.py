"""Trials of the sandbox probe: a failure of the moment is not kept, and a refusal is reported."""

import asyncio
import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import exthost
from exthost.errors import Refused, SpawnFailed
from exthost.events import Bus, ContainmentWeakened
from exthost.launch import sandbox_probe
from exthost.model.probe_result import ProbeResult
from tests.extensions.harness import until
from tests.sandbox.confined import EXPLORER
from tests.sandbox.trials import trial

NEVER = {"strategy": "never"}
SETTINGS: tuple[dict[str, Any], ...] = ({}, {"permissions": {}})


def connect(**settings: Any) -> Any:
    return exthost.connect(EXPLORER, dialect="morphir", **settings)


@contextlib.contextmanager
def nothing_known() -> Iterator[None]:
    """Clear the results of the probe, before the block and after it."""
    before = dict(sandbox_probe._results)
    sandbox_probe._results.clear()
    try:
        yield
    finally:
        sandbox_probe._results.clear()
        sandbox_probe._results.update(before)


@contextlib.contextmanager
def descriptors(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def next_descriptor() -> int:
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)
    return fd


@contextlib.contextmanager
def refusing(reason: str) -> Iterator[None]:
    """Make the kernel refuse every namespace, for the time of the block."""
    before = sandbox_probe._run_trial
    sandbox_probe._run_trial = lambda plan: ProbeResult(reason, "allow it")
    try:
        with nothing_known():
            yield
    finally:
        sandbox_probe._run_trial = before


async def a_shortage_is_not_remembered(pids: str, **settings: Any) -> None:
    with nothing_known():
        with descriptors(next_descriptor() + 12):
            try:
                async with connect(restart=NEVER, **settings):
                    pass
            except SpawnFailed as error:
                assert error.code == "X0405", error
            else:
                raise AssertionError("there were descriptors enough")
        async with connect(restart=NEVER, **settings) as ext:
            assert ext.enforced["pids"] == pids and await ext.call("echo", 1) == 1


@trial
async def a_shortage_at_the_first_start_does_not_weaken_later_ones() -> None:
    await a_shortage_is_not_remembered("pidns")


@trial
async def a_shortage_at_the_first_start_does_not_refuse_later_ones() -> None:
    await a_shortage_is_not_remembered("pidns", permissions={})


@trial
async def a_host_that_ignores_sigchld_contains_as_usual() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with nothing_known():
            for settings in SETTINGS:
                began = time.monotonic()
                async with connect(restart=NEVER, **settings) as ext:
                    assert ext.enforced["pids"] == "pidns"
                    assert await ext.call("echo", 1) == 1
                assert time.monotonic() - began < sandbox_probe._PROBE_SECONDS
    finally:
        signal.signal(signal.SIGCHLD, before)


@trial
async def a_probe_does_not_block_the_loop() -> None:
    before, ran_in = sandbox_probe._run_trial, []

    def watched(plan: Any) -> ProbeResult:
        ran_in.append(threading.current_thread())
        return before(plan)

    sandbox_probe._run_trial = watched
    try:
        with nothing_known():
            async with connect(permissions={}) as ext:
                assert await ext.call("echo", 1) == 1
    finally:
        sandbox_probe._run_trial = before
    assert ran_in and threading.current_thread() not in ran_in


@trial
async def a_lifetime_that_is_weaker_than_usual_is_reported() -> None:
    bus, reported = Bus(), list[ContainmentWeakened]()
    bus.subscribe(ContainmentWeakened, reported.append)
    with refusing("a probe failed: no namespace: errno 1"):
        async with connect(events=bus) as ext:
            assert ext.enforced["pids"] == "process group"
            await ext.restart()
        assert [item.what for item in reported] == ["lifetime"] and "errno 1" in reported[0].reason
        reported.clear()
        async with connect(events=bus, lifetime="plain"):
            assert not reported, "what was asked for is not weaker"


@trial
async def a_sandbox_that_is_weaker_than_configured_is_reported() -> None:
    bus, reported = Bus(), list[ContainmentWeakened]()
    bus.subscribe(ContainmentWeakened, reported.append)
    settings: dict[str, Any] = {"permissions": {}, "sandbox": "best-effort", "events": bus}
    with refusing("a probe failed: no namespace: errno 1"):
        async with connect(**settings) as ext:
            assert ext.enforced["filesystem"] == "open"
    assert [item.what for item in reported] == ["sandbox", "lifetime"]


@trial
async def weaker_containment_is_refused_if_so_configured() -> None:
    none: dict[str, Any] = {}
    best_effort: dict[str, Any] = {"permissions": {}, "sandbox": "best-effort"}
    for code, settings in (("X0380", none), ("X0302", best_effort)):
        with refusing("a probe failed: no namespace: errno 1"):
            try:
                async with connect(on_weaker="refuse", **settings):
                    raise AssertionError("it was started")
            except Refused as refused:
                assert refused.code == code


@trial
async def an_extension_outlives_the_thread_that_started_it() -> None:
    def run(loop: asyncio.AbstractEventLoop, work: Any, results: list[Any]) -> None:
        results.append(loop.run_until_complete(work))

    async def in_thread(loop: asyncio.AbstractEventLoop, work: Any) -> Any:
        results: list[Any] = []
        thread = threading.Thread(target=run, args=(loop, work, results))
        thread.start()
        # Python's thread ends before the kernel's, whose end is what counts.
        await until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists())
        thread.join()
        return results[0]

    for settings in SETTINGS:
        loop = asyncio.new_event_loop()
        connection = connect(restart=NEVER, **settings)
        ext = await in_thread(loop, connection.__aenter__())
        for number in range(10):  # what is killed may still answer once
            assert await in_thread(loop, ext.call("echo", number)) == number
        await in_thread(loop, connection.__aexit__(None, None, None))
        await in_thread(loop, loop.shutdown_default_executor())
        loop.close()


@trial
async def a_host_with_few_descriptors_starts_extensions() -> None:
    for settings in SETTINGS:
        with descriptors(60):
            async with connect(restart=NEVER, **settings) as ext:
                assert await ext.call("echo", 1) == 1
