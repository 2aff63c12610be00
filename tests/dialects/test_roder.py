"""Requirements of roder that need a process, a clock or several messages to test.

roder is a dialect, a protocol that extensions speak. It has three kinds of streams, whose events
follow an acknowledgement: a turn of a model, the dispatch of a subagent, and a task. The child of
these tests obeys scripts: `turn(ext, ["ack"], ["event", DELTA])` makes it acknowledge the stream
and send an event; ["wait"] waits for a call of the tool `go`. `@shows` names the requirements
(`requirements.toml` of roder) that a test shows.
"""

import asyncio
import logging
import uuid
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.dialects.roder import types
from exthost.dialects.roder.dialect import DIALECT
from exthost.dialects.roder.messages import PROTOCOL_VERSION
from exthost.errors import (
    BreakerOpen,
    CallFailed,
    CallTimeout,
    ExtensionGone,
    HandshakeFailed,
    ProtocolViolation,
    SpawnFailed,
    UsageError,
)
from exthost.events import Bus, Exited, ExtensionEvent, LogLine, Spawned
from exthost.extension.extension import Extension
from exthost.model.messages import Request
from exthost.model.shutdown_steps import CloseStdin, Say
from exthost.session.stream import EventStream
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import closed_at_end, error_of, unstarted_extension, wait_until
from tests.extensions.roder import manifest_text, received_params, roder_extension

MIB = 2**20
DELTA = {"MessageDelta": {"text": "hi"}}
DONE = {"Completed": {"stop_reason": "end_turn", "provider_response_id": None}}
TICK = {"type": "output", "stream": "stdout", "chunk": "tick"}
FINISHED: dict[str, Any] = {"type": "completed", "result": {"payload": None}}
NO_STREAM = "events of no open stream"


def turn(ext: Extension, *script: Any, **settings: Any) -> Any:
    return ext.inference.stream_turn({"script": list(script)}, **settings)


def dispatch(ext: Extension, *script: Any, request: Any = None, **settings: Any) -> Any:
    return ext.subagents.dispatch({"script": list(script), **(request or {})}, **settings)


def task(ext: Extension, *script: Any, **settings: Any) -> Any:
    return ext.tasks.execute({"script": list(script)}, **settings)


# For each kind of stream: how it is opened, its last event, and the method that cancels it. A turn
# cannot be cancelled.
OPENERS = {"turn": turn, "dispatch": dispatch, "task": task}
LAST_EVENTS = {"turn": DONE, "dispatch": FINISHED, "task": FINISHED}
CANCEL_METHODS = {"dispatch": "subagents/cancel", "task": "tasks/cancel"}

every_stream = pytest.mark.parametrize("kind", list(OPENERS))
cancelled_streams = pytest.mark.parametrize("kind", list(CANCEL_METHODS))


async def read_all(stream: Any) -> list[Any]:
    async with stream as events:
        return [event async for event in events]


async def exceed_time_limit(clock: Clock, stream: Any) -> None:
    """Open the stream and move the clock past its limit of 0.2 s."""
    async with stream as events:
        clock.move(0.2)
        async for _ in events:
            pass


def is_uuid4(text: str) -> bool:
    return str(uuid.UUID(text)) == text and uuid.UUID(text).version == 4


# -- the wire ----------------------------------------------------------------------------------


@shows("roder-wire-03", "roder-wire-04")
async def test_a_call_whose_reply_is_too_long_fails_and_the_next_is_served(
    tmp_path: Path,
) -> None:
    assert DIALECT.traits.limits.max_message == 4 * MIB
    async with closed_at_end(roder_extension(tmp_path, limits={"max_message": "64KiB"})) as ext:
        error = await error_of(ext.call_tool("echo", {"text": "x" * 65_000}))
        assert isinstance(error, ProtocolViolation) and error.code == "X0603"
        assert not error.evidence.bytes, "the content of messages is private"
        assert (await ext.call_tool("echo", {})).is_error is False


