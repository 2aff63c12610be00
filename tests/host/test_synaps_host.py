"""Plugins of synaps, one of the protocols that exthost speaks, in a host: hooks, the tool loop,
settings and secrets.

`write_plugin` writes a plugin; the mapping that it gets says how the plugin behaves, for example
how it answers each hook. With `heard`, the plugin writes each message that it gets to this file.
A hook is a function of a plugin that the host calls before or after an event such as a tool call.
"""

import asyncio
import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import Config, config_from_mapping
from exthost.dialects.calls import HookCall
from exthost.dialects.synaps.dialect import DIALECT
from exthost.dialects.synaps.hooks import RUN_HOOK, make_hook_params
from exthost.dialects.value_result import VALUE_RESULT
from exthost.errors import (
    CallFailed,
    NotFound,
    ProtocolViolation,
    Refused,
    UsageError,
)
from exthost.extension.confirmation import Confirmation
from exthost.host.api import external_changes
from exthost.host.tool_loop import complete_with_tools, cut_to_bytes
from exthost.model.spec import Spec
from tests.dialects.requirements import shows
from tests.extensions.harness import error_of, wait_until
from tests.extensions.roder import config_entry as roder_entry
from tests.extensions.synaps_tree import write_plugin
from tests.host.test_host import entry

INVALID_OUTPUT_LIMIT = "X1334"

BEFORE = {"hook": "before_tool_call"}
ECHO = "ext_tools_echo"


def config(root: Path, **settings: Any) -> Config:
    return config_from_mapping({"discovery": {"search_paths": [str(root)]}, **settings})


def write_guard(root: Path, answer: Any, name: str = "guard", **subscription: Any) -> None:
    """Write a plugin with tools, and a plugin that answers `before_tool_call` in this way."""
    write_plugin(root / "tools")
    write_plugin(
        root / name, {"hooks": {"before_tool_call": answer}}, hooks=[BEFORE | subscription]
    )


# -- hooks -----------------------------------------------------------------------------------


@shows("synaps-hook-08", "synaps-hook-06", "synaps-hook-02")
async def test_a_plugin_blocks_a_call(tmp_path: Path) -> None:
    write_guard(tmp_path, {"action": "block", "reason": "not today"})
    async with exthost.Host(config(tmp_path)) as host:
        error = await error_of(host.call_tool(ECHO, {"a": 1}))
        assert isinstance(error, Refused) and error.extension == "guard"
        assert "not today" in error.message
        assert (await host.call_tool(ECHO, {"a": 1}, hooks=False)).data == {"a": 1}


@shows("synaps-hook-08", "synaps-hook-06")
async def test_after_a_plugin_modifies_a_call_no_other_plugin_is_asked(tmp_path: Path) -> None:
    write_guard(tmp_path, {"action": "modify", "input": {"a": 2}})
    last = {"hooks": {"before_tool_call": {"action": "block", "reason": "never asked"}}}
    write_plugin(tmp_path / "later", last, hooks=[BEFORE])
    async with exthost.Host(config(tmp_path)) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 2}


@shows("synaps-hook-07", "synaps-hook-08")
async def test_a_plugin_requests_confirmation_by_a_person(tmp_path: Path) -> None:
    write_guard(tmp_path, {"action": "confirm", "message": "really?"})
    async with exthost.Host(config(tmp_path)) as host:
        error = await error_of(host.call_tool(ECHO))
        assert isinstance(error, Refused) and "no person to ask" in error.message
    confirmations: list[Confirmation] = []
    answers: list[Any] = [True, False, "yes", ValueError("no terminal")]

    async def confirm(confirmation: Confirmation) -> bool:
        confirmations.append(confirmation)
        answer: Any = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async with exthost.Host(config(tmp_path), confirm=confirm) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}
        for _ in range(3):  # False, a value that is not True, and a function that fails
            assert isinstance(await error_of(host.call_tool(ECHO, {"a": 1})), Refused)
    first = confirmations[0]
    assert (first.extension, first.message) == ("guard", "really?")
    assert first.hook == "before_tool_call" and first.event["arguments"] == {"a": 1}


