"""`host.replace(spec)` exchanges an extension for one with new settings, under the same name.

The new extension is started first; if this succeeds, the old one finishes its calls and stops. To
users of the host this looks like one extension: its state changes only if the new one has another
state, its counts of calls continue, and no event reports that the old one stops.

The extension `a` is the hostile extension of the tests, whose methods do what their name says:
`echo` returns its argument, `keep` is answered only after `release`, `refuse` is answered with an
error, `leave` exits.
"""

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

import exthost
from exthost.config import spec_from_mapping
from exthost.errors import ExthostError, UsageError
from exthost.events import EVERYTHING, OfferChanged, Spawned, StateChanged, ToolsChanged
from exthost.model.messages import Request
from exthost.model.spec import Requires, Spec
from tests.extensions.harness import ONE_HOUR, OUTCOMES, error_of, hostile_command, wait_until
from tests.extensions.proc import is_running

# The counts in `extension.stats`. OUTCOMES are the ways in which a call can end: result, error,
# timeout, cancelled and gone (the process ended before it replied).
COUNTS = ("calls", *OUTCOMES, "restarts", "crashes")


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "params_schema": {}}


def entry(*flags: str, tools: Any = None, **settings: Any) -> dict[str, Any]:
    """Return the config entry of `a`, which offers these tools, or else `echo` and others."""
    flags_of_offer = [f"capabilities={json.dumps(tools)}"] if tools is not None else []
    program, *args = hostile_command(*flags, *flags_of_offer)
    source = {"type": "process", "command": program, "args": args}
    return {"name": "a", "source": source, **settings}


def spec(*flags: str, **settings: Any) -> Spec:
    """Return the checked form of this entry, which `host.replace` takes."""
    return spec_from_mapping(entry(*flags, **settings))


class EventRecorder:
    """Records the events of the extension `a`.

    changes            the changes of its state and its tools
    tools_changed      the number of ToolsChanged, the event that `host.tools` may have changed
    unexpected_states  each event that was published while `a` had another state than `after`
    """

    def __init__(self, host: exthost.Host) -> None:
        self.changes: list[StateChanged | OfferChanged] = []
        self.tools_changed = 0
        self.unexpected_states: list[tuple[StateChanged, str]] = []
        self._host = host
        host.events.subscribe(EVERYTHING, self._record)

    def _record(self, event: Any) -> None:
        if isinstance(event, StateChanged | OfferChanged):
            self.changes.append(event)
        self.tools_changed += isinstance(event, ToolsChanged)
        # Not an assertion: the host logs an exception of a listener, and the test would pass.
        if isinstance(event, StateChanged) and self._host["a"].state != event.after:
            self.unexpected_states.append((event, self._host["a"].state))


async def replace_and_wait(host: exthost.Host, new: Spec) -> None:
    """Replace `a`, and wait until the old extension has stopped."""
    old = host["a"]
    await host.replace(new)
    assert host["a"] is not old
    await wait_until(lambda: old.state == "stopped")


@pytest.mark.both_loops  # asyncio's and uvloop's
async def test_a_reload_that_changes_nothing_publishes_no_change_of_state_or_tools() -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        recorder = EventRecorder(host)
        await host.replace(spec())
        # ToolsChanged is published without a check whether a tool differs, also by `replace`. So
        # it is compared from here on: the end of the old extension must not publish it again.
        before = recorder.tools_changed
        await wait_until(lambda: not host._extensions.leaving)
        assert recorder.changes == []
        assert recorder.tools_changed == before
        assert host["a"].state == "ready" and "ext_a_echo" in host.tools
    # These are the states of the new extension, which stopped with the host.
    states = [change for change in recorder.changes if isinstance(change, StateChanged)]
    assert states == recorder.changes
    assert [(change.before, change.after) for change in states] == [
        ("ready", "draining"),
        ("draining", "stopped"),
    ]
    assert recorder.unexpected_states == []


async def test_offer_changed_has_only_the_differences() -> None:
    old = [tool("kept"), tool("described", "before"), tool("dropped")]
    new = [tool("kept"), tool("described", "after"), tool("fresh")]
    async with exthost.Host.from_config({"extensions": [entry(tools=old)]}) as host:
        recorder = EventRecorder(host)
        await replace_and_wait(host, spec(tools=new))
        assert recorder.changes == [OfferChanged("a", ("fresh",), ("dropped",), ("described",))]
        assert set(host.tools) == {"ext_a_kept", "ext_a_described", "ext_a_fresh"}
        assert host.tools["ext_a_described"].description.endswith("after")
    assert recorder.unexpected_states == []


async def test_a_reload_of_a_failed_extension_publishes_one_state_change() -> None:
    config = {"extensions": [entry("die_at=initialize")]}
    async with exthost.Host.from_config(config) as host:
        assert host["a"].state == "failed"
        recorder = EventRecorder(host)
        await host.replace(spec(tools=[tool("x")]))
        assert recorder.changes == [
            StateChanged("a", "failed", "ready", "reloaded"),
            OfferChanged("a", ("x",), ()),
        ]
    assert recorder.unexpected_states == []


async def test_a_lazy_extension_can_replace_a_ready_one() -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        recorder = EventRecorder(host)
        await replace_and_wait(host, spec(start="lazy"))
        assert recorder.changes[0] == StateChanged("a", "ready", "admitted", "reloaded")
        await host["a"].start()
        states = [change.after for change in recorder.changes if isinstance(change, StateChanged)]
        assert states == ["admitted", "starting", "ready"]
    assert recorder.unexpected_states == []


EXITS_AT_START = spec("die_at=initialize")
REFUSED = replace(spec(), requires=Requires(env=("SURELY_NOT_SET",)))