@shows("roder-wire-06")
async def test_a_request_of_the_child_is_answered_with_the_error_32601(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        await ext.call_tool("emit", {"messages": [{"id": 77, "method": "host/readFile"}]})
        received = (await ext.call_tool("heard")).data
        (answer,) = [message for message in received if message.get("id") == 77]
        assert answer["error"]["code"] == -32601


@shows("roder-wire-02", "roder-wire-08", "roder-secret-01")
async def test_stray_output_is_skipped_and_its_text_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "exthost")
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        await ext.call_tool("raw", {"text": "my prompt, by mistake\n\n"})
        await ext.call_tool("emit", {"messages": [{"method": "who/knows", "params": "my prompt"}]})
        assert (await ext.call_tool("echo", {})).is_error is False
        assert ext.stats.dropped == {"stray lines on stdout": 1}
    assert "stray output" in caplog.text and "my prompt" not in caplog.text


@shows("roder-wire-10")
async def test_twenty_calls_can_be_in_flight(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        hanging_calls = [asyncio.ensure_future(ext.call_tool("hang")) for _ in range(20)]
        assert (await ext.call_tool("echo", {"n": 1})).data["arguments"] == {"n": 1}
        assert ext.stats.in_flight == 20
        for item in hanging_calls:
            item.cancel()
        await asyncio.gather(*hanging_calls, return_exceptions=True)


# -- the handshake -----------------------------------------------------------------------------


# Fields of a config whose values are secrets. They are not sent.
SECRET_FIELDS = (
    *("token", "key", "pat", "auth", "session", "bearer", "apikey", "privatekey", "privateKey"),
    *("password", "passwords", "passphrase", "passphrases", "ssh-passphrase", "keyPassphrase"),
    *("passwd", "dbPasswd", "pwd", "db_pwd", "pass", "smtp-pass", "client_secret", "credentials"),
    *("Authorization", "cookie", "Set-Cookie"),
)


@shows("roder-echo-01", "roder-echo-02", "roder-config-03", "roder-wire-11")
async def test_initialize_has_the_specified_fields_and_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    settings: dict[str, Any] = {
        "text": manifest_text(more='required_capabilities = ["net", "fs"]'),
        "cwd": "link",
        "config": {
            "a": [1, {"apiKey": "s3", "b": 2}],
            **dict.fromkeys(SECRET_FIELDS, "s3"),
            "keyboard": "us",
            "max_tokens": 3,
        },
        "event_filter": {"kinds": ["turn."]},
        "options": {"denied_capabilities": ["fs"]},
    }
    async with closed_at_end(roder_extension(tmp_path, **settings)) as ext:
        assert (ext.id, ext.offer.version) == ("toy", "0.3.0")
        (params,) = await received_params(ext, "extension/initialize")
        assert params == {
            "protocolVersion": PROTOCOL_VERSION,
            "apiVersion": "0.1.0",
            "extensionId": "wire",
            "cwd": str((tmp_path / "real").resolve()),
            "grantedCapabilities": ["net"],
            "config": {"a": [1, {"b": 2}], "keyboard": "us", "max_tokens": 3},
            "eventFilter": {"kinds": ["turn."]},
        }
        environment = (await ext.call_tool("environment")).data
        assert environment["cwd"] == params["cwd"]


@shows("roder-life-03", "roder-echo-03")
@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        ('protocolVersion="0.1.0"', "X0541"),
        ('extensionId="toy"', "X0542"),
        ("services=[]", "X0543"),
        ('manifestChecksum="cbf29ce484222325"', "X0544"),
        ("die", "X0501"),
        ("hang", "X0507"),
    ],
)
async def test_a_failed_start_leaves_no_process_and_the_next_call_tries_again(
    tmp_path: Path, behaviour: str, code: str
) -> None:
    bus = Bus()
    spawned: list[Spawned] = []
    exited: list[Exited] = []
    bus.subscribe(Spawned, spawned.append)
    bus.subscribe(Exited, exited.append)
    limit = 400 if behaviour == "hang" else 60_000
    async with closed_at_end(
        roder_extension(tmp_path, behaviour, bus=bus, startup_timeout_ms=limit)
    ) as ext:
        for n in (1, 2):
            error = await error_of(ext.call_tool("echo"))
            assert isinstance(error, HandshakeFailed) and error.code == code
            assert len(spawned) == len(exited) == n
            assert (ext.state, ext.stats.pid) == ("admitted", None)
        assert set(ext.tools) >= {"echo"}, "the tools of the manifest are still listed"


