"""synaps plugins in a host: hooks around tools, the tool loop, settings, secrets, many of them."""

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
from exthost.dialects.synaps.hooks import hook_event
from exthost.dialects.value_result import VALUE_RESULT
from exthost.errors import (
    CallFailed,
    ExthostError,
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
from tests.extensions.harness import failing, until
from tests.extensions.roder import entry as roder_entry
from tests.extensions.synaps_tree import plugin
from tests.host.test_host import entry

BEFORE = {"hook": "before_tool_call"}
ECHO = "ext_tools_echo"


def config(root: Path, **more: Any) -> Config:
    return config_from_mapping({"discovery": {"search_paths": [str(root)]}, **more})


def hooked(root: Path, answer: Any, name: str = "guard", **subscription: Any) -> None:
    """A plugin with tools, and one that answers `before_tool_call` in this way."""
    plugin(root / "tools")
    plugin(root / name, {"hooks": {"before_tool_call": answer}}, hooks=[BEFORE | subscription])


# -- hooks -----------------------------------------------------------------------------------


@shows("synaps-hook-08", "synaps-hook-06", "synaps-hook-02")
async def test_a_plugin_blocks(tmp_path: Path) -> None:
    hooked(tmp_path, {"action": "block", "reason": "not today"})
    async with exthost.Host(config(tmp_path)) as host:
        error = await failing(host.call_tool(ECHO, {"a": 1}))
        assert isinstance(error, Refused) and error.extension == "guard"
        assert "not today" in error.message
        assert (await host.call_tool(ECHO, {"a": 1}, hooks=False)).data == {"a": 1}


@shows("synaps-hook-08", "synaps-hook-06")
async def test_a_plugin_modifies_and_is_the_last_to_be_asked(tmp_path: Path) -> None:
    hooked(tmp_path, {"action": "modify", "input": {"a": 2}})
    last = {"hooks": {"before_tool_call": {"action": "block", "reason": "never asked"}}}
    plugin(tmp_path / "later", last, hooks=[BEFORE])
    async with exthost.Host(config(tmp_path)) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 2}


@shows("synaps-hook-07", "synaps-hook-08")
async def test_a_plugin_asks_for_a_person(tmp_path: Path) -> None:
    hooked(tmp_path, {"action": "confirm", "message": "really?"})
    async with exthost.Host(config(tmp_path)) as host:
        error = await failing(host.call_tool(ECHO))
        assert isinstance(error, Refused) and "no person to ask" in error.message
    asked: list[Confirmation] = []
    answers: list[Any] = [True, False, "yes", ValueError("no terminal")]

    async def confirm(confirmation: Confirmation) -> bool:
        asked.append(confirmation)
        answer: Any = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async with exthost.Host(config(tmp_path), confirm=confirm) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}
        for _ in range(3):  # a no, something else than a yes, an asker that fails
            assert isinstance(await failing(host.call_tool(ECHO, {"a": 1})), Refused)
    assert (asked[0].extension, asked[0].message, asked[0].hook) == (
        "guard",
        "really?",
        "before_tool_call",
    )
    assert asked[0].event["arguments"] == {"a": 1}


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
async def test_with_on_failure_open_nonsense_passes_unless_it_meant_to_modify(
    tmp_path: Path, answer: Any, stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hooked(tmp_path, answer)
    async with exthost.Host(config(tmp_path, hooks={"on_failure": "open"})) as host:
        with caplog.at_level(logging.WARNING, "exthost"):
            if stopped:
                error = await failing(host.call_tool(ECHO, {"a": 1}))
                assert isinstance(error, Refused) and "malformed" in error.message
            else:
                assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}
    harmless = stopped or answer in ({"action": "continue", "more": 1}, {}, None)
    assert harmless or any("the event goes on" in record.getMessage() for record in caplog.records)


