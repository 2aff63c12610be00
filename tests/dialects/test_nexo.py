"""Requirements of nexo that need a process, a clock or several messages to test.

nexo is a dialect, a protocol that extensions speak: JSON-RPC in lines. Its plugins have a manifest
and may have hooks, which are called at events of the host. `child(behaviour)` starts a plugin that
behaves as the test says: for example, with {"heard": FILE} it writes the lines that it gets into a
file. `@shows` names the requirements (`requirements.toml` of nexo) that a test shows.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.dialects.calls import HookAnswer, HookCall
from exthost.dialects.nexo.dialect import DIALECT
from exthost.dialects.steps import as_generator
from exthost.errors import (
    BreakerOpen,
    CallFailed,
    ExtensionGone,
    HandshakeFailed,
    ProtocolViolation,
    UsageError,
)
from exthost.events import Bus, Exited, LogLine, Noticed, StateChanged
from exthost.model.messages import Reply
from exthost.model.offer import Tool
from exthost.model.shutdown_steps import CloseStdin, Write
from exthost.model.spec import Breaker, Restart
from exthost.process import pipe_ends
from tests.dialects.requirements import shows
from tests.extensions.harness import error_of
from tests.extensions.nexo_tree import CHILD, config, write_plugin


def child(behaviour: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Connect to the nexo child that the tests control, without a manifest."""
    command = [sys.executable, "-S", "-E", str(CHILD), json.dumps(behaviour or {})]
    limits = {"handshake": "60s"} | settings.pop("limits", {})
    return exthost.connect(command, dialect="nexo", name="child", limits=limits, **settings)


# -- messages --------------------------------------------------------------------------------


async def test_calls_hooks_and_operations_of_one_iteration_of_the_loop_are_written_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with child({"offer": {"tools": [{"name": "id"}], "hooks": ["before_message"]}}) as ext:
        real_write = os.write
        lines_of_writes = []

        def count_lines(fd: int, data: bytes) -> int:
            lines_of_writes.append(data.count(b"\n"))
            return real_write(fd, data)

        with monkeypatch.context() as patched:
            patched.setattr(pipe_ends, "write", count_lines)
            calls: list[Awaitable[object]] = [ext.call_tool("id") for _ in range(3)]
            calls += [ext.run_hook("before_message", {}) for _ in range(3)]
            calls += [ext.internals.calls.run_operation("list_tools", None, None) for _ in range(3)]
            await asyncio.gather(*calls, return_exceptions=True)
        # The first call is written immediately, and the others together.
        assert lines_of_writes == [1, 8]


@shows("nexo-wire-02", "nexo-life-04")
async def test_ids_continue_after_a_restart_and_initialize_always_has_id_0(tmp_path: Path) -> None:
    log_file = tmp_path / "heard"
    behaviour = {"heard": str(log_file)}
    async with child(behaviour, restart={"initial_delay": "1ms"}) as ext:
        assert (await ext.call_tool("id")).data == 1
        error = await error_of(ext.call_tool("die"))
        assert isinstance(error, ExtensionGone)
        assert (await ext.call_tool("id")).data == 3
    lines = [json.loads(line) for line in log_file.read_text().splitlines()]
    requests = [json.loads(line) for line in lines if line.strip()]
    assert [request["id"] for request in requests] == [0, 1, 2, 0, 3]
    assert {request["jsonrpc"] for request in requests} == {"2.0"}


async def test_with_retry_a_tool_whose_process_died_is_sent_once_more(tmp_path: Path) -> None:
    log_file = tmp_path / "heard"
    settings = {"retry": "once", "restart": {"initial_delay": "1ms"}}
    async with child({"heard": str(log_file)}, **settings) as ext:
        error = await error_of(ext.call_tool("die"))
    assert isinstance(error, ExtensionGone) and "sent once more" in error.message
    assert log_file.read_text().count("tools/call") == 2


