"""Extensions of roder, one of the protocols that exthost speaks, in a host: unique names, event
sinks, and the bundled examples.

An event sink is an extension to which the host sends events: those whose kind begins with one of
the texts in its filter, such as "turn.". An event starts its sink. The extension `toy` records the
messages that it gets: `received_params` returns the parameters of those with a given method.
"""

import asyncio
import json
import os
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.config.discovery.configfile import find_extensions, read_config
from exthost.dialects.calls import EventSink
from exthost.events import Bus, HostEvent, LogLine, SinkFailed, Spawned
from exthost.host.event_sinks import QUEUE_EVENTS, EventSinks
from exthost.launch.prerequisites import find_name_conflict
from exthost.model.messages import Notification
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock
from tests.extensions.harness import error_of, pid_of, wait_until
from tests.extensions.roder import config_entry, manifest_text, received_params

EXAMPLES = Path(__file__).parents[2] / "examples" / "roder"

NAME_IS_TAKEN = "X0340"


def new_host(*entries: Any, **settings: Any) -> exthost.Host:
    return exthost.Host.from_config({"process_extensions": list(entries), **settings})


def record_spawns(host: exthost.Host) -> list[str]:
    """Return a list to which the ids of all extensions that are started are added."""
    spawned: list[str] = []
    host.events.subscribe(Spawned, lambda event: spawned.append(event.extension))
    return spawned


# -- lazy start and unique names --------------------------------------------------------------


@shows("roder-life-01", "roder-config-03")
async def test_a_host_lists_tools_without_starting_an_extension(tmp_path: Path) -> None:
    host = new_host(config_entry(tmp_path))
    spawned = record_spawns(host)
    async with host:
        assert host["toy"].state == "admitted" and set(host.tools) >= {"ext_toy_echo"}
        with pytest.raises(errors.NotFound):
            await host.call_tool("ext_toy_nothing")
        assert not spawned
        assert (await host.call_tool("ext_toy_echo", {})).is_error is False
        assert (await host.call_tool("toy:fail", check=False)).is_error is True
        assert spawned == ["toy"]


@shows("roder-manifest-07")
async def test_a_second_extension_with_a_unique_name_is_refused(
    tmp_path: Path,
) -> None:
    text = manifest_text("other", tools=("echo",))
    async with new_host(
        config_entry(tmp_path), config_entry(tmp_path, id="second", text=text)
    ) as host:
        second = host["second"]
        assert second.state == "refused" and "ext_second_echo" not in host.tools
        error = await error_of(second.call_tool("echo"))
        assert isinstance(error, errors.Refused) and error.code == NAME_IS_TAKEN
        assert "'toy'" in error.message
        error = await error_of(second.restart())
        assert error.code == NAME_IS_TAKEN, "a restart does not change it"
        await host.unload("toy")
        await second.restart()
        assert (await host.call_tool("ext_second_echo")).is_error is False


@shows("roder-manifest-07")
async def test_two_extensions_can_require_the_same_capability(tmp_path: Path) -> None:
    requirement = 'required_capabilities = ["net"]'
    first = manifest_text("one", tools=("echo",), more=requirement)
    second = manifest_text("two", tools=("heard",), more=requirement)
    async with new_host(
        config_entry(tmp_path, id="one", text=first), config_entry(tmp_path, id="two", text=second)
    ) as host:
        assert (await host.call_tool("one:echo")).is_error is False
        assert (await host.call_tool("two:heard")).is_error is False


async def test_an_entry_with_a_manifest_can_be_loaded_at_run_time(tmp_path: Path) -> None:
    roder_entry = config_entry(tmp_path)
    source = {"type": "process", "command": roder_entry["command"], "args": roder_entry["args"]}
    late_entry = {"name": "late", "dialect": "roder", "source": source}
    async with exthost.Host() as host:
        ext = await host.load({**late_entry, "manifest": roder_entry["manifest"]})
        assert ext.state == "admitted" and (await ext.call_tool("echo")).is_error is False
        error = await error_of(host.load({**late_entry, "name": "b", "manifest": "no/such.toml"}))
        assert isinstance(error, errors.ManifestError) and "b" not in host


# -- event sinks -------------------------------------------------------------------------------