@pytest.mark.more
@pytest.mark.sampled
@shows("synaps-hook-02", "synaps-hook-03", "synaps-hook-04")
@pytest.mark.parametrize(
    ("answer", "stopped"),
    [
        ({"action": "continue", "more": 1}, False),
        ({"action": "modify"}, True),
        ({"action": "block"}, False),
        ({"action": "inject", "content": "x"}, False),
        ({"action": "dance"}, False),
        ({}, False),
        (None, False),
        ("block", False),
        ([1], False),
        ("die", False),
    ],
)
async def test_with_on_failure_open_a_malformed_answer_passes_unless_it_is_a_modify(
    tmp_path: Path, answer: Any, stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    write_guard(tmp_path, answer)
    async with exthost.Host(config(tmp_path, hooks={"on_failure": "open"})) as host:
        with caplog.at_level(logging.WARNING, "exthost"):
            if stopped:
                error = await error_of(host.call_tool(ECHO, {"a": 1}))
                assert isinstance(error, Refused) and "malformed" in error.message
            else:
                assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}
    is_valid = answer in ({"action": "continue", "more": 1}, {}, None)
    if not stopped and not is_valid:
        messages = [record.getMessage() for record in caplog.records]
        assert any("the event continues" in message for message in messages)


@shows("synaps-hook-04")
async def test_with_on_failure_open_a_call_passes_after_a_hook_timed_out(
    tmp_path: Path,
) -> None:
    write_guard(tmp_path, "hang")
    overrides = {"guard": {"limits": {"call": "200ms"}, "hooks": {"on_failure": "open"}}}
    async with exthost.Host(config(tmp_path, overrides=overrides)) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}


@pytest.mark.more
@pytest.mark.sampled
@shows("synaps-hook-05", "synaps-hand-10")
@pytest.mark.parametrize(
    ("filter", "is_stopped"),
    [
        ({}, True),
        ({"tool": ECHO}, True),
        ({"tool": "tools:echo"}, True),
        ({"tool": "echo"}, False),
        ({"tool": "tools:env"}, False),
        ({"match": {"input_equals": {"b": [1], "a": "x y"}}}, True),
        ({"match": {"input_equals": {"b": [True], "a": "x y"}}}, False),
        ({"match": {"input_equals": {"a": "x y"}}}, False),
        ({"match": {"input_contains": '"a":"x y","b":[1]'}}, True),
        ({"match": {"input_contains": "x  y"}}, False),
        ({"match": {"input_equals": {"b": [1], "a": "x y"}, "input_contains": "z"}}, False),
        ({"match": {}}, True),
    ],
)
async def test_filters_decide_which_extensions_are_asked(
    tmp_path: Path, filter: dict[str, Any], is_stopped: bool
) -> None:
    arguments = {"b": [1], "a": "x y"}
    write_guard(tmp_path, {"action": "block", "reason": "no"}, **filter)
    async with exthost.Host(config(tmp_path)) as host:
        if is_stopped:  # also if the call uses another name of the tool than the filter
            assert isinstance(await error_of(host.call_tool("tools:echo", arguments)), Refused)
        else:
            assert (await host.call_tool(ECHO, arguments)).data == arguments