@shows("synaps-hook-04")
async def test_with_on_failure_open_a_hook_that_hangs_passes_when_its_time_is_up(
    tmp_path: Path,
) -> None:
    hooked(tmp_path, "hang")
    overrides = {"guard": {"limits": {"call": "200ms"}, "hooks": {"on_failure": "open"}}}
    async with exthost.Host(config(tmp_path, overrides=overrides)) as host:
        assert (await host.call_tool(ECHO, {"a": 1})).data == {"a": 1}


@shows("synaps-hook-05", "synaps-hand-10")
@pytest.mark.parametrize(
    ("filter", "stops"),
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
    tmp_path: Path, filter: dict[str, Any], stops: bool
) -> None:
    hooked(tmp_path, {"action": "block", "reason": "no"}, **filter)
    async with exthost.Host(config(tmp_path)) as host:
        call = host.call_tool("echo" if stops else ECHO, {"b": [1], "a": "x y"})
        if stops:
            assert isinstance(await failing(call), ExthostError)
        else:
            assert (await call).data == {"b": [1], "a": "x y"}


@shows("synaps-hook-01", "synaps-hand-10")
async def test_the_event_before_and_after_a_call(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    root = tmp_path / "plugins"
    plugin(root / "tools")
    behaviour = {"heard": str(received)}
    plugin(root / "witness", behaviour, hooks=[BEFORE, {"hook": "after_tool_call"}])
    async with exthost.Host(config(root)) as host:
        await host.call_tool("tools:echo", {"a": 1}, context={"session_id": "s"})
        await failing(host.call_tool("tools:ask", {}))
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
def test_long_output_is_cut_on_a_character_with_a_note() -> None:
    def output(result: Any) -> str:
        event = hook_event(HookCall("after_tool_call", {"result": result}))["tool_output"]
        assert isinstance(event, str)
        return event

    limit = 256 * 1024
    assert output("x" * limit) == "x" * limit
    long = output("x" + "é" * limit)
    assert long.startswith("xé") and f"{2 * limit + 1} bytes" in long
    assert len(long.partition("\n")[0].encode()) == limit - 1


@shows("synaps-hook-03", "synaps-hook-06")
async def test_injects_are_joined_and_answers_that_are_not_allowed_are_skipped(
    tmp_path: Path,
) -> None:
    hooks = [{"hook": "before_message"}, {"hook": "on_session_start"}]
    inject = {"action": "inject", "content": "one"}
    block = {"action": "block", "reason": "no"}
    plugin(
        tmp_path / "a",
        {"hooks": {"before_message": inject, "on_session_start": block}},
        hooks=hooks,
    )
    plugin(tmp_path / "b", {"hooks": {"before_message": block}}, hooks=hooks)
    plugin(tmp_path / "c", {"hooks": {"before_message": {**inject, "content": "two"}}}, hooks=hooks)
    async with exthost.Host(config(tmp_path)) as host:
        outcome = await host.hooks.run("before_message", {"message": "hi", "session_id": "s"})
        assert (outcome.injected, outcome.stopped) == ("one\n\ntwo", False)
        assert not (await host.hooks.run("on_session_start", {"session_id": "s"})).stopped


# -- the tool loop ---------------------------------------------------------------------------

PROVIDER = {
    "id": "p",
    "display_name": "P",
    "description": "d",
    "models": [{"id": "m"}],
}


class Completion:
    def __init__(self, *content: Any) -> None:
        self.content = content


def use(name: str, id: str = "1", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


class Model:
    """Says what it is told to, and keeps what it was asked."""

    def __init__(self, *says: Completion) -> None:
        self.says = list(says)
        self.asked: list[list[Any]] = []

    async def __call__(self, messages: list[Any]) -> Completion:
        self.asked.append(list(messages))
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]


@shows("synaps-prov-05", "synaps-prov-06")
async def test_tools_are_run_one_after_another_and_reported_to_the_model(tmp_path: Path) -> None:
    hooked(tmp_path, {"action": "block", "reason": "never"}, tool="tools:cwd")
    model = Model(
        Completion(
            {"type": "text", "text": "let me see"}, use(ECHO, "1", a=1), use("tools:cwd", "2")
        ),
        Completion(use("nobody", "3"), use("tools:ask", "4")),
        Completion({"type": "text", "text": "done"}),
    )
    messages = [{"role": "user", "content": "go"}]
    async with exthost.Host(config(tmp_path)) as host:
        run = partial(host.call_tool, check=False)
        done = await complete_with_tools(model, messages, run, provider="x:p:m")
    assert done.content == ({"type": "text", "text": "done"},) and len(messages) == 1
    last = model.asked[-1]
    assert [item["role"] for item in last] == ["user", "assistant", "user", "assistant", "user"]
    good, blocked = last[2]["content"]
    assert good == {"type": "tool_result", "tool_use_id": "1", "content": '{"a":1}'}
    assert blocked["is_error"] and "never" in blocked["content"]
    unknown, failed = last[4]["content"]
    assert unknown["content"] == "Unknown tool: nobody" and unknown["is_error"]
    assert failed["is_error"] and failed["content"].startswith("Tool execution failed")


@shows("synaps-prov-05")
async def test_a_result_that_calls_itself_an_error_is_an_error_for_the_model(
    tmp_path: Path,
) -> None:
    behaviour = {
        "offer": {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}},
        "result": {"content": [use("ext_toy_fail", "1"), use("ext_toy_echo", "2")]},
        "heard": str(tmp_path / "heard"),
    }
    plugin(tmp_path / "model", behaviour)
    wanted = config(tmp_path, process_extensions=[roder_entry(tmp_path)])
    async with exthost.Host(wanted) as host:
        error = await failing(host.complete("model:p:m", [], rounds=2))
    assert isinstance(error, CallFailed) and error.code == "X0754"
    received = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    last = [
        message["params"] for message in received if message.get("method") == "provider.complete"
    ][-1]
    failed, good = last["messages"][-1]["content"]
    assert failed["is_error"] is True and "is_error" not in good
    assert failed["content"] == "as you wish" and good["content"].startswith("{")


