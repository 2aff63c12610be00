"""Restarts after a crash: their number and delay follow the policy, and calls wait or fail with the
reason.

The policy is the setting `restart`: a strategy, and the number of retries. `restart()` is a restart
that the user requests. The program is the hostile extension of the tests, whose flags say when it
dies: `die_after=50` after 50 calls, `die_at=ready` after its handshake. With `marks=FILE` each
process writes its pid to a file. A `Ledger` checks that each call ended exactly once.
"""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exthost.dialects.morphir.dialect import DIALECT
from exthost.errors import CallFailed, CallTimeout, ExtensionGone, ProtocolViolation
from exthost.events import OfferChanged, StateChanged
from exthost.extension.extension import Extension
from exthost.extension.lifecycle import INITIAL_STATE, Event, IllegalMove, State, step
from exthost.model.spec import Restart
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import (
    SHORT_SHUTDOWN,
    Ledger,
    check_call_counts,
    closed_at_end,
    error_of,
    hostile_extension,
    pid_of,
    result_or_error,
    unstarted_extension,
    wait_until,
)
from tests.extensions.proc import is_gone, our_descriptors, our_processes, our_threads


def crash(ext: Extension) -> int:
    """Kill the process of the extension with a signal, and return its pid."""
    pid: int = pid_of(ext)
    os.kill(pid, signal.SIGKILL)
    return pid


def follows_the_table(states: list[tuple[str, str]]) -> bool:
    """Return whether each change is a row of the table and begins with the state of the last
    one."""
    state = INITIAL_STATE
    for before, after in states:
        if before != state.value or not any(leads_to(state, event, after) for event in Event):
            return False
        state = State(after)
    return True


def leads_to(state: State, event: Event, after: str) -> bool:
    try:
        return step(state, event).value == after
    except IllegalMove:
        return False


async def call_until_answered(ext: Extension, method: str, params: Any) -> Any:
    """Make the call again until a process answers it."""
    while True:
        try:
            return await ext.call(method, params)
        except ExtensionGone:
            continue


@pytest.mark.sampled
@pytest.mark.both_loops
@pytest.mark.parametrize("callers", [1, 20])
async def test_each_call_of_a_child_that_dies_every_50_calls_is_answered(
    callers: int, tmp_path: Path
) -> None:
    starts_file = tmp_path / "starts"
    restart = {"strategy": "immediate", "max_retries": 100}
    ledger = Ledger()
    async with hostile_extension(
        "die_after=50", f"marks={starts_file}", restart=restart, events=ledger.bus
    ) as ext:
        numbers = iter(range(500))

        async def make_calls() -> None:
            for n in numbers:
                assert await call_until_answered(ext, "echo", {"n": n}) == {"n": n}

        await asyncio.gather(*(make_calls() for _ in range(callers)))
        assert ledger.ended["result"] == 500
        ledger.check_calls(ext)
        assert len(starts_file.read_text().split()) == 1 + ext.stats.restarts >= 500 // 50
    assert follows_the_table(ledger.states)


async def test_retry_once_sends_a_call_again_that_died_with_its_process(tmp_path: Path) -> None:
    restart = {"strategy": "immediate", "max_retries": 100}
    async with hostile_extension("die_after=50", retry="once", restart=restart) as ext:
        for n in range(300):  # one at a time: each is sent again if the process dies
            assert await ext.call("echo", n) == n
        assert ext.stats.restarts == 5
        check_call_counts(ext, 300, result=300)
        # A call that kills each process is not sent for ever.
        error = await error_of(ext.call("leave", {"code": 1}))
        assert isinstance(error, ExtensionGone)
        assert ext.stats.restarts in (6, 7)
        check_call_counts(ext, 301, result=300, gone=1)


@shows("morphir-restart-02", "morphir-restart-03")
@pytest.mark.parametrize("retries", [0, 1, 4])
async def test_an_extension_that_dies_when_ready_is_started_once_per_retry(
    retries: int, tmp_path: Path
) -> None:
    starts_file = tmp_path / "starts"
    restart = {"strategy": "immediate", "max_retries": retries}
    ledger = Ledger()
    ext = unstarted_extension(
        "die_at=ready", f"marks={starts_file}", restart=restart, bus=ledger.bus
    )
    async with closed_at_end(ext):
        await result_or_error(ext.start())
        await wait_until(lambda: ext.state == "failed")
        assert len(starts_file.read_text().split()) == 1 + retries
        call = asyncio.ensure_future(error_of(ext.call("echo")))
        await asyncio.sleep(0)
        assert call.done()  # immediately: the call does not wait
        error = await call
        assert error.evidence.exit == "exited with 3" and "restart()" in error.help
        assert error.evidence.stderr == ("dying at ready",)
        assert ext.stats.restarts == retries
        assert len(starts_file.read_text().split()) == 1 + retries  # the call started no process
    assert follows_the_table(ledger.states) and ledger.states[-1][1] == "failed"


