"""synaps, where a rule needs a process, a clock or more than one message to show."""

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.dialects.calls import HookCall
from exthost.dialects.streams import Unreadable
from exthost.dialects.synaps import types
from exthost.dialects.synaps.dialect import DIALECT
from exthost.dialects.synaps.hooks import hook_event
from exthost.errors import (
    CallFailed,
    CallTimeout,
    ExtensionGone,
    HandshakeFailed,
    NotFound,
    ProtocolViolation,
)
from exthost.events import Bus, Exited, ExtensionEvent, LogLine, OfferChanged
from exthost.extension.extension import Extension
from exthost.model.shutdown_steps import CloseStdin, Say
from exthost.model.spec import Restart
from exthost.tool_result import TextBlock
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import failing, until
from tests.extensions.proc import runs
from tests.extensions.synaps_tree import command

QUICK = {"restart": {"initial_delay": "1ms"}}


def child(behaviour: dict[str, Any] | None = None, **settings: Any) -> Any:
    limits = {"handshake": "60s"} | settings.pop("limits", {})
    return exthost.connect(
        command(behaviour), dialect="synaps", name="child", limits=limits, **settings
    )


def asks(message: dict[str, Any]) -> bool:
    """Whether this calls the tool by which the child asks its host."""
    return bool(message.get("method") == "tool.call" and message["params"]["name"] == "ask")


def heard(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# -- manners ---------------------------------------------------------------------------------


@shows("synaps-limit-01", "synaps-turn-01", "synaps-life-04", "synaps-life-06", "synaps-frame-04")
def test_its_manners_are_the_page_s() -> None:
    traits = DIALECT.traits
    limits = traits.limits
    assert (limits.handshake, limits.call, limits.max_in_flight) == (10, 30, 1)
    assert limits.max_message == 4_194_304
    own = traits.method_limits
    assert {own[name] for name in ("tool.call", "call_tool", "command.invoke")} == {120}
    assert {own[name] for name in ("provider.complete", "provider.stream")} == {60}
    fives = ("hook", "hook.handle", "info.get", "sidecar.spawn_args", "settings.editor.open")
    assert {own[name] for name in fives} == {5}
    assert traits.restart == Restart(
        strategy="exponential", initial_delay=0.25, max_delay=5, max_retries=3, forgiven_by="call"
    )
    say, close = traits.shutdown_steps
    assert isinstance(say, Say) and (say.message.method, say.wait) == ("shutdown", 0.5)
    assert close == CloseStdin(0.5) and traits.retry == "once"


def limits_of(ext: Extension) -> tuple[float, float, float]:
    """Return the time limits of a method, of a tool, and of a method without a limit of its own."""
    factory = ext.internals.calls.factory
    return factory.time_limit_for("tool.call"), factory.tool_limit, factory.time_limit_for("x")


@shows("synaps-limit-01")
async def test_the_call_settings_of_the_operator_apply_to_every_method() -> None:
    async with child() as ext:
        assert limits_of(ext) == (120, 120, 30)
    async with child(limits={"call": "1s"}) as ext:
        assert limits_of(ext) == (1, 1, 1)


# -- frames and routing ----------------------------------------------------------------------


@shows("synaps-frame-08", "synaps-frame-04")
@pytest.mark.parametrize(
    "text",
    [
        "Content-Length: x\r\n\r\n",
        "Content-Length: 4194305\r\n\r\n",
        "No-Length: 1\r\n\r\n",
        "Content-Length: 3\r\n\r\n{]}",
        "X: " + "y" * 1100,
    ],
)
async def test_a_broken_frame_fails_the_call_and_the_next_finds_a_fresh_process(text: str) -> None:
    async with child(retry="never", **QUICK) as ext:
        error = await failing(ext.call_tool("raw", {"text": text, "seconds": 5}))
        assert isinstance(error, ProtocolViolation), error
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}
        assert ext.health == "degraded"


@shows("synaps-frame-06", "synaps-route-02", "synaps-frame-05")
async def test_bytes_that_are_not_a_message_are_dropped_and_the_call_goes_on() -> None:
    frames = ["[1]", '"x"', '{"id":1.5,"result":1}', '{"id":"2","result":1}', '{"x":1}']
    text = "".join(f"Content-Length: {len(frame)}\r\n\r\n{frame}" for frame in frames)
    async with child() as ext:
        assert (await ext.call_tool("raw", {"text": text})).data["text"] == text
        assert ext.stats.dropped == {"stray lines on stdout": 5}


