"""Trials of the sandbox probe, which finds out which sandboxes work on this machine.

A probe runs a small program in a sandbox, and its result is cached. A temporary failure, such as
too few file descriptors, must not be cached, and a refusal of the kernel must be reported. A trial
is a test that runs as root and as an ordinary user. `enforced["pids"]` is how the processes of an
extension are contained; "pidns" is a PID namespace, the usual way.
"""

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
from tests.extensions.harness import wait_until
from tests.sandbox.confined import EXPLORER
from tests.sandbox.trials import trial

NO_RESTART = {"strategy": "never"}
# Without and with a sandbox.
SETTINGS: tuple[dict[str, Any], ...] = ({}, {"permissions": {}})


def connect(**settings: Any) -> Any:
    return exthost.connect(EXPLORER, dialect="morphir", **settings)


@contextlib.contextmanager
def cleared_results() -> Iterator[None]:
    """Clear the results of the probe, before the block and after it."""
    before = dict(sandbox_probe._results)
    sandbox_probe._results.clear()
    try:
        yield
    finally:
        sandbox_probe._results.clear()
        sandbox_probe._results.update(before)


@contextlib.contextmanager
def limited_descriptors(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def next_descriptor() -> int:
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)
    return fd


@contextlib.contextmanager
def refusing_namespaces(reason: str) -> Iterator[None]:
    """Make every probe of a namespace fail during the block."""
    before = sandbox_probe._run_trial
    sandbox_probe._run_trial = lambda plan: ProbeResult(reason, "allow it")
    try:
        with cleared_results():
            yield
    finally:
        sandbox_probe._run_trial = before


async def check_shortage_is_not_remembered(**settings: Any) -> None:
    """Check that an extension starts after a start that failed without descriptors."""
    with cleared_results():
        # Enough for the pipes of an extension, but not for those of a probe as well.
        with limited_descriptors(next_descriptor() + 12):
            try:
                async with connect(restart=NO_RESTART, **settings):
                    pass
            except SpawnFailed as error:
                assert error.code == "X0405", error
            else:
                raise AssertionError("there were enough descriptors")
        async with connect(restart=NO_RESTART, **settings) as ext:
            assert ext.enforced["pids"] == "pidns" and await ext.call("echo", 1) == 1


@trial
async def a_shortage_at_the_first_start_does_not_weaken_later_ones() -> None:
    await check_shortage_is_not_remembered()


@trial
async def a_shortage_at_the_first_start_does_not_refuse_later_ones() -> None:
    await check_shortage_is_not_remembered(permissions={})


@trial
async def a_host_that_ignores_sigchld_contains_as_usual() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with cleared_results():
            for settings in SETTINGS:
                began = time.monotonic()
                async with connect(restart=NO_RESTART, **settings) as ext:
                    assert ext.enforced["pids"] == "pidns"
                    assert await ext.call("echo", 1) == 1
                assert time.monotonic() - began < sandbox_probe._PROBE_SECONDS
    finally:
        signal.signal(signal.SIGCHLD, before)


@trial
async def a_probe_does_not_block_the_loop() -> None:
    before, threads = sandbox_probe._run_trial, []

    def record_thread_and_run(plan: Any) -> ProbeResult:
        threads.append(threading.current_thread())
        return before(plan)

    sandbox_probe._run_trial = record_thread_and_run
    try:
        with cleared_results():
            async with connect(permissions={}) as ext:
                assert await ext.call("echo", 1) == 1
    finally:
        sandbox_probe._run_trial = before
    assert threads and threading.current_thread() not in threads


@trial
async def a_lifetime_that_is_weaker_than_usual_is_reported() -> None:
    bus, reported = Bus(), list[ContainmentWeakened]()
    bus.subscribe(ContainmentWeakened, reported.append)
    with refusing_namespaces("a probe failed: no namespace: errno 1"):
        async with connect(events=bus) as ext:
            assert ext.enforced["pids"] == "process group"
            await ext.restart()
        assert [item.what for item in reported] == ["lifetime"] and "errno 1" in reported[0].reason
        reported.clear()
        async with connect(events=bus, lifetime="plain"):
            assert not reported, "a configured lifetime is not weaker"


@trial
async def a_sandbox_that_is_weaker_than_configured_is_reported() -> None:
    bus, reported = Bus(), list[ContainmentWeakened]()
    bus.subscribe(ContainmentWeakened, reported.append)
    settings: dict[str, Any] = {"permissions": {}, "sandbox": "best-effort", "events": bus}
    with refusing_namespaces("a probe failed: no namespace: errno 1"):
        async with connect(**settings) as ext:
            assert ext.enforced["filesystem"] == "open"
    assert [item.what for item in reported] == ["sandbox", "lifetime"]


@trial
async def weaker_containment_is_refused_if_so_configured() -> None:
    no_settings: dict[str, Any] = {}
    best_effort: dict[str, Any] = {"permissions": {}, "sandbox": "best-effort"}
    for code, settings in (("X0380", no_settings), ("X0302", best_effort)):
        with refusing_namespaces("a probe failed: no namespace: errno 1"):
            try:
                async with connect(on_weaker="refuse", **settings):
                    raise AssertionError("it was started")
            except Refused as refused:
                assert refused.code == code


@trial
async def an_extension_outlives_the_thread_that_started_it() -> None:
    def run(loop: asyncio.AbstractEventLoop, work: Any, results: list[Any]) -> None:
        results.append(loop.run_until_complete(work))

    async def run_in_thread(loop: asyncio.AbstractEventLoop, work: Any) -> Any:
        results: list[Any] = []
        thread = threading.Thread(target=run, args=(loop, work, results))
        thread.start()
        # The thread of the kernel ends later than that of Python.
        await wait_until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists())
        thread.join()
        return results[0]

    for settings in SETTINGS:
        loop = asyncio.new_event_loop()
        connection = connect(restart=NO_RESTART, **settings)
        ext = await run_in_thread(loop, connection.__aenter__())
        for number in range(10):  # a killed process may still answer once
            assert await run_in_thread(loop, ext.call("echo", number)) == number
        await run_in_thread(loop, connection.__aexit__(None, None, None))
        await run_in_thread(loop, loop.shutdown_default_executor())
        loop.close()


@trial
async def a_host_with_few_descriptors_starts_extensions() -> None:
    for settings in SETTINGS:
        with limited_descriptors(60):
            async with connect(restart=NO_RESTART, **settings) as ext:
                assert await ext.call("echo", 1) == 1