@pytest.mark.parametrize("replacement", [EXITS_AT_START, REFUSED], ids=["exits", "is refused"])
async def test_a_replacement_that_does_not_start_publishes_nothing(
    replacement: Spec, caplog: pytest.LogCaptureFixture
) -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        recorder = EventRecorder(host)
        old = host["a"]
        with caplog.at_level(logging.INFO), pytest.raises(ExthostError):
            await host.replace(replacement)
        assert recorder.changes == [] and host["a"] is old
        assert not [record for record in caplog.records if record.name == "exthost.extension"]
        assert (await host.call_tool("ext_a_echo", {"n": 1})).data == {"n": 1}
    assert recorder.unexpected_states == []


async def test_a_crash_of_the_replaced_extension_publishes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {"extensions": [entry(restart={"strategy": "never"})]}
    async with exthost.Host.from_config(config) as host:
        old = host["a"]
        call = asyncio.ensure_future(error_of(old.call("keep", timeout=20)))
        await wait_until(lambda: old.stats.in_flight == 1)
        recorder = EventRecorder(host)
        with caplog.at_level(logging.INFO):
            await host.replace(spec())
            old.kill()
            assert (await call).kind == "ExtensionGone"
            # The state is "failed" if the process ended before the host began to close it.
            await wait_until(lambda: old.state in ("stopped", "failed"))
        assert recorder.changes == [] and host["a"].state == "ready"
        messages = [record.getMessage() for record in caplog.records]
        assert not [text for text in messages if "stopped" in text or "failed" in text]
        assert host["a"].stats.gone == 1
    assert recorder.unexpected_states == []


async def test_closing_the_host_ends_a_replacement_that_is_starting() -> None:
    silent = {"type": "process", "command": "sleep", "args": ["3600"]}  # it makes no handshake
    new = spec_from_mapping(entry() | {"source": silent, "limits": {"handshake": ONE_HOUR}})
    spawned: list[int] = []
    host = exthost.Host.from_config({"extensions": [entry()]})
    await host.open()
    host.events.subscribe(Spawned, lambda event: spawned.append(event.pid))
    replacing = asyncio.ensure_future(host.replace(new))
    await wait_until(lambda: bool(spawned))
    await host.close()
    assert not is_running(spawned[0])
    with pytest.raises(ExthostError):
        await asyncio.wait_for(replacing, 60)
    assert not list(host)


async def test_a_host_that_is_closing_takes_no_further_extension() -> None:
    host = exthost.Host.from_config({"extensions": [entry()]})
    await host.open()
    call = asyncio.ensure_future(host["a"].call("keep"))
    await wait_until(lambda: host["a"].stats.in_flight == 1)
    closing = asyncio.ensure_future(host.close(drain=True))  # waits for the call
    await wait_until(lambda: host["a"].state == "draining")
    for add in (host.load(entry() | {"name": "b"}), host.replace(spec("banner"))):
        with pytest.raises(UsageError, match="not open"):
            await add
    host.kill()
    await closing
    assert not list(host) and isinstance(await error_of(call), ExthostError)


async def test_counts_never_decrease() -> None:
    restart = {"strategy": "immediate", "max_retries": 100}
    async with exthost.Host.from_config({"extensions": [entry(restart=restart)]}) as host:
        last_counts = dict.fromkeys(COUNTS, 0)

        def read_counts() -> dict[str, int]:
            now = {name: getattr(host["a"].stats, name) for name in COUNTS}
            assert all(now[name] >= last_counts[name] for name in COUNTS), (last_counts, now)
            last_counts.update(now)
            return now

        for round in range(1, 4):  # each with one call of each outcome, and one crash
            ext = host["a"]
            assert await ext.call("echo", 1) == 1
            await error_of(ext.call("refuse", {"text": "no"}))
            await error_of(ext.call("keep", timeout=0.05))
            await error_of(ext.call("leave", {"code": 1}))
            await wait_until(lambda ext=ext: ext.state == "ready")  # type: ignore[misc]
            outcomes = dict.fromkeys(("result", "error", "timeout", "gone"), round)
            expected = {"calls": 4 * round, "cancelled": 0, "restarts": round, "crashes": round}
            assert read_counts() == outcomes | expected
            await host.replace(spec(restart=restart))
            assert read_counts() == outcomes | expected
            await host["a"].restart()  # `restarts` counts only restarts after a failure
            assert read_counts() == outcomes | expected


async def test_a_call_in_flight_of_the_replaced_extension_is_counted() -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        old = host["a"]
        call = asyncio.ensure_future(old.call("keep", "late", timeout=20))
        await wait_until(lambda: old.stats.in_flight == 1)
        session = old.internals.queue.sessions[0]
        await host.replace(spec())
        await host.replace(spec())  # a second time, while the first extension has a call in flight
        stats = host["a"].stats
        assert (stats.calls, stats.in_flight) == (0, 1)  # `calls` counts the calls that have ended
        session.internal.send(Request("release", None))
        assert await call == "late"
        await wait_until(lambda: not host._extensions.leaving)
        stats = host["a"].stats
        assert (stats.calls, stats.result, stats.in_flight) == (1, 1, 0)


async def test_a_new_name_is_a_new_extension() -> None:
    async with exthost.Host.from_config({"extensions": [entry()]}) as host:
        states: dict[str, list[str]] = {"a": [], "b": []}
        host.events.subscribe(
            StateChanged, lambda change: states[change.extension].append(change.after)
        )
        await host.replace(spec_from_mapping({**entry(), "name": "b"}), "a")
        await wait_until(lambda: not host._extensions.leaving)
        assert list(host) == ["b"]
        assert states["b"] == ["admitted", "starting", "ready"]
        assert states["a"] == ["draining", "stopped"]
        assert host["b"].stats.calls == 0