@shows("synaps-frame-07")
async def test_a_banner_before_the_first_frame_is_logged_and_passed_over() -> None:
    bus = Bus()
    lines: list[str] = []
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    async with child(events=bus) as ext:
        await ext.call_tool("raw", {"text": "hello world\n"})
    assert any("hello world" in line for line in lines)


@shows("synaps-frame-04")
async def test_a_frame_of_4_mib_is_allowed() -> None:
    async with child(retry="never", **QUICK) as ext:
        assert (await ext.call_tool("big", {"bytes": 4_194_304})).data == {"bytes": 4_194_304}
        error = await failing(ext.call_tool("big", {"bytes": 4_194_305}))
        assert isinstance(error, ProtocolViolation) and "4,194,304" in error.message


@shows("synaps-frame-09")
async def test_messages_of_the_host_are_not_limited_by_the_cap_for_incoming_ones() -> None:
    async with child(retry="never", **QUICK) as ext:
        prompt = {"method": "nobody", "params": {"image": "i" * 5_000_000}}
        assert (await ext.call_tool("echo_length", prompt)).data == {"length": 5_000_000}


@shows("synaps-prov-08")
async def test_the_text_of_a_result_with_content_is_that_content() -> None:
    async with child() as ext:
        result = await ext.call_tool("echo", {"content": "hello"})
        assert result.text == "hello" and result.data == {"content": "hello"}
        assert [block.text for block in result.content if isinstance(block, TextBlock)] == ["hello"]
        assert (await ext.call_tool("echo", {"content": [1]})).text == '{"content":[1]}'
    observed = hook_event(HookCall("after_tool_call", {"result": {"content": "hello"}}))
    assert observed["tool_output"] == "hello"


# -- one call at a time ----------------------------------------------------------------------


@shows("synaps-turn-01", "synaps-turn-02", "synaps-limit-02")
async def test_calls_go_one_at_a_time_and_waiting_counts(tmp_path: Path) -> None:
    morning = tmp_path / "morning"
    async with child() as ext:
        slow = asyncio.create_task(ext.call_tool("nap", {"until": str(morning)}))
        await until(lambda: ext.stats.in_flight == 1)
        error = await failing(ext.call_tool("echo", {}, timeout=0.1))
        assert isinstance(error, CallTimeout) and "waiting for its turn" in error.message
        assert not slow.done()
        morning.touch()
        assert (await ext.call_tool("echo", {"b": 1}, timeout=60)).data == {"b": 1}
        await slow
        assert ext.stats.restarts == 0


@shows("synaps-limit-02")
async def test_a_timeout_restarts_nothing_and_the_late_answer_is_dropped(tmp_path: Path) -> None:
    morning = tmp_path / "morning"
    async with child() as ext:
        error = await failing(ext.call_tool("nap", {"until": str(morning)}, timeout=0.05))
        assert isinstance(error, CallTimeout)
        morning.touch()
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}
        assert ext.stats.dropped == {"late or repeated replies": 1}
        assert (ext.stats.restarts, ext.health) == (0, "running")


@shows("synaps-turn-01")
async def test_the_config_allows_more_at_a_time(tmp_path: Path) -> None:
    morning = tmp_path / "morning"
    nap = {"until": str(morning)}
    async with child(limits={"max_in_flight": 4}) as ext:
        tasks = [asyncio.create_task(ext.call_tool("nap", nap)) for _ in range(4)]
        await until(lambda: ext.stats.in_flight == 4)
        morning.touch()
        await asyncio.gather(*tasks)


@shows("synaps-turn-03")
async def test_while_its_question_is_open_the_child_receives_only_the_answer(
    tmp_path: Path,
) -> None:
    """Its call was given up, others wait, notices are to be sent: the answer goes first."""
    asked, go, file = asyncio.Event(), asyncio.Event(), tmp_path / "heard"

    async def slow(params: Any) -> Any:
        asked.set()
        await go.wait()
        return "the answer"

    behaviour = {"method": "slow"}
    async with child({"heard": str(file)}, handlers={"slow": slow}) as ext:
        first = asyncio.create_task(failing(ext.call_tool("ask", behaviour, timeout=0.2)))
        await asked.wait()
        assert isinstance(await first, CallTimeout)
        second = asyncio.create_task(ext.call_tool("echo", {"n": 2}))
        await ext.notify("news", {"n": 1})
        await until(lambda: ext.stats.waiting == 1)  # the wrong things could be said by now
        go.set()
        assert (await second).data == {"n": 2}
        # Had it heard anything else, it would have lost it: the next question shows that not.
        assert (await ext.call_tool("ask", behaviour)).data["result"] == "the answer"
    messages = heard(file)
    at, _ = (n for n, one in enumerate(messages) if asks(one))
    assert messages[at + 1]["result"] == "the answer", "the next thing that it heard"
    assert {"news", "tool.call"} <= {one.get("method") for one in messages[at + 2 :]}