@shows("synaps-hook-01", "synaps-hand-10")
async def test_the_events_before_and_after_a_call(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    root = tmp_path / "plugins"
    write_plugin(root / "tools")
    behaviour = {"heard": str(received)}
    write_plugin(root / "observer", behaviour, hooks=[BEFORE, {"hook": "after_tool_call"}])
    async with exthost.Host(config(root)) as host:
        await host.call_tool("tools:echo", {"a": 1}, context={"session_id": "s"})
        await error_of(host.call_tool("tools:ask", {}))
    messages = map(json.loads, received.read_text().splitlines())
    events = [message["params"] for message in messages if message["method"] == "hook.handle"]
    first = {
        "kind": "before_tool_call",
        "tool_name": ECHO,
        "tool_runtime_name": "tools:echo",
        "tool_input": {"a": 1},
        "tool_output": None,
        "message": None,
        "session_id": "s",
        "transcript": None,
        "data": None,
    }
    assert events[0] == first
    assert events[1] == first | {"kind": "after_tool_call", "tool_output": '{"a":1}'}
    assert events[3]["tool_output"].startswith("Tool execution failed: ")


@shows("synaps-hook-01")
def test_long_output_is_cut_at_a_character_with_a_note() -> None:
    def tool_output(result: Any) -> str:
        event = make_hook_params(HookCall("after_tool_call", {"result": result}))["tool_output"]
        assert isinstance(event, str)
        return event

    limit = 256 * 1024
    assert tool_output("x" * limit) == "x" * limit
    long_output = tool_output("x" + "é" * limit)
    assert long_output.startswith("xé") and f"{2 * limit + 1} bytes" in long_output
    assert len(long_output.partition("\n")[0].encode()) == limit - 1


@shows("synaps-hook-01")
def test_the_long_error_of_a_tool_is_cut_as_its_output_is() -> None:
    message = "x" * (256 * 1024)
    call = HookCall("after_tool_call", {"error": {"message": message}})
    text = f"Tool execution failed: {message}"
    output, _, note = make_hook_params(call)["tool_output"].partition("\n")
    assert output == text[: 256 * 1024] and f"{len(text)} bytes" in note


@shows("synaps-hook-03")
def test_a_modify_without_input_blocks_only_where_modify_is_allowed() -> None:
    modify = {"action": "modify"}
    assert RUN_HOOK.finish is not None
    assert RUN_HOOK.finish(HookCall("before_tool_call", {}), modify).abort
    with pytest.raises(ProtocolViolation, match="cannot be answered with 'modify'"):
        RUN_HOOK.finish(HookCall("before_message", {}), modify)


@shows("synaps-hook-03", "synaps-hook-06")
async def test_injects_are_joined_and_answers_that_are_not_allowed_are_skipped(
    tmp_path: Path,
) -> None:
    hooks = [{"hook": "before_message"}, {"hook": "on_session_start"}]
    inject = {"action": "inject", "content": "one"}
    block = {"action": "block", "reason": "no"}
    write_plugin(
        tmp_path / "a",
        {"hooks": {"before_message": inject, "on_session_start": block}},
        hooks=hooks,
    )
    write_plugin(tmp_path / "b", {"hooks": {"before_message": block}}, hooks=hooks)
    write_plugin(
        tmp_path / "c", {"hooks": {"before_message": {**inject, "content": "two"}}}, hooks=hooks
    )
    async with exthost.Host(config(tmp_path)) as host:
        outcome = await host.hooks.run("before_message", {"message": "hi", "session_id": "s"})
        assert (outcome.injected, outcome.stopped) == ("one\n\ntwo", False)
        assert not (await host.hooks.run("on_session_start", {"session_id": "s"})).stopped


# -- the tool loop ---------------------------------------------------------------------------
#
# `host.complete` sends messages to a model, which a plugin provides. While the reply of the model
# requests tools, the host runs them and sends their results to the model: this is the tool loop.

PROVIDER = {
    "id": "p",
    "display_name": "P",
    "description": "d",
    "models": [{"id": "m"}],
}


class Completion:
    """What a model returns: blocks of content."""

    def __init__(self, *content: Any, stop_reason: str | None = None) -> None:
        self.content = content
        self.stop_reason = stop_reason


def tool_use(name: str, id: str = "1", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


class FakeModel:
    """Returns these completions one after another, then the last one always; records requests."""

    def __init__(self, *completions: Completion) -> None:
        self.completions = list(completions)
        self.requests: list[list[Any]] = []

    async def __call__(self, messages: list[Any]) -> Completion:
        self.requests.append(list(messages))
        return self.completions.pop(0) if len(self.completions) > 1 else self.completions[0]


@shows("synaps-prov-05", "synaps-prov-06")
async def test_tools_run_one_after_another_and_their_results_are_sent_to_the_model(
    tmp_path: Path,
) -> None:
    write_guard(tmp_path, {"action": "block", "reason": "never"}, tool="tools:cwd")
    model = FakeModel(
        Completion(
            {"type": "text", "text": "let me see"},
            tool_use(ECHO, "1", a=1),
            tool_use("tools:cwd", "2"),
        ),
        Completion(tool_use("nobody", "3"), tool_use("tools:ask", "4")),
        Completion({"type": "text", "text": "done"}),
    )
    messages = [{"role": "user", "content": "go"}]
    async with exthost.Host(config(tmp_path)) as host:
        run = partial(host.call_tool, check=False)
        completion = await complete_with_tools(model, messages, run, provider="x:p:m")
    assert completion.content == ({"type": "text", "text": "done"},) and len(messages) == 1
    last = model.requests[-1]
    assert [item["role"] for item in last] == ["user", "assistant", "user", "assistant", "user"]
    good_result, blocked = last[2]["content"]
    assert good_result == {"type": "tool_result", "tool_use_id": "1", "content": '{"a":1}'}
    assert blocked["is_error"] and "never" in blocked["content"]
    unknown, failed = last[4]["content"]
    assert unknown["content"] == "Unknown tool: nobody" and unknown["is_error"]
    assert failed["is_error"] and failed["content"].startswith("Tool execution failed")


@shows("synaps-prov-05")
async def test_a_result_with_is_error_is_an_error_for_the_model(
    tmp_path: Path,
) -> None:
    behaviour = {
        "offer": {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}},
        "result": {"content": [tool_use("ext_toy_fail", "1"), tool_use("ext_toy_echo", "2")]},
        "heard": str(tmp_path / "heard"),
    }
    write_plugin(tmp_path / "model", behaviour)
    config_with_toy = config(tmp_path, process_extensions=[roder_entry(tmp_path)])
    async with exthost.Host(config_with_toy) as host:
        error = await error_of(host.complete("model:p:m", [], rounds=2))
    # The model still requests tools in the last round.
    assert isinstance(error, CallFailed) and error.code == "X0754"
    received = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    last = [
        message["params"] for message in received if message.get("method") == "provider.complete"
    ][-1]
    failed, good_result = last["messages"][-1]["content"]
    assert failed["is_error"] is True and "is_error" not in good_result
    assert failed["content"] == "as you wish" and good_result["content"].startswith("{")


async def return_long_text(name: str, arguments: Any) -> exthost.ToolResult:
    return exthost.ToolResult("x" * 50_000, VALUE_RESULT)


@shows("synaps-prov-05")
@pytest.mark.parametrize(("rounds", "requests"), [(3, 3), (1, 1), (0, 1)])
async def test_a_model_that_always_requests_tools_is_stopped(rounds: int, requests: int) -> None:
    model = FakeModel(Completion(tool_use("t")))
    error = await error_of(
        complete_with_tools(model, [], return_long_text, provider="a:p:m", rounds=rounds)
    )
    assert isinstance(error, CallFailed) and "a:p:m" in error.message
    assert len(model.requests) == requests


@shows("synaps-prov-06")
@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "name": "t"},
        {"type": "tool_use", "id": " ", "name": "t"},
        {"type": "tool_use", "id": "1", "name": ""},
        {"type": "tool_use", "id": "1", "name": "t", "input": [1]},
        {"type": "tool_use", "id": "1", "name": "t", "input": None},
    ],
)
async def test_an_invalid_tool_request_of_a_model_fails_the_call(block: Any) -> None:
    error = await error_of(
        complete_with_tools(FakeModel(Completion(block)), [], return_long_text, provider="p")
    )
    # X0654: a block of a model requests a tool without an id or name, or with an invalid input
    assert isinstance(error, ProtocolViolation) and error.code == "X0654"