@shows("morphir-restart-01")
async def test_the_strategy_never_leads_to_failed_until_a_restart_is_requested() -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus, restart={"strategy": "never"}) as ext:
        crash(ext)
        await wait_until(lambda: ext.state == "failed")
        error = await error_of(ext.call("echo"))
        assert isinstance(error, ExtensionGone) and error.evidence.exit == "killed by SIGKILL"
        assert "strategy is never" in error.help
        await ext.restart()
        assert ext.state == "ready" and await ext.call("echo", 1) == 1
        assert ext.health == "running"  # a requested restart forgives the crash
        ledger.check_calls(ext, result=1)
    assert follows_the_table(ledger.states)


@shows("morphir-restart-02", "morphir-restart-04")
async def test_exponential_delays_grow_and_calls_wait_through_them(clock: Clock) -> None:
    restart = {
        "strategy": "exponential",
        "initial_delay": "10m",
        "max_delay": "40m",
        "max_retries": 3,
    }
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus, restart=restart) as ext:
        for n, nominal_delay in enumerate((600, 1200, 2400)):
            crash(ext)
            await wait_until(lambda: ext.state == "backoff")
            call = asyncio.ensure_future(ext.call("echo", n, timeout=86_400))
            # Less a fifth by jitter at most; a minute is more than the test itself takes.
            await clock.advance(0.8 * nominal_delay - 60)
            assert ext.state == "backoff" and not call.done()
            await clock.advance(0.2 * nominal_delay + 60)
            assert ext.state in ("starting", "ready")  # on a fast machine it is ready already
            assert await call == n
            assert ext.health == "degraded"
        assert ext.stats.crashes == ext.stats.restarts == 3
        crash(ext)
        await wait_until(lambda: ext.state == "failed")
        ledger.check_calls(ext, result=3)
    assert follows_the_table(ledger.states)


RESTART_AFTER_AN_HOUR = {
    "strategy": "exponential",
    "initial_delay": "1h",
    "max_delay": "1h",
    "max_retries": 3,
}


async def start_and_crash(ext: Extension) -> None:
    await ext.start()
    crash(ext)
    await wait_until(lambda: ext.state == "backoff")


async def test_a_call_during_backoff_waits_until_its_timeout() -> None:
    async with closed_at_end(unstarted_extension(restart=RESTART_AFTER_AN_HOUR)) as ext:
        await start_and_crash(ext)
        assert ext.health == "restarting"
        error = await error_of(ext.call("echo", timeout=0.1))
        assert isinstance(error, CallTimeout) and "not ready" in error.message
        error = await error_of(ext.call("echo", wait=False))
        assert isinstance(error, ExtensionGone)
        assert error.evidence.exit == "killed by SIGKILL"
        assert "it is being started again, and echo is not available yet" in error.message
        check_call_counts(ext, 1, timeout=1)  # the second call was not accepted


async def test_stopping_during_backoff_is_immediate_and_fails_waiting_calls() -> None:
    ledger = Ledger()
    ext = unstarted_extension(restart=RESTART_AFTER_AN_HOUR, bus=ledger.bus)
    async with closed_at_end(ext):
        await start_and_crash(ext)
        # The backoff and the timeout of the call are longer than the test.
        waiting_call = asyncio.ensure_future(error_of(ext.call("echo", timeout=3600)))
        await asyncio.sleep(0)
        await ext.close()
        assert (await waiting_call).code == "X1006"  # the extension was stopped
        assert ext.state == "stopped"
        ledger.check_calls(ext, gone=1)
    assert follows_the_table(ledger.states)


async def test_a_requested_restart_during_backoff_is_immediate_and_resets_the_budget() -> None:
    ledger = Ledger()
    ext = unstarted_extension(restart=RESTART_AFTER_AN_HOUR | {"max_retries": 1}, bus=ledger.bus)
    async with closed_at_end(ext):
        for _ in range(3):  # each crash uses the only retry, which the request resets
            await start_and_crash(ext)
            await ext.restart()  # the backoff would last an hour
            assert ext.state == "ready"
        assert ext.stats.restarts == 0  # none of them was a retry
    assert follows_the_table(ledger.states)


