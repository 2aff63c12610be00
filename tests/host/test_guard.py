"""A guard cannot be bypassed: calls that its hook could not decide about are refused.

A guard is an extension with a `before_tool_call` hook: the host asks it before each tool call, and
it can block the call. If the hook fails, the call is refused, unless the setting `on_failure` is
"open". `write_guard` writes a guard with a given answer: an answer that the protocol does not have,
such as {"action": "dance"}, and the texts "die", "hang" and "flood" let the hook fail. The tools
write the messages that they receive to the file `heard`.
"""

import asyncio
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import SyncHost
from exthost.config import config_from_mapping
from exthost.errors import CallFailed, CallTimeout, ConfigError, ExthostError, Refused
from exthost.events import HookFailed
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import error_of, pid_of
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.synaps_tree import write_plugin
from tests.faces.gateway.gateway_process import extension, stdio_client, write_config
from tests.host.killed_guard import CALLERS, TOOL, CallSchedule, KilledGuard

BLOCKED_BY_HOOK = "X0332"
HOOK_FAILED = "X0333"

BEFORE = {"hook": "before_tool_call"}

ten_or_a_hundred_times = pytest.mark.parametrize(
    "times", [10, pytest.param(100, marks=pytest.mark.more)]
)


def config_document(root: Path, **settings: Any) -> dict[str, Any]:
    return {"discovery": {"search_paths": [str(root)]}, **settings}


def write_guard(root: Path, answer: Any, **behaviour: Any) -> Path:
    """Write a plugin with tools, and a guard that answers `before_tool_call` in this way. Return
    the file to which the tools write the messages that they receive."""
    received = root / "heard"
    write_plugin(root / "tools", {"heard": str(received)})
    write_plugin(
        root / "guard", {"hooks": {"before_tool_call": answer}, **behaviour}, hooks=[BEFORE]
    )
    return received


# -- killed again and again ------------------------------------------------------------------


@shows("hooks-guard-01")
@ten_or_a_hundred_times
async def test_no_call_passes_a_guard_that_is_killed_again_and_again(
    tmp_path: Path, times: int
) -> None:
    killed = KilledGuard(tmp_path)
    async with exthost.Host.from_config(killed.document()) as host:

        async def make_calls() -> None:
            schedule = CallSchedule()
            while not killed.is_over.is_set():
                try:
                    await host.call_tool(TOOL, {"a": 1})
                    killed.outcomes["passed"] += 1
                except ExthostError as error:
                    killed.outcomes[error.code] += 1
                await asyncio.sleep(schedule.seconds_until_next())

        callers = [asyncio.create_task(make_calls()) for _ in range(CALLERS)]
        await asyncio.to_thread(killed.kill, times)
        await asyncio.gather(*callers)
    killed.check_outcomes(times)


@shows("hooks-guard-01")
@ten_or_a_hundred_times
def test_no_blocking_call_passes_a_guard_that_is_killed_again_and_again(
    tmp_path: Path, times: int
) -> None:
    killed = KilledGuard(tmp_path)
    with (
        SyncHost.from_config(killed.document()) as host,
        ThreadPoolExecutor(CALLERS) as threads,
    ):

        def make_calls() -> None:
            schedule = CallSchedule()
            while not killed.is_over.is_set():
                try:
                    host.call_tool(TOOL, {"a": 1})
                    killed.outcomes["passed"] += 1
                except ExthostError as error:
                    killed.outcomes[error.code] += 1
                time.sleep(schedule.seconds_until_next())

        callers = [threads.submit(make_calls) for _ in range(CALLERS)]
        killed.kill(times)
        for caller in callers:
            caller.result()
    killed.check_outcomes(times)