def sink(folder: Path, *event_kinds: str, id: str = "toy", arguments: tuple[str, ...] = ()) -> Any:
    """Return the config entry of an event sink with this filter."""
    text = manifest_text(id, tools=("heard",) if id == "toy" else ("nothing",))
    return config_entry(
        folder, *arguments, id=id, text=text, event_filter={"kinds": list(event_kinds)}
    )


@shows("roder-events-01", "roder-events-06", "roder-life-01")
async def test_an_event_with_a_matching_kind_starts_the_sink(
    tmp_path: Path,
) -> None:
    host = new_host(sink(tmp_path, "turn.", "call.ended"))
    spawned = record_spawns(host)
    async with host:
        host.emit("inference.started", {"no": "body"})
        host.emit("turn", {"no": "prefix"})
        await asyncio.sleep(0)
        assert not spawned
        context = {"thread_id": "t", "turn_id": "u"}
        host.emit("turn.started", {"n": 1}, source="test", context=context)
        host.emit("turn.ended", None)
        ext = host["toy"]
        await wait_until(lambda: ext.state == "ready")
        await wait_until(lambda: spawned == ["toy"])
        messages: list[Any] = []
        while len(messages) < 2:  # each iteration waits for a reply of the sink
            messages = await received_params(ext, "events/handle")
        first, second = (message["envelope"] for message in messages)
        fields = ("source", "source_id", "kind", "thread_id", "turn_id", "event")
        assert {key: first[key] for key in fields} == {
            "source": "Runtime",
            "source_id": "test",
            "kind": "turn.started",
            "thread_id": "t",
            "turn_id": "u",
            "event": {"n": 1},
        }
        assert first["event_id"] != second["event_id"] and second["seq"] == first["seq"] + 1
        assert first["timestamp"].endswith("Z") and second["thread_id"] is None
        assert all(message["envelope"]["kind"] != "call.ended" for message in messages), (
            "the events of a sink are not sent to itself"
        )


@shows("roder-events-01")
async def test_a_sink_with_an_empty_filter_gets_no_events(tmp_path: Path) -> None:
    async with new_host(sink(tmp_path)) as host:
        assert not host.events.listeners
        host.emit("turn.started")
        await asyncio.sleep(0)
        assert host["toy"].state == "admitted"


@shows("roder-events-01")
async def test_sinks_get_calls_and_events_of_other_extensions(tmp_path: Path) -> None:
    other = config_entry(tmp_path, id="other", text=manifest_text("other", tools=("emit",)))
    async with new_host(sink(tmp_path, "call.ended", "k"), other) as host:
        params = {"extensionId": "other", "eventKind": "k.done", "schemaVersion": 1, "payload": 2}
        message = {"method": "extension/event", "params": params}
        context = {"thread_id": "t"}
        await host.call_tool("ext_other_emit", {"messages": [message]}, context=context)
        ext = host["toy"]
        await wait_until(lambda: ext.state == "ready")
        reports: list[Any] = []
        while len(reports) < 2:
            reports = [item["envelope"] for item in await received_params(ext, "events/handle")]
        by_kind = {item["kind"]: item for item in reports}
        assert by_kind["k.done"]["event"] == {"schema_version": 1, "payload": 2}
        assert by_kind["call.ended"]["event"]["outcome"] == "result"
        assert by_kind["call.ended"]["thread_id"] == "t"
        assert {(item["source"], item["source_id"]) for item in reports} == {("Extension", "other")}
        assert all("is_of_extension" not in item and "context" not in item for item in reports)


@shows("roder-events-06")
async def test_the_source_of_an_event_is_a_known_value_of_the_protocol(tmp_path: Path) -> None:
    """A typed extension refuses an envelope with another value."""
    async with new_host(sink(tmp_path, "turn.")) as host:
        for source in ("", "my program", "Tool", "exthost", "tool"):
            host.emit("turn.started", source=source)
        ext = host["toy"]
        await wait_until(lambda: ext.state == "ready")
        reports: list[Any] = []
        while len(reports) < 5:
            reports = [item["envelope"] for item in await received_params(ext, "events/handle")]
        sources = [item["source"] for item in reports]
        assert sources == ["Runtime", "Runtime", "Tool", "Runtime", "Runtime"]
        assert [item["source_id"] for item in reports][:2] == ["exthost", "my program"]