@shows("synaps-turn-03")
async def test_a_session_that_ends_in_the_middle_of_a_question_delays_no_other() -> None:
    never = asyncio.Event()

    async def slow(params: Any) -> Any:
        await never.wait()

    async with child(handlers={"slow": slow}, retry="never", **QUICK) as ext:
        asking = asyncio.create_task(failing(ext.call_tool("ask", {"method": "slow"})))
        await until(lambda: ext.internals.queue.max_in_flight == 0)
        ext.kill()
        assert isinstance(await asking, ExtensionGone)
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


@shows("synaps-turn-04", "synaps-hand-11", "synaps-hand-01", "synaps-limit-03")
async def test_ids_go_on_over_restarts_and_initialize_sends_the_same_again(tmp_path: Path) -> None:
    file, once = tmp_path / "heard", tmp_path / "once"
    async with child({"heard": str(file)}, config={"a": [1]}, cwd=str(tmp_path), **QUICK) as ext:
        assert (await ext.call_tool("id")).data == 2
        assert (await ext.call_tool("die", {"once": str(once)})).data == "alive"
    messages = heard(file)
    assert [message["id"] for message in messages] == [1, 2, 3, 4, 5, 6]
    methods = ["initialize", "tool.call", "tool.call", "initialize", "tool.call", "shutdown"]
    assert [message["method"] for message in messages] == methods
    first, again = messages[0]["params"], messages[3]["params"]
    assert (
        first
        == again
        == {
            "synaps_version": exthost.__version__,
            "extension_protocol_version": 1,
            "plugin_id": "child",
            "plugin_root": str(tmp_path),
            "config": {"a": [1]},
        }
    )
    assert messages[-1]["params"] is None and "params" in messages[-1]


@shows("synaps-turn-04", "synaps-life-04")
async def test_a_restart_that_fails_has_numbers_of_its_own(tmp_path: Path) -> None:
    file, once = tmp_path / "heard", str(tmp_path / "once")
    behaviour = {"heard": str(file), "crash second": [once, str(tmp_path / "twice")]}
    async with child(behaviour, **QUICK) as ext:
        assert (await ext.call_tool("die", {"once": once})).data == "alive"
        assert ext.stats.restarts == 2
    assert [message["id"] for message in heard(file)] == [1, 2, 3, 4, 5, 6]


# -- crashes ---------------------------------------------------------------------------------


@shows("synaps-life-02", "synaps-life-05")
async def test_a_call_that_lost_its_process_is_sent_once_more(tmp_path: Path) -> None:
    async with child(**QUICK) as ext:
        assert ext.health == "running"
        assert (await ext.call_tool("die", {"once": str(tmp_path / "once")})).data == "alive"
        assert (ext.health, ext.stats.restarts) == ("degraded", 1)


@shows("synaps-life-02", "synaps-life-05")
async def test_if_the_second_time_fails_too_both_are_reported() -> None:
    async with child(**QUICK) as ext:
        error = await failing(ext.call_tool("die", {"code": 3}))
        assert isinstance(error, ExtensionGone)
        assert error.message.count("exited with 3") == 2 and "once more" in error.message


@shows("synaps-life-02")
async def test_retry_never_is_one_error_at_once() -> None:
    async with child(retry="never", **QUICK) as ext:
        error = await failing(ext.call_tool("die", {"code": 3}))
        assert error.message.count("exited with 3") == 1


@shows("synaps-life-03", "synaps-route-03")
async def test_an_error_reply_is_returned_and_restarts_nothing() -> None:
    async with child() as ext:
        error = await failing(ext.call("tool.call", {"name": "ask", "input": {}}))
        assert isinstance(error, CallFailed)
        assert (error.error_code, error.data) == (-32000, [1])
        assert ext.stats.restarts == 0
        error = await failing(ext.call_tool("ask"))
        assert isinstance(error, CallFailed)
        assert error.message.startswith("ask was answered with an error")