async def test_the_last_request_of_an_answer_that_was_cut_off_is_not_run() -> None:
    called: list[str] = []

    async def call_tool(name: str, arguments: Any) -> exthost.ToolResult:
        called.append(name)
        return exthost.ToolResult("text \ud800", VALUE_RESULT)

    model = FakeModel(
        Completion(tool_use("a", "1"), tool_use("b", "2"), stop_reason="max_tokens"),
        Completion(tool_use("a", "3"), {"type": "text", "text": "…"}, stop_reason="max_tokens"),
        Completion(),
    )
    await complete_with_tools(model, [], call_tool, provider="p")
    assert called == ["a", "a"]
    good_result, cut_off = model.requests[-1][1]["content"]
    assert "is_error" not in good_result and cut_off["is_error"]
    assert good_result["content"] == "text ?" and "was not called" in cut_off["content"]


@pytest.mark.parametrize("rounds", ["3", 1.5, None, True])
async def test_a_number_of_rounds_that_is_not_a_whole_number_is_reported(rounds: Any) -> None:
    model = FakeModel(Completion())
    with pytest.raises(UsageError, match="rounds must be a whole number"):
        await complete_with_tools(model, [], return_long_text, provider="p", rounds=rounds)
    assert not model.requests


@shows("synaps-prov-07")
async def test_long_output_is_cut_for_the_model() -> None:
    model = FakeModel(Completion({"type": "tool_use", "id": "1", "name": "t"}), Completion())
    await complete_with_tools(model, [], return_long_text, provider="p")
    assert len(model.requests[1][-1]["content"][0]["content"]) == 30_000
    assert cut_to_bytes("é" * 5, 5) == "éé" and cut_to_bytes("abc", 3) == "abc"