@shows("roder-tools-06")
async def test_a_call_of_a_model_has_the_id_of_the_model(tmp_path: Path) -> None:
    async with new_host(config_entry(tmp_path)) as host:
        blocks: list[Any] = [
            {"type": "tool_use", "id": id, "name": "ext_toy_echo", "input": {}}
            for id in ("toolu_1", "toolu_2")
        ]
        context = {"thread_id": "t", "call_id": "mine"}
        [answer] = await host.run_calls(blocks, context=context)
        params = [json.loads(block["content"]) for block in answer["content"]]
        assert [param["callId"] for param in params] == ["toolu_1", "toolu_2"]
        assert {param["threadId"] for param in params} == {"t"}


def with_arguments_from_file(config_entry: Any, arguments: Path) -> Any:
    """Return the entry with a script as its command; each start reads arguments from the file."""
    program = arguments.with_name(f"{config_entry['id']}.sh")
    command = shlex.join([config_entry["command"], *config_entry["args"]])
    program.write_text(f"#!/bin/sh\nexec {command} $(cat {arguments})\n")
    program.chmod(0o755)
    return {**config_entry, "command": str(program), "args": []}


@shows("roder-events-03")
async def test_sinks_that_cannot_start_are_reported_and_do_not_start_each_other(
    tmp_path: Path,
) -> None:
    event_kinds = ("turn.", "extension.", "process.", "sink")
    arguments = tmp_path / "arguments"
    arguments.write_text("die")
    host = new_host(
        with_arguments_from_file(sink(tmp_path, *event_kinds), arguments),
        with_arguments_from_file(sink(tmp_path, *event_kinds, id="b"), arguments),
    )
    failures: list[SinkFailed] = []
    host.events.subscribe(SinkFailed, failures.append)
    spawned = record_spawns(host)
    async with host:
        host.emit("turn.started")
        await wait_until(lambda: len(failures) == 2)
        arguments.write_text("")
        assert sorted(spawned) == ["b", "toy"]
        assert {failure.extension for failure in failures} == {"toy", "b"}
        assert all(failure.lost == 1 and "ended" in failure.reason for failure in failures)
        # Events about the failures would arrive before this event.
        host.emit("turn.marker")
        ext = host["toy"]
        await wait_until(lambda: ext.state == "ready" and host["b"].state == "ready")
        reports: list[Any] = []
        while not reports:
            reports = await received_params(ext, "events/handle")
        assert reports[0]["envelope"]["kind"] == "turn.marker"
        assert sorted(spawned) == ["b", "b", "toy", "toy"] and len(failures) == 2


