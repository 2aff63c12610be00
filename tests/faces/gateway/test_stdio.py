"""Tests of the gateway on stdin and stdout, as MCP clients start it: `exthost gateway`.

The gateway is an MCP server in front of extensions. Here a client (`Peer`) sends it raw bytes:
valid messages in pieces, lines that are not messages, the end of its stdin. Most tests run the
gateway in this process, with pipes in place of stdin and stdout.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from exthost.faces.gateway import line_writer, stdio
from tests.dialects.requirements import shows
from tests.extensions.harness import wait_until
from tests.faces.gateway.gateway_process import (
    ROOT,
    command,
    environment,
    extension,
    open_gateway,
    write_config,
)

TEXT = extension("text", "morphir", "-S", "-E", str(ROOT / "examples" / "morphir" / "text.py"))
# The limit of a wait for an event that always comes. It only bounds a test that hangs.
LONG_SECONDS = 150.0


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def tool_call(id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the request of a tool call."""
    return request(id, "tools/call", name=tool, arguments=arguments)


# The first two messages of a client; the gateway answers the first.
HANDSHAKE = [
    request(
        "hello",
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "raw", "version": "1"},
    ),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def encode_lines(*messages: dict[str, Any]) -> bytes:
    """Return the messages as lines of JSON."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


class Peer:
    """A client of the gateway, by two pipes: it sends bytes and receives messages.

    `wire` has the ends of the pipes for the gateway: `stdio.serve(gateway.server, peer.wire)`.
    """

    def __init__(self) -> None:
        gateway_read_fd, self._write_fd = os.pipe()
        self._read_fd, gateway_write_fd = os.pipe()
        self.wire = stdio.ClaimedStdio(gateway_read_fd, gateway_write_fd)
        self._buffer = b""
        os.set_blocking(self._read_fd, False)

    def send(self, data: bytes) -> None:
        os.write(self._write_fd, data)

    async def receive(self) -> Any:
        """Return the next message of the gateway."""
        async with asyncio.timeout(LONG_SECONDS):
            while b"\n" not in self._buffer:
                await asyncio.sleep(0.002)
                self._read()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _read(self) -> None:
        try:
            while data := os.read(self._read_fd, 1 << 16):
                self._buffer += data
        except BlockingIOError:
            pass

    def close_writer(self) -> None:
        """Close the stdin of the gateway."""
        self._write_fd = _close_once(self._write_fd)

    def close_reader(self) -> None:
        """Close the stdout of the gateway."""
        self._read_fd = _close_once(self._read_fd)

    def close(self) -> None:
        for fd in (self._write_fd, self._read_fd, *self.wire):
            _close_once(fd)


def _close_once(fd: int) -> int:
    """Close a descriptor unless it is -1; return -1."""
    if fd >= 0:
        os.close(fd)
    return -1


@asynccontextmanager
async def served_peer(
    *extensions: dict[str, Any],
) -> AsyncIterator[tuple[Peer, "asyncio.Task[None]"]]:
    """Yield a client of a gateway with these extensions, and the task that serves it."""
    peer = Peer()
    async with open_gateway({"extensions": list(extensions)}) as gateway:
        serving = asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
        try:
            yield peer, serving
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            peer.close()


async def wait_for_end(serving: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(LONG_SECONDS):
        await serving


@pytest.mark.both_loops
async def test_a_session_ends_at_the_end_of_stdin() -> None:
    async with served_peer(TEXT) as (peer, serving):
        # A byte order mark and empty lines are ignored.
        peer.send(b"\xef\xbb\xbf" + encode_lines(*HANDSHAKE) + b"\r\n\n")
        reply = await peer.receive()
        assert (reply["id"], reply["result"]["protocolVersion"]) == ("hello", "2025-06-18")
        for part_of_message in (b'{"jsonrpc":"2.0","id":7,"me', b'thod":"tools/list"}\r\n'):
            peer.send(part_of_message)
        reply = await peer.receive()
        assert reply["id"] == 7 and len(reply["result"]["tools"]) == 3  # text.py has three tools
        peer.send(encode_lines(tool_call(8, "ext_text_shout", text="ü" * 10_000)))
        reply = await peer.receive()
        assert reply["result"]["structuredContent"] == {"text": "Ü" * 10_000}
        peer.close_writer()
        await wait_for_end(serving)


async def test_requests_in_progress_at_the_end_of_stdin_are_answered() -> None:
    slow = extension("slow", "morphir", "-S", "-E", "-c", SLOW)
    async with served_peer(slow) as (peer, serving):
        peer.send(encode_lines(*HANDSHAKE, tool_call(8, "ext_slow_late")))
        peer.close_writer()
        assert (await peer.receive())["id"] == "hello"
        reply = await peer.receive()
        assert reply["id"] == 8 and reply["result"]["isError"] is False
        await wait_for_end(serving)


# A morphir extension whose tool `late` answers after 0.2 s, and so does its handshake.
SLOW = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] != "capabilities":
        time.sleep(0.2)
    result = [{"name": "late", "description": ""}] if request["method"] == "capabilities" else {}
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""

# A morphir extension whose tool `late` does not answer.
HANGING = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "late":
        time.sleep(1000)
    result = [{"name": "late", "description": ""}] if request["method"] == "capabilities" else {}
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


@shows("gateway-wire-02")
async def test_a_line_that_is_not_a_message_is_answered_and_the_session_continues() -> None:
    async with served_peer(TEXT) as (peer, _):
        peer.send(
            b"what is this?\n" + b'{"id": 5, "method": 7}\n' + b"[]\n" + b"[" * 50_000 + b"\n"
        )
        answers = [await peer.receive() for _ in range(4)]
        assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
            (None, types.PARSE_ERROR),
            (5, types.INVALID_REQUEST),
            (None, types.INVALID_REQUEST),
            (None, types.PARSE_ERROR),
        ]
        peer.send(encode_lines(*HANDSHAKE))
        assert (await peer.receive())["id"] == "hello"


async def test_a_line_that_cannot_be_read_is_answered_with_the_reason_under_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 40_000)
    async with served_peer(TEXT) as (peer, _):
        for head, rest, reason in (
            (b'"id": 5, "method": "ping"', b' "params": {"a": "\xff"}', "not JSON"),
            (b'"method": "ping", "id": "x"', b' "params": ' + b"[" * 30_000, "nested too deeply"),
            (b'"id": 6', b' "method": "' + b"a" * 50_000 + b'"', "longer than 40,000 bytes"),
        ):
            peer.send(b'{"jsonrpc": "2.0", ' + head + b"," + rest + b"}\n")
            answer = await peer.receive()
            assert answer["error"]["code"] == types.PARSE_ERROR
            assert reason in answer["error"]["message"]
            assert json.dumps(answer["id"]).encode() in head
        # The id of a response belongs to a request of the server: an error with this id would end
        # another request.
        peer.send(b'{"jsonrpc": "2.0", "id": 7, "result": {"a": "\xff"}}\n')
        assert (await peer.receive())["id"] is None


@pytest.mark.parametrize("method", ["ping", "tools/call"])
async def test_a_request_with_an_invalid_id_is_refused(method: str) -> None:
    async with served_peer(TEXT) as (peer, _):
        peer.send(encode_lines(*HANDSHAKE))
        await peer.receive()
        ids: list[Any] = [None, 1.5, True, [1], {}]
        for id in ids:
            peer.send(
                encode_lines(request(id, method, name="ext_text_shout", arguments={"text": "a"}))
            )
            # Without an answer, the client would wait forever.
            answer = await peer.receive()
            assert answer["error"]["code"] == types.INVALID_REQUEST
            assert "the id of a request" in answer["error"]["message"]
            assert answer["id"] == (1.5 if id == 1.5 else None)
        peer.send(
            encode_lines(request(7.0, method, name="ext_text_shout", arguments={"text": "a"}))
        )
        answer = await peer.receive()
        assert answer["id"] == 7 and "result" in answer


async def test_a_notification_with_a_null_id_is_a_notification() -> None:
    async with served_peer(TEXT) as (peer, _):
        peer.send(encode_lines(HANDSHAKE[0], HANDSHAKE[1] | {"id": None}, request(2, "ping")))
        assert [(await peer.receive())["id"] for _ in range(2)] == ["hello", 2]


@shows("gateway-wire-07")
async def test_each_of_several_messages_in_one_line_is_answered() -> None:
    async with served_peer(TEXT) as (peer, _):
        peer.send(encode_lines(*HANDSHAKE))
        await peer.receive()
        batch = [tool_call(1, "ext_text_shout", text="a"), {"id": 2}, request("x", "ping"), 7]
        peer.send(b" " + json.dumps(batch).encode() + b"\n")
        answers = [await peer.receive() for _ in range(4)]
        refused = [answer["id"] for answer in answers if "error" in answer]
        assert sorted(map(str, refused)) == ["2", "None"]
        assert {answer["id"] for answer in answers if "result" in answer} == {1, "x"}


async def test_a_client_that_closes_the_stdout_of_the_gateway_ends_the_session() -> None:
    async with served_peer(TEXT) as (peer, serving):
        peer.send(encode_lines(*HANDSHAKE))
        await peer.receive()
        peer.close_reader()
        peer.send(encode_lines(tool_call(1, "ext_text_shout", text="is anybody there?")))
        await wait_for_end(serving)


@pytest.mark.both_loops
async def test_a_client_that_disconnects_during_a_call_ends_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # How often the gateway checks whether the client still reads, while it has nothing to write.
    monkeypatch.setattr(line_writer, "CHECK_SECONDS", 0.02)
    hung = extension("hung", "morphir", "-S", "-E", "-c", HANGING, limits={"call": "10m"})
    peer = Peer()
    async with open_gateway({"extensions": [hung]}) as gateway:
        serving = asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
        peer.send(encode_lines(*HANDSHAKE))
        await peer.receive()
        peer.send(encode_lines(tool_call(1, "ext_hung_late")))
        await wait_until(lambda: gateway.host["hung"].stats.in_flight == 1)
        peer.close_writer()
        peer.close_reader()
        try:
            await wait_for_end(serving)
            assert gateway.host["hung"].stats.in_flight == 0
        finally:
            peer.close()
            gateway.host.kill()


# A morphir extension whose tool returns a large result.
LARGE = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = "x" * 200_000
    if request["method"] == "capabilities":
        result = [{"name": "large", "description": ""}]
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


@shows("gateway-wire-04")
@pytest.mark.both_loops
async def test_a_client_that_does_not_read_delays_only_itself() -> None:
    large = extension("large", "morphir", "-S", "-E", "-c", LARGE)
    async with open_gateway({"extensions": [large]}) as gateway:
        with closing(Peer()) as slow, closing(Peer()) as quick:
            serving = [
                asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
                for peer in (slow, quick)
            ]
            # More replies than a pipe has room for; `slow` reads them at the end.
            slow.send(
                encode_lines(*HANDSHAKE, *(tool_call(n, "ext_large_large") for n in range(4)))
            )
            host = gateway.host
            await wait_until(lambda: sum(ext.stats.result for ext in host.extensions) == 4)
            quick.send(encode_lines(*HANDSHAKE, tool_call("mine", "ext_large_large")))
            assert [(await quick.receive())["id"] for _ in range(2)] == ["hello", "mine"]
            received = [(await slow.receive())["id"] for _ in range(5)]
            assert sorted(received, key=str) == [0, 1, 2, 3, "hello"]
            for task in serving:
                task.cancel()
            await asyncio.wait(serving)


@pytest.mark.more
@shows("gateway-wire-01")
def test_other_output_to_stdout_goes_to_stderr_while_the_gateway_serves() -> None:
    script = """if True:
        import os, sys
        from exthost.faces.gateway import stdio
        with stdio.claim_stdio() as wire:
            print("stray", flush=True)
            os.system("echo from a child")
            assert sys.stdin.read() == ""
            os.write(wire.write_fd, os.read(wire.read_fd, 100))
        print("after", flush=True)
    """
    result = subprocess.run(
        [sys.executable, "-c", script],
        input="request\n",
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        env=environment(),
        check=True,
    )
    assert result.stdout == "request\nafter\n"
    assert result.stderr == "stray\nfrom a child\n"


@pytest.mark.more
@pytest.mark.sampled
@shows("gateway-wire-03")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (None, 0)])
def test_signals_and_the_end_of_stdin_end_the_gateway(
    number: signal.Signals | None, code: int, tmp_path: Path
) -> None:
    # At the end of stdin, calls in progress are answered first. The call of `wait` never ends by
    # itself, so it is then answered by its time limit.
    limits = {"climber": {"limits": {"call": "3s"}}} if number is None else {}
    config = write_config(tmp_path, {"extensions": [TEXT], "overrides": limits})
    with subprocess.Popen(
        command(config, "--own"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(encode_lines(*HANDSHAKE, tool_call(1, "ext_climber_climb", steps=1)))
        process.stdin.write(encode_lines(tool_call(2, "ext_climber_wait")))
        process.stdin.flush()
        # On a slow machine, a notification of changed tools can come between the replies.
        messages = map(json.loads, iter(process.stdout.readline, b""))
        replies = (message["id"] for message in messages if "id" in message)
        assert [next(replies), next(replies)] == ["hello", 1]
        if number is None:
            process.stdin.close()
        else:
            process.send_signal(number)
        assert process.wait(LONG_SECONDS) == code
        assert list(replies) in ([], [2])


@pytest.mark.more
def test_stdin_can_be_a_file(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"extensions": [TEXT]})
    input_file = tmp_path / "input"
    input_file.write_bytes(encode_lines(HANDSHAKE[0]))
    with input_file.open() as file:
        result = subprocess.run(
            command(config, "--own"),
            stdin=file,
            capture_output=True,
            timeout=LONG_SECONDS,
            env=environment(),
        )
    assert result.returncode == 0
    assert json.loads(result.stdout)["id"] == "hello"


async def test_an_stdin_that_cannot_be_read_has_ended(tmp_path: Path) -> None:
    """A folder, for example, or a terminal that was closed."""
    read_end, write_end = os.pipe()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        stream = stdio.StdioStream(stdio.ClaimedStdio(folder, write_end))
        async with asyncio.timeout(LONG_SECONDS):
            assert await stream.next() is None
        stream.close()
    finally:
        for fd in (read_end, write_end, folder):
            os.close(fd)