@pytest.mark.more
@shows("hooks-guard-01")
@ten_or_a_hundred_times
async def test_no_call_through_the_gateway_passes_a_guard_that_is_killed_again_and_again(
    tmp_path: Path, times: int
) -> None:
    killed = KilledGuard(tmp_path)
    async with stdio_client(write_config(tmp_path, killed.document()), "handshake") as client:

        async def make_calls() -> None:
            schedule = CallSchedule()
            while not killed.is_over.is_set():
                result = await client.call_tool(TOOL, {"a": 1})
                output = (result.meta or {}).get("exthost/error")
                killed.outcomes[output["code"] if result.is_error and output else "passed"] += 1
                await asyncio.sleep(schedule.seconds_until_next())

        callers = [asyncio.create_task(make_calls()) for _ in range(CALLERS)]
        await asyncio.to_thread(killed.kill, times)
        await asyncio.gather(*callers)
    killed.check_outcomes(times)


async def test_a_hook_whose_process_ends_is_sent_to_only_one_more_process(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "tools")
    received = tmp_path / "heard"
    guard = {"hooks": {"before_tool_call": "die"}, "heard": str(received)}
    write_plugin(tmp_path / "guard", guard, hooks=[BEFORE])
    async with exthost.Host.from_config(config_document(tmp_path)) as host:
        await error_of(host.call_tool(TOOL, {"a": 1}))
    assert received.read_text().count("hook.handle") == 2


# -- on_failure: closed and open --------------------------------------------------------------


@pytest.mark.sampled
@shows("hooks-guard-02", "synaps-hook-03", "synaps-hook-04")
@pytest.mark.parametrize(
    "answer", ["die", "hang", "flood", {"action": "dance"}, {"action": "block"}, "block", [1]]
)
async def test_a_call_is_refused_if_its_hook_fails_and_the_error_names_the_hook(
    tmp_path: Path, answer: Any
) -> None:
    received = write_guard(tmp_path, answer)
    overrides = {"guard": {"limits": {"call": "300ms" if answer in ("hang", "flood") else "20s"}}}
    async with exthost.Host.from_config(config_document(tmp_path, overrides=overrides)) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
    assert isinstance(error, Refused) and error.code == HOOK_FAILED and error.extension == "guard"
    assert TOOL in error.message and "before_tool_call" in error.message
    assert "guard" in error.help and "on_failure" in error.help
    assert "tool.call" not in received.read_text()


@pytest.mark.more
@shows("hooks-guard-02", "nexo-hook-10")
@pytest.mark.parametrize(
    "answer", ["die", "hang", [1], {"abort": "yes"}, {"decision": "maybe"}, {"override": 1}]
)
async def test_a_call_is_refused_if_a_hook_of_nexo_fails(tmp_path: Path, answer: Any) -> None:
    received = tmp_path / "heard"
    write_plugin(tmp_path / "tools", {"heard": str(received)})
    behaviour = {"offer": {"hooks": ["before_tool_call"]}, "hooks": {"before_tool_call": answer}}
    guard = extension("guard", "nexo", "-S", "-E", str(NEXO), json.dumps(behaviour))
    guard["limits"] = {"call": "300ms" if answer == "hang" else "20s"}
    async with exthost.Host.from_config(config_document(tmp_path, extensions=[guard])) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
    assert error.code == HOOK_FAILED and error.extension == "guard"
    assert "tool.call" not in received.read_text()


@shows("hooks-guard-03")
@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ({"hooks": {"on_failure": "open"}}, True),
        ({"hooks": {"before_tool_call": {"on_failure": "open"}}}, True),
        ({"hooks": {"before_message": {"on_failure": "open"}}}, False),
        ({"overrides": {"guard": {"hooks": {"on_failure": "open"}}}}, True),
        ({"overrides": {"other": {"hooks": {"on_failure": "open"}}}}, False),
        (
            {
                "hooks": {"on_failure": "open"},
                "overrides": {"guard": {"hooks": {"before_tool_call": {"on_failure": "closed"}}}},
            },
            False,
        ),
    ],
)
async def test_on_failure_is_set_for_the_host_an_extension_or_a_hook(
    tmp_path: Path, settings: dict[str, Any], passes: bool
) -> None:
    write_guard(tmp_path, {"action": "dance"})
    async with exthost.Host.from_config(config_document(tmp_path, **settings)) as host:
        if passes:
            result = await host.call_tool(TOOL, {"a": 1})
            assert result.data == {"a": 1}
            (warning,) = result.warnings
            assert "guard" in warning and "before_tool_call" in warning
            failed = await error_of(host.call_tool("ext_tools_nap", {}))
            assert isinstance(failed, CallFailed), (
                "the error of the tool, with a note about the hook"
            )
            assert "before_tool_call of guard failed" in failed.__notes__[0]
            returned = await host.call_tool("ext_tools_nap", {}, check=False)
            assert returned.is_error and "before_tool_call of guard failed" in returned.warnings[0]
        else:
            assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == HOOK_FAILED