@shows("nexo-wire-03", "nexo-hand-04", "nexo-life-01", "nexo-life-02", "nexo-life-03")
def test_the_settings_of_the_dialect_are_those_of_the_specification() -> None:
    traits = DIALECT.traits
    limits = traits.limits
    assert (limits.max_message, limits.handshake, limits.call) == (64 * 2**20, 10, 30)
    assert traits.shutdown_steps == (Write(b"\n"), CloseStdin(3))
    assert traits.restart == Restart(
        strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300
    )
    assert traits.breaker == Breaker(
        failures=5, open=10, max_open=120, successes=2, count_error_replies=False
    )
    assert (traits.environment, traits.start, traits.positional) == ("filtered", "eager", False)


@shows("nexo-wire-04", "nexo-wire-10", "nexo-wire-11")
async def test_stray_lines_notifications_and_unknown_ids_do_not_disturb_a_call() -> None:
    bus = Bus()
    notices: list[Noticed] = []
    lines: list[LogLine] = []
    bus.subscribe(Noticed, notices.append)
    bus.subscribe(LogLine, lines.append)
    async with child(events=bus) as ext:
        assert (await ext.call_tool("whine")).data == "done"
        assert ext.stats.dropped == {"stray lines on stdout": 1, "replies without a request": 1}
    assert notices == [("child", "progress", 7)]
    assert any("a stray line" in line.text for line in lines)


@shows("nexo-wire-12")
@pytest.mark.parametrize("id", ["a", 5, 1.5, True, [1], {"a": 1}])
async def test_a_request_of_the_child_is_refused_for_any_id(id: Any) -> None:
    async with child() as ext:
        answer = (await ext.call_tool("ask", {"id": id})).data
        assert answer["error"]["code"] == -32601 and answer["id"] == id


@shows("nexo-wire-12")
@pytest.mark.parametrize("id", ["a", 1.5, [1]])
async def test_a_request_of_the_child_is_answered_by_its_handler(id: Any) -> None:
    async def clock(params: Any) -> Any:
        return "noon"

    async with child(handlers={"clock": clock}) as ext:
        answer = (await ext.call_tool("ask", {"id": id, "method": "clock"})).data
        assert answer == {"jsonrpc": "2.0", "result": "noon", "id": id}


@shows("nexo-life-02")
async def test_a_blank_line_and_the_end_of_stdin_stop_the_child(tmp_path: Path) -> None:
    log_file = tmp_path / "heard"
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    async with child({"heard": str(log_file)}, events=bus):
        pass
    assert [json.loads(line) for line in log_file.read_text().splitlines()][-2:] == ["\n", ""]
    assert [event.status for event in exits] == ["exited with 0"]


async def test_the_handshake_with_cat_fails() -> None:
    async def connect_to_cat() -> None:
        async with exthost.connect(["cat"], dialect="nexo", limits={"handshake": "5s"}):
            pass

    assert isinstance(await error_of(connect_to_cat()), HandshakeFailed)


# -- operations ------------------------------------------------------------------------------


@shows("nexo-call-03")
@pytest.mark.parametrize("tool_list", [["a", {"name": "b"}], {"tools": ["a", {"name": "b"}]}])
async def test_a_list_of_tools_is_an_object_or_an_array(tool_list: Any) -> None:
    async with child({"listed": tool_list}) as ext:
        assert await ext.list_tools() == (Tool("a", input_schema={}), Tool("b", input_schema={}))
        assert "echo" in ext.tools  # the tools of the handshake stay


async def test_an_invalid_list_of_tools_fails_only_its_request() -> None:
    async with child({"listed": {"tools": 5}}) as ext:
        error = await error_of(ext.list_tools())
        assert isinstance(error, ProtocolViolation) and error.code == "X0630"
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


