"""A fresh process, or a fresh extension, in place of one that serves: no call is lost by it."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import spec_from_mapping
from exthost.errors import CallTimeout, ExthostError, HandshakeFailed, UsageError
from exthost.model.messages import Request
from tests.dialects.requirements import shows
from tests.extension.test_restarting import crash, follows_the_table
from tests.extensions.clock import Clock
from tests.extensions.harness import HOSTILE, Ledger, command, failing, hostile, pid_of, until
from tests.extensions.proc import gone, our_processes

# Calls under way, of a thousand a second: more are a machine that is busy with something else.
MOST_AT_ONCE = 300


class Load:
    """So many calls a second, for as long as it is on; whatever each of them ended in."""

    def __init__(self, call: Any, per_second: int) -> None:
        self._call = call
        self._per_second = per_second
        self.made = 0
        self.ends: Counter[str] = Counter()
        self._calls: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Load":
        self._on = True
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._on = False
        await self._task
        if self._calls:
            await asyncio.wait(self._calls)

    async def _run(self) -> None:
        began = time.monotonic()
        while self._on:
            due = int((time.monotonic() - began) * self._per_second) - self.made
            # A machine that cannot keep up gets fewer, instead of ever more at once.
            for _ in range(min(due, MOST_AT_ONCE - len(self._calls))):
                self.made += 1
                task = asyncio.ensure_future(self._one(self.made))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)
            await asyncio.sleep(0.005)

    async def _one(self, n: int) -> None:
        try:
            answer = await self._call(n)
        except ExthostError as error:
            self.ends[f"{error.code} {error.message}"] += 1
        else:
            self.ends["answered" if answer == {"n": n} else f"wrong: {answer!r}"] += 1


async def data_of(calling: Awaitable[exthost.ToolResult]) -> Any:
    return (await calling).data


def entry(name: str, program: Path | None = None) -> dict[str, Any]:
    words = command() if program is None else [str(program)]
    source = {"type": "process", "command": words[0], "args": words[1:]}
    return {"name": name, "source": source}


@pytest.mark.both_loops
async def test_restarts_under_a_thousand_calls_a_second_lose_no_call() -> None:
    ledger = Ledger()
    async with hostile(events=ledger.bus) as ext:
        async with Load(lambda n: data_of(ext.call_tool("echo", {"n": n})), 1000) as load:
            observed = {pid_of(ext)}
            for _ in range(4):
                before = load.made
                await until(lambda before=before: load.made > before + 200)  # type: ignore[misc]
                await ext.restart()
                observed.add(pid_of(ext))
        assert len(observed) == 5
        assert load.ends == {"answered": load.made} and load.made > 800
        ledger.settle(ext, result=load.made)
        await until(lambda: len(set(our_processes()) & observed) == 1)
    assert follows_the_table(ledger.states)


@shows("nexo-watch-03")
async def test_a_replaced_extension_loses_no_call_of_a_thousand_a_second() -> None:
    async with exthost.Host.from_config({"extensions": [entry("a")]}) as host:

        async def call(n: int) -> Any:
            return (await host.call_tool("ext_a_echo", {"n": n})).data

        async with Load(call, 1000) as load:
            for _ in range(3):
                before = load.made
                await until(lambda before=before: load.made > before + 200)  # type: ignore[misc]
                old = host["a"]
                await host.replace(spec_from_mapping(entry("a")))
                assert host["a"] is not old
        assert load.ends == {"answered": load.made} and load.made > 600


@shows("nexo-watch-03")
async def test_a_call_that_outlives_every_grace_is_answered_by_the_one_that_was_replaced(
    clock: Clock,
) -> None:
    """Longer than all shutdown steps: the old one is asked to end when it has answered."""
    async with exthost.Host.from_config({"extensions": [entry("a")]}) as host:
        old = host["a"]
        pid = pid_of(old)
        kept = asyncio.ensure_future(old.call("keep", "late", timeout=3600))
        await until(lambda: old.stats.in_flight == 1)
        session = old.internals.queue.sessions[0]
        await host.replace(spec_from_mapping(entry("a")))
        for _ in range(10):  # each would end another shutdown step
            await clock.advance(60)
            assert (await host.call_tool("ext_a_echo", {"n": 1})).data == {"n": 1}
        assert not kept.done() and not gone(pid)
        session.internal.send(Request("release", None))
        assert await kept == "late"
        await until(lambda: gone(pid))
        await until(lambda: old.state == "stopped")
        assert host["a"].state == "ready"


async def test_closing_the_host_does_not_wait_for_one_that_was_replaced() -> None:
    async with exthost.Host.from_config({"extensions": [entry("a")]}) as host:
        old = host["a"]
        # Longer than any test: waiting for it would never end.
        kept = asyncio.ensure_future(failing(old.call("keep", timeout=3600)))
        await until(lambda: old.stats.in_flight == 1)
        await host.replace(spec_from_mapping(entry("a")))
    assert (await kept).kind == "ExtensionGone"


def fickle(folder: Path) -> Path:
    program = folder / "fickle"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -S -E {HOSTILE}\n")
    program.chmod(0o755)
    return program


async def test_a_restart_that_fails_keeps_the_old_process_and_is_reported(
    tmp_path: Path,
) -> None:
    program = fickle(tmp_path)
    ledger = Ledger()
    async with exthost.connect(
        [str(program)], name="f", events=ledger.bus, dialect="morphir"
    ) as ext:
        old = pid_of(ext)
        program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
        async with Load(lambda n: ext.call("echo", {"n": n}), 500) as load:
            await until(lambda: load.made > 50)
            error = await failing(ext.restart())
        assert isinstance(error, HandshakeFailed) and "old process continues" in error.help
        assert error.evidence.stderr == ("broken",)
        assert load.ends == {"answered": load.made}
        assert (ext.state, ext.health, ext.stats.pid) == ("ready", "running", old)
        assert ext.cause is None
        fickle(tmp_path)
        await ext.restart()
        assert ext.stats.pid != old
    assert [after for _, after in ledger.states].count("ready") == 1


async def test_the_old_one_dies_while_the_fresh_one_starts_and_calls_wait_for_that() -> None:
    ledger = Ledger()
    async with hostile(events=ledger.bus) as ext:
        restarting = asyncio.ensure_future(ext.restart())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        dead = crash(ext)
        calls = [asyncio.ensure_future(ext.call("echo", n)) for n in range(5)]
        await restarting
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert ext.state == "ready" and ext.stats.pid != dead
        assert all(end == n or isinstance(end, ExthostError) for n, end in enumerate(ends))
        # Counted and forgiven; or, if the fresh one took over before, the end of a retired process.
        assert ext.stats.crashes <= 1 and ext.health == "running"
        ledger.settle(ext)
    assert follows_the_table(ledger.states)


async def test_draining_waits_for_calls_under_way_but_not_for_ever() -> None:
    async with hostile(limits={"stop": "1h"}) as ext:
        quick = [asyncio.ensure_future(ext.call("echo", n)) for n in range(20)]
        kept = asyncio.ensure_future(failing(ext.call("keep", timeout=0.2)))
        await asyncio.sleep(0)
        await ext.drain()
        assert await asyncio.gather(*quick) == list(range(20))
        assert isinstance(await kept, CallTimeout)  # its own limit was shorter
        assert (await failing(ext.call("echo"))).code == "X1006"
    async with hostile(limits={"stop": "200ms"}) as ext:
        kept = asyncio.ensure_future(failing(ext.call("keep", timeout=3600)))
        await asyncio.sleep(0)
        began = time.monotonic()
        await ext.drain()
        assert time.monotonic() - began >= 0.2
        assert (await kept).code == "X1005"


@pytest.mark.parametrize("patience", ["1s", float("nan"), [1]])
async def test_a_patience_that_is_not_a_number_of_seconds_is_reported_and_nothing_ends(
    patience: Any,
) -> None:
    async with hostile() as ext:
        error = await asyncio.wait_for(failing(ext.close(patience=patience)), 60)
        assert isinstance(error, UsageError) and error.code == "X1318"
        assert error.message.startswith("patience must be a number of seconds")
        assert ext.state == "ready"
        await ext.restart()
        assert await ext.call("echo", 1) == 1


async def test_a_shorter_patience_ends_the_draining_of_another() -> None:
    async with hostile() as ext:
        kept = asyncio.ensure_future(failing(ext.call("keep", timeout=3600)))
        await asyncio.sleep(0)
        draining = asyncio.ensure_future(ext.close(patience=None))
        await until(lambda: ext.state == "draining")
        await ext.close()
        await draining
        assert (await kept).code == "X1005"