@shows("synaps-prov-07")
async def test_the_maximum_tool_output_for_a_model_can_be_set(tmp_path: Path) -> None:
    behaviour = {
        "offer": {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}},
        "result": {"content": [tool_use("ext_toy_echo", "1")]},
        "heard": str(tmp_path / "heard"),
    }
    write_plugin(tmp_path / "model", behaviour)
    config_with_toy = config(tmp_path, process_extensions=[roder_entry(tmp_path)])
    async with exthost.Host(config_with_toy) as host:
        await error_of(host.complete("model:p:m", [], rounds=2, max_tool_output=7))
        for invalid_limit in (0, -1, True, "7"):
            error = await error_of(host.complete("model:p:m", [], max_tool_output=invalid_limit))  # type: ignore[arg-type]
            assert error.code == INVALID_OUTPUT_LIMIT
    received = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    completions = [
        message["params"] for message in received if message.get("method") == "provider.complete"
    ]
    assert len(completions[1]["messages"][-1]["content"][0]["content"]) == 7


async def test_a_model_cannot_call_a_tool_that_a_rule_denies(tmp_path: Path) -> None:
    offer = {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}}
    behaviour = {
        "offer": offer,
        "result": {"content": [tool_use("ext_toy_echo", "1")]},
        "heard": str(tmp_path / "heard"),
    }
    write_plugin(tmp_path / "model", behaviour)
    rule = {"tools": "ext_toy_*", "do": "deny", "reason": "not for models"}
    config_with_rule = config(tmp_path, process_extensions=[roder_entry(tmp_path)], rules=[rule])
    async with exthost.Host(config_with_rule) as host:
        await error_of(host.complete("model:p:m", [], rounds=2))
        assert host["toy"].stats.calls == 0
    received = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    completions = [
        message["params"] for message in received if message.get("method") == "provider.complete"
    ]
    (denied,) = completions[1]["messages"][-1]["content"]
    assert denied["is_error"] and "not for models" in denied["content"]


@shows("synaps-hand-10", "synaps-prov-05")
async def test_a_model_has_the_name_plugin_provider_model(tmp_path: Path) -> None:
    offer = {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}}
    behaviour = {"offer": offer, "result": {"content": [{"type": "text", "text": "hello"}]}}
    write_plugin(tmp_path / "model", behaviour)
    async with exthost.Host(config(tmp_path)) as host:
        completion = await host.complete(
            "model:p:m", [{"role": "user", "content": "hi"}], max_tokens=5
        )
        assert completion.text == "hello"


def test_a_blocking_host_completes_and_configures(tmp_path: Path) -> None:
    offer = {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}}
    behaviour = {"offer": offer, "result": {"content": [{"type": "text", "text": "hello"}]}}
    write_plugin(tmp_path / "model", behaviour)
    with exthost.SyncHost(config(tmp_path)) as host:
        assert host.complete("model:p:m", [{"role": "user", "content": "hi"}]).text == "hello"
        with pytest.raises(UsageError) as caught:
            host.complete("model:p:m", [], max_tool_output=0)
        assert caught.value.code == INVALID_OUTPUT_LIMIT, "the blocking host passes the limit on"
        host.configure("model", "k", "v")


async def test_a_setting_that_cannot_be_stored_is_reported(tmp_path: Path) -> None:
    write_plugin(tmp_path / "notes")
    wrong_value: Any = 5
    async with exthost.Host(config(tmp_path)) as host:
        for key, value, code in (
            (wrong_value, "red", "X1335"),
            ("color", wrong_value, "X1338"),
            ("color", "\ud800", "X1338"),
            ("\ud800", "red", "X1338"),
        ):
            with pytest.raises(UsageError) as caught:
                await host.configure("notes", key, value)
            assert caught.value.code == code
        with pytest.raises(NotFound, match="there is no extension 'note'") as unknown:
            await host.configure("note", "color", "red")
        assert "'notes'" in unknown.value.help


