"""nexo, where a rule needs a process, a clock or more than one message to show."""

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
from tests.dialects.requirements import shows
from tests.extensions.harness import failing
from tests.extensions.nexo_tree import CHILD, config, plugin


def child(behaviour: dict[str, Any] | None = None, **settings: Any) -> Any:
    """The steerable child, without a manifest."""
    command = [sys.executable, "-S", "-E", str(CHILD), json.dumps(behaviour or {})]
    limits = {"handshake": "60s"} | settings.pop("limits", {})
    return exthost.connect(command, dialect="nexo", name="child", limits=limits, **settings)


# -- messages --------------------------------------------------------------------------------


async def test_calls_hooks_and_operations_of_one_tick_are_written_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with child({"offer": {"tools": [{"name": "id"}], "hooks": ["before_message"]}}) as ext:
        write, sizes = os.write, []

        def count(fd: int, data: bytes) -> int:
            sizes.append(data.count(b"\n"))
            return write(fd, data)

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", count)
            calls: list[Awaitable[object]] = [ext.call_tool("id") for _ in range(3)]
            calls += [ext.run_hook("before_message", {}) for _ in range(3)]
            calls += [ext.internals.calls.run_operation("list_tools", None, None) for _ in range(3)]
            await asyncio.gather(*calls, return_exceptions=True)
        assert sizes == [1, 8]