@shows("synaps-life-04", "synaps-life-05")
async def test_after_three_restarts_without_a_served_call_it_has_failed() -> None:
    async with child(retry="never", **QUICK) as ext:
        await ext.call_tool("echo")
        for _ in range(4):
            await failing(ext.call_tool("die"))
        await until(lambda: ext.state == "failed")
        assert (ext.health, ext.stats.restarts) == ("failed", 3)
        assert isinstance(await failing(ext.call_tool("echo")), ExtensionGone)
        await ext.restart()
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


@shows("synaps-life-02")
async def test_a_stream_that_delivered_something_is_not_sent_again(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    events = [["task.log", {"id": "t", "line": "one"}]]
    die = tmp_path / "die"
    behaviour = {"heard": str(file), "events": events, "die": str(die)}
    async with child(behaviour, **QUICK) as ext, ext.commands.invoke("x") as stream:
        assert await anext(stream) == types.TaskLog("t", "one")
        die.touch()
        with pytest.raises(ExtensionGone):
            await anext(stream)
    assert [message["method"] for message in heard(file)].count("command.invoke") == 1


@shows("synaps-life-02")
async def test_one_that_delivered_nothing_is_sent_again_with_its_subscription(
    tmp_path: Path,
) -> None:
    file = tmp_path / "heard"
    behaviour = {"heard": str(file), "events": [["task.log", {"id": "t", "line": "one"}]]}
    behaviour["die first"] = str(tmp_path / "once")
    async with child(behaviour, **QUICK) as ext, ext.commands.invoke("x") as stream:
        assert [event async for event in stream] == [types.TaskLog("t", "one")]
    asked = [message for message in heard(file) if message["method"] == "command.invoke"]
    assert len(asked) == 2 and asked[0]["params"] == asked[1]["params"]


# -- the end ---------------------------------------------------------------------------------


@shows("synaps-life-06")
async def test_one_that_answers_shutdown_and_never_exits_is_gone_in_about_a_second(
    tmp_path: Path,
) -> None:
    file = tmp_path / "grandchild"
    behaviour = {"linger": True, "fork": str(file)}
    async with child(behaviour, lifetime="plain") as ext:  # the pids that it tells are ours
        family = [ext.stats.pid, int(file.read_text())]
        assert all(map(runs, family))
        began = time.monotonic()
    took = time.monotonic() - began
    assert 0.4 < took < 20, took  # the grace is half a second; far from any other limit
    await until(lambda: not any(map(runs, family)))


@shows("synaps-life-06")
async def test_the_grace_ends_with_the_child(clock: Clock) -> None:
    bus = Bus()
    exits: list[str] = []
    bus.subscribe(Exited, lambda event: exits.append(event.status))
    async with child(events=bus):
        clock.stop()  # no grace comes to its end
    assert exits == ["exited with 0"]


# -- handshake -------------------------------------------------------------------------------


@shows("synaps-hand-08")
async def test_a_refusal_ends_the_child_and_leaves_nothing_registered(tmp_path: Path) -> None:
    offer = {
        "protocol_version": 1,
        "capabilities": {"tools": [{"name": "a b", "description": "x", "input_schema": {}}]},
    }
    bus = Bus()
    exits: list[Any] = []
    bus.subscribe(Exited, exits.append)

    async def meet() -> None:
        async with child({"offer": offer}, events=bus):
            pass

    error = await failing(meet())
    assert isinstance(error, HandshakeFailed) and error.code == "X0552"
    assert len(exits) == 1


async def test_a_bare_command_is_granted_the_paths_of_its_options() -> None:
    async def meet() -> None:
        async with child(options={"permissions": ["memory.read"]}):
            pass

    error = await failing(meet())
    assert error.code == "X0555" and "tools.register" in error.message


# -- providers, commands, events -------------------------------------------------------------

PROVIDER = {
    "protocol_version": 1,
    "capabilities": {
        "providers": [
            {
                "id": "p",
                "display_name": "P",
                "description": "d",
                "models": [{"id": "m"}, {"id": "n"}],
            },
            {"id": "q", "display_name": "Q", "description": "d", "models": [{"id": "n"}]},
        ]
    },
}
HI = [{"role": "user", "content": "hi"}]


@shows("synaps-prov-01", "synaps-hand-10")
async def test_a_completion_is_asked_with_every_member(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    result = {"content": [{"type": "text", "text": "yes"}], "usage": {"n": 1}}
    async with child({"offer": PROVIDER, "result": result, "heard": str(file)}) as ext:
        assert [item.id for item in ext.providers.all] == ["p", "q"]
        done = await ext.providers.complete("child:p:m", HI, temperature=0.5)
        assert (done.text, done.stop_reason, done.usage) == ("yes", None, {"n": 1})
        assert isinstance(await failing(ext.providers.complete("n", HI)), NotFound)
        assert isinstance(await failing(ext.providers.complete("p:x", HI)), NotFound)
        await ext.providers.complete("m", HI)
    params = [item["params"] for item in heard(file) if item["method"] == "provider.complete"]
    assert params[0] == {
        "provider_id": "p",
        "model_id": "m",
        "model": "child:p:m",
        "messages": HI,
        "system_prompt": None,
        "tools": [],
        "temperature": 0.5,
        "max_tokens": None,
        "thinking_budget": 0,
    }


@shows("synaps-prov-01")
@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"content": []}, "X0653"),
        ({}, "X0652"),
        (None, "X0652"),
        ({"content": [1], "stop_reason": 5}, "X0652"),
    ],
)
async def test_an_invalid_completion_is_an_error(result: Any, code: str) -> None:
    async with child({"offer": PROVIDER, "result": result}) as ext:
        error = await failing(ext.providers.complete("m", HI))
        assert isinstance(error, ProtocolViolation) and error.code == code