@shows("nexo-hook-07")
async def test_a_hook_receives_the_event() -> None:
    behaviour = {"offer": {"hooks": ["before_message"]}, "hooks": {"before_message": "echo"}}
    async with child(behaviour) as ext:
        answer = await ext.run_hook("before_message", {"text": "hi"})
        assert answer.override == {"seen": {"text": "hi"}}


async def test_an_invalid_answer_of_a_hook_fails_only_its_request() -> None:
    behaviour = {"offer": {"hooks": ["before_message"]}, "hooks": {"before_message": [1]}}
    async with child(behaviour) as ext:
        error = await error_of(ext.run_hook("before_message", {}))
        assert isinstance(error, ProtocolViolation) and error.code == "X0631"
        with pytest.raises(CallFailed):
            await ext.call("no/such")


def read_hook_answer(answer: Any) -> HookAnswer:
    """Return how the host reads this reply to `before_tool_call`."""
    hook = HookCall("before_tool_call", {})
    steps = as_generator(DIALECT.operations["hook"], hook, "before_tool_call")
    next(steps)
    with pytest.raises(StopIteration) as stopped:
        steps.send(Reply(1, answer))
    hook_answer = stopped.value.value
    assert isinstance(hook_answer, HookAnswer)
    return hook_answer


@shows("nexo-hook-10")
@pytest.mark.parametrize(
    ("answer", "member"),
    [
        ({"abort": "yes"}, "abort"),
        ({"abort": 1}, "abort"),
        ({"decision": "maybe"}, "decision"),
        ({"decision": ["block"]}, "decision"),
        ({"override": 5}, "override"),
        ({"reason": 7}, "reason"),
        ({"do_not_reply_again": "x", "abort": False}, "do_not_reply_again"),
    ],
)
def test_a_hook_answer_with_an_invalid_member_is_an_error(answer: Any, member: str) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        read_hook_answer(answer)
    assert caught.value.code == "X0631" and f"`{member}`" in caught.value.message


@shows("nexo-hook-10", "nexo-hook-02")
def test_a_hook_answer_that_stops_the_event_counts_despite_invalid_members() -> None:
    assert read_hook_answer({"abort": True, "reason": 5, "override": 5}) == HookAnswer(abort=True)
    assert read_hook_answer({"decision": "block", "abort": "yes"}).decision == "block"
    assert (
        read_hook_answer({"abort": None, "reason": None, "later": 1})
        == read_hook_answer({})
        == HookAnswer()
    )


# -- context ---------------------------------------------------------------------------------

OFFER_WITH_SCHEMAS = {
    "tools": [
        {
            "name": "echo",
            "input_schema": {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "additionalProperties": False,
            },
        },
        {"name": "open"},
        {"name": "odd", "input_schema": {"type": 5}},
    ]
}
PASSTHROUGH = "[context]\npassthrough = true"


@shows("nexo-context-01", "nexo-context-02", "nexo-context-03")
async def test_the_context_is_added_after_the_arguments_are_checked(tmp_path: Path) -> None:
    write_plugin(tmp_path / "a", "a", behaviour={"offer": OFFER_WITH_SCHEMAS}, more=PASSTHROUGH)
    async with exthost.Host(config(tmp_path)) as host:
        context = {"agent_id": "a1", "session_id": "s1", "role": "admin"}
        result = await host.call_tool("ext_a_echo", {"a": 1}, context=context)
        assert result.data == {"a": 1, "_meta": context}
        spoofed = {"x": 1, "_meta": {"agent_id": "root"}}
        result = await host.call_tool("ext_a_open", spoofed, context=context)
        assert result.data == {"x": 1, "_meta": context}
        assert spoofed == {"x": 1, "_meta": {"agent_id": "root"}}  # the argument is not changed
        result = await host.call_tool("ext_a_open", spoofed)
        assert result.data["_meta"] == {"agent_id": None, "session_id": None}
        error = await error_of(host.call_tool("ext_a_echo", {"_meta": {}}, context=context))
        assert isinstance(error, UsageError) and error.code == "X1301"
        assert (await host.call_tool("ext_a_open", [1], context=context)).data == [1]