@shows("nexo-wire-02", "nexo-life-04")
async def test_numbers_go_on_over_a_restart_and_initialize_is_always_0(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    behaviour = {"heard": str(received)}
    async with child(behaviour, restart={"initial_delay": "1ms"}) as ext:
        assert (await ext.call_tool("id")).data == 1
        error = await failing(ext.call_tool("die"))
        assert isinstance(error, ExtensionGone)
        assert (await ext.call_tool("id")).data == 3
    lines = [json.loads(line) for line in received.read_text().splitlines()]
    asked = [json.loads(line) for line in lines if line.strip()]
    assert [request["id"] for request in asked] == [0, 1, 2, 0, 3]
    assert {request["jsonrpc"] for request in asked} == {"2.0"}


async def test_with_retry_a_tool_whose_process_died_is_sent_once_more(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    settings = {"retry": "once", "restart": {"initial_delay": "1ms"}}
    async with child({"heard": str(received)}, **settings) as ext:
        error = await failing(ext.call_tool("die"))
    assert isinstance(error, ExtensionGone) and "sent once more" in error.message
    assert received.read_text().count("tools/call") == 2


@shows("nexo-wire-03", "nexo-hand-04", "nexo-life-01", "nexo-life-02", "nexo-life-03")
def test_its_manners_are_the_page_s() -> None:
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
async def test_stray_lines_notices_and_unknown_ids_harm_no_call() -> None:
    bus = Bus()
    notices: list[Noticed] = []
    lines: list[LogLine] = []
    bus.subscribe(Noticed, notices.append)
    bus.subscribe(LogLine, lines.append)
    async with child(events=bus) as ext:
        assert (await ext.call_tool("whine")).data == "done"
        assert ext.stats.dropped == {"stray lines on stdout": 1, "replies to no question": 1}
    assert notices == [("child", "progress", 7)]
    assert any("a stray line" in line.text for line in lines)


@shows("nexo-wire-12")
@pytest.mark.parametrize("id", ["a", 5, 1.5, True, [1], {"a": 1}])
async def test_a_question_of_the_child_is_refused_for_any_id(id: Any) -> None:
    async with child() as ext:
        answer = (await ext.call_tool("ask", {"id": id})).data
        assert answer["error"]["code"] == -32601 and answer["id"] == id


@shows("nexo-wire-12")
@pytest.mark.parametrize("id", ["a", 1.5, [1]])
async def test_a_question_of_the_childs_is_served_by_its_handler(id: Any) -> None:
    async def clock(params: Any) -> Any:
        return "noon"

    async with child(handlers={"clock": clock}) as ext:
        answer = (await ext.call_tool("ask", {"id": id, "method": "clock"})).data
        assert answer == {"jsonrpc": "2.0", "result": "noon", "id": id}


@shows("nexo-life-02")
async def test_it_is_ended_by_a_blank_line_and_the_end_of_its_stdin(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    bus = Bus()
    exits: list[Exited] = []
    bus.subscribe(Exited, exits.append)
    async with child({"heard": str(received)}, events=bus):
        pass
    assert [json.loads(line) for line in received.read_text().splitlines()][-2:] == ["\n", ""]
    assert [event.status for event in exits] == ["exited with 0"]


async def test_cat_cannot_shake_hands() -> None:
    async def meet_cat() -> None:
        async with exthost.connect(["cat"], dialect="nexo", limits={"handshake": "5s"}):
            pass

    assert isinstance(await failing(meet_cat()), HandshakeFailed)


# -- operations ------------------------------------------------------------------------------


@shows("nexo-call-03")
@pytest.mark.parametrize("listed", [["a", {"name": "b"}], {"tools": ["a", {"name": "b"}]}])
async def test_tools_are_listed_by_an_object_or_a_bare_list(listed: Any) -> None:
    async with child({"listed": listed}) as ext:
        assert await ext.list_tools() == (Tool("a", input_schema={}), Tool("b", input_schema={}))
        assert "echo" in ext.tools  # what the handshake said stands


async def test_a_list_of_tools_that_cannot_be_used_costs_that_question_alone() -> None:
    async with child({"listed": {"tools": 5}}) as ext:
        error = await failing(ext.list_tools())
        assert isinstance(error, ProtocolViolation) and error.code == "X0630"
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


@shows("nexo-hook-07")
async def test_a_hook_gets_the_event_itself() -> None:
    behaviour = {"offer": {"hooks": ["before_message"]}, "hooks": {"before_message": "echo"}}
    async with child(behaviour) as ext:
        answer = await ext.run_hook("before_message", {"text": "hi"})
        assert answer.override == {"seen": {"text": "hi"}}


async def test_a_hook_that_answers_nonsense_costs_that_question_alone() -> None:
    behaviour = {"offer": {"hooks": ["before_message"]}, "hooks": {"before_message": [1]}}
    async with child(behaviour) as ext:
        error = await failing(ext.run_hook("before_message", {}))
        assert isinstance(error, ProtocolViolation) and error.code == "X0631"
        with pytest.raises(CallFailed):
            await ext.call("no/such")


def judged(answer: Any) -> HookAnswer:
    """What the host reads in this answer to `before_tool_call`."""
    hook = HookCall("before_tool_call", {})
    steps = as_generator(DIALECT.operations["hook"], hook, "before_tool_call")
    next(steps)
    with pytest.raises(StopIteration) as done:
        steps.send(Reply(1, answer))
    read = done.value.value
    assert isinstance(read, HookAnswer)
    return read


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
def test_an_answer_with_a_bad_member_has_not_judged(answer: Any, member: str) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        judged(answer)
    assert caught.value.code == "X0631" and f"`{member}`" in caught.value.message


@shows("nexo-hook-10", "nexo-hook-02")
def test_an_answer_that_stops_the_event_counts_despite_its_other_fields() -> None:
    assert judged({"abort": True, "reason": 5, "override": 5}) == HookAnswer(abort=True)
    assert judged({"decision": "block", "abort": "yes"}).decision == "block"
    assert judged({"abort": None, "reason": None, "later": 1}) == judged({}) == HookAnswer()


# -- context ---------------------------------------------------------------------------------

CLOSED = {
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
PASSES = "[context]\npassthrough = true"


@shows("nexo-context-01", "nexo-context-02", "nexo-context-03")
async def test_the_context_is_the_hosts_word_and_is_added_after_the_check(tmp_path: Path) -> None:
    plugin(tmp_path / "a", "a", behaviour={"offer": CLOSED}, more=PASSES)
    async with exthost.Host(config(tmp_path)) as host:
        who = {"agent_id": "a1", "session_id": "s1", "role": "admin"}
        meta = who
        echoed = await host.call_tool("ext_a_echo", {"a": 1}, context=who)
        assert echoed.data == {"a": 1, "_meta": meta}
        spoofed = {"x": 1, "_meta": {"agent_id": "root"}}
        report = await host.call_tool("ext_a_open", spoofed, context=who)
        assert report.data == {"x": 1, "_meta": meta}
        assert spoofed == {"x": 1, "_meta": {"agent_id": "root"}}  # the caller's own is untouched
        report = await host.call_tool("ext_a_open", spoofed)
        assert report.data["_meta"] == {"agent_id": None, "session_id": None}
        error = await failing(host.call_tool("ext_a_echo", {"_meta": {}}, context=who))
        assert isinstance(error, UsageError) and error.code == "X1301"
        assert (await host.call_tool("ext_a_open", [1], context=who)).data == [1]


@shows("nexo-context-04")
async def test_without_passthrough_arguments_are_as_they_came(tmp_path: Path) -> None:
    plugin(tmp_path / "a", "a")
    async with exthost.Host(config(tmp_path)) as host:
        mine = {"x": 1, "_meta": {"agent_id": "me"}}
        assert (await host.call_tool("ext_a_echo", mine, context={"agent_id": "a1"})).data == mine


@shows("nexo-context-05")
async def test_a_schema_that_is_invalid_is_a_warning_and_no_check(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with child({"offer": CLOSED}) as ext:
        with caplog.at_level(logging.WARNING, "exthost"):
            assert (await ext.call_tool("odd", {"any": "thing"})).data == {"any": "thing"}
    assert any("odd" in record.message and "invalid" in record.message for record in caplog.records)


def test_the_blocking_face_adds_the_same_context_and_checks_before_the_first_call(
    tmp_path: Path,
) -> None:
    plugin(tmp_path / "a", "a", behaviour={"offer": CLOSED}, more=PASSES)
    with exthost.SyncHost(config(tmp_path)) as host:
        report = host.call_tool("ext_a_open", {"_meta": 1}, context={"agent_id": "a1"})
        assert report.data == {"_meta": {"agent_id": "a1", "session_id": None}}
        assert host.call_tool("ext_a_echo", {"a": 1}).data["a"] == 1


@shows("nexo-hand-05", "nexo-call-04")
async def test_the_tools_of_a_manifest_are_listed_and_those_of_a_handshake_are_called(
    tmp_path: Path,
) -> None:
    plugin(tmp_path / "a", "a", behaviour={"offer": CLOSED}, tools=("echo", "promised"))
    found = config_lazy(tmp_path)
    async with exthost.Host(found) as host:
        assert set(host.tools) == {"ext_a_echo", "ext_a_promised"}
        assert host["a"].state == "admitted"
        # The manifest has no schema, so the handshake is waited for before anything is sent.
        error = await failing(host.call_tool("ext_a_echo", {"a": "text"}))
        assert isinstance(error, UsageError) and error.code == "X1301"
        assert (await host.call_tool("ext_a_echo", {"a": 1})).data == {"a": 1}
        assert set(host.tools) == {"ext_a_echo", "ext_a_open", "ext_a_odd"}
        assert host.tools["ext_a_echo"].description == "[ext:a] "


def config_lazy(root: Path) -> Any:
    from exthost.config import config_from_mapping

    return config_from_mapping(
        {"discovery": {"search_paths": [str(root)]}, "defaults": {"start": "lazy"}}
    )


@shows("nexo-life-08")
async def test_its_breaker_has_the_name_that_its_host_gives_it() -> None:
    breaker = {"failures": 1, "open": "60s", "max_open": "60s"}
    async with child(breaker=breaker) as ext:
        await failing(ext.call_tool("die"))
        error = await failing(ext.call_tool("echo"))
        assert isinstance(error, BreakerOpen)
        assert "the breaker ext:stdio:child is open" in error.message


# -- environment -----------------------------------------------------------------------------


@shows("nexo-env-01", "nexo-env-02", "nexo-env-03")
async def test_the_environment_of_a_child(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {
        "PATH": "/usr/bin:/bin",
        "EXTHOST_HOME": str(home),
        "A_TOKEN": "t",
        "B_TOKEN": "t",
        "KEYBOARD": "k",
    }
    plugin(tmp_path / "x" / "a", "a", tools=("env",), more='[requires]\nenv = ["A_TOKEN"]')
    async with exthost.Host(config(tmp_path / "x"), environ=environ) as host:
        observed = (await host.call_tool("ext_a_env")).data
        assert (await host["a"].call_tool("cwd")).data == str(tmp_path / "x" / "a")
        assert (
            observed["A_TOKEN"] == "t" and observed["KEYBOARD"] == "k" and "B_TOKEN" not in observed
        )
        assert observed["AGENT_EXTENSION_ID"] == "a"
        assert observed["AGENT_VERSION"] == exthost.__version__
        assert observed["AGENT_STATE_DIR"] == str(home / "extensions" / "a")
        assert observed["NEXO_EXTENSION_STATE_ROOT"] == observed["AGENT_STATE_DIR"]
        assert (home / "extensions" / "a").is_dir()


async def test_where_no_state_folder_can_be_made_the_child_runs_without(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    environ = {"PATH": "/usr/bin:/bin", "EXTHOST_HOME": str(tmp_path / "home")}
    plugin(tmp_path / "x" / "a", "a")
    async with exthost.Host(config(tmp_path / "x"), environ=environ) as host:
        observed = (await host["a"].call_tool("env")).data
        assert not {"AGENT_STATE_DIR", "NEXO_EXTENSION_STATE_ROOT"} & observed.keys()


@shows("nexo-env-01")
async def test_a_program_beside_the_manifest_is_found_from_there(tmp_path: Path) -> None:
    manifest = plugin(tmp_path / "a", "a")
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
async def test_one_that_dies_in_its_handshake_is_one_error_and_the_others_load(
    tmp_path: Path,
) -> None:
    plugin(tmp_path / "bad", "bad", behaviour={"exit": 3})
    for id in ("a", "z"):
        plugin(tmp_path / id, id)
    host = exthost.Host(config(tmp_path))
    moves: list[tuple[str, str]] = []
    host.events.subscribe(StateChanged, lambda event: moves.append((event.extension, event.after)))
    async with host:
        assert set(host.tools) == {"ext_a_echo", "ext_z_echo"} | {
            f"ext_{id}_{tool}"
            for id in ("a", "z")
            for tool in ("env", "cwd", "id", "ask", "die", "whine")
        }
        assert host["bad"].state == "failed"
        [report] = host.diagnostics
        assert (report.level, report.code, report.extension) == ("error", "X0501", "bad")
        assert report.path == str(tmp_path / "bad" / "plugin.toml")
        assert moves.count(("bad", "starting")) == 1


@shows("nexo-gate-01", "nexo-gate-02")
async def test_a_gated_extension_is_never_started_and_everything_missing_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    needs = '[requires]\nbins = ["sh", "no-such-a", "no-such-b"]\nenv = ["NO_SUCH_C"]'
    plugin(tmp_path / "a", "a", more=needs)
    host = exthost.Host(config(tmp_path))
    moves: list[str] = []
    host.events.subscribe(StateChanged, lambda event: moves.append(event.after))
    with caplog.at_level(logging.WARNING, "exthost"):
        async with host:
            assert host["a"].state == "refused" and not host.tools
            [report] = host.diagnostics
            assert report.level == "warning"
            for missing in ("no-such-a", "no-such-b", "NO_SUCH_C"):
                assert missing in report.message
    assert moves == ["refused"]
    assert len([record for record in caplog.records if "no-such-a" in record.message]) == 1