@pytest.mark.both_loops
async def test_a_restart_loses_no_call(
    clock: Clock,
) -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus) as ext:
        old_pid = pid_of(ext)
        kept_calls = [
            asyncio.ensure_future(error_of(ext.call("keep", n, timeout=600))) for n in range(5)
        ]
        calls_before = [asyncio.ensure_future(ext.call("echo", n)) for n in range(50)]
        await asyncio.sleep(0)
        restarting = asyncio.ensure_future(ext.restart())
        await asyncio.sleep(0)
        calls_during = [asyncio.ensure_future(ext.call("echo", n)) for n in range(50)]
        await restarting
        assert await ext.call("echo", 1) == 1 and ext.stats.pid != old_pid
        assert await asyncio.gather(*calls_before) == list(range(50))
        assert await asyncio.gather(*calls_during) == list(range(50))
        # The old process runs until its last calls have ended.
        assert ext.stats.in_flight == 5 and not is_gone(old_pid)
        await clock.advance(601)
        assert {type(await call) for call in kept_calls} == {CallTimeout}
        await wait_until(lambda: is_gone(old_pid))
        assert ext.stats.restarts == ext.stats.crashes == 0
        ledger.check_calls(ext, result=101, timeout=5)
    assert follows_the_table(ledger.states)
    # The state was ready all the time.
    assert [after for _, after in ledger.states].count("ready") == 1


async def test_many_restarts_at_once_leave_one_process() -> None:
    ledger = Ledger()
    async with hostile_extension(events=ledger.bus, lifetime="plain") as ext:
        await asyncio.gather(*(ext.restart() for _ in range(20)))
        assert ext.state == "ready"
        assert await ext.call("pid") == pid_of(ext)
    assert follows_the_table(ledger.states)


async def test_a_restart_requested_in_the_moment_of_ready_starts_another_process() -> None:
    """The process that has just become ready does not count as the requested one."""
    ledger = Ledger()
    pids: list[int] = []
    tasks: list[asyncio.Future[None]] = []

    async def restart_and_record() -> None:
        before = pid_of(ext)
        await ext.restart()
        pids.extend((before, pid_of(ext)))

    # This event comes when the handshake ends, before the supervisor knows of it.
    ledger.bus.subscribe(
        OfferChanged, lambda _: tasks.append(asyncio.ensure_future(restart_and_record()))
    )
    ext = unstarted_extension(bus=ledger.bus)
    async with closed_at_end(ext):
        await ext.start()
        await tasks[0]
        assert pids[0] != pids[1] and ext.state == "ready"
    assert follows_the_table(ledger.states)


async def test_a_restart_requested_after_a_stop_leaves_the_extension_running() -> None:
    async with closed_at_end(unstarted_extension("ignore_eof", dialect=SHORT_SHUTDOWN)) as ext:
        await ext.start()
        stopping = asyncio.ensure_future(ext.close())
        await wait_until(lambda: ext.state == "draining")
        await ext.restart()
        await stopping
        assert ext.state == "ready" and await ext.call("echo", 1) == 1


async def test_concurrent_starts_stops_and_restarts_follow_the_table() -> None:
    ledger = Ledger()
    ext = unstarted_extension(bus=ledger.bus, dialect=SHORT_SHUTDOWN)
    # Neighbouring commands overlap, so that there are many orders of start, restart and close.
    commands = [ext.start, ext.restart, ext.close, ext.restart, ext.close, ext.close, ext.restart]
    tasks: list[asyncio.Future[Any]] = []
    for n in range(40):
        tasks.append(asyncio.ensure_future(result_or_error(commands[n % len(commands)]())))
        if n % 3 == 0:
            tasks.append(asyncio.ensure_future(result_or_error(ext.call("echo", n, timeout=20))))
        await asyncio.sleep(0.01 if n % 5 == 0 else 0)
    await asyncio.gather(*tasks)
    await ext.close()
    assert ext.state == "stopped"
    ledger.check_calls(ext)
    assert follows_the_table(ledger.states)


async def test_on_demand_is_idle_after_a_crash_and_starts_for_the_next_call(
    tmp_path: Path,
) -> None:
    starts_file = tmp_path / "starts"
    restart = {"strategy": "on-demand"}
    ledger = Ledger()
    ext = unstarted_extension(f"marks={starts_file}", restart=restart, bus=ledger.bus)
    async with closed_at_end(ext):
        for n in range(3):
            assert await ext.call("echo", n) == n
            crash(ext)
            await wait_until(lambda: ext.state == "admitted")
            assert ext.health == "idle"
            # No process was started without a call.
            assert len(starts_file.read_text().split()) == n + 1
        ledger.check_calls(ext, result=3)
    assert follows_the_table(ledger.states)


