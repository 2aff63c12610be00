"""Requirements of synaps that need a process, a clock or several messages to test.

synaps is a dialect, a protocol that extensions speak: JSON-RPC behind a header with the length, one
call at a time. `child(behaviour)` starts a plugin that behaves as the test says: for example, with
{"heard": FILE} it writes the messages that it gets into a file. Its tool `ask` makes a request to
the host. `@shows` names the requirements (`requirements.toml` of synaps) that a test shows.
"""

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
from exthost.dialects.synaps.hooks import make_hook_params
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
from tests.extensions.harness import error_of, wait_until
from tests.extensions.proc import is_running
from tests.extensions.synaps_tree import command

QUICK_RESTART = {"restart": {"initial_delay": "1ms"}}


def child(behaviour: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Return a connection to a synaps plugin that behaves as the test says. The keys of `behaviour`
    are explained in tests/extensions/synaps_child.py. `settings` are those of `exthost.connect`."""
    limits = {"handshake": "60s"} | settings.pop("limits", {})
    return exthost.connect(
        command(behaviour), dialect="synaps", name="child", limits=limits, **settings
    )


def is_call_of_ask(message: dict[str, Any]) -> bool:
    """Return whether this calls the tool `ask`, by which the child sends a request to the host."""
    return bool(message.get("method") == "tool.call" and message["params"]["name"] == "ask")


def read_messages(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# -- settings of the dialect -------------------------------------------------------------------


@shows("synaps-limit-01", "synaps-turn-01", "synaps-life-04", "synaps-life-06", "synaps-frame-04")
def test_the_settings_of_the_dialect_are_those_of_the_specification() -> None:
    traits = DIALECT.traits
    limits = traits.limits
    assert (limits.handshake, limits.call, limits.max_in_flight) == (10, 30, 1)
    assert limits.max_message == 4_194_304
    method_limits = traits.method_limits
    assert {method_limits[name] for name in ("tool.call", "call_tool", "command.invoke")} == {120}
    assert {method_limits[name] for name in ("provider.complete", "provider.stream")} == {60}
    with_five_seconds = (
        "hook",
        "hook.handle",
        "info.get",
        "sidecar.spawn_args",
        "settings.editor.open",
    )
    assert {method_limits[name] for name in with_five_seconds} == {5}
    assert traits.restart == Restart(
        strategy="exponential", initial_delay=0.25, max_delay=5, max_retries=3, forgiven_by="call"
    )
    say, close = traits.shutdown_steps
    assert isinstance(say, Say) and (say.message.method, say.wait) == ("shutdown", 0.5)
    assert close == CloseStdin(0.5) and traits.retry == "once"


def limits_of(ext: Extension) -> tuple[float, float, float]:
    """Return the time limits of a method, of a tool, and of a method without a special limit."""
    factory = ext.internals.calls.factory
    return factory.time_limit_for("tool.call"), factory.tool_limit, factory.time_limit_for("x")


@shows("synaps-limit-01")
async def test_the_call_settings_of_the_operator_apply_to_every_method() -> None:
    async with child() as ext:
        assert limits_of(ext) == (120, 120, 30)
    async with child(limits={"call": "1s"}) as ext:
        assert limits_of(ext) == (1, 1, 1)


# -- frames and routing ------------------------------------------------------------------------


@shows("synaps-frame-08", "synaps-frame-04")
@pytest.mark.parametrize(
    "text",
    [
        # Not a number, more than 4 MiB, no length, not JSON, and a header that is too long.
        "Content-Length: x\r\n\r\n",
        "Content-Length: 4194305\r\n\r\n",
        "No-Length: 1\r\n\r\n",
        "Content-Length: 3\r\n\r\n{]}",
        "X: " + "y" * 1100,
    ],
)
async def test_a_broken_frame_fails_the_call_and_the_next_call_gets_a_new_process(
    text: str,
) -> None:
    async with child(retry="never", **QUICK_RESTART) as ext:
        error = await error_of(ext.call_tool("raw", {"text": text, "seconds": 5}))
        assert isinstance(error, ProtocolViolation), error
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}
        assert ext.health == "degraded"


@shows("synaps-frame-06", "synaps-route-02", "synaps-frame-05")
async def test_frames_that_are_not_messages_are_dropped() -> None:
    frames = ["[1]", '"x"', '{"id":1.5,"result":1}', '{"id":"2","result":1}', '{"x":1}']
    text = "".join(f"Content-Length: {len(frame)}\r\n\r\n{frame}" for frame in frames)
    async with child() as ext:
        assert (await ext.call_tool("raw", {"text": text})).data["text"] == text
        assert ext.stats.dropped == {"stray lines on stdout": 5}


@shows("synaps-frame-07")
async def test_text_before_a_frame_is_logged_and_skipped() -> None:
    bus = Bus()
    lines: list[str] = []
    bus.subscribe(LogLine, lambda line: lines.append(line.text))
    async with child(events=bus) as ext:
        await ext.call_tool("raw", {"text": "hello world\n"})
    assert any("hello world" in line for line in lines)


@shows("synaps-frame-04")
async def test_a_frame_of_4_mib_is_allowed() -> None:
    async with child(retry="never", **QUICK_RESTART) as ext:
        assert (await ext.call_tool("big", {"bytes": 4_194_304})).data == {"bytes": 4_194_304}
        error = await error_of(ext.call_tool("big", {"bytes": 4_194_305}))
        assert isinstance(error, ProtocolViolation) and "4,194,304" in error.message


@shows("synaps-frame-09")
async def test_messages_of_the_host_can_be_larger_than_the_limit_for_incoming_messages() -> None:
    async with child(retry="never", **QUICK_RESTART) as ext:
        prompt = {"method": "nobody", "params": {"image": "i" * 5_000_000}}
        assert (await ext.call_tool("echo_length", prompt)).data == {"length": 5_000_000}


@shows("synaps-prov-08")
async def test_the_text_of_a_result_with_content_is_that_content() -> None:
    async with child() as ext:
        result = await ext.call_tool("echo", {"content": "hello"})
        assert result.text == "hello" and result.data == {"content": "hello"}
        assert [block.text for block in result.content if isinstance(block, TextBlock)] == ["hello"]
        assert (await ext.call_tool("echo", {"content": [1]})).text == '{"content":[1]}'
    event_of_hook = make_hook_params(HookCall("after_tool_call", {"result": {"content": "hello"}}))
    assert event_of_hook["tool_output"] == "hello"


# -- one call at a time ------------------------------------------------------------------------


@shows("synaps-turn-01", "synaps-turn-02", "synaps-limit-02")
async def test_calls_are_sent_one_at_a_time_and_waiting_counts_as_time(tmp_path: Path) -> None:
    end_file = tmp_path / "end"
    async with child() as ext:
        slow_call = asyncio.create_task(ext.call_tool("nap", {"until": str(end_file)}))
        await wait_until(lambda: ext.stats.in_flight == 1)
        error = await error_of(ext.call_tool("echo", {}, timeout=0.1))
        assert isinstance(error, CallTimeout) and "waiting for its turn" in error.message
        assert not slow_call.done()
        end_file.touch()
        assert (await ext.call_tool("echo", {"b": 1}, timeout=60)).data == {"b": 1}
        await slow_call
        assert ext.stats.restarts == 0


@shows("synaps-limit-02")
async def test_a_timeout_restarts_no_process_and_the_late_reply_is_dropped(tmp_path: Path) -> None:
    end_file = tmp_path / "end"
    async with child() as ext:
        error = await error_of(ext.call_tool("nap", {"until": str(end_file)}, timeout=0.05))
        assert isinstance(error, CallTimeout)
        end_file.touch()
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}
        assert ext.stats.dropped == {"late or repeated replies": 1}
        assert (ext.stats.restarts, ext.health) == (0, "running")


@shows("synaps-turn-01")
async def test_max_in_flight_can_be_configured(tmp_path: Path) -> None:
    end_file = tmp_path / "end"
    nap = {"until": str(end_file)}
    async with child(limits={"max_in_flight": 4}) as ext:
        tasks = [asyncio.create_task(ext.call_tool("nap", nap)) for _ in range(5)]
        await wait_until(lambda: ext.stats.in_flight == 4)
        assert ext.stats.waiting == 1  # the fifth call
        end_file.touch()
        await asyncio.gather(*tasks)


@shows("synaps-turn-03")
async def test_the_next_message_to_a_child_with_an_open_request_is_the_answer(
    tmp_path: Path,
) -> None:
    """The call that caused the request has timed out, and another call and a notification wait."""
    request_received = asyncio.Event()
    may_answer = asyncio.Event()
    file = tmp_path / "heard"

    async def slow(params: Any) -> Any:
        request_received.set()
        await may_answer.wait()
        return "the answer"

    behaviour = {"method": "slow"}
    async with child({"heard": str(file)}, handlers={"slow": slow}) as ext:
        first = asyncio.create_task(error_of(ext.call_tool("ask", behaviour, timeout=0.2)))
        await request_received.wait()
        assert isinstance(await first, CallTimeout)
        second = asyncio.create_task(ext.call_tool("echo", {"n": 2}))
        await ext.notify("news", {"n": 1})
        await wait_until(
            lambda: ext.stats.waiting == 1
        )  # other messages could have been sent by now
        may_answer.set()
        assert (await second).data == {"n": 2}
        # The child ignores messages before the answer, so the second call was sent after it.
        assert (await ext.call_tool("ask", behaviour)).data["result"] == "the answer"
    messages = read_messages(file)
    position, _ = (n for n, message in enumerate(messages) if is_call_of_ask(message))
    assert messages[position + 1]["result"] == "the answer", "the next message to the child"
    assert {"news", "tool.call"} <= {message.get("method") for message in messages[position + 2 :]}


@shows("synaps-turn-03")
async def test_a_session_that_ends_with_an_open_request_does_not_delay_the_next() -> None:
    never = asyncio.Event()

    async def slow(params: Any) -> Any:
        await never.wait()

    async with child(handlers={"slow": slow}, retry="never", **QUICK_RESTART) as ext:
        call_in_flight = asyncio.create_task(error_of(ext.call_tool("ask", {"method": "slow"})))
        await wait_until(lambda: ext.internals.queue.max_in_flight == 0)
        ext.kill()
        assert isinstance(await call_in_flight, ExtensionGone)
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


@shows("synaps-turn-04", "synaps-hand-11", "synaps-hand-01", "synaps-limit-03")
async def test_ids_continue_after_a_restart_and_initialize_is_the_same(tmp_path: Path) -> None:
    file, marker_file = tmp_path / "heard", tmp_path / "once"
    async with child(
        {"heard": str(file)}, config={"a": [1]}, cwd=str(tmp_path), **QUICK_RESTART
    ) as ext:
        assert (await ext.call_tool("id")).data == 2
        assert (await ext.call_tool("die", {"once": str(marker_file)})).data == "alive"
    messages = read_messages(file)
    assert [message["id"] for message in messages] == [1, 2, 3, 4, 5, 6]
    methods = ["initialize", "tool.call", "tool.call", "initialize", "tool.call", "shutdown"]
    assert [message["method"] for message in messages] == methods
    first_params, second_params = messages[0]["params"], messages[3]["params"]
    assert (
        first_params
        == second_params
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
async def test_a_failed_restart_uses_up_ids(tmp_path: Path) -> None:
    file, marker_file = tmp_path / "heard", str(tmp_path / "once")
    behaviour = {"heard": str(file), "crash second": [marker_file, str(tmp_path / "twice")]}
    async with child(behaviour, **QUICK_RESTART) as ext:
        assert (await ext.call_tool("die", {"once": marker_file})).data == "alive"
        assert ext.stats.restarts == 2
    assert [message["id"] for message in read_messages(file)] == [1, 2, 3, 4, 5, 6]


# -- crashes -----------------------------------------------------------------------------------


@shows("synaps-life-02", "synaps-life-05")
async def test_a_call_whose_process_died_is_sent_once_more(tmp_path: Path) -> None:
    async with child(**QUICK_RESTART) as ext:
        assert ext.health == "running"
        assert (await ext.call_tool("die", {"once": str(tmp_path / "once")})).data == "alive"
        assert (ext.health, ext.stats.restarts) == ("degraded", 1)


@shows("synaps-life-02", "synaps-life-05")
async def test_if_a_call_fails_twice_both_exits_are_reported() -> None:
    async with child(**QUICK_RESTART) as ext:
        error = await error_of(ext.call_tool("die", {"code": 3}))
        assert isinstance(error, ExtensionGone)
        assert error.message.count("exited with 3") == 2 and "once more" in error.message


@shows("synaps-life-02")
async def test_with_retry_never_the_call_is_not_sent_again() -> None:
    async with child(retry="never", **QUICK_RESTART) as ext:
        error = await error_of(ext.call_tool("die", {"code": 3}))
        assert error.message.count("exited with 3") == 1


@shows("synaps-life-03", "synaps-route-03")
async def test_an_error_reply_restarts_no_process() -> None:
    async with child() as ext:
        error = await error_of(ext.call("tool.call", {"name": "ask", "input": {}}))
        assert isinstance(error, CallFailed)
        assert (error.error_code, error.data) == (-32000, [1])
        assert ext.stats.restarts == 0
        error = await error_of(ext.call_tool("ask"))
        assert isinstance(error, CallFailed)
        assert error.message.startswith("ask was answered with an error")


@shows("synaps-life-04", "synaps-life-05")
async def test_an_extension_fails_after_three_restarts_without_a_served_call() -> None:
    async with child(retry="never", **QUICK_RESTART) as ext:
        await ext.call_tool("echo")
        for _ in range(4):
            await error_of(ext.call_tool("die"))
        await wait_until(lambda: ext.state == "failed")
        assert (ext.health, ext.stats.restarts) == ("failed", 3)
        assert isinstance(await error_of(ext.call_tool("echo")), ExtensionGone)
        await ext.restart()
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


@shows("synaps-life-02")
async def test_a_stream_that_delivered_an_event_is_not_sent_again(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    events = [["task.log", {"id": "t", "line": "one"}]]
    die = tmp_path / "die"
    behaviour = {"heard": str(file), "events": events, "die": str(die)}
    async with child(behaviour, **QUICK_RESTART) as ext, ext.commands.invoke("x") as stream:
        assert await anext(stream) == types.TaskLog("t", "one")
        die.touch()
        with pytest.raises(ExtensionGone):
            await anext(stream)
    assert [message["method"] for message in read_messages(file)].count("command.invoke") == 1


@shows("synaps-life-02")
async def test_a_stream_that_delivered_no_event_is_sent_again(
    tmp_path: Path,
) -> None:
    file = tmp_path / "heard"
    behaviour = {"heard": str(file), "events": [["task.log", {"id": "t", "line": "one"}]]}
    behaviour["die first"] = str(tmp_path / "once")
    async with child(behaviour, **QUICK_RESTART) as ext, ext.commands.invoke("x") as stream:
        assert [event async for event in stream] == [types.TaskLog("t", "one")]
    requests = [message for message in read_messages(file) if message["method"] == "command.invoke"]
    assert len(requests) == 2 and requests[0]["params"] == requests[1]["params"]


# -- the end -----------------------------------------------------------------------------------


@shows("synaps-life-06")
async def test_a_child_that_answers_shutdown_and_does_not_exit_is_killed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "grandchild"
    behaviour = {"linger": True, "fork": str(file)}
    # Without a namespace, so that the reported pids are ours.
    async with child(behaviour, lifetime="plain") as ext:
        pids = [ext.stats.pid, int(file.read_text())]
        assert all(map(is_running, pids))
        began = time.monotonic()
    seconds = time.monotonic() - began
    assert 0.4 < seconds < 20, seconds  # the steps wait half a second each, other limits are longer
    await wait_until(lambda: not any(map(is_running, pids)))


@shows("synaps-life-06")
async def test_a_shutdown_step_ends_when_the_child_exits(clock: Clock) -> None:
    bus = Bus()
    exits: list[str] = []
    bus.subscribe(Exited, lambda event: exits.append(event.status))
    async with child(events=bus):
        clock.stop()  # no shutdown step reaches its limit
    assert exits == ["exited with 0"]


# -- handshake ---------------------------------------------------------------------------------


@shows("synaps-hand-08")
async def test_an_invalid_offer_ends_the_child(tmp_path: Path) -> None:
    offer = {
        "protocol_version": 1,
        "capabilities": {"tools": [{"name": "a b", "description": "x", "input_schema": {}}]},
    }
    bus = Bus()
    exits: list[Any] = []
    bus.subscribe(Exited, exits.append)

    async def connect() -> None:
        async with child({"offer": offer}, events=bus):
            pass

    error = await error_of(connect())
    assert isinstance(error, HandshakeFailed) and error.code == "X0552"
    assert len(exits) == 1


async def test_a_bare_command_has_the_permissions_of_its_options() -> None:
    async def connect() -> None:
        async with child(options={"permissions": ["memory.read"]}):
            pass

    error = await error_of(connect())
    assert error.code == "X0555" and "tools.register" in error.message


# -- providers, commands, events ---------------------------------------------------------------

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
MESSAGES = [{"role": "user", "content": "hi"}]


@shows("synaps-prov-01", "synaps-hand-10")
async def test_a_request_for_a_completion_has_every_member(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    result = {"content": [{"type": "text", "text": "yes"}], "usage": {"n": 1}}
    async with child({"offer": PROVIDER, "result": result, "heard": str(file)}) as ext:
        assert [item.id for item in ext.providers.all] == ["p", "q"]
        completion = await ext.providers.complete("child:p:m", MESSAGES, temperature=0.5)
        assert (completion.text, completion.stop_reason, completion.usage) == (
            "yes",
            None,
            {"n": 1},
        )
        assert isinstance(await error_of(ext.providers.complete("n", MESSAGES)), NotFound)
        assert isinstance(await error_of(ext.providers.complete("p:x", MESSAGES)), NotFound)
        await ext.providers.complete("m", MESSAGES)
    params = [
        item["params"] for item in read_messages(file) if item["method"] == "provider.complete"
    ]
    assert params[0] == {
        "provider_id": "p",
        "model_id": "m",
        "model": "child:p:m",
        "messages": MESSAGES,
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
        error = await error_of(ext.providers.complete("m", MESSAGES))
        assert isinstance(error, ProtocolViolation) and error.code == code


def provider_event(**params: Any) -> list[Any]:
    """Return an event of a provider's stream, for the key `events` of the child's behaviour."""
    return ["provider.stream.event", params]


@shows("synaps-prov-02", "synaps-prov-03", "synaps-note-03", "synaps-note-04")
async def test_a_stream_has_its_events_in_order_and_ends_with_the_reply(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = [
        provider_event(type="text", delta="a"),
        provider_event(event={"type": "thinking", "text": "b"}),
        provider_event(type="done"),
        provider_event(type="tool_use", id="1", name="t"),
        provider_event(type="tool_use", id="", name="t"),
        provider_event(type="text"),
        provider_event(type="nonsense", blob="x" * 100_000),
        provider_event(event=5),
        provider_event(type="usage", n=5),
        provider_event(type="error", message="careful"),
        provider_event(type="text", text="c"),
    ]
    async with child({"offer": PROVIDER, "events": events}) as ext:
        with caplog.at_level(logging.WARNING, "exthost"):
            async with ext.providers.stream("p:m", MESSAGES) as stream:
                events_received = [item async for item in stream]
        assert stream.result == types.Completion(())
        assert ext.stats.dropped == {"events that could not be read": 4}
    assert events_received == [
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
    (truncated_line,) = [item for item in logged if "'nonsense'" in item]
    assert '"blob":"xxx' in truncated_line and len(truncated_line) < 1000, (
        "the log has the beginning of the params"
    )


UNREADABLE_EVENTS: list[tuple[str, dict[str, Any], str]] = [
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
@pytest.mark.parametrize(("method", "params", "reason"), UNREADABLE_EVENTS)
def test_the_reason_why_an_event_cannot_be_read_is_reported(
    method: str, params: dict[str, Any], reason: str
) -> None:
    kind = "provider.stream" if method.startswith("provider") else "command.invoke"
    event = DIALECT.streams[kind].decode(method, params)
    assert isinstance(event, Unreadable) and reason in event.reason


@shows("synaps-prov-03")
async def test_a_stream_with_an_invalid_or_error_reply_raises_after_its_events() -> None:
    for behaviour, error_class in (
        ({"result": 5}, ProtocolViolation),
        ({"fails": "no"}, CallFailed),
    ):
        events = [provider_event(type="text", delta="a")]
        connection = child({"offer": PROVIDER, "events": events, **behaviour})
        async with connection as ext, ext.providers.stream("m", MESSAGES) as stream:
            assert await anext(stream) == types.Text("a")
            with pytest.raises(error_class):
                await anext(stream)


@shows("synaps-prov-04")
async def test_a_stream_that_is_left_early_does_not_disturb_the_next(tmp_path: Path) -> None:
    file = tmp_path / "heard"
    events = [provider_event(type="text", delta="a")] * 5
    async with child({"offer": PROVIDER, "events": events, "heard": str(file)}) as ext:
        async with ext.providers.stream("m", MESSAGES) as stream:
            await anext(aiter(stream))
        async with ext.providers.stream("m", MESSAGES) as stream:
            assert len([item async for item in stream]) == 5
    assert [item["method"] for item in read_messages(file)].count("provider.stream") == 2


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
            events_received = [item async for item in stream]
        assert stream.result == [1]
    assert events_received == [
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
    await error_of(exthost.connect(argv, dialect="synaps").__aenter__())
    (record,) = [item for item in caplog.records if "compiling" in item.getMessage()]
    assert record.levelno == logging.DEBUG


@shows("synaps-life-08")
async def test_a_handshake_that_takes_longer_than_its_limit_names_the_setting() -> None:
    assert DIALECT.traits.limits.handshake == 10
    argv = [sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.read()"]
    connection = exthost.connect(argv, dialect="synaps", limits={"handshake": "300ms"})
    error = await error_of(connection.__aenter__())
    assert error.code == "X0504" and "0.3 s" in error.message
    assert "limits.handshake" in error.help


@shows("synaps-note-02", "synaps-route-04")
async def test_widget_and_editor_notifications_are_events_for_every_subscriber() -> None:
    events = [
        ["widget.upsert", {"id": "w", "lines": ["a"], "title": "T", "ttl_secs": 5}],
        ["widget.dismiss", {"id": "w"}],
        ["settings.editor.render", {"rows": [1], "footer": "f"}],
        ["settings.editor.commit", {"value": 1}],
        ["settings.editor.close", {"reason": "r"}],
    ]
    bus = Bus()
    events_by_subscriber: list[list[Any]] = [[], []]
    for item in events_by_subscriber:
        bus.subscribe(ExtensionEvent, item.append)
    async with child({"events": events}, events=bus) as ext, ext.commands.invoke("x") as stream:
        assert [item async for item in stream] == []
    assert events_by_subscriber[0] == events_by_subscriber[1]
    assert [(item.kind, item.payload) for item in events_by_subscriber[0]] == [
        ("widget.upsert", types.Widget("w", ("a",), "top_right", "T", 5)),
        ("widget.dismiss", types.WidgetDismissed("w")),
        ("settings.editor.render", types.EditorRender((1,), None, "f")),
        ("settings.editor.commit", types.EditorCommit(1)),
        ("settings.editor.close", types.EditorClose("r")),
    ]


async def test_the_facets_info_sidecar_and_settings() -> None:
    """A facet is a group of operations that only extensions of one dialect have (`ext.info`)."""
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
        open_reply = await ext.settings.open("c", "f")
        assert open_reply == {
            "method": "settings.editor.open",
            "params": {"category": "c", "field": "f"},
        }
        key_reply = await ext.settings.key("c", "f", "Up")
        assert key_reply["params"] == {"key": "Up", "category": "c", "field": "f"}
        commit_reply = await ext.settings.commit("c", "f", 1)
        assert commit_reply["params"] == {"category": "c", "field": "f", "value": 1}
    async with child({"methods": {"info.get": [1], "sidecar.spawn_args": {"args": "x"}}}) as ext:
        assert (await error_of(ext.info.get())).code == "X0652"
        assert (await error_of(ext.sidecar.spawn_args())).code == "X0652"


async def test_calls_work_during_a_flood_of_notifications() -> None:
    async with child() as ext:
        arguments = {"times": 3_000, "method": "task.update"}
        assert (await ext.call_tool("flood", arguments)).data == arguments
        assert (await ext.call_tool("echo", {"a": 1})).data == {"a": 1}


# -- requests of the child ---------------------------------------------------------------------


@pytest.mark.more
@shows("synaps-ask-04", "synaps-ask-05")
@pytest.mark.parametrize(
    ("method", "params", "code", "text"),
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
async def test_the_error_of_an_invalid_request_names_the_mistake(
    method: str, params: Any, code: int, text: str
) -> None:
    async with child() as ext:
        answer = (await ext.call_tool("ask", {"method": method, "params": params})).data
        assert answer["error"]["code"] == code and text in answer["error"]["message"], answer


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
async def test_a_request_without_its_permission_is_refused(
    method: str, params: Any, permission: str
) -> None:
    async with child(options={"permissions": ["tools.register"]}) as ext:
        answer = (await ext.call_tool("ask", {"method": method, "params": params})).data
        assert answer["error"]["code"] == -32602 and permission in answer["error"]["message"]
        allowed = {"method": "config.get", "params": {"key": "k"}}
        assert "error" not in (await ext.call_tool("ask", allowed)).data


@shows("synaps-ask-01", "synaps-ask-02", "synaps-route-05")
async def test_memory_and_config_requests_work_during_initialize() -> None:
    init = [
        ["memory.append", {"namespace": "inside", "content": "c", "tags": ["t"], "meta": {"a": 1}}],
        ["config.set", {"key": " k ", "value": "v"}],
        ["memory.query", {"namespace": "inside", "limit": "x", "since_ms": -1, "tag_prefix": 5}],
        ["config.get", {"key": "k"}],
    ]
    async with exthost.connect(command({"init": init}), dialect="synaps", name="inside") as ext:
        results = [answer["result"] for answer in (await ext.call_tool("started")).data["answers"]]
    timestamp = results[0]["timestamp_ms"]
    record = {
        "namespace": "inside",
        "timestamp_ms": timestamp,
        "content": "c",
        "tags": ["t"],
        "meta": {"a": 1},
    }
    assert results == [
        {"ok": True, "timestamp_ms": timestamp},
        {"ok": True},
        {"records": [record]},
        {"value": "v"},
    ]


@shows("synaps-ask-04")
async def test_an_unusable_store_is_reported_and_calls_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("in the way")
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "home"))
    async with child() as ext:
        params = {"namespace": "child", "content": "x"}
        request = {"method": "memory.append", "params": params}
        answer = (await ext.call_tool("ask", request)).data
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
        request = {"method": "config.set", "params": {"key": "k", "value": "v" * 30_000}}
        assert (await ext.call_tool("ask", request)).data["error"]["code"] == -32000
        query = {"method": "memory.query", "params": {"namespace": "child"}}
        assert len((await ext.call_tool("ask", query)).data["result"]["records"]) == 2
    warnings = [record.message for record in caplog.records if "limits.store" in record.message]
    assert len(warnings) == 1 and warnings[0].startswith("[child]")


@shows("synaps-hand-12")
async def test_the_offer_of_a_new_handshake_replaces_the_old_one_and_is_reported(
    tmp_path: Path,
) -> None:
    marker_file = str(tmp_path / "once")
    tool = {"name": "die", "description": "d", "input_schema": {}}
    offer = {"protocol_version": 1, "capabilities": {"tools": [tool, tool | {"name": "new"}]}}
    bus = Bus()
    changes: list[OfferChanged] = []
    bus.subscribe(OfferChanged, changes.append)
    async with child({"again": [marker_file, offer]}, events=bus, **QUICK_RESTART) as ext:
        assert (await ext.call_tool("die", {"once": marker_file})).data == "alive"
        assert set(ext.tools) == {"die", "new"}
    assert "new" in changes[-1].added and "echo" in changes[-1].removed


@shows("synaps-route-02")
async def test_a_request_whose_id_cannot_be_answered_is_named_in_the_help() -> None:
    body = '{"jsonrpc": "2.0", "id": 1.5, "method": "config.get", "params": {"key": "a"}}'
    frame = f"Content-Length: {len(body)}\r\n\r\n{body}"
    async with child() as ext:
        error = await error_of(ext.call_tool("raw", {"text": frame, "seconds": 60}, timeout=2))
        assert isinstance(error, CallTimeout)
        assert "The last one: the id of its request, which has no answer," in error.help