@shows("roder-life-03", "roder-life-01")
async def test_a_missing_program_is_reported_and_can_be_installed_later(
    tmp_path: Path,
) -> None:
    program = tmp_path / "run.sh"
    child = roder_extension(tmp_path, command="./run.sh")
    arguments = " ".join(f"'{secret}'" for secret in child.spec.argv[1:])
    async with closed_at_end(child) as ext:
        assert "echo" in ext.tools
        error = await error_of(ext.call_tool("echo"))
        assert isinstance(error, SpawnFailed) and ext.state == "admitted"
        program.write_text(f"#!/bin/sh\nexec python3 {arguments}\n")
        program.chmod(0o755)
        assert (await ext.call_tool("echo")).is_error is False


async def test_an_extension_without_a_manifest_is_not_started() -> None:
    async def connect() -> None:
        async with exthost.connect(["cat"], dialect="roder"):
            pass

    error = await error_of(connect())
    assert isinstance(error, HandshakeFailed) and error.code == "X0540"


# -- life cycle ---------------------------------------------------------------------------------


@shows("roder-life-01", "roder-life-07")
async def test_the_first_call_and_the_next_call_after_a_crash_start_a_process(
    tmp_path: Path,
) -> None:
    bus = Bus()
    spawned: list[Spawned] = []
    bus.subscribe(Spawned, spawned.append)
    async with closed_at_end(roder_extension(tmp_path, bus=bus)) as ext:
        ext.internals.admit()
        assert ext.state == "admitted" and list(ext.tools) and not spawned
        calls = (ext.call_tool("echo", {"n": n}) for n in range(50))
        answers = await asyncio.gather(*calls)
        assert [answer.data["arguments"]["n"] for answer in answers] == list(range(50))
        assert len(spawned) == 1
        error = await error_of(ext.call_tool("die", {"code": 3}))
        assert isinstance(error, ExtensionGone) and error.evidence.exit == "exited with 3"
        assert (await ext.call_tool("echo")).is_error is False
        assert len(spawned) == 2