class BlockedSink:
    """An extension with a sink that does not start until `may_start` is set."""

    id = "blocked"
    serves = True

    def __init__(self) -> None:
        self.internals = self
        self.may_start = asyncio.Event()
        self.received: list[int] = []

    async def start(self) -> None:
        await self.may_start.wait()

    def try_notify(self, method: str, params: Any = None) -> bool:
        return False

    async def notify(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> None:
        assert timeout == 2
        self.received.append(params["envelope"]["event"])


async def test_a_sink_added_by_a_reload_does_not_start_other_sinks(tmp_path: Path) -> None:
    """`host.replace` with a new id adds an extension, as a reload does for a new manifest."""
    event_kinds = ("extension.", "process.")
    host = new_host(sink(tmp_path, *event_kinds))
    [spec] = find_extensions(new_host(sink(tmp_path, *event_kinds, id="b")).config).specs
    spawned = record_spawns(host)
    async with host:
        await host.replace(spec)
        await host.flush_events()
        assert spawned == [] and host["b"].state == "admitted"
        await host["b"].start()
        await host.flush_events()
        assert spawned == ["b"] and host["toy"].state == "admitted"


@shows("roder-events-02", "roder-life-06")
async def test_events_over_the_limit_of_the_queue_are_dropped_and_counted() -> None:
    bus, blocked = Bus(), BlockedSink()
    failures: list[SinkFailed] = []
    bus.subscribe(SinkFailed, failures.append)
    sinks = EventSinks(bus)
    sinks.add(
        blocked,
        EventSink(("k",), lambda event: Notification("events/handle", {"envelope": event}), 2.0),
    )
    for n in range(QUEUE_EVENTS + 10):
        bus.publish(HostEvent("k", n))
    assert sinks.lost("blocked") == 10 and len(failures) == 10
    blocked.may_start.set()
    await wait_until(lambda: len(blocked.received) == QUEUE_EVENTS)
    assert blocked.received == list(range(QUEUE_EVENTS))
    await sinks.close()
    assert SinkFailed in bus.listeners and HostEvent not in bus.listeners


@shows("roder-events-07")
async def test_an_event_arrives_before_later_calls(tmp_path: Path) -> None:
    async with new_host(sink(tmp_path, "turn.")) as host:
        ext = host["toy"]
        await ext.start()
        for n in range(3):
            host.emit("turn.started", n)
            messages = await received_params(ext, "events/handle")
            assert [message["envelope"]["event"] for message in messages] == list(range(n + 1))


@shows("roder-events-07")
async def test_flush_events_waits_for_a_sink_that_is_not_started(
    tmp_path: Path,
) -> None:
    async with new_host(sink(tmp_path, "turn.")) as host:
        host.emit("turn.started")
        await host.flush_events()
        (report,) = await received_params(host["toy"], "events/handle")
        assert report["envelope"]["kind"] == "turn.started"
        await host.flush_events()  # returns, because no event waits


@shows("roder-life-06", "roder-events-03")
async def test_a_sink_that_does_not_read_is_reported(tmp_path: Path, clock: Clock) -> None:
    defaults = {"lifetime": "plain"}  # the process that is stopped is the extension itself
    async with new_host(sink(tmp_path, "turn."), defaults=defaults) as host:
        failures: list[SinkFailed] = []
        host.events.subscribe(SinkFailed, failures.append)
        await host["toy"].start()
        pid = pid_of(host["toy"])
        os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(8):
                host.emit("turn.big", "x" * 300_000)
            while not failures:
                await clock.advance(1)
                await asyncio.sleep(0.01)
            assert "still full after 2 s" in failures[0].reason
        finally:
            os.kill(pid, signal.SIGCONT)


# -- the examples ------------------------------------------------------------------------------


@pytest.fixture(params=["python", pytest.param("node", marks=pytest.mark.more)])
def example(request: pytest.FixtureRequest) -> Path:
    if shutil.which({"python": "python3"}.get(request.param, request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    return EXAMPLES / str(request.param)


async def test_each_example_serves_all_its_services(example: Path) -> None:
    lines: list[str] = []
    config = {"discovery": {"search_paths": [str(example)]}}
    async with exthost.Host.from_config(config) as host:
        host.events.subscribe(LogLine, lambda line: lines.append(line.text))
        (ext,) = host.extensions
        (tool,) = ext.tools
        assert (await ext.call_tool(tool, {"text": "A b"})).is_error is False
        assert [item.id for item in await ext.inference.list_models()] == ["parrot-1"]
        request = {"transcript": [{"UserMessage": {"text": "hello you"}}]}
        async with ext.inference.stream_turn(request) as events:
            event_types = [type(event).__name__ async for event in events]
        assert event_types == ["MessageDelta", "MessageDelta", "Completed"]
        assert [item.agent_type for item in await ext.subagents.definitions()] == ["shouter"]
        async with ext.subagents.dispatch({"prompt": "hi"}) as events:
            assert [type(event).__name__ async for event in events] == [
                "SubagentStatus",
                "Finished",
            ]
        assert events.result.result["final_message"] == "HI"
        assert (await ext.tasks.spec()).kind == "ticker"
        async with ext.tasks.execute({"ticks": 3}) as events:
            assert len([event async for event in events]) == 4
        async with ext.tasks.execute({"ticks": 1000}) as events:
            await anext(events)
        await wait_until(lambda: "cancelled: the consumer left" in lines)
        host.emit("turn.started")
        await wait_until(lambda: "dear diary: turn.started" in lines)


def test_both_examples_can_run_in_one_host() -> None:
    node_example, python_example = find_extensions(
        read_config({"discovery": {"search_paths": [str(EXAMPLES)]}})
    ).specs
    assert find_name_conflict(python_example, [node_example]) is None
    assert [node_example.id, python_example.id] == ["demo-node", "demo-python"]


def test_a_blocking_host_calls_tools_and_emits_events(tmp_path: Path) -> None:
    document = {"process_extensions": [sink(tmp_path, "turn.")]}
    with exthost.SyncHost.from_config(document) as host:
        host.emit("turn.started", {"n": 1}, context={"turn_id": "u"})
        received: list[Any] = []
        while not received:  # each iteration waits for a reply
            messages = host.call_tool("ext_toy_heard").data
            received = [
                message["params"]
                for message in messages
                if message.get("method") == "events/handle"
            ]
        assert received[0]["envelope"]["turn_id"] == "u"
