"""Subscribers to the traffic of an extension get a record of each of its messages.

`host.traffic.subscribe(function)` calls the function with a `TraceRecord` for each message between
the host and its extensions, each line on stderr, and each start and exit of a process. Secrets are
replaced by "***".
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import errors
from exthost.session.trace.buffer import TraceBuffer
from exthost.session.trace.record import TraceRecord
from tests.extensions.harness import wait_until
from tests.extensions.morphir_program import morphir_program

EXAMPLES = Path(__file__).parents[3] / "examples" / "morphir"
TEXT, FRAGILE = str(EXAMPLES / "text.py"), str(EXAMPLES / "fragile.py")


def entry(name: str, program: str = TEXT, **settings: Any) -> dict[str, Any]:
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-E", program]}
    return {"name": name, "dialect": "morphir", "source": source, **settings}


def list_messages(records: list[TraceRecord]) -> list[tuple[str, str, str]]:
    """Return the direction, the kind and the method of each message."""
    return [
        (record.direction, record.kind, record.method) for record in records if record.is_message
    ]


async def test_a_subscriber_gets_the_handshake_the_calls_and_the_states() -> None:
    host = exthost.Host.from_config({"extensions": [entry("a")]})
    records: list[TraceRecord] = []
    ended_calls: list[int | None] = []
    host.traffic.subscribe(records.append)
    host.events.subscribe(exthost.events.CallEnded, lambda event: ended_calls.append(event.call))
    async with host:
        await host.call_tool("a:shout", {"text": "x"})
    calls = [record for record in records if record.method == "shout"]
    request, reply = calls
    assert (request.direction, request.kind, reply.kind) == ("sent", "request", "reply")
    assert request.data == {"text": "x"} and reply.data == {"text": "X"}
    assert request.id == reply.id and request.call == reply.call and request.call is not None
    assert ended_calls == [request.call]  # the event CallEnded has the same number
    assert request.size > len(b'{"text":"x"}') and request.time <= reply.time
    kinds = [record.kind for record in records]
    assert kinds.index("spawned") < kinds.index("request") < kinds.index("exited")
    states = {record.data["after"] for record in records if record.kind == "state"}
    assert states >= {"ready", "stopped"}
    spawned = records[kinds.index("spawned")]
    assert {record.pid for record in records if record.is_message} == {spawned.pid}


async def test_a_connection_without_a_host_has_traffic() -> None:
    command = [sys.executable, "-S", "-E", TEXT]
    async with exthost.connect(command, dialect="morphir") as extension:
        records: list[TraceRecord] = []
        unsubscribe = extension.internals.traffic.subscribe(records.append)
        await extension.call_tool("shout", {"text": "x"})
        assert list_messages(records) == [
            ("sent", "request", "shout"),
            ("received", "reply", "shout"),
        ]
        await extension.restart()
        assert ("sent", "request", "initialize") in list_messages(records)
        unsubscribe()


async def test_a_subscriber_gets_records_only_while_it_is_subscribed() -> None:
    async with exthost.Host.from_config({"extensions": [entry("a"), entry("b")]}) as host:
        session = host["a"].internals.queue.live_sessions[0]
        records: list[TraceRecord] = []
        unsubscribe = host.traffic.subscribe(records.append, "a")
        await host.call_tool("a:shout", {"text": "x"})
        await host.call_tool("b:shout", {"text": "x"})
        unsubscribe()
        await host.call_tool("a:shout", {"text": "y"})
        assert list_messages(records) == [
            ("sent", "request", "shout"),
            ("received", "reply", "shout"),
        ]
        # The conversation has no observer left, which would slow down calls.
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
        assert len(pairs) == 50 and all(sent == received for sent, received in pairs.values())


async def test_an_exit_during_a_call_is_recorded_after_the_request() -> None:
    # fragile.py exits when it divides by zero.
    config_entry = entry("b", FRAGILE, restart={"strategy": "never"})
    async with exthost.Host.from_config({"extensions": [config_entry]}) as host:
        records: list[TraceRecord] = []
        host.traffic.subscribe(records.append, "b")
        with pytest.raises(errors.ExtensionGone):
            await host.call_tool("b:divide", {"a": 1, "b": 0})
        await wait_until(lambda: any(record.kind == "exited" for record in records))
    kinds = [record.kind for record in records if record.is_message or record.kind == "exited"]
    assert kinds == ["request", "exited"]
    stderr = "".join(record.text for record in records if record.kind == "stderr")
    assert "ZeroDivisionError" in stderr


async def test_an_error_reply_is_recorded_with_its_text() -> None:
    program = morphir_program("error = 'no such town'")
    command = [sys.executable, "-S", "-E", "-c", program]
    async with exthost.connect(command, dialect="morphir") as extension:
        records: list[TraceRecord] = []
        extension.internals.traffic.subscribe(records.append)
        with pytest.raises(errors.CallFailed):
            await extension.call("find")
    assert list_messages(records) == [("sent", "request", "find"), ("received", "failure", "find")]
    assert "no such town" in repr(records[1])


async def test_a_subscriber_that_raises_does_not_affect_calls() -> None:
    def raise_error(record: TraceRecord) -> None:
        raise ValueError("no")

    async with exthost.Host.from_config({"extensions": [entry("a")]}) as host:
        host.traffic.subscribe(raise_error)
        assert (await host.call_tool("a:shout", {"text": "x"})).data == {"text": "X"}


async def test_secrets_are_hidden_wherever_they_appear() -> None:
    config_entry = entry("a", env={"MY_TOKEN": "s3cr3t-value"})
    async with exthost.Host.from_config({"extensions": [config_entry]}) as host:
        records: list[TraceRecord] = []
        host.traffic.subscribe(records.append)
        await host["a"].call("echo", {"text": "it is s3cr3t-value", "Authorization": "Bearer x"})
        recorded = [record.data for record in records if record.is_message]
        assert recorded == [{"text": "it is ***", "Authorization": "***"}] * 2


# An MCP server with the secret in the methods and ids of its messages.
METHODS = """
import json, os, sys
key = os.environ["MY_TOKEN"]
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {},
                  "serverInfo": {"name": "a", "version": "1"}}
        send(id=message["id"], result=result)
        send(method=f"notifications/{key}")
        send(method=f"strange/{key}", id=key)
        send(id=f"{key}-2", result={})
    elif "error" not in message and "id" in message:
        send(id=message["id"], result={})