@shows("roder-life-09")
async def test_five_consecutive_crashes_open_the_breaker(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        for _ in range(5):
            assert isinstance(await error_of(ext.call_tool("die", {"code": 3})), ExtensionGone)
        await wait_until(lambda: ext.state == "open")
        error = await error_of(ext.call_tool("echo"))
        assert isinstance(error, BreakerOpen) and 9 < error.seconds_left <= 10
        assert ext.health == "suspended" and "echo" in ext.tools
        await ext.restart()
        assert (await ext.call_tool("echo")).is_error is False


@shows("roder-life-04")
async def test_the_child_gets_only_the_configured_variables_and_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARMLESS", "1")
    async with closed_at_end(roder_extension(tmp_path, env={"MINE": "yes"})) as ext:
        environment = (await ext.call_tool("environment")).data["env"]
        assert environment.keys() - {"LC_CTYPE"} == {"MINE", "PATH"}  # Python sets LC_CTYPE itself
    async with closed_at_end(roder_extension(tmp_path, env={"PATH": "/mine"})) as ext:
        assert (await ext.call_tool("environment")).data["env"]["PATH"] == "/mine"


@shows("roder-life-05")
async def test_stderr_is_logged_with_the_id_of_the_extension(tmp_path: Path) -> None:
    bus = Bus()
    lines: list[LogLine] = []
    bus.subscribe(LogLine, lines.append)
    async with closed_at_end(roder_extension(tmp_path, bus=bus)) as ext:
        await error_of(ext.call_tool("die", {"code": 3}))
    assert LogLine("toy", "stderr", logging.INFO, "dying, as I was told") in lines


@shows("roder-life-06", "roder-life-08")
def test_the_time_limits_and_shutdown_steps_are_those_of_the_specification() -> None:
    limits = DIALECT.traits.limits
    assert (limits.start, limits.call) == (10, 30)
    first, second = DIALECT.traits.shutdown_steps
    assert first == Say(Request("extension/shutdown", {}), wait=2)
    assert isinstance(second, CloseStdin) and second.wait < 1
    limit = DIALECT.streams["subagents/dispatch"].limit
    assert limit is not None
    assert limit({"request": {"timeout_seconds": 7}}) == 7 and limit({"request": {}}) == 1800
    assert limit({"request": {"timeout_seconds": True}}) == 1800
    assert DIALECT.streams["inference/streamTurn"].limit is None
    assert DIALECT.streams["tasks/execute"].limit is None


@shows("roder-life-08")
async def test_the_child_exits_after_a_shutdown_request(tmp_path: Path) -> None:
    bus = Bus()
    exited: list[Exited] = []
    bus.subscribe(Exited, exited.append)
    async with closed_at_end(roder_extension(tmp_path, bus=bus)) as ext:
        await ext.start()
    assert [event.status for event in exited] == ["exited with 0"]


# -- tools -------------------------------------------------------------------------------------


@shows("roder-tools-01")
async def test_a_tool_call_names_its_provider_and_the_conversation(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        context = {"thread_id": "t1", "turn_id": "u1"}
        params = (await ext.call_tool("echo", {"a": 1}, context=context)).data
        call_id = params.pop("callId")
        assert is_uuid4(call_id)
        assert params == {
            "providerId": "wire-tools",
            "toolName": "echo",
            "threadId": "t1",
            "turnId": "u1",
            "arguments": {"a": 1},
        }
        first_params, second_params = [(await ext.call_tool("echo")).data for _ in range(2)]
        assert first_params["threadId"] == second_params["threadId"] and is_uuid4(
            first_params["threadId"]
        )
        assert first_params["turnId"] != second_params["turnId"] and is_uuid4(
            first_params["turnId"]
        )
        assert first_params["callId"] != second_params["callId"]


@shows("roder-tools-06")
async def test_the_caller_can_set_the_call_id(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        params = (await ext.call_tool("echo", context={"call_id": "toolu_7"})).data
        assert params["callId"] == "toolu_7" and is_uuid4(params["turnId"])
        params = (await ext.tools.call("echo", context={"call_id": "toolu_8"})).data
        assert params["callId"] == "toolu_8"


@shows("roder-tools-02", "roder-tools-03", "roder-tools-05")
async def test_an_exception_in_call_tool_is_an_error_result_in_tools_call(tmp_path: Path) -> None:
    errors_by_tool = {"refuse": CallFailed, "malformed": ProtocolViolation, "hang": CallTimeout}
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        for name, error_class in errors_by_tool.items():
            limit = 0.2 if name == "hang" else 60
            error = await error_of(ext.call_tool(name, timeout=limit))
            assert isinstance(error, error_class)
            result = await ext.tools.call(name, timeout=limit)
            assert result.is_error is True and result.text
            expected_error = {"kind": "tool_execution_failed", "message": result.raw["content"]}
            assert result.raw["data"] == {"error": expected_error}
        failed = await error_of(ext.call_tool("fail"))
        assert isinstance(failed, CallFailed) and failed.code == "X0702"
        assert (await ext.tools.call("fail")).raw == failed.data
        assert failed.data["content"] == failed.error_message == "as you wish"
        crash_result = await ext.tools.call("die", {"code": 3})
        assert crash_result.data["error"]["kind"] == "tool_execution_failed"
        unknown = await ext.tools.call("no such tool")
        assert "no such tool" in unknown.data["error"]["message"]
    async with closed_at_end(roder_extension(tmp_path, command="no-such-program")) as ext:
        result = await ext.tools.call("echo")
        assert "no-such-program" in result.data["error"]["message"]


async def test_tools_is_a_mapping(
    tmp_path: Path,
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        assert ext.tools["echo"].name == "echo" and "nope" not in ext.tools
        assert len(ext.tools) == len(dict(ext.tools))
    async with closed_at_end(unstarted_extension()) as other:
        error = await error_of(other.tools.call("echo"))
        assert isinstance(error, UsageError) and error.code == "X1341"


# -- streams -----------------------------------------------------------------------------------


@shows("roder-stream-01", "roder-stream-03", "roder-stream-08", "roder-wire-11")
@pytest.mark.both_loops
async def test_a_turn_streams_to_its_terminal_event(tmp_path: Path) -> None:
    usage = {"Usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    # Events may come before the acknowledgement.
    script = [["event", DELTA], ["ack"], ["event", usage], ["event", {"Compaction": {"n": 1}}]]
    script += [["event", {"ProviderMetadata": [1]}]]
    script += [["event", DONE], ["event", DELTA], ["event", DONE]]
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        async with turn(ext, *script, thread_id="t", turn_id="u") as events:
            received = [event async for event in events]
        assert received == [
            types.MessageDelta("hi"),
            types.TokenUsage(1, 2, 3),
            types.UntypedEvent("Compaction", {"n": 1}),
            types.UntypedEvent("ProviderMetadata", [1]),
            types.Completed("end_turn", None),
        ]
        assert events.result is received[-1]
        (params,) = await received_params(ext, "inference/streamTurn")
        assert is_uuid4(params["streamId"]) and params["engineId"] == "wire-inference_engine"
        assert (params["threadId"], params["turnId"]) == ("t", "u")
        assert ext.stats.dropped == {NO_STREAM: 2}, "events after the last one are dropped"


@shows("roder-stream-08", "roder-wire-11")
async def test_a_dispatch_and_a_task_stream_to_their_last_event(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        status = {"type": "status", "status": "thinking", "detail": None, "x": 1}
        result = {"final_message": "done", "exit_reason": "completed"}
        script = (["ack"], ["event", status], ["event", {"type": "completed", "result": result}])
        received = await read_all(dispatch(ext, *script, parent_thread_id="t", parent_turn_id="u"))
        assert received == [
            types.SubagentStatus("thinking", extra={"x": 1}),
            types.Finished(result),
        ]
        (params,) = await received_params(ext, "subagents/dispatch")
        assert is_uuid4(params["dispatchId"])
        assert (params["parentThreadId"], params["parentTurnId"]) == ("t", "u")

        failed = {"type": "failed", "error": "out of paper"}
        received = await read_all(
            task(ext, ["ack"], ["event", TICK], ["event", failed], task_id="7")
        )
        assert received == [types.TaskOutput("stdout", "tick"), types.WorkFailed("out of paper")]
        (params,) = await received_params(ext, "tasks/execute")
        assert params.keys() == {"executorId", "executionId", "taskId", "input"}
        await read_all(task(ext, ["ack"], ["event", FINISHED], thread_id="t", workspace_root="/w"))
        params = (await received_params(ext, "tasks/execute"))[1]
        assert (params["threadId"], params["workspaceRoot"]) == ("t", "/w")
        for cancel in CANCEL_METHODS.values():
            assert await received_params(ext, cancel) == [], (
                "a stream that has ended is not cancelled"
            )


@shows("roder-stream-01", "roder-stream-06")
async def test_a_raw_stream_gets_an_id_and_can_be_cancelled(
    tmp_path: Path,
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        params = {"request": {"script": [["ack"], ["event", {"type": "status", "status": "on"}]]}}
        async with ext.stream("subagents/dispatch", params) as events:
            assert await anext(events) == types.SubagentStatus("on")
        (opened,) = await received_params(ext, "subagents/dispatch")
        assert is_uuid4(opened["dispatchId"]) and "dispatchId" not in params
        (cancelled,) = await received_params(ext, "subagents/cancel")
        assert cancelled == {"dispatchId": opened["dispatchId"], "reason": "the consumer left"}
        invalid_params: list[Any] = [None, [], {"dispatchId": None}, {"dispatchId": True}]
        for invalid in invalid_params:
            with pytest.raises(UsageError) as caught:
                ext.stream("subagents/dispatch", invalid)
            assert caught.value.code == "X1328"
        assert (await ext.call_tool("echo")).is_error is False, "the invalid requests were not sent"


@shows("roder-life-06")
async def test_a_dispatch_with_a_huge_timeout_has_no_time_limit(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        request = {"timeout_seconds": 10**400, "script": [["ack"], ["event", FINISHED]]}
        async with ext.subagents.dispatch(request) as events:
            assert [event async for event in events]


@shows("roder-stream-02")
@every_stream
async def test_an_acknowledgement_of_another_stream_is_a_violation(
    tmp_path: Path, kind: str
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        for other_stream in ("another", None, 1):
            error = await error_of(read_all(OPENERS[kind](ext, ["ack", other_stream])))
            assert isinstance(error, ProtocolViolation) and error.code == "X0605"
        error = await error_of(read_all(OPENERS[kind](ext, ["refuse"])))
        assert isinstance(error, CallFailed) and error.error_message == "no such model"
        assert (await ext.call_tool("echo")).is_error is False


@shows("roder-stream-07", "roder-wire-09")
@every_stream
async def test_invalid_events_and_events_of_other_streams_are_dropped_and_counted(
    tmp_path: Path, kind: str
) -> None:
    last = LAST_EVENTS[kind]
    script = [["event", last, "unknown"], ["event", last, 7], ["ack"]]
    invalid_events: list[Any] = [None, 1, {}, {"type": 1}, [], {"type": "failed"}]
    script += [["event", event] for event in invalid_events]
    script += [["event", {"Failed": {}}], ["event", {"Failed": {"message": 1}}]]
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        received = await read_all(OPENERS[kind](ext, *script, ["event", last]))
        assert len(received) == 1 and isinstance(received[-1], types.Completed | types.Finished)
        assert ext.stats.dropped == {NO_STREAM: 2, "events that could not be read": 8}


@shows("roder-stream-04")
@every_stream
async def test_when_the_child_dies_each_open_stream_ends_with_one_failure(
    tmp_path: Path, kind: str
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        async with (
            OPENERS[kind](ext, ["ack"], ["wait"]) as first,
            OPENERS[kind](ext, ["ack"], ["wait"]) as second,
        ):
            error = await error_of(ext.call_tool("die", {"code": 6}))
            assert isinstance(error, ExtensionGone)
            for stream in (first, second):
                error = await error_of(anext(stream))
                assert isinstance(error, ExtensionGone) and error.evidence.exit == "exited with 6"
                assert [event async for event in stream] == [], "the error is raised once"
        # The next stream starts a new process.
        assert len(await read_all(OPENERS[kind](ext, ["ack"], ["event", LAST_EVENTS[kind]]))) == 1


@shows("roder-stream-04")
@every_stream
async def test_when_the_child_dies_before_it_acknowledges_the_opening_fails(
    tmp_path: Path, kind: str
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        error = await error_of(read_all(OPENERS[kind](ext, ["die", 5])))
        assert isinstance(error, ExtensionGone) and error.evidence.exit == "exited with 5"


@shows("roder-stream-05")
async def test_leaving_a_turn_sends_no_message_and_drops_later_events(
    tmp_path: Path, clock: Clock
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        async with turn(ext, ["ack"], ["event", DELTA], ["wait"], ["event", DONE]) as events:
            assert await anext(events) == types.MessageDelta("hi")
        clock.stop()
        error = await error_of(exceed_time_limit(clock, turn(ext, ["ack"], ["wait"], timeout=0.2)))
        assert isinstance(error, CallTimeout) and error.code == "X0840"
        await ext.call_tool("go")
        assert ext.stats.dropped == {NO_STREAM: 1}
        received = (await ext.call_tool("heard")).data
        methods = {message["method"] for message in received}
        assert methods == {"extension/initialize", "inference/streamTurn"}


async def cancel_received(ext: Extension, kind: str) -> Any:
    """Return the params of the only cancellation, which must name the only stream."""
    opened = {"dispatch": "subagents/dispatch", "task": "tasks/execute"}[kind]
    (params,) = await received_params(ext, opened)
    (cancel,) = await received_params(ext, CANCEL_METHODS[kind])
    for key in ("dispatcherId", "dispatchId", "executorId", "executionId"):
        assert cancel.get(key) == params.get(key)
    return cancel


@shows("roder-stream-06")
@cancelled_streams
async def test_leaving_a_stream_early_sends_a_cancellation(tmp_path: Path, kind: str) -> None:
    event = TICK if kind == "task" else {"type": "status", "status": "busy"}
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        async with OPENERS[kind](ext, ["ack"], ["event", event], ["wait"]) as events:
            async for _ in events:
                break
        assert (await cancel_received(ext, kind))["reason"] == "the consumer left"


@shows("roder-stream-06")
@cancelled_streams
async def test_a_stream_that_exceeds_its_limit_sends_a_cancellation(
    tmp_path: Path, kind: str, clock: Clock
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        await ext.start()
        clock.stop()
        stream = OPENERS[kind](ext, ["ack"], ["wait"], timeout=0.2)
        error = await error_of(exceed_time_limit(clock, stream))
        assert isinstance(error, CallTimeout) and error.code == "X0840"
        assert "0.2 s" in (await cancel_received(ext, kind))["reason"]


@shows("roder-stream-06")
async def test_the_timeout_of_a_dispatch_request_is_its_limit(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        await ext.start()
        stream = dispatch(ext, ["ack"], ["wait"], request={"timeout_seconds": 0.2})
        error = await error_of(read_all(stream))
        assert isinstance(error, CallTimeout) and "0.2 s" in error.message
        await cancel_received(ext, "dispatch")


@shows("roder-stream-09")
async def test_the_time_of_a_dispatch_begins_with_its_acknowledgement(
    tmp_path: Path, clock: Clock
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        await ext.start()
        script = [["wait"], ["ack"], ["wait"], ["event", FINISHED]]
        opening = asyncio.ensure_future(
            read_all(dispatch(ext, *script, request={"timeout_seconds": 5}))
        )
        while not await received_params(ext, "subagents/dispatch"):
            pass  # each iteration waits for an answer of the child
        await clock.advance(8)  # longer than the dispatch, but not longer than a reply may take
        await ext.call_tool("go")
        await clock.advance(4)
        await ext.call_tool("go")
        assert len(await opening) == 1


@shows("roder-stream-06")
@cancelled_streams
async def test_a_stream_without_acknowledgement_sends_a_cancellation(
    tmp_path: Path, kind: str
) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        await ext.start()
        error = await error_of(read_all(OPENERS[kind](ext, ["wait"], timeout=0.2)))
        assert isinstance(error, CallTimeout) and error.code == "X0801"
        assert "0.2 s" in (await cancel_received(ext, kind))["reason"]


@shows("roder-stream-06")
@cancelled_streams
@pytest.mark.parametrize("script", [[["ack"], ["wait"]], [["wait"]]], ids=["open", "opening"])
async def test_cancelling_the_consumer_task_sends_a_cancellation(
    tmp_path: Path, kind: str, script: list[Any]
) -> None:
    opened = {"dispatch": "subagents/dispatch", "task": "tasks/execute"}[kind]
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        consumer = asyncio.ensure_future(read_all(OPENERS[kind](ext, *script)))
        while not await received_params(ext, opened):
            pass  # each iteration waits for an answer of the child
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
        assert (await cancel_received(ext, kind))["reason"]


@shows("roder-stream-06")
@cancelled_streams
async def test_a_consumer_cancelled_at_the_acknowledgement_sends_a_cancellation(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledge = EventStream.acknowledge

    def acknowledge_and_cancel(stream: EventStream) -> None:
        acknowledge(stream)
        consumer.cancel()  # before the consumer runs again

    monkeypatch.setattr(EventStream, "acknowledge", acknowledge_and_cancel)
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        consumer = asyncio.ensure_future(read_all(OPENERS[kind](ext, ["ack"], ["wait"])))
        with pytest.raises(asyncio.CancelledError):
            await consumer
        assert (await cancel_received(ext, kind))["reason"]


async def test_a_slow_consumer_loses_no_event_and_can_make_calls(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        script = [["ack"], *[["event", TICK]] * 600, ["event", FINISHED]]
        async with task(ext, *script) as events:
            await ext.call_tool("echo")
            assert len([event async for event in events]) == 601


# -- facets ----------------------------------------------------------------------


@shows("roder-facet-01")
async def test_facets_return_models_definitions_and_specs(tmp_path: Path) -> None:
    async with closed_at_end(roder_extension(tmp_path)) as ext:
        assert await ext.inference.list_models() == [types.InferenceModel("m", "M", extra={"x": 1})]
        (definition,) = await ext.subagents.definitions()
        assert (definition.agent_type, definition.max_turns) == ("a", 3)
        assert (await ext.tasks.spec()).input_schema == {"type": "object"}
        (params,) = await received_params(ext, "inference/listModels")
        assert params == {"engineId": "wire-inference_engine"}
        error = await error_of(ext.inference.list_models("another"))
        assert isinstance(error, UsageError) and error.code == "X1340"
        assert error.message == "it provides no inference engine 'another'"
        assert "wire-inference_engine" in error.help


@shows("roder-facet-01")
@pytest.mark.parametrize("models", ["null", "[]", '{"models": 1}', '{"models": [{"id": 1}]}'])
async def test_a_list_of_models_of_another_type_is_a_violation(tmp_path: Path, models: str) -> None:
    async with closed_at_end(roder_extension(tmp_path, f"models={models}")) as ext:
        error = await error_of(ext.inference.list_models())
        assert isinstance(error, ProtocolViolation) and error.code == "X0641"
        assert error.extension == "toy"


# -- extension events ------------------------------------------------------------------------


def extension_event(id: str = "wire", payload: Any = None) -> Any:
    params = {"extensionId": id, "eventKind": "k", "schemaVersion": 2, "payload": payload}
    return {"method": "extension/event", "params": params}


@shows("roder-events-04", "roder-events-05")
async def test_extension_events_are_published_with_the_id_in_this_host(
    tmp_path: Path,
) -> None:
    bus = Bus()
    received: list[ExtensionEvent] = []
    bus.subscribe(ExtensionEvent, received.append)
    async with closed_at_end(roder_extension(tmp_path, bus=bus)) as ext:
        longest, too_long = "x" * (256 * 1024 - 2), "x" * (256 * 1024 - 1)
        for message in (
            extension_event(payload=[1]),
            extension_event("toy"),
            extension_event("other"),
        ):
            await ext.call_tool("emit", {"messages": [message]})
        for payload in (longest, too_long):
            await ext.call_tool("emit", {"messages": [extension_event(payload=payload)]})
        assert received == [("toy", "k", 2, [1]), ("toy", "k", 2, longest)]
        assert ext.stats.dropped == {
            "events in the name of another extension": 2,
            "extension events over the size limit": 1,
        }


@shows("roder-secret-01")
async def test_no_error_and_no_log_line_has_a_prompt_or_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "exthost")
    secret = "my-prompt-text"
    errors: list[Any] = []
    settings: dict[str, Any] = {"env": {"API_TOKEN": secret}, "config": {"token": secret}}
    async with closed_at_end(roder_extension(tmp_path, **settings)) as ext:
        prompt = {"transcript": [{"UserMessage": {"text": secret}}]}
        scripts: list[tuple[list[Any], float]] = [
            ([["ack", secret]], 60),
            ([["wait"]], 0.3),
            ([["ack"], ["raw", f"{secret}\n"], ["die", 3]], 60),
        ]
        for script, limit in scripts:
            stream = ext.inference.stream_turn({"script": script, **prompt}, timeout=limit)
            errors.append(await error_of(read_all(stream)))
        errors.append(await error_of(ext.call_tool("malformed", {"text": secret})))
        errors.append(await error_of(ext.call_tool("hang", {"text": secret}, timeout=0.1)))
    assert len(errors) == 5
    for error in errors:
        assert secret not in str(error) and secret not in str(error.as_dict())
    assert secret not in caplog.text
