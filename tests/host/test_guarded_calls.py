"""Every tool call runs the hooks; `hooks=False` skips them, which is recorded.

A hook is a function of an extension that the host calls before or after a tool call, and that can
block it. The extension `guard` has such hooks, and writes the messages that it receives to the file
`heard`. The calls are made in every way that there is: Python, `attach` (the control socket of a
host), the blocking API and the command line.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import CallTimeout, NotFound, UsageError
from exthost.events import HooksSkipped
from tests.extensions.clock import Clock
from tests.extensions.harness import error_of
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.nexo_tree import write_plugin as nexo_plugin
from tests.extensions.synaps_tree import write_plugin
from tests.faces.cli.cli_process import run_inside
from tests.faces.gateway.gateway_process import extension, write_config

BLOCKED_BY_HOOK = "X0332"

TOOL = "ext_tools_echo"
BEFORE, AFTER = {"hook": "before_tool_call"}, {"hook": "after_tool_call"}


def write_audited_config(folder: Path) -> Path:
    """Write a config with tools, an audit, and a guard that records the messages it receives."""
    write_plugin(folder / "plugins" / "tools")
    behaviour = {"heard": str(folder / "heard")}
    write_plugin(folder / "plugins" / "guard", behaviour, hooks=[BEFORE, AFTER])
    document = {
        "discovery": {"search_paths": [str(folder / "plugins")]},
        "audit": {"path": str(folder / "audit.jsonl")},
    }
    return write_config(folder, document)


def hooks_received(folder: Path) -> list[str]:
    """Return the names of the hooks that the host has called, in order."""
    lines = (folder / "heard").read_text().splitlines()
    messages = [json.loads(line) for line in lines]
    return [message["params"]["kind"] for message in messages if message["method"] == "hook.handle"]


def skipped_records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of calls without hooks in the audit log."""
    lines = (folder / "audit.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["outcome"] == "skipped"]


# The ways to make a call. The arguments are a host, a host that is attached to it, and `hooks`.
CALLS: dict[str, Callable[[exthost.Host, Any, bool], Awaitable[Any]]] = {
    "host": lambda host, _, hooks: host.call_tool(TOOL, {"a": 1}, hooks=hooks),
    "other name": lambda host, _, hooks: host.call_tool("tools:echo", {"a": 1}, hooks=hooks),
    "extension": lambda host, _, hooks: host["tools"].call_tool("echo", {"a": 1}, hooks=hooks),
    "attached": lambda _, attached, hooks: attached.call_tool(TOOL, {"a": 1}, hooks=hooks),
    "attached extension": lambda _, attached, hooks: attached["tools"].call_tool(
        "echo", {"a": 1}, hooks=hooks
    ),
}


@pytest.mark.parametrize("interface", CALLS)
async def test_a_call_runs_the_hooks_unless_they_are_skipped(
    tmp_path: Path, interface: str
) -> None:
    config = write_audited_config(tmp_path)
    async with (
        exthost.Host.from_config(config, control=True) as host,
        exthost.attach(config) as attached,
    ):
        assert (await CALLS[interface](host, attached, True)).data == {"a": 1}
        assert hooks_received(tmp_path) == ["before_tool_call", "after_tool_call"]
        assert (await CALLS[interface](host, attached, False)).data == {"a": 1}
    assert len(hooks_received(tmp_path)) == 2
    [record] = skipped_records(tmp_path)
    assert (record["extension"], record["about"]) == ("tools", TOOL)


def test_a_blocking_call_runs_the_hooks_unless_they_are_skipped(tmp_path: Path) -> None:
    with exthost.SyncHost.from_config(write_audited_config(tmp_path)) as host:
        for number, call in enumerate((host.call_tool, host["tools"].call_tool), 1):
            name = "echo" if number == 2 else TOOL
            assert call(name, {"a": 1}).data == {"a": 1}
            assert len(hooks_received(tmp_path)) == 2 * number
            assert call(name, {"a": 1}, hooks=False, context={"why": "test"}).data == {"a": 1}
            assert len(hooks_received(tmp_path)) == 2 * number
    assert [record["context"] for record in skipped_records(tmp_path)] == [{"why": "test"}] * 2


@pytest.mark.parametrize("target", [(TOOL,), ("tools", "echo")])
def test_a_call_of_the_command_line_runs_the_hooks_unless_they_are_skipped(
    tmp_path: Path, target: tuple[str, ...]
) -> None:
    write_audited_config(tmp_path)
    command = ("call", *target, "a=1", "--json")
    assert json.loads(run_inside(*command, cwd=tmp_path).stdout) == {"a": 1}
    assert hooks_received(tmp_path) == ["before_tool_call", "after_tool_call"]
    assert json.loads(run_inside(*command, "--no-hooks", cwd=tmp_path).stdout) == {"a": 1}
    assert len(hooks_received(tmp_path)) == 2
    assert [record["about"] for record in skipped_records(tmp_path)] == [TOOL]


def test_methods_and_extensions_outside_the_config_run_no_hooks(tmp_path: Path) -> None:
    """`--method` calls a method of the protocol, and a folder names a program that has no host."""
    write_audited_config(tmp_path)
    (tmp_path / "heard").touch()
    params = json.dumps({"name": "echo", "input": {"a": 1}})
    command = ("call", "tools", "tool.call", "--method", "--args", params, "--json")
    assert run_inside(*command, cwd=tmp_path).returncode == 0
    assert run_inside("call", "plugins/tools", "echo", "a=1", cwd=tmp_path).returncode == 0
    assert hooks_received(tmp_path) == []


def has_no_hooks(host: exthost.Host) -> bool:
    return host["tools"].internals.calls.interceptor.is_idle


async def test_a_host_without_hooks_makes_calls_directly_until_an_extension_changes(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "tools")
    block = {"abort": True, "reason": "no"}
    behaviour = {"offer": {"hooks": ["before_tool_call"]}, "hooks": {"before_tool_call": block}}
    async with exthost.Host.from_config({"discovery": {"search_paths": [str(tmp_path)]}}) as host:
        await host.call_tool(TOOL, {"a": 1})
        assert has_no_hooks(host)
        await host.load(extension("guard", "nexo", "-S", "-E", str(NEXO), json.dumps(behaviour)))
        assert not has_no_hooks(host)
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == BLOCKED_BY_HOOK
        await host.unload("guard")
        await host.call_tool(TOOL, {"a": 1})
        assert has_no_hooks(host)


async def test_a_call_waits_for_the_handshake_of_a_possible_guard(tmp_path: Path) -> None:
    """Its hooks are known only after its handshake."""
    write_plugin(tmp_path / "tools")
    block = {"abort": True, "reason": "no"}
    behaviour = {"offer": {"hooks": ["before_tool_call"]}, "hooks": {"before_tool_call": block}}
    guard = extension("guard", "nexo", "-S", "-E", str(NEXO), json.dumps(behaviour), start="lazy")
    async with exthost.Host.from_config({"discovery": {"search_paths": [str(tmp_path)]}}) as host:
        await host.load(guard)
        starting = asyncio.ensure_future(host["guard"].start())
        await asyncio.sleep(0)
        assert host["guard"].state in ("admitted", "starting")
        assert (await error_of(host.call_tool(TOOL, {"a": 1}))).code == BLOCKED_BY_HOOK
        await starting


async def test_a_call_that_cannot_be_made_runs_no_hooks(tmp_path: Path) -> None:
    config = write_audited_config(tmp_path)
    async with exthost.Host.from_config(config) as host:
        tools = host["tools"]
        assert isinstance(await error_of(tools.call_tool("nope")), NotFound)
        assert isinstance(await error_of(host.call_tool(TOOL, timeout=0)), CallTimeout)
        not_a_mapping: Any = 5
        assert isinstance(await error_of(host.call_tool(TOOL, context=not_a_mapping)), UsageError)
        await tools.drain()
        await error_of(tools.call_tool("echo", {}, wait=False))
        assert host["guard"].stats.calls == 0


async def test_skipped_hooks_are_published(tmp_path: Path) -> None:
    write_plugin(tmp_path / "tools")
    skipped_events: list[HooksSkipped] = []
    async with exthost.Host.from_config({"discovery": {"search_paths": [str(tmp_path)]}}) as host:
        host.events.subscribe(HooksSkipped, skipped_events.append)
        await host.call_tool(TOOL, {"a": 1})
        await host.call_tool(TOOL, {"a": 1}, hooks=False, context={"agent_id": "me"})
    assert skipped_events == [HooksSkipped("tools", TOOL, {"agent_id": "me"})]


# -- context on the command line -------------------------------------------------------------------


def test_the_command_line_sets_the_context_of_a_call(tmp_path: Path) -> None:
    nexo_plugin(tmp_path / "plugins" / "a", "a", more="[context]\npassthrough = true")
    write_config(tmp_path, {"discovery": {"search_paths": [str(tmp_path / "plugins")]}})
    context = ("--context", "agent_id=7", "--context", "session_id=s1")
    for command in (("ext_a_echo",), ("a", "echo"), ("plugins/a", "echo")):
        outcome = run_inside("call", *command, "x=1", *context, "--json", cwd=tmp_path)
        expected = {"x": 1, "_meta": {"agent_id": "7", "session_id": "s1"}}
        assert json.loads(outcome.stdout) == expected, outcome
    for invalid_context in ("agent_id", "=7"):
        outcome = run_inside("call", "ext_a_echo", "--context", invalid_context, cwd=tmp_path)
        assert outcome.returncode == 2 and "--context" in outcome.stderr
    outcome = run_inside("call", "a", "echo", "--method", "--context", "k=v", cwd=tmp_path)
    assert outcome.returncode == 2


async def test_the_command_line_sets_the_context_through_a_running_host(tmp_path: Path) -> None:
    nexo_plugin(tmp_path / "plugins" / "a", "a", more="[context]\npassthrough = true")
    document = {"discovery": {"search_paths": [str(tmp_path / "plugins")]}}
    config = write_config(tmp_path, document)
    async with exthost.Host.from_config(config, control=True):
        command = ("call", "ext_a_echo", "x=1", "--context", "agent_id=7", "--json")
        outcome = await asyncio.to_thread(run_inside, *command, cwd=tmp_path)
    assert "through the running host" in outcome.stderr
    assert json.loads(outcome.stdout)["_meta"] == {"agent_id": "7", "session_id": None}


# -- the error of a call whose process ended --------------------------------------------------


async def test_the_error_of_a_call_that_was_not_repeated_says_so(
    tmp_path: Path, clock: Clock
) -> None:
    """The extension is unloaded during the call; it may have done its work already."""
    received = tmp_path / "heard"
    write_plugin(tmp_path / "tools", {"heard": str(received)})
    async with exthost.Host.from_config({"discovery": {"search_paths": [str(tmp_path)]}}) as host:
        never = str(tmp_path / "never")
        call = asyncio.ensure_future(error_of(host.call_tool("ext_tools_nap", {"until": never})))
        await clock.until(lambda: "tool.call" in received.read_text())
        await host.unload("tools")
        error = await call
    assert "sent once more" not in error.message and "not sent again" in error.message
    assert received.read_text().count("tool.call") == 1