async def nothing(name: str, arguments: Any) -> exthost.ToolResult:
    return exthost.ToolResult("x" * 50_000, VALUE_RESULT)


@shows("synaps-prov-05")
@pytest.mark.parametrize(("rounds", "asked"), [(3, 3), (1, 1), (0, 1)])
async def test_a_model_that_never_comes_to_an_end_is_stopped(rounds: int, asked: int) -> None:
    model = Model(Completion(use("t")))
    error = await failing(complete_with_tools(model, [], nothing, provider="a:p:m", rounds=rounds))
    assert isinstance(error, CallFailed) and "a:p:m" in error.message
    assert len(model.asked) == asked


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
async def test_a_tool_that_is_asked_for_badly_fails_the_call(block: Any) -> None:
    error = await failing(complete_with_tools(Model(Completion(block)), [], nothing, provider="p"))
    assert isinstance(error, ProtocolViolation) and error.code == "X0654"


@shows("synaps-prov-07")
async def test_long_output_is_cut_for_the_model() -> None:
    model = Model(Completion({"type": "tool_use", "id": "1", "name": "t"}), Completion())
    await complete_with_tools(model, [], nothing, provider="p")
    assert len(model.asked[1][-1]["content"][0]["content"]) == 30_000
    assert cut_to_bytes("é" * 5, 5) == "éé" and cut_to_bytes("abc", 3) == "abc"


