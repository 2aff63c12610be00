"""A stream is counted once when it ends: in the stats, the events, the audit and the breaker.

A stream is a call whose reply comes as a sequence of events. The breaker refuses calls after a
number of failures, here after one.

The child is a real process of the toy dialect `askback`. The method `run` starts a stream without a
name, which ends with the reply. The method `watch` starts a stream with a name: the child
acknowledges it, and it ends with its last event.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import (
    CallFailed,
    CallTimeout,
    ExtensionGone,
    ExthostError,
    ProtocolViolation,
    UsageError,
)
from exthost.events import Bus, CallEnded, CallStarted
from exthost.extension.extension import Extension
from exthost.host.audit import Audit
from exthost.model.spec import Breaker, Limits, Spec
from exthost.session.stream_queue import MAX_STREAM_EVENTS
from tests.extensions.clock import Clock
from tests.extensions.harness import closed_at_end, pid_of, wait_until
from tests.toys.askback import DIALECT

CHILD = Path(__file__).parents[1] / "toys" / "askback_child.py"

# More events than a stream can have unread while the reply to another call is awaited.
TOO_MANY_EVENTS = 3 * MAX_STREAM_EVENTS


# More time than any test takes; tests move the clock past it.
CALL_SECONDS = 600.0


async def handle_config_get(params: Any) -> Any:
    """Answer the request that the child sends to the host during the stream `run`."""
    return "toy"


class Accounts:
    """An extension, and everything that counts its calls: events, audit and stats."""

    def __init__(self, folder: Path, max_in_flight: int) -> None:
        self.bus = Bus()
        self.started: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self._path = folder / "audit"
        self._audit = Audit(str(self._path), self.bus)
        self.bus.subscribe(CallStarted, lambda event: self.started.append(event.method))
        self.bus.subscribe(
            CallEnded, lambda event: self.ended.append((event.method, event.outcome))
        )
        breaker = Breaker(failures=1, open=3600.0, max_open=3600.0)
        argv = (sys.executable, "-S", "-E", str(CHILD))
        limits = Limits(max_in_flight=max_in_flight, call=CALL_SECONDS)
        spec = Spec(id="toy", argv=argv, dialect="askback", limits=limits, breaker=breaker)
        self.extension = Extension(
            spec, DIALECT, bus=self.bus, handlers={"config.get": handle_config_get}
        )

    def check(self, method: str, outcome: str, *, is_failure: bool = False) -> None:
        """Check that the only stream of this method had this outcome, and was counted once."""
        ended_streams = [item for item in self.ended if item[0] == method]
        assert ended_streams == [(method, outcome)]
        assert self.started.count(method) == 1
        assert sorted(self.started) == sorted(name for name, _ in self.ended)
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        assert [(line["method"], line["outcome"]) for line in lines] == self.ended
        stats = self.extension.stats
        outcomes = [name for _, name in self.ended]
        for name in ("result", "error", "timeout", "cancelled", "gone"):
            assert getattr(stats, name) == outcomes.count(name), name
        assert stats.calls == len(outcomes)
        assert stats.in_flight == stats.waiting == 0
        # The breaker opens after one failure.
        assert stats.breaker == ("open" if is_failure else "closed")

    def close(self) -> None:
        self._audit.close()


@asynccontextmanager
async def started_extension(
    folder: Path, max_in_flight: int = 4
) -> AsyncIterator[tuple[Accounts, Extension]]:
    accounts = Accounts(folder, max_in_flight)
    try:
        async with closed_at_end(accounts.extension) as extension:
            await extension.start()
            yield accounts, extension
    finally:
        accounts.close()


async def read_all(extension: Extension, method: str, params: Any) -> list[Any]:
    async with extension.stream(method, params) as stream:
        return [event async for event in stream]


@pytest.mark.parametrize(
    ("method", "params", "events"),
    [
        ("run", {"events": 3}, [0, 1, 2]),
        ("watch", {"stream": "a", "before": [1], "after": [2, "done"]}, [1, 2, "done"]),
        ("watch", {"stream": "a", "before": ["done"]}, ["done"]),
    ],
)
async def test_a_stream_that_ends_normally_is_a_result(
    tmp_path: Path, method: str, params: Any, events: list[Any]
) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        assert await read_all(extension, method, params) == events
        accounts.check(method, "result")


@pytest.mark.parametrize(
    ("method", "params", "error_class", "is_failure"),
    [
        ("run", {"events": 1, "fail": "no"}, CallFailed, False),
        ("watch", {"stream": "a", "acknowledge": "b"}, ProtocolViolation, True),
    ],
)
async def test_a_stream_that_fails_is_an_error(
    tmp_path: Path, method: str, params: Any, error_class: type[ExthostError], is_failure: bool
) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        with pytest.raises(error_class):
            await read_all(extension, method, params)
        accounts.check(method, "error", is_failure=is_failure)


async def test_a_stream_whose_process_dies_has_the_outcome_gone(tmp_path: Path) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        with pytest.raises(ExtensionGone):
            await read_all(extension, "run", {"events": 3, "die": 6})
        accounts.check("run", "gone", is_failure=True)


async def test_an_acknowledged_stream_whose_process_dies_has_the_outcome_gone(
    tmp_path: Path,
) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        pid = pid_of(extension)
        with pytest.raises(ExtensionGone):
            async with extension.stream("watch", {"stream": "a"}) as stream:
                os.kill(pid, signal.SIGKILL)
                async for _ in stream:
                    pass
        accounts.check("watch", "gone", is_failure=True)


async def test_a_stream_that_takes_too_long_is_a_timeout(tmp_path: Path, clock: Clock) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        clock.stop()
        with pytest.raises(CallTimeout):
            async with extension.stream("run", {"events": 1, "hold": True}) as stream:
                async for _ in stream:
                    clock.move(CALL_SECONDS)
        await until_idle(extension, clock)
        accounts.check("run", "timeout", is_failure=True)


async def test_an_acknowledged_stream_that_takes_too_long_is_a_timeout(
    tmp_path: Path, clock: Clock
) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        clock.stop()
        with pytest.raises(CallTimeout):
            async with extension.stream("watch", {"stream": "a"}, timeout=30) as stream:
                clock.move(30)
                async for _ in stream:
                    pass
        await until_idle(extension, clock)
        accounts.check("watch", "timeout", is_failure=True)


async def until_idle(extension: Extension, clock: Clock) -> None:
    await clock.until(lambda: extension.stats.in_flight == 0)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("run", {"events": 1, "hold": True}),
        ("run", {"events": 2000}),
        ("watch", {"stream": "a", "after": [1]}),
    ],
)
async def test_a_stream_that_is_left_early_is_cancelled(
    tmp_path: Path, method: str, params: Any
) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        async with extension.stream(method, params) as stream:
            async for _ in stream:
                break
        # Events and the reply that arrive later are ignored.
        assert await extension.call("echo", 1) == 1
        await wait_until(lambda: extension.stats.in_flight == 0)
        accounts.check(method, "cancelled")


@pytest.mark.parametrize("method", ["run", "watch"])
async def test_a_stream_whose_task_is_cancelled_is_cancelled(tmp_path: Path, method: str) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        reached = asyncio.Event()

        async def read() -> None:
            params = {"stream": "a", "after": [1], "events": 1, "hold": True}
            async with extension.stream(method, params) as stream:
                async for _ in stream:
                    reached.set()

        task = asyncio.ensure_future(read())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await extension.call("echo", 1) == 1
        await wait_until(lambda: extension.stats.in_flight == 0)
        accounts.check(method, "cancelled")


async def test_a_stream_that_is_left_while_it_waits_to_be_sent_is_cancelled(
    tmp_path: Path,
) -> None:
    async with started_extension(tmp_path, max_in_flight=1) as (accounts, extension):
        held_call = asyncio.ensure_future(extension.call("hold"))
        await asyncio.sleep(0)
        async with extension.stream("run", {"events": 3}):
            pass
        held_call.cancel()
        assert await extension.call("asked") == ["hold"]  # `run` was not sent
        accounts.check("run", "cancelled")


@pytest.mark.more
async def test_a_stream_with_too_many_unread_events_is_an_error_of_the_caller(
    tmp_path: Path,
) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        with pytest.raises(UsageError) as caught:
            async with extension.stream("run", {"events": TOO_MANY_EVENTS}) as stream:
                # The reply comes after the events, so the host has read all of them.
                assert await extension.call("echo", 1) == 1
                async for _ in stream:
                    pass
        assert caught.value.code == "X1306"  # the queue of the stream is full
        await wait_until(lambda: extension.stats.in_flight == 0)
        accounts.check("run", "error")


async def test_a_stream_with_invalid_params_is_not_counted(tmp_path: Path) -> None:
    async with started_extension(tmp_path) as (accounts, extension):
        with pytest.raises(UsageError):
            await read_all(extension, "run", object())
        assert not accounts.started and not accounts.ended and extension.stats.calls == 0


# -- streams and the maximum of calls in flight ------------------------------------------------


async def test_a_call_that_waits_for_a_stream_is_sent_after_its_acknowledgement(
    tmp_path: Path,
) -> None:
    async with started_extension(tmp_path, max_in_flight=1) as (accounts, extension):
        opening = extension.stream("watch", {"stream": "a"})
        entering = asyncio.ensure_future(opening.__aenter__())
        await asyncio.sleep(0)
        waiting_call = asyncio.ensure_future(extension.call("echo", 1))
        async with asyncio.timeout(30):
            stream = await entering
            assert await waiting_call == 1
        await stream.__aexit__()
        accounts.check("watch", "cancelled")


async def test_a_call_behind_a_stream_that_was_left_is_sent_after_its_timeout(
    tmp_path: Path, clock: Clock
) -> None:
    """The reply of the stream never comes."""
    async with started_extension(tmp_path, max_in_flight=1) as (accounts, extension):
        async with extension.stream("run", {"events": 1, "hold": True}, timeout=30) as stream:
            async for _ in stream:
                break
        waiting_call = asyncio.ensure_future(extension.call("echo", 1))
        await asyncio.sleep(0)
        assert extension.stats.waiting == 1
        await clock.advance(31)
        assert await waiting_call == 1
        accounts.check("run", "cancelled")