"""


async def test_secrets_in_the_methods_and_ids_of_an_extension_are_hidden() -> None:
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", METHODS]}
    config_entry = entry("a", env={"MY_TOKEN": "s3cr3t-value"}, source=source, dialect="mcp")
    records: list[TraceRecord] = []
    host = exthost.Host.from_config({"extensions": [config_entry]})
    host.traffic.subscribe(records.append)
    async with host:
        await host["a"].call("ping", {})
    received = {(record.kind, record.method, record.id) for record in records if record.is_message}
    assert received >= {
        ("notification", "notifications/***", None),
        ("request", "strange/***", "***"),
        ("reply", "", "***-2"),
    }
    assert "s3cr3t" not in repr(records)


async def test_a_secret_of_several_lines_is_hidden_on_stderr_and_in_noise() -> None:
    secret = "first-line\nsecond-line"
    # Prints the secret as noise on stdout and on stderr, and exits.
    code = (
        "import json, os, sys\n"
        "key = os.environ['MY_TOKEN']\n"
        "print('noise', json.dumps(key), flush=True)\n"
        "print(key, file=sys.stderr)\n"
        "sys.exit(3)\n"
    )
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", code]}
    config_entry = entry(
        "a", env={"MY_TOKEN": secret}, source=source, restart={"strategy": "never"}
    )
    host = exthost.Host.from_config({"extensions": [config_entry]})
    records: list[TraceRecord] = []
    host.traffic.subscribe(records.append)
    async with host:
        await wait_until(lambda: host["a"].state == "failed")
    assert [record.text for record in records if record.kind == "stderr"] == ["***", "***"]
    assert "first-line" not in repr(records) and "second-line" not in repr(records)


async def test_the_records_of_a_failed_start_have_no_secret() -> None:
    secret = "s3cr3t-value"
    code = "import os, sys; sys.exit('no use for ' + os.environ['MY_TOKEN'])"
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", code, f"--key={secret}"]}
    config_entry = entry(
        "a", env={"MY_TOKEN": secret}, source=source, restart={"strategy": "never"}
    )
    records: list[TraceRecord] = []
    host = exthost.Host.from_config({"extensions": [config_entry]})
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
        unsubscribe = host.traffic.subscribe(records.append)
        for number in range(20):
            host.call_tool("a:shout", {"text": str(number)})
        unsubscribe()
    recorded = [
        (record.direction, record.data["text"]) for record in records if record.method == "shout"
    ]
    expected = [
        (direction, str(number)) for number in range(20) for direction in ("sent", "received")
    ]
    assert recorded == expected