async def test_on_demand_each_call_after_a_failed_start_tries_again(
    tmp_path: Path,
) -> None:
    starts_file = tmp_path / "starts"
    ext = unstarted_extension(
        "die_at=initialize", f"marks={starts_file}", restart={"strategy": "on-demand"}
    )
    async with closed_at_end(ext):
        for n in range(3):
            errors = await asyncio.gather(*(error_of(ext.call("echo")) for _ in range(5)))
            assert {error.code for error in errors} == {"X0501"}  # it exited in its handshake
            assert len(starts_file.read_text().split()) == n + 1
        check_call_counts(ext, 15)


async def test_on_demand_a_retried_call_starts_the_next_process() -> None:
    restart = {"strategy": "on-demand", "max_retries": 10}
    ext = unstarted_extension("die_after=2", retry="once", restart=restart)
    async with closed_at_end(ext):
        assert [await ext.call("echo", n) for n in range(10)] == list(range(10))
        check_call_counts(ext, 10, result=10)


async def test_state_changes_carry_the_reason_of_the_crash() -> None:
    ledger = Ledger()
    reasons: list[str] = []
    ledger.bus.subscribe(StateChanged, lambda change: reasons.append(change.reason))
    restart = {"strategy": "immediate", "max_retries": 1}
    async with hostile_extension(events=ledger.bus, restart=restart) as ext:
        crash(ext)
        await wait_until(lambda: ext.stats.restarts == 1 and ext.state == "ready")
        crash(ext)
        await wait_until(lambda: ext.state == "failed")
    # Of the state after the crash, and of the state "failed", which has the cause as well.
    assert sum("killed by SIGKILL" in reason for reason in reasons) == 2
    assert "1 restart allowed" in reasons[-1]
    assert [after for _, after in ledger.states] == [
        "admitted",
        "starting",
        "ready",
        "backoff",
        "starting",
        "ready",
        "failed",
    ]
    assert follows_the_table(ledger.states)


async def test_a_protocol_violation_does_not_forgive_crashes(tmp_path: Path) -> None:
    """A policy that forgives after a served call does not forgive after an invalid answer.
    Otherwise each call would get a new process, for ever."""
    starts_file = tmp_path / "starts"
    policy = Restart(strategy="immediate", max_retries=2, forgiven_by="call")
    strict_dialect = replace(
        DIALECT, traits=replace(DIALECT.traits, positional=True, restart=policy)
    )
    async with closed_at_end(
        unstarted_extension(f"marks={starts_file}", dialect=strict_dialect)
    ) as ext:
        for _ in range(10):
            error = await error_of(ext.call("garbage"))
            # X0602: a message that is not one, in a dialect where that is fatal
            assert isinstance(error, ProtocolViolation) and error.code == "X0602"
            assert "not a message" in error.message and error.evidence.bytes
        assert len(starts_file.read_text().split()) == 3
        assert ext.state == "failed"


async def test_an_error_reply_forgives_crashes() -> None:
    policy = Restart(strategy="immediate", max_retries=1, forgiven_by="call")
    forgiving_dialect = replace(DIALECT, traits=replace(DIALECT.traits, restart=policy))
    async with closed_at_end(
        unstarted_extension(dialect=forgiving_dialect, lifetime="plain")
    ) as ext:
        for _ in range(4):  # only one restart is allowed since the last served call
            assert isinstance(await error_of(ext.call("refuse", {"text": "no"})), CallFailed)
            pid = crash(ext)
            await call_until_answered(ext, "echo", None)
            assert ext.stats.pid != pid
        assert ext.stats.restarts == ext.stats.crashes == 4


@pytest.mark.more
async def test_thirty_crashes_leave_no_descriptor_thread_or_process() -> None:
    restart = {"strategy": "immediate", "max_retries": 100}
    async with hostile_extension(restart=restart, lifetime="plain") as ext:

        def count_resources() -> tuple[int, int, int]:
            return len(our_descriptors()), len(our_threads()), len(our_processes())

        counts = set()
        for n in range(30):
            assert await call_until_answered(ext, "echo", n) == n
            if n > 1:
                counts.add(count_resources())
            crash(ext)
        assert len(counts) == 1


@pytest.mark.parametrize(
    "restart",
    [{"strategy": "on-demand"}, {"strategy": "immediate", "max_retries": "unlimited"}],
    ids=["on demand", "unlimited"],
)
async def test_neither_on_demand_nor_unlimited_runs_out_of_starts(restart: dict[str, str]) -> None:
    async with closed_at_end(unstarted_extension("die_after=1", restart=restart)) as ext:
        for n in range(8):
            assert await call_until_answered(ext, "echo", n) == n
        assert ext.stats.result == 8
        assert ext.stats.crashes >= 7