@shows("hooks-guard-03")
@pytest.mark.parametrize(
    "hooks",
    [
        {"on_failure": "maybe"},
        {"on_faliure": "open"},
        {"after_tool_call": {"on_failure": "closed"}},
        {"before_tool_call": "open"},
        "open",
    ],
)
def test_invalid_hook_settings_are_a_config_error(hooks: Any) -> None:
    with pytest.raises(ConfigError):
        config_from_mapping({"hooks": hooks})


# -- guards that are not running --------------------------------------------------------------


@shows("hooks-guard-04")
async def test_a_call_starts_a_lazy_guard(tmp_path: Path) -> None:
    write_guard(tmp_path, {"action": "block", "reason": "not today"})
    overrides = {"guard": {"start": "lazy", "limits": {"call": "20s"}}}
    async with exthost.Host.from_config(config_document(tmp_path, overrides=overrides)) as host:
        assert host["guard"].state == "admitted"
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == BLOCKED_BY_HOOK and "not today" in error.message


@shows("hooks-guard-04")
async def test_a_call_starts_a_lazy_extension_whose_hooks_are_unknown(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "tools")
    block = {"abort": True, "reason": "not today"}
    behaviour = {
        "offer": {"hooks": ["before_tool_call"]},
        "hooks": {"before_tool_call": block},
    }
    arguments = ("-S", "-E", str(NEXO), json.dumps(behaviour))
    lazy = extension("guard", "nexo", *arguments, start="lazy")
    async with exthost.Host.from_config(config_document(tmp_path, extensions=[lazy])) as host:
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == BLOCKED_BY_HOOK


@shows("hooks-guard-01")
async def test_a_hook_is_repeated_once_if_the_guard_exits(tmp_path: Path) -> None:
    block = {"action": "block", "reason": "not today"}
    write_guard(tmp_path, block, **{"die first": str(tmp_path / "died")})
    overrides = {"guard": {"limits": {"call": "20s"}}}
    async with exthost.Host.from_config(config_document(tmp_path, overrides=overrides)) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == BLOCKED_BY_HOOK and "not today" in error.message
        assert host["guard"].stats.crashes == 1


@shows("hooks-guard-01")
async def test_a_repeated_hook_has_only_the_remaining_time(tmp_path: Path, clock: Clock) -> None:
    received = tmp_path / "asked"
    write_plugin(tmp_path / "tools")
    behaviour = {"hooks": {"before_tool_call": "hang"}, "heard": str(received)}
    write_plugin(tmp_path / "guard", behaviour, hooks=[BEFORE])
    overrides = {"guard": {"limits": {"call": "600s"}}}
    async with exthost.Host.from_config(config_document(tmp_path, overrides=overrides)) as host:
        call = asyncio.ensure_future(error_of(host.call_tool(TOOL, {"a": 1})))
        await clock.until(lambda: received.read_text().count("hook.handle") == 1)
        await clock.advance(400)
        os.kill(pid_of(host["guard"]), signal.SIGKILL)
        await clock.until(lambda: received.read_text().count("hook.handle") == 2)
        assert not call.done()
        await clock.advance(200)
        assert call.done() and (await call).code == HOOK_FAILED


@shows("hooks-guard-05")
async def test_a_guard_that_cannot_be_started_blocks_every_call(tmp_path: Path) -> None:
    write_guard(tmp_path, {"action": "continue"}, crash=True)
    async with exthost.Host.from_config(config_document(tmp_path)) as host:
        assert host["guard"].state == "failed"
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == HOOK_FAILED and error.extension == "guard"


