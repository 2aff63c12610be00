"""A reload is one extension, not two: one life, one offer and one set of counts are seen."""

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

import exthost
from exthost.config import spec_from_mapping
from exthost.errors import ExthostError
from exthost.events import EVERYTHING, OfferChanged, StateChanged, ToolsChanged
from exthost.model.messages import Request
from exthost.model.spec import Requires, Spec
from tests.extensions.harness import OUTCOMES, command, failing, until

COUNTS = ("calls", *OUTCOMES, "restarts", "crashes")


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "params_schema": {}}


def entry(*flags: str, tools: Any = None, **settings: Any) -> dict[str, Any]:
    offered = [f"capabilities={json.dumps(tools)}"] if tools is not None else []
    program, *args = command(*flags, *offered)
    source = {"type": "process", "command": program, "args": args}
    return {"name": "a", "source": source, **settings}


def spec(*flags: str, **settings: Any) -> Spec:
    return spec_from_mapping(entry(*flags, **settings))


class Watcher:
    """What is published of the extension `a`; checks what the host says at that moment."""

    def __init__(self, host: exthost.Host) -> None:
        self.changes: list[StateChanged | OfferChanged] = []
        self.tools_changed = 0
        self._host = host
        host.events.subscribe(EVERYTHING, self._see)

    def _see(self, event: Any) -> None:
        if isinstance(event, StateChanged) and event.after != "stopped":
            assert self._host["a"].state == event.after
        if isinstance(event, StateChanged | OfferChanged):
            self.changes.append(event)
        self.tools_changed += isinstance(event, ToolsChanged)


async def replaced(host: exthost.Host, new: Spec) -> None:
    """Replace `a`, and wait until nothing of the old one is left."""
    old = host["a"]
    await host.replace(new)
    assert host["a"] is not old
    await until(lambda: old.state == "stopped")


@pytest.mark.both_loops
async def test_a_reload_that_changes_nothing_publishes_nothing() -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        watcher = Watcher(host)
        await host.replace(spec())
        before = watcher.tools_changed
        await until(lambda: not host._extensions.leaving)
        assert watcher.changes == []
        assert watcher.tools_changed == before  # the old one ends without a word
        assert host["a"].state == "ready" and "ext_a_echo" in host.tools
    assert [change[1:3] for change in watcher.changes] == [
        ("ready", "draining"),
        ("draining", "stopped"),
    ]


async def test_an_offer_reports_only_changes() -> None:
    old = [tool("kept"), tool("described", "before"), tool("dropped")]
    new = [tool("kept"), tool("described", "after"), tool("fresh")]
    async with exthost.Host.from_config({"extensions": [entry(tools=old)]}) as host:
        watcher = Watcher(host)
        await replaced(host, spec(tools=new))
        assert watcher.changes == [OfferChanged("a", ("fresh",), ("dropped",), ("described",))]
        assert set(host.tools) == {"ext_a_kept", "ext_a_described", "ext_a_fresh"}
        assert host.tools["ext_a_described"].description.endswith("after")


async def test_a_reload_out_of_failed_is_one_move() -> None:
    config = {"extensions": [entry("die_at=initialize")]}
    async with exthost.Host.from_config(config) as host:
        assert host["a"].state == "failed"
        watcher = Watcher(host)
        await host.replace(spec(tools=[tool("x")]))
        assert watcher.changes == [
            StateChanged("a", "failed", "ready", "reloaded"),
            OfferChanged("a", ("x",), ()),
        ]


async def test_one_that_starts_at_first_use_takes_the_place_of_one_that_is_ready() -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        watcher = Watcher(host)
        await replaced(host, spec(start="lazy"))
        assert watcher.changes[0] == StateChanged("a", "ready", "admitted", "reloaded")
        await host["a"].start()
        states = [change.after for change in watcher.changes if isinstance(change, StateChanged)]
        assert states == ["admitted", "starting", "ready"]


DYING = spec("die_at=initialize")
REFUSED = replace(spec(), requires=Requires(env=("SURELY_NOT_SET",)))