@shows("nexo-context-04")
async def test_without_passthrough_arguments_are_sent_unchanged(tmp_path: Path) -> None:
    write_plugin(tmp_path / "a", "a")
    async with exthost.Host(config(tmp_path)) as host:
        arguments = {"x": 1, "_meta": {"agent_id": "me"}}
        assert (
            await host.call_tool("ext_a_echo", arguments, context={"agent_id": "a1"})
        ).data == arguments


@shows("nexo-context-05")
async def test_an_invalid_schema_is_a_warning_and_arguments_are_not_checked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with child({"offer": OFFER_WITH_SCHEMAS}) as ext:
        with caplog.at_level(logging.WARNING, "exthost"):
            assert (await ext.call_tool("odd", {"any": "thing"})).data == {"any": "thing"}
    assert any("odd" in record.message and "invalid" in record.message for record in caplog.records)


def test_blocking_calls_get_the_same_context(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "a", "a", behaviour={"offer": OFFER_WITH_SCHEMAS}, more=PASSTHROUGH)
    with exthost.SyncHost(config(tmp_path)) as host:
        result = host.call_tool("ext_a_open", {"_meta": 1}, context={"agent_id": "a1"})
        assert result.data == {"_meta": {"agent_id": "a1", "session_id": None}}
        assert host.call_tool("ext_a_echo", {"a": 1}).data["a"] == 1


@shows("nexo-hand-05", "nexo-call-04")
async def test_the_tools_of_the_handshake_replace_those_of_the_manifest(
    tmp_path: Path,
) -> None:
    write_plugin(
        tmp_path / "a", "a", behaviour={"offer": OFFER_WITH_SCHEMAS}, tools=("echo", "promised")
    )
    lazy_start = lazy_config(tmp_path)
    async with exthost.Host(lazy_start) as host:
        assert set(host.tools) == {"ext_a_echo", "ext_a_promised"}
        assert host["a"].state == "admitted"
        # The manifest has no schema, so the call waits for the handshake before it is sent.
        error = await error_of(host.call_tool("ext_a_echo", {"a": "text"}))
        assert isinstance(error, UsageError) and error.code == "X1301"
        assert (await host.call_tool("ext_a_echo", {"a": 1})).data == {"a": 1}
        assert set(host.tools) == {"ext_a_echo", "ext_a_open", "ext_a_odd"}
        assert host.tools["ext_a_echo"].description == "[ext:a] "


def lazy_config(root: Path) -> Any:
    from exthost.config import config_from_mapping

    return config_from_mapping(
        {"discovery": {"search_paths": [str(root)]}, "defaults": {"start": "lazy"}}
    )


@shows("nexo-life-08")
async def test_the_error_of_an_open_breaker_has_its_name() -> None:
    breaker = {"failures": 1, "open": "60s", "max_open": "60s"}
    async with child(breaker=breaker) as ext:
        await error_of(ext.call_tool("die"))
        error = await error_of(ext.call_tool("echo"))
        assert isinstance(error, BreakerOpen)
        assert "the breaker ext:stdio:child is open" in error.message


# -- environment -----------------------------------------------------------------------------