async def test_a_context_that_is_not_a_mapping_is_refused(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "notes", hooks=[{"hook": "before_tool_call"}])
    wrong_value: Any = 5
    async with exthost.Host(config(tmp_path)) as host:
        with pytest.raises(UsageError) as caught:
            await host.call_tool("notes:env", context=wrong_value)
        assert caught.value.code == "X1338"
        with pytest.raises(UsageError):
            host.emit("turn.started", context=wrong_value)


# -- settings, secrets, config ---------------------------------------------------------------


@shows("synaps-life-01", "synaps-mani-04")
async def test_a_plugin_has_five_variables_and_its_declared_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "s3cret")
    monkeypatch.setenv("OTHER_TOKEN", "no")
    monkeypatch.setenv("SYNAPS_EXTENSION_NOTES_LEVEL", "7")
    settings = [
        {"key": "token", "secret_env": "NOTES_TOKEN", "required": True},
        {"key": "level", "type": "number"},
        {"key": "name", "default": "n"},
    ]
    write_plugin(tmp_path / "notes", config=settings)
    async with exthost.Host(config(tmp_path)) as host:
        environment = (await host.call_tool("notes:env")).data
        assert environment.keys() <= {
            "PATH",
            "HOME",
            "LANG",
            "TERM",
            "XDG_RUNTIME_DIR",
            "NOTES_TOKEN",
            "LC_CTYPE",
        }
        assert environment["NOTES_TOKEN"] == "s3cret"
        assert (await host.call_tool("notes:cwd")).data == str(tmp_path / "notes")
        started = (await host.call_tool("notes:started")).data["params"]
        assert started["config"] == {"token": "s3cret", "level": 7, "name": "n"}
        assert started["plugin_root"] == str(tmp_path / "notes")


@shows("synaps-mani-04", "synaps-mani-06")
async def test_a_plugin_without_a_required_setting_is_refused_and_others_load(
    tmp_path: Path,
) -> None:
    write_plugin(tmp_path / "needy", config=[{"key": "token", "required": True}])
    write_plugin(tmp_path / "fine")
    write_plugin(tmp_path / "two", {"offer": {"protocol_version": 2}})
    write_plugin(tmp_path / "dead", {"crash": True})
    async with exthost.Host(config(tmp_path)) as host:
        states = {item.id: item.state for item in host.extensions}
        assert states == {"dead": "failed", "fine": "ready", "needy": "refused", "two": "failed"}
        codes = {item.extension: item.code for item in host.diagnostics}
        assert codes == {"dead": "X0501", "needy": "X0350", "two": "X0551"}
        assert all(item.help for item in host.diagnostics)
        assert {tool.extension for tool in host.tools.values()} == {"fine"}


@shows("synaps-mani-04")
async def test_stored_settings_are_sent_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    write_plugin(tmp_path / "p" / "notes", config=[{"key": "color", "required": True}])
    async with exthost.Host(config(tmp_path / "p")) as host:
        assert host["notes"].state == "refused"
        await host.configure("notes", "color", "red")
    async with exthost.Host(config(tmp_path / "p")) as host:
        assert (await host.call_tool("notes:started")).data["params"]["config"] == {"color": "red"}


@shows("synaps-mani-09")
async def test_settings_stored_later_are_sent_to_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    write_plugin(tmp_path / "p" / "notes", config=[{"key": "color", "default": "blue"}])
    write_plugin(tmp_path / "p" / "needy", config=[{"key": "color", "required": True}])
    async with exthost.Host(config(tmp_path / "p")) as host:

        async def color(name: str) -> str:
            return str((await host.call_tool(f"{name}:started")).data["params"]["config"]["color"])

        assert await color("notes") == "blue" and host["needy"].state == "refused"
        await host.configure("notes", "color", "red")
        await host.configure("needy", "color", "green")
        await host["notes"].restart()
        await host["needy"].restart()
        assert (await color("notes"), await color("needy")) == ("red", "green")