@pytest.mark.parametrize("bad", [DYING, REFUSED], ids=["it dies", "it is refused"])
async def test_a_successor_that_does_not_get_ready_is_not_heard_of(
    bad: Spec, caplog: pytest.LogCaptureFixture
) -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        watcher = Watcher(host)
        old = host["a"]
        with caplog.at_level(logging.INFO), pytest.raises(ExthostError):
            await host.replace(bad)
        assert watcher.changes == [] and host["a"] is old
        assert not [record for record in caplog.records if record.name == "exthost.extension"]
        assert (await host.call_tool("ext_a_echo", {"n": 1})).data == {"n": 1}


async def test_a_crash_of_the_one_that_was_replaced_is_not_heard_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {"extensions": [entry(restart={"strategy": "never"})]}
    async with exthost.Host.from_config(config) as host:
        old = host["a"]
        kept = asyncio.ensure_future(failing(old.call("keep", timeout=20)))
        await until(lambda: old.stats.in_flight == 1)
        watcher = Watcher(host)
        with caplog.at_level(logging.INFO):
            await host.replace(spec())
            old.kill()
            assert (await kept).kind == "ExtensionGone"
            # It is "failed" if the host saw the end of the process before it began to close it.
            await until(lambda: old.state in ("stopped", "failed"))
        assert watcher.changes == [] and host["a"].state == "ready"
        messages = [record.getMessage() for record in caplog.records]
        assert not [text for text in messages if "stopped" in text or "failed" in text]
        assert host["a"].stats.gone == 1


async def test_counts_never_go_back() -> None:
    restart = {"strategy": "immediate", "max_retries": 100}
    async with exthost.Host.from_config({"extensions": [entry(restart=restart)]}) as host:
        observed = dict.fromkeys(COUNTS, 0)

        def look() -> dict[str, int]:
            now = {name: getattr(host["a"].stats, name) for name in COUNTS}
            assert all(now[name] >= observed[name] for name in COUNTS), (observed, now)
            observed.update(now)
            return now

        for round in range(1, 4):
            ext = host["a"]
            assert await ext.call("echo", 1) == 1
            await failing(ext.call("refuse", {"text": "no"}))
            await failing(ext.call("keep", timeout=0.05))
            await failing(ext.call("leave", {"code": 1}))
            await until(lambda ext=ext: ext.state == "ready")  # type: ignore[misc]
            outcomes = dict.fromkeys(("result", "error", "timeout", "gone"), round)
            expected = {"calls": 4 * round, "cancelled": 0, "restarts": round, "crashes": round}
            assert look() == outcomes | expected
            await host.replace(spec(restart=restart))
            assert look() == outcomes | expected
            await host["a"].restart()
            assert look() == outcomes | expected


async def test_a_call_that_the_replaced_one_still_serves_is_counted() -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        old = host["a"]
        kept = asyncio.ensure_future(old.call("keep", "late", timeout=20))
        await until(lambda: old.stats.in_flight == 1)
        session = old.internals.queue.sessions[0]
        await host.replace(spec())
        await host.replace(spec())  # and once more, while the first still serves
        stats = host["a"].stats
        assert (stats.calls, stats.in_flight) == (0, 1)
        session.internal.send(Request("release", None))
        assert await kept == "late"
        await until(lambda: not host._extensions.leaving)
        stats = host["a"].stats
        assert (stats.calls, stats.result, stats.in_flight) == (1, 1, 0)


async def test_a_new_name_is_a_new_extension() -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        observed: list[tuple[str, ...]] = []
        host.events.subscribe(StateChanged, lambda event: observed.append(event[:3]))
        await host.replace(spec_from_mapping({**entry(), "name": "b"}), "a")
        await until(lambda: not host._extensions.leaving)
        assert list(host) == ["b"]
        assert [item[2] for item in observed if item[0] == "b"] == ["admitted", "starting", "ready"]
        assert [item[2] for item in observed if item[0] == "a"] == ["draining", "stopped"]
        assert host["b"].stats.calls == 0