@shows("nexo-env-01", "nexo-env-02", "nexo-env-03")
async def test_a_child_gets_the_variables_of_its_manifest_and_of_nexo(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {
        "PATH": "/usr/bin:/bin",
        "EXTHOST_HOME": str(home),
        "A_TOKEN": "t",
        "B_TOKEN": "t",
        "KEYBOARD": "k",
    }
    write_plugin(tmp_path / "x" / "a", "a", tools=("env",), more='[requires]\nenv = ["A_TOKEN"]')
    async with exthost.Host(config(tmp_path / "x"), environ=environ) as host:
        environment = (await host.call_tool("ext_a_env")).data
        assert (await host["a"].call_tool("cwd")).data == str(tmp_path / "x" / "a")
        assert (
            environment["A_TOKEN"] == "t"
            and environment["KEYBOARD"] == "k"
            and "B_TOKEN" not in environment
        )
        assert environment["AGENT_EXTENSION_ID"] == "a"
        assert environment["AGENT_VERSION"] == exthost.__version__
        assert environment["AGENT_STATE_DIR"] == str(home / "extensions" / "a")
        assert environment["NEXO_EXTENSION_STATE_ROOT"] == environment["AGENT_STATE_DIR"]
        assert (home / "extensions" / "a").is_dir()


async def test_a_child_runs_without_a_state_folder_if_it_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    environ = {"PATH": "/usr/bin:/bin", "EXTHOST_HOME": str(tmp_path / "home")}
    write_plugin(tmp_path / "x" / "a", "a")
    async with exthost.Host(config(tmp_path / "x"), environ=environ) as host:
        environment = (await host["a"].call_tool("env")).data
        assert not {"AGENT_STATE_DIR", "NEXO_EXTENSION_STATE_ROOT"} & environment.keys()


@shows("nexo-env-01")
async def test_a_relative_command_is_in_the_folder_of_the_manifest(tmp_path: Path) -> None:
    manifest = write_plugin(tmp_path / "a", "a")
    script = tmp_path / "a" / "run"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -S -E {CHILD}\n")
    script.chmod(0o755)
    text = manifest.read_text()
    manifest.write_text(
        text[: text.index("[transport]")] + '[transport]\ntype="stdio"\ncommand="./run"'
    )
    async with exthost.Host(config(tmp_path)) as host:
        assert (await host.call_tool("ext_a_echo", {"a": 1})).data == {"a": 1}


# -- starting --------------------------------------------------------------------------------


@shows("nexo-hand-07", "nexo-hand-08")
async def test_the_other_extensions_load_if_one_dies_in_its_handshake(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "bad", "bad", behaviour={"exit": 3})
    for id in ("a", "z"):
        write_plugin(tmp_path / id, id)
    host = exthost.Host(config(tmp_path))
    states_entered: list[tuple[str, str]] = []
    host.events.subscribe(
        StateChanged, lambda event: states_entered.append((event.extension, event.after))
    )
    async with host:
        assert set(host.tools) == {"ext_a_echo", "ext_z_echo"} | {
            f"ext_{id}_{tool}"
            for id in ("a", "z")
            for tool in ("env", "cwd", "id", "ask", "die", "whine")
        }
        assert host["bad"].state == "failed"
        [diagnostic] = host.diagnostics
        assert (diagnostic.level, diagnostic.code, diagnostic.extension) == (
            "error",
            "X0501",
            "bad",
        )
        assert diagnostic.path == str(tmp_path / "bad" / "plugin.toml")
        assert states_entered.count(("bad", "starting")) == 1


@shows("nexo-gate-01", "nexo-gate-02")
async def test_an_extension_with_missing_requirements_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    needs = '[requires]\nbins = ["sh", "no-such-a", "no-such-b"]\nenv = ["NO_SUCH_C"]'
    write_plugin(tmp_path / "a", "a", more=needs)
    host = exthost.Host(config(tmp_path))
    states_entered: list[str] = []
    host.events.subscribe(StateChanged, lambda event: states_entered.append(event.after))
    with caplog.at_level(logging.WARNING, "exthost"):
        async with host:
            assert host["a"].state == "refused" and not host.tools
            [diagnostic] = host.diagnostics
            assert diagnostic.level == "warning"
            for missing in ("no-such-a", "no-such-b", "NO_SUCH_C"):
                assert missing in diagnostic.message
    assert states_entered == ["refused"]
    assert len([record for record in caplog.records if "no-such-a" in record.message]) == 1