@shows("hooks-guard-06")
async def test_a_hook_that_is_not_allowed_to_block_is_skipped_and_reported(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tools")
    hooks = [{"hook": "after_tool_call"}, {"hook": "before_message"}]
    behaviour = {"hooks": {"after_tool_call": "die", "before_message": "die"}}
    write_plugin(tmp_path / "eye", behaviour, hooks=hooks)
    async with exthost.Host.from_config(config_document(tmp_path)) as host:
        result = await host.call_tool(TOOL, {"a": 1})
        assert result.data == {"a": 1} and "after_tool_call of eye" in result.warnings[0]
        outcome = await host.hooks.run("before_message", {"message": "hi"})
        assert not outcome.stopped and [item.extension for item in outcome.passed_over] == ["eye"]


async def test_no_hook_runs_for_a_call_that_cannot_be_made(tmp_path: Path) -> None:
    write_guard(tmp_path, {"action": "block", "reason": "no"})
    async with exthost.Host.from_config(config_document(tmp_path)) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}, timeout=-0.5))
        assert isinstance(error, CallTimeout)
        not_callable: Any = 5
        error = await error_of(host.call_tool(TOOL, {"a": 1}, on_progress=not_callable))
        assert error.code == "X1332"  # on_progress is not a function
        assert host["guard"].stats.calls == 0


# -- events, audit and gateway ----------------------------------------------------------------


@shows("hooks-guard-07")
@pytest.mark.parametrize("on_failure", ["closed", "open"])
async def test_failed_hooks_are_reported_by_events_and_in_the_audit(
    tmp_path: Path, on_failure: str
) -> None:
    write_guard(tmp_path, {"action": "dance"})
    audit = tmp_path / "audit.jsonl"
    settings = {"hooks": {"on_failure": on_failure}, "audit": {"path": str(audit)}}
    hook_failures: list[HookFailed] = []
    async with exthost.Host.from_config(config_document(tmp_path, **settings)) as host:
        host.events.subscribe(HookFailed, hook_failures.append)
        call = host.call_tool(TOOL, {"a": 1}, context={"agent_id": "me"})
        await (error_of(call) if on_failure == "closed" else call)
    outcome = "refused" if on_failure == "closed" else "passed over"
    (event,) = hook_failures
    assert (event.extension, event.hook, event.outcome) == ("guard", "before_tool_call", outcome)
    assert event.about == TOOL
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    (record,) = [item for item in records if item["outcome"] == outcome]
    assert (record["extension"], record["method"]) == ("guard", "before_tool_call")
    # X0651: the answer to the hook is malformed
    assert (record["about"], record["code"]) == (TOOL, "X0651") and record["reason"]
    assert record["context"] == {"agent_id": "me"}


@pytest.mark.more
@shows("hooks-guard-07")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_failed_hooks_are_reported_to_clients_of_the_gateway(
    tmp_path: Path, era: str
) -> None:
    received = write_guard(tmp_path, {"action": "dance"})
    nonsense = {"hooks": {"before_tool_call": {"action": "dance"}}}
    write_plugin(
        tmp_path / "strict", nonsense, hooks=[{**BEFORE, "match": {"input_contains": "no"}}]
    )
    settings = {
        "hooks": {"on_failure": "open"},
        "overrides": {"strict": {"hooks": {"on_failure": "closed"}}},
    }
    async with stdio_client(
        write_config(tmp_path, config_document(tmp_path, **settings)), era
    ) as client:
        result = await client.call_tool(TOOL, {"a": 1})
        refused_result = await client.call_tool(TOOL, {"a": "no"})
        failed = await client.call_tool("ext_tools_nap", {})
    assert not result.is_error and result.meta is not None
    (warning,) = result.meta["exthost/warnings"]
    assert "before_tool_call of guard failed" in warning
    assert failed.is_error and failed.meta is not None
    assert "before_tool_call of guard failed" in failed.meta["exthost/warnings"][0]
    assert refused_result.is_error and refused_result.meta is not None
    assert refused_result.meta["exthost/error"]["code"] == HOOK_FAILED
    assert received.read_text().count("tool.call") == 2