@shows("synaps-prov-07")
async def test_how_much_of_a_tools_output_a_model_sees_can_be_chosen(tmp_path: Path) -> None:
    behaviour = {
        "offer": {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}},
        "result": {"content": [use("ext_toy_echo", "1")]},
        "heard": str(tmp_path / "heard"),
    }
    plugin(tmp_path / "model", behaviour)
    wanted = config(tmp_path, process_extensions=[roder_entry(tmp_path)])
    async with exthost.Host(wanted) as host:
        await failing(host.complete("model:p:m", [], rounds=2, max_tool_output=7))
        for bad in (0, -1, True, "7"):
            error = await failing(host.complete("model:p:m", [], max_tool_output=bad))  # type: ignore[arg-type]
            assert error.code == "X1334"
    received = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    last = [
        message["params"] for message in received if message.get("method") == "provider.complete"
    ][1]
    assert len(last["messages"][-1]["content"][0]["content"]) == 7


@shows("synaps-hand-10", "synaps-prov-05")
async def test_a_model_is_named_by_plugin_provider_and_model(tmp_path: Path) -> None:
    offer = {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}}
    behaviour = {"offer": offer, "result": {"content": [{"type": "text", "text": "hello"}]}}
    plugin(tmp_path / "model", behaviour)
    async with exthost.Host(config(tmp_path)) as host:
        done = await host.complete("model:p:m", [{"role": "user", "content": "hi"}], max_tokens=5)
        assert done.text == "hello"


def test_the_blocking_face_completes_and_configures(tmp_path: Path) -> None:
    offer = {"protocol_version": 1, "capabilities": {"providers": [PROVIDER]}}
    behaviour = {"offer": offer, "result": {"content": [{"type": "text", "text": "hello"}]}}
    plugin(tmp_path / "model", behaviour)
    with exthost.SyncHost(config(tmp_path)) as host:
        assert host.complete("model:p:m", [{"role": "user", "content": "hi"}]).text == "hello"
        with pytest.raises(UsageError) as refused:
            host.complete("model:p:m", [], max_tool_output=0)
        assert refused.value.code == "X1334", "the limit is passed on"
        host.configure("model", "k", "v")


async def test_a_setting_that_cannot_be_stored_is_reported(tmp_path: Path) -> None:
    plugin(tmp_path / "notes")
    wrong: Any = 5
    async with exthost.Host(config(tmp_path)) as host:
        for key, value, code in ((wrong, "red", "X1335"), ("color", wrong, "X1338")):
            with pytest.raises(UsageError) as refused:
                await host.configure("notes", key, value)
            assert refused.value.code == code
        with pytest.raises(NotFound, match="there is no extension 'note'") as unknown:
            await host.configure("note", "color", "red")
        assert "'notes'" in unknown.value.help


async def test_neither_a_hook_nor_an_event_gets_a_context_that_is_not_a_mapping(
    tmp_path: Path,
) -> None:
    plugin(tmp_path / "notes", hooks=[{"hook": "before_tool_call"}])
    wrong: Any = 5
    async with exthost.Host(config(tmp_path)) as host:
        with pytest.raises(UsageError) as refused:
            await host.call_tool("notes:env", context=wrong)
        assert refused.value.code == "X1338"
        with pytest.raises(UsageError):
            host.emit("turn.started", context=wrong)


# -- settings, secrets, config ---------------------------------------------------------------


