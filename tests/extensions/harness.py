"""Helpers to run the hostile extension, and to check that each call ended exactly once.

The hostile extension (`hostile.py`) misbehaves when a test asks it to. `hostile_extension` runs it,
`error_of` and `wait_until` are for any test, and `Ledger` counts the events of calls.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import exthost
from exthost.config import spec_from_mapping
from exthost.dialects.base import Dialect
from exthost.dialects.morphir.dialect import DIALECT
from exthost.errors import ExthostError
from exthost.events import Bus, CallEnded, CallStarted, StateChanged
from exthost.extension.call_outcomes import UNSUCCESSFUL_OUTCOMES
from exthost.extension.extension import Extension
from exthost.model.shutdown_steps import CloseStdin, Terminate

HOSTILE = Path(__file__).parent / "hostile.py"
OUTCOMES = ("result", *UNSUCCESSFUL_OUTCOMES)


def with_shutdown_waits(*waits: float) -> Dialect:
    """Return morphir with these waits, in seconds, after the end of stdin and after SIGTERM."""
    close, terminate = waits
    steps = (CloseStdin(wait=close), Terminate(wait=terminate))
    return replace(DIALECT, traits=replace(DIALECT.traits, shutdown_steps=steps))


# A dialect with short shutdown steps.
SHORT_SHUTDOWN = with_shutdown_waits(0.1, 0.1)

# A dialect whose shutdown steps never end an extension.
ENDLESS_SHUTDOWN = with_shutdown_waits(3600, 3600)

# For limits that no test reaches.
ONE_HOUR = "1h"


def hostile_command(*flags: str) -> list[str]:
    """Return the command of the hostile extension; -S -E starts it in a few milliseconds."""
    return [sys.executable, "-S", "-E", str(HOSTILE), *flags]


def hostile_extension(*flags: str, **settings: Any) -> AbstractAsyncContextManager[Extension]:
    """Yield a hostile extension, started as a user would start it.

    The flags and the methods of calls are those of `hostile.py`: for example, "echo" returns its
    params, "keep" is answered only after "release", and "leave" exits with the given code.
    """
    # The dialect is named, because detection would start further processes in each test.
    settings.setdefault("dialect", "morphir")
    settings.setdefault("limits", {"call": ONE_HOUR})
    return exthost.connect(hostile_command(*flags), name="hostile", **settings)


def extension_without_namespace(
    *flags: str, **settings: Any
) -> AbstractAsyncContextManager[Extension]:
    """Yield a hostile extension without a PID namespace, so that the test knows its pids."""
    return hostile_extension(*flags, lifetime="plain", **settings)


def unstarted_extension(
    *flags: str,
    dialect: Dialect = DIALECT,
    bus: Bus | None = None,
    shared: bool = False,
    **settings: Any,
) -> Extension:
    """Return the hostile extension, not started. The caller must close it, see `closed_at_end`."""
    program, *args = hostile_command(*flags)
    source = {"type": "process", "command": program, "args": args}
    limits = {"call": ONE_HOUR}
    entry = {"name": "hostile", "source": source, "limits": limits, **settings}
    return Extension(spec_from_mapping(entry), dialect, bus=bus, shared=shared)


@asynccontextmanager
async def closed_at_end(extension: Extension) -> AsyncIterator[Extension]:
    """Close the extension at the end of the block."""
    try:
        yield extension
    finally:
        await extension.close()


async def error_of(awaitable: Awaitable[Any]) -> ExthostError:
    """Return the error that this awaitable raises."""
    try:
        result = await awaitable
    except ExthostError as error:
        return error
    raise AssertionError(f"this should have failed, but returned {result!r}")


async def result_or_error(awaitable: Awaitable[Any]) -> Any:
    """Return the result of this awaitable, or the error that it raises."""
    try:
        return await awaitable
    except ExthostError as error:
        return error


async def wait_until(condition: Callable[[], bool], seconds: float = 150.0) -> None:
    """Wait for a condition that no event reports: poll it. The limit only bounds a test that
    hangs."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - a process is asked, and has no event
            await asyncio.sleep(0.002)


def pid_of(extension: Extension) -> int:
    """Return the pid of the process of an extension, which must have one."""
    pid = extension.stats.pid
    assert pid is not None
    return pid


class Ledger:
    """Counts the events of started and ended calls. `check_calls` compares them with the stats.

    A test passes `ledger.bus` to an extension and calls `check_calls` at its end.
    """

    def __init__(self) -> None:
        self.bus = Bus()
        self.accepted = 0
        self.ended: Counter[str] = Counter()
        self.states: list[tuple[str, str]] = []  # the state before and after each change
        self.bus.subscribe(CallStarted, self._started)
        self.bus.subscribe(CallEnded, self._ended)
        self.bus.subscribe(
            StateChanged, lambda event: self.states.append((event.before, event.after))
        )

    def _started(self, _: CallStarted) -> None:
        self.accepted += 1

    def _ended(self, event: CallEnded) -> None:
        self.ended[event.outcome] += 1

    def check_calls(self, extension: Extension, **expected: int) -> None:
        """Check that every started call ended once, with exactly these outcomes."""
        check_call_counts(extension, self.accepted, **expected)
        assert self.ended == Counter({name: getattr(extension.stats, name) for name in OUTCOMES})


def check_call_counts(extension: Extension, accepted: int, **expected: int) -> None:
    """Check that each accepted call ended once, and that no call is in flight or waits."""
    stats = extension.stats
    counts = {name: getattr(stats, name) for name in OUTCOMES}
    assert sum(counts.values()) == stats.calls == accepted, counts
    assert stats.in_flight == stats.waiting == 0
    if expected:
        assert {name: n for name, n in counts.items() if n} == expected
