"""Who listens to an extension sees each message of it, and nobody pays who does not listen."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.session.trace.buffer import TraceBuffer
from exthost.session.trace.record import TraceRecord
from tests.extensions.harness import until

EXAMPLES = Path(__file__).parents[3] / "examples" / "morphir"
TEXT, FRAGILE = str(EXAMPLES / "text.py"), str(EXAMPLES / "fragile.py")


def entry(name: str, program: str = TEXT, **more: Any) -> dict[str, Any]:
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-E", program]}
    return {"name": name, "dialect": "morphir", "source": source, **more}


def messages(records: list[TraceRecord]) -> list[tuple[str, str, str]]:
    return [
        (record.direction, record.kind, record.method) for record in records if record.is_message
    ]


async def test_a_listener_sees_the_handshake_the_calls_and_the_life() -> None:
    host = exthost.Host.from_config({"extensions": [entry("a")]})
    records: list[TraceRecord] = []
    ended: list[int | None] = []
    host.traffic.subscribe(records.append)
    host.events.subscribe(exthost.events.CallEnded, lambda event: ended.append(event.call))
    async with host:
        await host.call_tool("a:shout", {"text": "x"})
    calls = [record for record in records if record.method == "shout"]
    request, reply = calls
    assert (request.direction, request.kind, reply.kind) == ("sent", "request", "reply")
    assert request.data == {"text": "x"} and reply.data == {"text": "X"}
    assert request.id == reply.id and request.call == reply.call and request.call is not None
    assert ended == [request.call]  # the event of its end has the same number
    assert request.size > len(b'{"text":"x"}') and request.time <= reply.time
    kinds = [record.kind for record in records]
    assert kinds.index("spawned") < kinds.index("request") < kinds.index("exited")
    assert {record.data["after"] for record in records if record.kind == "state"} >= {
        "ready",
        "stopped",
    }
    assert {record.pid for record in records if record.is_message} == {
        records[kinds.index("spawned")].pid
    }


async def test_a_connection_without_a_host_is_followed_from_the_first_question_on() -> None:
    command = [sys.executable, "-S", "-E", TEXT]
    async with exthost.connect(command, dialect="morphir") as extension:
        records: list[TraceRecord] = []
        end = extension.internals.traffic.subscribe(records.append)
        await extension.call_tool("shout", {"text": "x"})
        assert messages(records) == [("sent", "request", "shout"), ("received", "reply", "shout")]
        await extension.restart()
        assert ("sent", "request", "initialize") in messages(records)
        end()


async def test_a_late_subscriber_sees_only_later_events_and_none_after_it_leaves() -> None:
    async with exthost.Host.from_config({"extensions": [entry("a"), entry("b")]}) as host:
        session = host["a"].internals.queue.live_sessions[0]
        records: list[TraceRecord] = []
        end = host.traffic.subscribe(records.append, "a")
        await host.call_tool("a:shout", {"text": "x"})
        await host.call_tool("b:shout", {"text": "x"})
        end()
        await host.call_tool("a:shout", {"text": "y"})
        assert messages(records) == [("sent", "request", "shout"), ("received", "reply", "shout")]
        # Nothing is left in the way of a call.
        assert session.conversation.requests.observer is None


async def test_many_calls_at_once_are_each_recorded() -> None:
    async with exthost.Host.from_config({"extensions": [entry("a")]}) as host:
        buffer = TraceBuffer()
        host.traffic.subscribe(buffer, "a")
        calls = [host.call_tool("a:shout", {"text": str(number)}) for number in range(50)]
        await asyncio.gather(*calls)
        records = buffer.after(0)
        pairs: dict[Any, list[str]] = {}
        for record in records:
            pairs.setdefault(record.call, []).append(record.data["text"])
        assert len(pairs) == 50 and all(sent == got for sent, got in pairs.values())


async def test_the_failure_the_death_and_stderr_are_recorded() -> None:
    async with exthost.Host.from_config({"extensions": [entry("b", FRAGILE)]}) as host:
        records: list[TraceRecord] = []
        host.traffic.subscribe(records.append, "b")
        with pytest.raises(errors.ExthostError):
            await host.call_tool("b:divide", {"a": 1, "b": 0})
        await until(lambda: any(record.kind in ("failure", "exited") for record in records))


async def test_a_listener_that_raises_does_not_affect_others() -> None:
    def listener(record: TraceRecord) -> None:
        raise ValueError("no")

    async with exthost.Host.from_config({"extensions": [entry("a")]}) as host:
        host.traffic.subscribe(listener)
        assert (await host.call_tool("a:shout", {"text": "x"})).data == {"text": "X"}


async def test_secrets_are_hidden_wherever_they_appear() -> None:
    given = entry("a", env={"MY_TOKEN": "s3cr3t-value"})
    async with exthost.Host.from_config({"extensions": [given]}) as host:
        records: list[TraceRecord] = []
        host.traffic.subscribe(records.append)
        await host["a"].call("echo", {"text": "it is s3cr3t-value", "Authorization": "Bearer x"})
        shown = [record.data for record in records if record.is_message]
        assert shown == [{"text": "it is ***", "Authorization": "***"}] * 2


async def test_a_secret_of_several_lines_is_hidden_on_stderr_and_in_noise() -> None:
    secret = "first-line\nsecond-line"
    code = (
        "import json, os, sys; key = os.environ['MY_TOKEN']; "
        "print('noise', json.dumps(key), flush=True); print(key, file=sys.stderr); sys.exit(3)"
    )
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", code]}
    given = entry("a", env={"MY_TOKEN": secret}, source=source, restart={"strategy": "never"})
    host = exthost.Host.from_config({"extensions": [given]})
    records: list[TraceRecord] = []
    host.traffic.subscribe(records.append)
    async with host:
        await until(lambda: host["a"].state == "failed")
    assert [record.text for record in records if record.kind == "stderr"] == ["***", "***"]
    assert "first-line" not in repr(records) and "second-line" not in repr(records)


async def test_a_process_that_starts_and_dies_shows_no_secret() -> None:
    secret = "s3cr3t-value"
    code = "import os, sys; sys.exit('no use for ' + os.environ['MY_TOKEN'])"
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", code, f"--key={secret}"]}
    given = entry("a", env={"MY_TOKEN": secret}, source=source, restart={"strategy": "never"})
    records: list[TraceRecord] = []
    host = exthost.Host.from_config({"extensions": [given]})
    host.traffic.subscribe(records.append)
    async with host:
        with pytest.raises(errors.ExthostError):
            await host["a"].call("echo", {})
    (spawned,) = (record for record in records if record.kind == "spawned")
    assert spawned.data["argv"][-1] == "--key=***"
    assert "no use for ***" in [record.text for record in records if record.kind == "stderr"]
    assert secret not in repr(records)


def test_calls_from_other_threads_are_recorded_in_order() -> None:
    with exthost.SyncHost.from_config({"extensions": [entry("a")]}) as host:
        records: list[TraceRecord] = []
        end = host.traffic.subscribe(records.append)
        for number in range(20):
            host.call_tool("a:shout", {"text": str(number)})
        end()
    shown = [
        (record.direction, record.data["text"]) for record in records if record.method == "shout"
    ]
    expected = [(way, str(number)) for number in range(20) for way in ("sent", "received")]
    assert shown == expected