@shows("synaps-life-01", "synaps-mani-04")
async def test_the_child_sees_five_variables_and_its_declared_secrets(
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
    plugin(tmp_path / "notes", config=settings)
    async with exthost.Host(config(tmp_path)) as host:
        observed = (await host.call_tool("notes:env")).data
        assert observed.keys() <= {
            "PATH",
            "HOME",
            "LANG",
            "TERM",
            "XDG_RUNTIME_DIR",
            "NOTES_TOKEN",
            "LC_CTYPE",
        }
        assert observed["NOTES_TOKEN"] == "s3cret"
        assert (await host.call_tool("notes:cwd")).data == str(tmp_path / "notes")
        started = (await host.call_tool("notes:started")).data["params"]
        assert started["config"] == {"token": "s3cret", "level": 7, "name": "n"}
        assert started["plugin_root"] == str(tmp_path / "notes")


@shows("synaps-mani-04", "synaps-mani-06")
async def test_one_without_its_required_setting_is_refused_and_the_others_load(
    tmp_path: Path,
) -> None:
    plugin(tmp_path / "needy", config=[{"key": "token", "required": True}])
    plugin(tmp_path / "fine")
    plugin(tmp_path / "two", {"offer": {"protocol_version": 2}})
    plugin(tmp_path / "dead", {"crash": True})
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
    plugin(tmp_path / "p" / "notes", config=[{"key": "color", "required": True}])
    async with exthost.Host(config(tmp_path / "p")) as host:
        assert host["notes"].state == "refused"
        await host.configure("notes", "color", "red")
    async with exthost.Host(config(tmp_path / "p")) as host:
        assert (await host.call_tool("notes:started")).data["params"]["config"] == {"color": "red"}


@shows("synaps-mani-09")
async def test_settings_stored_since_then_are_sent_to_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    plugin(tmp_path / "p" / "notes", config=[{"key": "color", "default": "blue"}])
    plugin(tmp_path / "p" / "needy", config=[{"key": "color", "required": True}])
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
async def test_a_subscriber_is_notified_of_changes_for_as_long_as_it_lives(tmp_path: Path) -> None:
    received = tmp_path / "heard"
    behaviour = {"heard": str(received), "init": [["config.subscribe", {"keys": ["a"]}]]}
    plugin(tmp_path / "p" / "watcher", behaviour)
    plugin(tmp_path / "p" / "other")

    def changes() -> list[Any]:
        messages = map(json.loads, received.read_text().splitlines())
        return [item["params"] for item in messages if item.get("method") == "config.changed"]

    async with exthost.Host(config(tmp_path / "p")) as host:
        await host.configure("watcher", "a", "1")
        await host.configure("watcher", "b", "2")
        await host.configure("other", "a", "3")
        # Its own change comes after the answer to it, or this would read the wrong thing.
        asked = {"method": "config.set", "params": {"key": "a", "value": "4"}}
        assert (await host.call_tool("watcher:ask", asked)).data["result"] == {"ok": True}
        await until(lambda: len(changes()) == 2)
        await host["watcher"].restart()
        await host.configure("watcher", "a", "5")
        await until(lambda: changes()[-1]["value"] == "5")
    # The process that was replaced may have heard the last one, too, before it ended.
    assert [*dict.fromkeys(item["value"] for item in changes())] == ["1", "4", "5"]
    assert {item["key"] for item in changes()} == {"a"}


@shows("synaps-ask-03")
async def test_a_subscriber_is_notified_of_the_changes_of_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_changes, "POLL_SECONDS", 0.02)
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    received = tmp_path / "heard"
    behaviour = {"heard": str(received), "init": [["config.subscribe", {"keys": ["a"]}]] * 2}
    plugin(tmp_path / "p" / "watcher", behaviour)

    def changes() -> list[Any]:
        messages = map(json.loads, received.read_text().splitlines())
        return [
            message["params"]["value"]
            for message in messages
            if message.get("method") == "config.changed"
        ]

    same = {"extensions": [entry("watcher", start="lazy")]}
    async with (
        exthost.Host(config(tmp_path / "p")) as host,
        exthost.Host.from_config(same) as other,
    ):
        await other.configure("watcher", "a", "theirs")
        await until(lambda: changes() == ["theirs"])
        await host.configure("watcher", "a", "ours")
        await other.configure("watcher", "b", "not watched")
        await other.configure("watcher", "a", "theirs")
        await until(lambda: changes()[-2:] == ["ours", "theirs"])
    assert changes() == ["theirs", "ours", "theirs"]


def test_an_extension_without_a_manifest_has_no_hooks() -> None:
    assert DIALECT.wants_hook is not None
    assert not DIALECT.wants_hook(Spec(id="a", argv=()), "before_tool_call", {})