@shows("synaps-ask-03")
async def test_a_subscriber_is_notified_of_changes_while_it_runs(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    behaviour = {"heard": str(received), "init": [["config.subscribe", {"keys": ["a"]}]]}
    write_plugin(tmp_path / "p" / "watcher", behaviour)
    write_plugin(tmp_path / "p" / "other")

    def changes() -> list[Any]:
        messages = map(json.loads, received.read_text().splitlines())
        return [item["params"] for item in messages if item.get("method") == "config.changed"]

    async with exthost.Host(config(tmp_path / "p")) as host:
        await host.configure("watcher", "a", "1")
        await host.configure("watcher", "b", "2")
        await host.configure("other", "a", "3")
        # The notification of this change comes after the reply, which the plugin reads first.
        request = {"method": "config.set", "params": {"key": "a", "value": "4"}}
        assert (await host.call_tool("watcher:ask", request)).data["result"] == {"ok": True}
        await wait_until(lambda: len(changes()) == 2)
        await host["watcher"].restart()
        await host.configure("watcher", "a", "5")
        await wait_until(lambda: changes()[-1]["value"] == "5")
    # The replaced process may have received the last change, too, before it ended.
    assert [*dict.fromkeys(item["value"] for item in changes())] == ["1", "4", "5"]
    assert {item["key"] for item in changes()} == {"a"}


async def test_only_the_last_values_are_kept_for_a_subscriber_that_does_not_read(
    tmp_path: Path,
) -> None:
    received, until = tmp_path / "heard", tmp_path / "until"
    behaviour = {"heard": str(received), "init": [["config.subscribe", {}]]}
    write_plugin(tmp_path / "p" / "watcher", behaviour)

    def changes() -> list[tuple[str, str]]:
        lines = received.read_text().splitlines(keepends=True)
        # The last line may be half written.
        messages = [json.loads(line) for line in lines if line.endswith("\n")]
        return [
            (item["params"]["key"], item["params"]["value"][:3])
            for item in messages
            if item.get("method") == "config.changed"
        ]

    async with exthost.Host(config(tmp_path / "p")) as host:
        call = asyncio.create_task(host.call_tool("watcher:nap", {"until": str(until)}))
        (session,) = host["watcher"].internals.queue.live_sessions
        await wait_until(lambda: "nap" in received.read_text())
        for number in range(100, 150):
            for key in ("b", "a"):
                await host.configure("watcher", key, str(number) + "x" * 100_000)
        assert session.unread_bytes() < 2_000_000
        until.touch()
        await call
        await wait_until(lambda: changes()[-2:] == [("b", "149"), ("a", "149")])
    assert len(changes()) < 50


@pytest.mark.parametrize("method", ["config.get", "config.set", "config.subscribe"])
async def test_a_plugin_cannot_use_keys_of_megabytes(tmp_path: Path, method: str) -> None:
    write_plugin(tmp_path / "p" / "watcher")
    key = "k" * 2_000_000
    request = {"method": method, "params": {"key": key, "value": "v", "keys": [key]}}
    async with exthost.Host(config(tmp_path / "p")) as host:
        answer = (await host.call_tool("watcher:ask", request)).data
        assert answer["error"]["code"] == -32602 and "bytes" in answer["error"]["message"]


@shows("synaps-ask-03")
async def test_a_subscriber_is_notified_of_the_changes_of_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_changes, "POLL_SECONDS", 0.02)
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    received = tmp_path / "heard"
    behaviour = {"heard": str(received), "init": [["config.subscribe", {"keys": ["a"]}]] * 2}
    write_plugin(tmp_path / "p" / "watcher", behaviour)

    def changes() -> list[Any]:
        messages = map(json.loads, received.read_text().splitlines())
        return [
            message["params"]["value"]
            for message in messages
            if message.get("method") == "config.changed"
        ]

    document = {"extensions": [entry("watcher", start="lazy")]}
    async with (
        exthost.Host(config(tmp_path / "p")) as host,
        exthost.Host.from_config(document) as other,
    ):
        await other.configure("watcher", "a", "theirs")
        await wait_until(lambda: changes() == ["theirs"])
        await host.configure("watcher", "a", "ours")
        await other.configure("watcher", "b", "not watched")
        await other.configure("watcher", "a", "theirs")
        await wait_until(lambda: changes()[-2:] == ["ours", "theirs"])
    assert changes() == ["theirs", "ours", "theirs"]


def test_an_extension_without_a_manifest_has_no_hooks() -> None:
    assert DIALECT.wants_hook is not None
    assert not DIALECT.wants_hook(Spec(id="a", argv=()), "before_tool_call", {})
