"""The circuit breaker of an extension: it stops calls to a program that fails again and again.

After `failures` consecutive failures it opens: the process is ended, and calls are refused. After
the time `open`, the next call starts a new process and is sent to it as a probe. After `successes`
successful probes the breaker closes; a failed probe opens it again, for twice the time.

The program is the hostile extension of the tests: `echo` returns its argument, `keep` is never
answered, so that it times out, `refuse` is answered with an error, and `leave` exits.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config.extension_settings import BreakerSettings
from exthost.errors import (
    BreakerOpen,
    CallFailed,
    CallTimeout,
    ExtensionGone,
    ExthostError,
    HandshakeFailed,
)
from exthost.extension.extension import Extension
from tests.dialects.requirements import shows
from tests.extension.test_restarting import follows_the_table
from tests.extensions.clock import Clock
from tests.extensions.harness import (
    Ledger,
    closed_at_end,
    error_of,
    extension_without_namespace,
    hostile_extension,
    result_or_error,
    unstarted_extension,
    wait_until,
)
from tests.extensions.proc import is_gone

# The times are longer than any test: they pass only when a test moves the clock.
SETTINGS: BreakerSettings = {"failures": 3, "open": "10m", "max_open": "1h", "successes": 2}
OPEN_SECONDS = 600


def entered_states(ledger: Ledger) -> list[str]:
    """Return the states that the extension entered, in order."""
    return [state_after for _state_before, state_after in ledger.states]


def seconds_left(error: ExthostError) -> float:
    """Return how many seconds the breaker stays open, from the error of a refused call."""
    assert isinstance(error, BreakerOpen)
    return error.seconds_left


async def make_timed_out_calls(ext: Extension, times: int) -> None:
    errors = await asyncio.gather(*(error_of(ext.call("keep", timeout=0.05)) for _ in range(times)))
    assert {type(error) for error in errors} == {CallTimeout}


async def pass_open_time(clock: Clock, ext: Extension, seconds: float = OPEN_SECONDS) -> None:
    """Move the clock to the time when the breaker allows a probe."""
    await wait_until(lambda: ext.state == "open")
    await clock.advance(seconds)


@pytest.mark.both_loops
@shows("nexo-life-03", "nexo-life-05", "nexo-life-06")
async def test_the_breaker_opens_probes_a_new_process_and_closes_again(
    tmp_path: Path, clock: Clock
) -> None:
    starts_file = tmp_path / "starts"  # each process writes its pid to it
    ledger = Ledger()
    async with extension_without_namespace(
        f"marks={starts_file}", breaker=SETTINGS, events=ledger.bus
    ) as ext:
        old_pid = await ext.call("pid")
        await make_timed_out_calls(ext, 3)
        await wait_until(lambda: ext.state == "open")
        assert (ext.health, ext.stats.breaker) == ("suspended", "open")
        error = await error_of(ext.call("echo", 1))
        assert isinstance(error, BreakerOpen) and error.code == "X1170"
        assert seconds_left(error) == pytest.approx(OPEN_SECONDS, abs=60)
        assert "keep took longer" in error.message
        await wait_until(lambda: is_gone(old_pid))
        await pass_open_time(clock, ext)
        assert len(starts_file.read_text().split()) == 1  # without a call, no process is started
        new_pid = await ext.call("pid")
        assert new_pid != old_pid and ext.stats.restarts == 0
        assert (ext.health, ext.stats.breaker) == ("degraded", "half-open")
        assert await ext.call("echo", 2) == 2
        assert (ext.health, ext.stats.breaker) == ("running", "closed")
        assert await ext.call("pid") == new_pid and len(starts_file.read_text().split()) == 2
        ledger.check_calls(ext, result=4, timeout=3)
    assert entered_states(ledger)[2:6] == ["ready", "open", "starting", "ready"]
    assert follows_the_table(ledger.states)


async def test_an_answered_call_resets_the_count_of_failures() -> None:
    async with hostile_extension(breaker=SETTINGS) as ext:
        for _ in range(4):
            await make_timed_out_calls(ext, 2)  # one failure less than opens the breaker
            assert await ext.call("echo", 1) == 1
        assert ext.state == "ready" and ext.stats.breaker == "closed"


@shows("nexo-life-05")
async def test_a_failed_probe_doubles_the_open_time_and_fails_waiting_calls(
    clock: Clock,
) -> None:
    ledger = Ledger()
    async with hostile_extension(breaker=SETTINGS, events=ledger.bus) as ext:
        await make_timed_out_calls(ext, 3)
        await pass_open_time(clock, ext)
        probe = asyncio.ensure_future(error_of(ext.call("keep", timeout=600)))
        await wait_until(lambda: ext.stats.in_flight == 1)
        other_calls = [
            asyncio.ensure_future(error_of(ext.call("echo", n, timeout=3600))) for n in range(5)
        ]
        await asyncio.sleep(0)
        assert ext.stats.waiting == 5  # one probe at a time
        await clock.advance(601)
        assert isinstance(await probe, CallTimeout)
        errors = await asyncio.gather(*other_calls)
        assert {type(error) for error in errors} == {BreakerOpen}
        assert seconds_left(errors[0]) == pytest.approx(2 * OPEN_SECONDS, abs=60)
        ledger.check_calls(ext, timeout=4, gone=5)
    assert follows_the_table(ledger.states)


async def test_the_calls_of_a_replaced_process_do_not_open_the_breaker(clock: Clock) -> None:
    async with hostile_extension(breaker=SETTINGS) as ext:
        old_calls = [
            asyncio.ensure_future(error_of(ext.call("keep", timeout=600))) for _ in range(5)
        ]
        await wait_until(lambda: ext.stats.in_flight == 5)
        await ext.restart()
        await clock.advance(601)
        assert {type(error) for error in await asyncio.gather(*old_calls)} == {CallTimeout}
        assert (ext.state, ext.stats.breaker) == ("ready", "closed")
        assert await ext.call("echo", 1) == 1
        await make_timed_out_calls(ext, 2)
        assert ext.stats.breaker == "closed"  # two failures of the new process
        await make_timed_out_calls(ext, 1)
        assert ext.stats.breaker == "open"


async def test_the_calls_of_the_process_before_do_not_count_as_probes(clock: Clock) -> None:
    async with hostile_extension(breaker=SETTINGS | {"failures": 1}) as ext:
        old_call = asyncio.ensure_future(error_of(ext.call("keep", timeout=2 * OPEN_SECONDS)))
        await wait_until(lambda: ext.stats.in_flight == 1)
        await make_timed_out_calls(ext, 1)
        await pass_open_time(clock, ext)
        assert await ext.call("echo", 1) == 1
        assert ext.stats.breaker == "half-open"
        await clock.advance(OPEN_SECONDS)
        assert isinstance(await old_call, CallTimeout)
        assert (ext.state, ext.stats.breaker) == ("ready", "half-open")
        assert await ext.call("echo", 2) == 2
        assert ext.stats.breaker == "closed"


async def test_the_breaker_counts_the_crashes_of_processes_that_take_one_call() -> None:
    settings = SETTINGS | {"failures": 2}
    ext = unstarted_extension(isolation="call", start_method="execute", breaker=settings)
    async with closed_at_end(ext):
        assert await ext.call("echo", 1) == 1
        assert isinstance(await error_of(ext.call("leave", {"code": 1})), ExtensionGone)
        assert ext.stats.crashes == 1 and ext.stats.breaker == "closed"
        assert isinstance(await error_of(ext.call("leave", {"code": 1})), ExtensionGone)
        assert (ext.state, ext.stats.breaker) == ("open", "open")
        assert isinstance(await error_of(ext.call("echo", 1)), BreakerOpen)


@shows("nexo-life-05")
async def test_a_crash_that_ends_twenty_calls_is_one_failure() -> None:
    restart = {"strategy": "immediate", "max_retries": "unlimited"}
    async with hostile_extension(breaker=SETTINGS | {"failures": 2}, restart=restart) as ext:
        kept_calls = [asyncio.ensure_future(error_of(ext.call("keep"))) for _ in range(20)]
        await wait_until(lambda: ext.stats.in_flight == 20)
        error = await error_of(ext.call("leave", {"code": 1}))
        assert isinstance(error, ExtensionGone)
        assert {type(await call) for call in kept_calls} == {ExtensionGone}
        await wait_until(lambda: ext.state == "ready")
        assert ext.stats.breaker == "closed"
        await error_of(ext.call("leave", {"code": 1}))
        await wait_until(lambda: ext.state == "open")
        # The second crash opened the breaker instead of using a restart.
        assert ext.stats.restarts == 1


@shows("nexo-life-03")
async def test_error_replies_count_as_failures_only_if_configured() -> None:
    async with hostile_extension(breaker=SETTINGS) as ext:
        for _ in range(10):
            assert isinstance(await error_of(ext.call("refuse", {"text": "no"})), CallFailed)
        assert ext.state == "ready"
        await make_timed_out_calls(ext, 2)
        await error_of(ext.call("refuse", {"text": "no"}))  # an answer resets the count
        await make_timed_out_calls(ext, 2)
        assert ext.state == "ready"
    async with hostile_extension(breaker=SETTINGS | {"count_error_replies": True}) as ext:
        for _ in range(3):
            assert isinstance(await error_of(ext.call("refuse", {"text": "no"})), CallFailed)
        await wait_until(lambda: ext.state == "open")


async def test_a_timed_out_call_that_was_not_sent_does_not_count() -> None:
    async with closed_at_end(unstarted_extension("hang_at=initialize", breaker=SETTINGS)) as ext:
        for _ in range(5):
            assert isinstance(await error_of(ext.call("echo", timeout=0.02)), CallTimeout)
        assert ext.state == "starting" and ext.stats.breaker == "closed"


@pytest.mark.parametrize("timeout", [0, 0.0, -0.5])
async def test_a_call_without_time_left_is_not_accepted_and_does_not_count(
    timeout: float,
) -> None:
    ledger = Ledger()
    sent_messages: list[Any] = []
    async with hostile_extension(breaker=SETTINGS, events=ledger.bus) as ext:
        ext.internals.traffic.subscribe(sent_messages.append)
        for _ in range(5):
            for call in (
                ext.call("echo", timeout=timeout),
                ext.call_tool("echo", {}, timeout=timeout),
                ext.check_health(timeout=timeout),
            ):
                error = await error_of(call)
                assert isinstance(error, CallTimeout) and error.code == "X0801"
                assert "was not sent" in error.message
        with pytest.raises(CallTimeout):
            ext.stream("echo", timeout=timeout)
        assert (ext.state, ext.stats.breaker, ext.health) == ("ready", "closed", "running")
        ledger.check_calls(ext)
        assert not sent_messages
        assert await ext.call("echo", 1) == 1


async def test_a_call_without_time_left_does_not_start_the_extension() -> None:
    async with closed_at_end(unstarted_extension(start="lazy")) as ext:
        for call in (ext.call("echo", timeout=-1), ext.call_tool("echo", {}, timeout=-1)):
            assert isinstance(await error_of(call), CallTimeout)
        assert ext.state == "discovered"


async def test_a_new_process_that_fails_to_start_is_a_failed_probe(
    tmp_path: Path, clock: Clock
) -> None:
    program = tmp_path / "program"
    hostile_program = Path(__file__).parents[1] / "extensions" / "hostile.py"
    program.write_text(f"#!/bin/sh\nexec python3 -S -E {hostile_program}\n")
    program.chmod(0o755)
    async with exthost.connect(
        [str(program)], breaker=SETTINGS, name="fickle", dialect="morphir"
    ) as ext:
        await make_timed_out_calls(ext, 3)
        program.write_text("#!/bin/sh\nexit 3\n")
        await pass_open_time(clock, ext)
        error = await error_of(ext.call("echo"))
        assert isinstance(error, HandshakeFailed) and ext.state == "open"
        second_error = await error_of(ext.call("echo"))
        assert seconds_left(second_error) == pytest.approx(2 * OPEN_SECONDS, abs=60)
        program.write_text(f"#!/bin/sh\nexec python3 -S -E {hostile_program}\n")
        await ext.restart()  # a restart by the user is immediate
        assert await ext.call("echo", 1) == 1 and ext.stats.breaker == "closed"


async def test_a_call_that_does_not_wait_fails_at_once_and_still_starts_the_probe(
    clock: Clock,
) -> None:
    async with hostile_extension(breaker=SETTINGS) as ext:
        await make_timed_out_calls(ext, 3)
        assert isinstance(await error_of(ext.call("echo", wait=False)), BreakerOpen)
        await pass_open_time(clock, ext)
        await result_or_error(ext.call("echo", wait=False))
        await wait_until(lambda: ext.state == "ready")
        assert await ext.call("echo", 1, wait=False) == 1


async def test_an_extension_can_be_stopped_while_its_breaker_is_open() -> None:
    ledger = Ledger()
    ext = unstarted_extension(breaker=SETTINGS, bus=ledger.bus)
    async with closed_at_end(ext):
        await ext.start()
        await make_timed_out_calls(ext, 3)
        await wait_until(lambda: ext.state == "open")
    assert ext.state == "stopped" and follows_the_table(ledger.states)


@pytest.mark.parametrize(("settings", "opens"), [({}, False), ({"failures": 3}, True)])
async def test_a_breaker_key_enables_the_breaker_in_a_dialect_without_a_breaker(
    settings: dict[str, Any], opens: bool
) -> None:
    async with hostile_extension(**({"breaker": settings} if settings else {})) as ext:
        await make_timed_out_calls(ext, 5)
        if opens:
            await wait_until(lambda: ext.state == "open")
        else:
            assert await ext.call("echo", 1) == 1 and ext.state == "ready"


@shows("nexo-life-01", "nexo-life-05")
async def test_a_program_that_crashes_at_every_call_is_given_up(clock: Clock) -> None:
    ledger = Ledger()
    restart: Any = {"strategy": "exponential", "initial_delay": "1ms", "max_retries": 3}
    async with hostile_extension(breaker=SETTINGS, restart=restart, events=ledger.bus) as ext:
        for _ in range(3):
            assert isinstance(await error_of(ext.call("leave", {"code": 3})), ExtensionGone)
        await pass_open_time(clock, ext)  # the breaker opened before the restarts were used
        assert ext.stats.restarts == 2
        # The probe after a crash is a restart, and the last one.
        assert isinstance(await error_of(ext.call("leave", {"code": 3})), ExtensionGone)
        assert (ext.state, ext.stats.restarts) == ("failed", 3)
        error = await error_of(ext.call("echo", 1))
        assert "all 3 restarts allowed" in str(error) and not isinstance(error, BreakerOpen)
        await ext.restart()
        assert await ext.call("echo", 1) == 1
    assert entered_states(ledger).count("open") == 1


async def test_probes_for_a_program_that_hangs_use_no_restart(clock: Clock) -> None:
    restart: Any = {"strategy": "exponential", "initial_delay": "1ms", "max_retries": 1}
    async with hostile_extension(breaker=SETTINGS, restart=restart) as ext:
        await make_timed_out_calls(ext, 3)
        for seconds in (OPEN_SECONDS, 2 * OPEN_SECONDS, 4 * OPEN_SECONDS):
            await pass_open_time(clock, ext, seconds)
            probe = asyncio.ensure_future(error_of(ext.call("keep", timeout=60)))
            await wait_until(lambda: ext.stats.in_flight == 1)
            await clock.advance(61)
            assert isinstance(await probe, CallTimeout)
        assert (ext.state, ext.stats.restarts) == ("open", 0)