def event(**said: Any) -> list[Any]:
    return ["provider.stream.event", said]


@shows("synaps-prov-02", "synaps-prov-03", "synaps-note-03", "synaps-note-04")
async def test_a_stream_has_its_events_in_order_and_ends_with_the_reply(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = [
        event(type="text", delta="a"),
        event(event={"type": "thinking", "text": "b"}),
        event(type="done"),
        event(type="tool_use", id="1", name="t"),
        event(type="tool_use", id="", name="t"),
        event(type="text"),
        event(type="nonsense", blob="x" * 100_000),
        event(event=5),
        event(type="usage", n=5),
        event(type="error", message="careful"),
        event(type="text", text="c"),
    ]
    async with child({"offer": PROVIDER, "events": events}) as ext:
        with caplog.at_level(logging.WARNING, "exthost"):
            async with ext.providers.stream("p:m", HI) as stream:
                observed = [item async for item in stream]
        assert stream.result == types.Completion(())
        assert ext.stats.dropped == {"events that could not be read": 4}
    assert observed == [
        types.Text("a"),
        types.ThinkingText("b"),
        types.Done(),
        types.ProviderToolUse("1", "t", {}),
        types.ProviderUsage({"n": 5}),
        types.ProviderError("careful"),
        types.Text("c"),
    ]
    logged = [item.getMessage() for item in caplog.records]
    for reason in ("(id is empty)", "(text is missing)", "'nonsense'", "(event is not an object)"):
        assert any("provider.stream.event" in item and reason in item for item in logged), reason
    (cut,) = [item for item in logged if "'nonsense'" in item]
    assert '"blob":"xxx' in cut and len(cut) < 1000, "the beginning of the params, cut"


READS: list[tuple[str, dict[str, Any], str]] = [
    ("provider.stream.event", {"type": "text", "delta": 5}, "delta is not text"),
    ("provider.stream.event", {"type": "tool_use", "id": "1"}, "name is missing"),
    ("provider.stream.event", {"type": "tool_use", "id": "1", "name": ""}, "name is empty"),
    (
        "provider.stream.event",
        {"type": "tool_use", "id": "1", "name": "t", "input": []},
        "input is not an object",
    ),
    ("provider.stream.event", {"type": "error", "message": ""}, "message is empty"),
    ("provider.stream.event", {}, "type is missing"),
    ("command.output", {"kind": "error", "content": ""}, "content is empty"),
    ("command.output", {"kind": "text"}, "content is missing"),
    ("command.output", {"kind": "table", "headers": ["a"], "rows": [[1]]}, "rows[0][0] is not"),
    ("command.output", {"kind": "table", "headers": [1], "rows": []}, "headers[0] is not"),
    ("command.output", {"kind": "table", "headers": []}, "rows is missing"),
    ("command.output", {"kind": "dance"}, "'dance'"),
    ("task.start", {"id": "t"}, "label is missing"),
    ("task.start", {"id": "t", "label": "l", "kind": "x"}, "'x'"),
    ("task.update", {"id": "t", "total": "5"}, "total is not a number"),
    ("task.log", {"line": "l"}, "id is missing"),
    ("task.done", {"id": "t", "error": 5}, "error is not text"),
]


@shows("synaps-note-04")
@pytest.mark.parametrize(("method", "params", "reason"), READS)
def test_the_reason_why_an_event_cannot_be_read_is_reported(
    method: str, params: dict[str, Any], reason: str
) -> None:
    kind = "provider.stream" if method.startswith("provider") else "command.invoke"
    read = DIALECT.streams[kind].decode(method, params)
    assert isinstance(read, Unreadable) and reason in read.why


@shows("synaps-prov-03")
async def test_a_stream_that_ends_in_nonsense_or_an_error_raises_after_its_events() -> None:
    for report, kind in (({"result": 5}, ProtocolViolation), ({"fails": "no"}, CallFailed)):
        events = [event(type="text", delta="a")]
        made = child({"offer": PROVIDER, "events": events, **report})
        async with made as ext, ext.providers.stream("m", HI) as stream:
            assert await anext(stream) == types.Text("a")
            with pytest.raises(kind):
                await anext(stream)


@shows("synaps-prov-04")
async def test_a_consumer_that_left_does_not_end_the_call(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    events = [event(type="text", delta="a")] * 5
    async with child({"offer": PROVIDER, "events": events, "heard": str(file)}) as ext:
        async with ext.providers.stream("m", HI) as stream:
            await anext(aiter(stream))
        async with ext.providers.stream("m", HI) as stream:
            assert len([item async for item in stream]) == 5
    assert [item["method"] for item in heard(file)].count("provider.stream") == 2


@shows("synaps-note-01", "synaps-note-03")
async def test_output_and_tasks_of_a_command_come_in_one_stream() -> None:
    output = {"request_id": "mine", "event": {"kind": "text", "content": "A"}}
    events = [
        ["command.output", output],
        ["command.output", {"request_id": "other", "event": {"kind": "text", "content": "no"}}],
        ["task.start", {"id": "t", "label": "L", "kind": "download"}],
        ["task.update", {"id": "t", "current": 1, "total": 2}],
        ["task.update", {"id": "t", "current": "x"}],
        ["provider.stream.event", {"type": "text", "delta": "no"}],
        ["command.output", {"request_id": "mine", "kind": "error", "content": "flat"}],
        ["command.output", {"request_id": "mine", "event": {}}],
        [
            "command.output",
            {"request_id": "mine", "event": {"kind": "table", "headers": ["h"], "rows": [["1"]]}},
        ],
        ["command.output", {"request_id": "mine", "event": {"kind": "done"}}],
        ["task.log", {"id": "t", "line": "l"}],
        ["task.done", {"id": "t", "error": "e"}],
        ["task.start", {"id": "u", "label": "M", "kind": None}],
    ]
    async with child({"events": events, "result": [1]}) as ext:
        async with ext.commands.invoke("build", ["x"]) as stream:
            observed = [item async for item in stream]
        assert stream.result == [1]
    assert observed == [
        types.CommandOutput("text", "A"),
        types.TaskStart("t", "L", "download"),
        types.TaskUpdate("t", 1, 2, None),
        types.CommandOutput("error", "flat"),
        types.Table(("h",), (["1"],)),
        types.Done(),
        types.TaskLog("t", "l"),
        types.TaskDone("t", "e"),
        types.TaskStart("u", "M", "generic"),
    ]


@shows("synaps-life-07")
async def test_stderr_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "exthost.extensions")
    program = "import sys; print('compiling', file=sys.stderr); sys.exit(3)"
    argv = [sys.executable, "-S", "-E", "-c", program]
    await failing(exthost.connect(argv, dialect="synaps").__aenter__())
    (record,) = [item for item in caplog.records if "compiling" in item.getMessage()]
    assert record.levelno == logging.DEBUG


@shows("synaps-life-08")
async def test_a_handshake_that_takes_longer_than_its_limit_names_the_setting() -> None:
    assert DIALECT.traits.limits.handshake == 10
    argv = [sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read()"]
    silent = exthost.connect(argv, dialect="synaps", limits={"handshake": "300ms"})
    error = await failing(silent.__aenter__())
    assert error.code == "X0504" and "0.3 s" in error.message
    assert "limits.handshake" in error.help


@shows("synaps-note-02", "synaps-route-04")
async def test_widgets_and_editors_are_events_for_every_subscriber() -> None:
    events = [
        ["widget.upsert", {"id": "w", "lines": ["a"], "title": "T", "ttl_secs": 5}],
        ["widget.dismiss", {"id": "w"}],
        ["settings.editor.render", {"rows": [1], "footer": "f"}],
        ["settings.editor.commit", {"value": 1}],
        ["settings.editor.close", {"reason": "r"}],
    ]
    bus = Bus()
    observed: list[list[Any]] = [[], []]
    for item in observed:
        bus.subscribe(ExtensionEvent, item.append)
    async with child({"events": events}, events=bus) as ext, ext.commands.invoke("x") as stream:
        assert [item async for item in stream] == []
    assert observed[0] == observed[1]
    assert [(item.kind, item.payload) for item in observed[0]] == [
        ("widget.upsert", types.Widget("w", ("a",), "top_right", "T", 5)),
        ("widget.dismiss", types.WidgetDismissed("w")),
        ("settings.editor.render", types.EditorRender((1,), None, "f")),
        ("settings.editor.commit", types.EditorCommit(1)),
        ("settings.editor.close", types.EditorClose("r")),
    ]


async def test_the_small_facets_write_and_read_the_messages_of_the_page() -> None:
    info = {
        "build": {"backend": "cpu"},
        "capabilities": [{"kind": "stt", "name": "S"}],
        "models": [{"id": "m"}],
    }
    methods = {"info.get": info, "sidecar.spawn_args": {"args": ["-v"], "language": "en"}}
    async with child({"methods": methods}) as ext:
        report = await ext.info.get()
        assert report.build == types.Build("cpu") and report.models[0]["installed"] is False
        assert await ext.sidecar.spawn_args() == types.SpawnArgs(("-v",), "en", {})
        opened = await ext.settings.open("c", "f")
        assert opened == {
            "method": "settings.editor.open",
            "params": {"category": "c", "field": "f"},
        }
        pressed = await ext.settings.key("c", "f", "Up")
        assert pressed["params"] == {"key": "Up", "category": "c", "field": "f"}
        kept = await ext.settings.commit("c", "f", 1)
        assert kept["params"] == {"category": "c", "field": "f", "value": 1}
    async with child({"methods": {"info.get": [1], "sidecar.spawn_args": {"args": "x"}}}) as ext:
        assert (await failing(ext.info.get())).code == "X0652"
        assert (await failing(ext.sidecar.spawn_args())).code == "X0652"


async def test_a_flood_of_notices_harms_no_call() -> None:
    async with child() as ext:
        asked = {"times": 3_000, "method": "task.update"}
        assert (await ext.call_tool("flood", asked)).data == asked
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


# -- what it asks ----------------------------------------------------------------------------


@shows("synaps-ask-04", "synaps-ask-05")
@pytest.mark.parametrize(
    ("method", "params", "code", "says"),
    [
        ("memory.forget", {}, -32601, "memory.forget"),
        ("memory.append", None, -32602, "namespace"),
        ("memory.append", {"namespace": "other", "content": "x"}, -32602, "'child'"),
        ("memory.append", {"namespace": "child"}, -32602, "content"),
        ("memory.append", {"namespace": "child", "content": "é" * 8193}, -32602, "16386"),
        ("memory.append", {"namespace": "child", "content": "\ud800"}, -32602, "Unicode"),
        ("memory.append", {"namespace": "child", "content": "x", "tags": [1]}, -32602, "tags"),
        ("memory.query", {"namespace": "else"}, -32602, "'child'"),
        ("config.get", {"key": " "}, -32602, "empty"),
        ("config.get", {"key": "a.b"}, -32602, "dots"),
        ("config.set", {"key": "a/b", "value": "x"}, -32602, "slashes"),
        ("config.set", {"key": "a b", "value": "x"}, -32602, "spaces"),
        ("config.set", {"key": "a", "value": 5}, -32602, "value"),
        ("config.subscribe", {"keys": [5]}, -32602, "keys"),
    ],
)
async def test_the_answer_to_a_bad_question_names_its_fault(
    method: str, params: Any, code: int, says: str
) -> None:
    async with child() as ext:
        answer = (await ext.call_tool("ask", {"method": method, "params": params})).data
        assert answer["error"]["code"] == code and says in answer["error"]["message"], answer


@shows("synaps-ask-04")
@pytest.mark.parametrize(
    ("method", "params", "permission"),
    [
        ("memory.append", {"namespace": "child", "content": "x"}, "memory.write"),
        ("memory.query", {"namespace": "child"}, "memory.read"),
        ("config.set", {"key": "k", "value": "v"}, "config.write"),
        ("config.subscribe", {}, "config.subscribe"),
    ],
)
async def test_without_its_permission_nothing_is_served(
    method: str, params: Any, permission: str
) -> None:
    async with child(options={"permissions": ["tools.register"]}) as ext:
        answer = (await ext.call_tool("ask", {"method": method, "params": params})).data
        assert answer["error"]["code"] == -32602 and permission in answer["error"]["message"]
        allowed = {"method": "config.get", "params": {"key": "k"}}
        assert "error" not in (await ext.call_tool("ask", allowed)).data


@shows("synaps-ask-01", "synaps-ask-02", "synaps-route-05")
async def test_memory_and_config_work_inside_its_own_initialize() -> None:
    init = [
        ["memory.append", {"namespace": "inside", "content": "c", "tags": ["t"], "meta": {"a": 1}}],
        ["config.set", {"key": " k ", "value": "v"}],
        ["memory.query", {"namespace": "inside", "limit": "x", "since_ms": -1, "tag_prefix": 5}],
        ["config.get", {"key": "k"}],
    ]
    async with exthost.connect(command({"init": init}), dialect="synaps", name="inside") as ext:
        reports = [answer["result"] for answer in (await ext.call_tool("started")).data["answers"]]
    at = reports[0]["timestamp_ms"]
    record = {
        "namespace": "inside",
        "timestamp_ms": at,
        "content": "c",
        "tags": ["t"],
        "meta": {"a": 1},
    }
    assert reports == [
        {"ok": True, "timestamp_ms": at},
        {"ok": True},
        {"records": [record]},
        {"value": "v"},
    ]


@shows("synaps-ask-04")
async def test_an_unusable_store_is_reported_and_the_calls_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("in the way")
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    async with child() as ext:
        params = {"namespace": "child", "content": "x"}
        asked = {"method": "memory.append", "params": params}
        answer = (await ext.call_tool("ask", asked)).data
        assert answer["error"]["code"] == -32000 and "store" in answer["error"]["message"]
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


@shows("synaps-ask-04")
async def test_a_full_store_is_an_error_for_the_plugin_and_one_warning_for_the_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    append = {"namespace": "child", "content": "x" * 4000, "meta": "y" * 4000}
    async with child(limits={"store": "32KB"}) as ext:
        codes = []
        for _ in range(6):
            answer = (
                await ext.call_tool("ask", {"method": "memory.append", "params": append})
            ).data
            codes.append(answer.get("error", {}).get("code"))
        assert codes == [None] * 2 + [-32000] * 4
        assert "store is full" in answer["error"]["message"]
        asked = {"method": "config.set", "params": {"key": "k", "value": "v" * 30_000}}
        assert (await ext.call_tool("ask", asked)).data["error"]["code"] == -32000
        found = {"method": "memory.query", "params": {"namespace": "child"}}
        assert len((await ext.call_tool("ask", found)).data["result"]["records"]) == 2
    warnings = [record.message for record in caplog.records if "limits.store" in record.message]
    assert len(warnings) == 1 and warnings[0].startswith("[child]")


@shows("synaps-hand-12")
async def test_the_offer_of_a_new_handshake_replaces_the_old_one_and_is_reported(
    tmp_path: Path,
) -> None:
    once = str(tmp_path / "once")
    tool = {"name": "die", "description": "d", "input_schema": {}}
    offer = {"protocol_version": 1, "capabilities": {"tools": [tool, tool | {"name": "new"}]}}
    bus = Bus()
    changes: list[OfferChanged] = []
    bus.subscribe(OfferChanged, changes.append)
    async with child({"again": [once, offer]}, events=bus, **QUICK) as ext:
        assert (await ext.call_tool("die", {"once": once})).data == "alive"
        assert set(ext.tools) == {"die", "new"}
    assert "new" in changes[-1].added and "echo" in changes[-1].removed


@shows("synaps-route-02")
async def test_a_request_whose_id_cannot_be_answered_is_named_in_the_help() -> None:
    body = '{"jsonrpc": "2.0", "id": 1.5, "method": "config.get", "params": {"key": "a"}}'
    frame = f"Content-Length: {len(body)}\r\n\r\n{body}"
    async with child() as ext:
        error = await failing(ext.call_tool("raw", {"text": frame, "seconds": 60}, timeout=2))
        assert isinstance(error, CallTimeout)
        assert "The last one: the id of its request, which has no answer," in error.help
