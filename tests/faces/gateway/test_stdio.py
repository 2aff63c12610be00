"""The gateway on stdin and stdout: what is on the wire, and how it ends."""

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
from tests.extensions.harness import until
from tests.faces.gateway.gateway_process import (
    ROOT,
    command,
    environment,
    extension,
    inside,
    write_config,
)

TEXT = extension("text", "morphir", "-S", "-E", str(ROOT / "examples" / "morphir" / "text.py"))
LONG_SECONDS = 150.0


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def calling(id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", name=tool, arguments=arguments)


HELLO = [
    request(
        "hello",
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "raw", "version": "1"},
    ),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


class Peer:
    """The client's ends of the two pipes."""

    def __init__(self) -> None:
        theirs, self.says = os.pipe()
        self.hears, ours = os.pipe()
        self.wire = stdio.ClaimedStdio(theirs, ours)
        self._heard = b""
        os.set_blocking(self.hears, False)

    def say(self, data: bytes) -> None:
        os.write(self.says, data)

    async def next(self) -> Any:
        """The next message of the gateway."""
        async with asyncio.timeout(LONG_SECONDS):
            while b"\n" not in self._heard:
                await asyncio.sleep(0.002)
                self._read()
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def _read(self) -> None:
        try:
            while data := os.read(self.hears, 1 << 16):
                self._heard += data
        except BlockingIOError:
            pass

    def hang_up(self) -> None:
        self.says = _closed(self.says)

    def go_deaf(self) -> None:
        self.hears = _closed(self.hears)

    def close(self) -> None:
        for fd in (self.says, self.hears, *self.wire):
            _closed(fd)


def _closed(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


@asynccontextmanager
async def served(*extensions: dict[str, Any]) -> AsyncIterator[tuple[Peer, "asyncio.Task[None]"]]:
    """A client's pipes, and the task that serves them."""
    peer = Peer()
    async with inside({"extensions": list(extensions)}) as gateway:
        serving = asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
        try:
            yield peer, serving
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            peer.close()


async def ended(serving: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(LONG_SECONDS):
        await serving


@pytest.mark.both_loops
async def test_a_session_goes_from_the_first_line_to_the_end_of_stdin() -> None:
    async with served(TEXT) as (peer, serving):
        peer.say(b"\xef\xbb\xbf" + lines(*HELLO) + b"\r\n\n")
        hello = await peer.next()
        assert (hello["id"], hello["result"]["protocolVersion"]) == ("hello", "2025-06-18")
        for part in (b'{"jsonrpc":"2.0","id":7,"me', b'thod":"tools/list"}\r\n'):
            peer.say(part)
        listed = await peer.next()
        assert listed["id"] == 7 and len(listed["result"]["tools"]) == 3
        peer.say(lines(calling(8, "ext_text_shout", text="ü" * 10_000)))
        shouted = await peer.next()
        assert shouted["result"]["structuredContent"] == {"text": "Ü" * 10_000}
        peer.hang_up()
        await ended(serving)


async def test_requests_under_way_at_the_end_of_stdin_are_answered() -> None:
    slow = extension("slow", "morphir", "-S", "-E", "-c", SLOW)
    async with served(slow) as (peer, serving):
        peer.say(lines(*HELLO, calling(8, "ext_slow_late")))
        peer.hang_up()
        assert (await peer.next())["id"] == "hello"
        late = await peer.next()
        assert late["id"] == 8 and late["result"]["isError"] is False
        await ended(serving)


SLOW = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] != "capabilities":
        time.sleep(0.2)
    result = [{"name": "late", "description": ""}] if asked["method"] == "capabilities" else {}
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""


@shows("gateway-wire-02")
async def test_a_line_that_is_not_a_message_is_answered_and_the_session_goes_on() -> None:
    async with served(TEXT) as (peer, _):
        peer.say(b"what is this?\n" + b'{"id": 5, "method": 7}\n' + b"[]\n" + b"[" * 50_000 + b"\n")
        answers = [await peer.next() for _ in range(4)]
        assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
            (None, types.PARSE_ERROR),
            (5, types.INVALID_REQUEST),
            (None, types.INVALID_REQUEST),
            (None, types.PARSE_ERROR),
        ]
        peer.say(lines(*HELLO))
        assert (await peer.next())["id"] == "hello"


async def test_a_line_that_cannot_be_read_is_answered_with_the_reason_under_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 40_000)
    async with served(TEXT) as (peer, _):
        for head, rest, reason in (
            (b'"id": 5, "method": "ping"', b' "params": {"a": "\xff"}', "not JSON"),
            (b'"method": "ping", "id": "x"', b' "params": ' + b"[" * 30_000, "nested too deeply"),
            (b'"id": 6', b' "method": "' + b"a" * 50_000 + b'"', "longer than 40,000 bytes"),
        ):
            peer.say(b'{"jsonrpc": "2.0", ' + head + b"," + rest + b"}\n")
            answer = await peer.next()
            assert answer["error"]["code"] == types.PARSE_ERROR
            assert reason in answer["error"]["message"]
            assert json.dumps(answer["id"]).encode() in head
        # The id of a response is one of the server's: an error under it would end another request.
        peer.say(b'{"jsonrpc": "2.0", "id": 7, "result": {"a": "\xff"}}\n')
        assert (await peer.next())["id"] is None


@pytest.mark.parametrize("method", ["ping", "tools/call"])
async def test_a_request_with_an_invalid_id_is_refused_rather_than_dropped(method: str) -> None:
    """Without an answer, the client would wait for one in vain."""
    async with served(TEXT) as (peer, _):
        peer.say(lines(*HELLO))
        await peer.next()
        ids: list[Any] = [None, 1.5, True, [1], {}]
        for id in ids:
            peer.say(lines(request(id, method, name="ext_text_shout", arguments={"text": "a"})))
            answer = await peer.next()
            assert answer["error"]["code"] == types.INVALID_REQUEST
            assert "the id of a request" in answer["error"]["message"]
            assert answer["id"] == (1.5 if id == 1.5 else None)
        peer.say(lines(request(7.0, method, name="ext_text_shout", arguments={"text": "a"})))
        answer = await peer.next()
        assert answer["id"] == 7 and "result" in answer


async def test_a_notification_with_a_null_id_is_a_notification() -> None:
    async with served(TEXT) as (peer, _):
        peer.say(lines(HELLO[0], HELLO[1] | {"id": None}, request(2, "ping")))
        assert [(await peer.next())["id"] for _ in range(2)] == ["hello", 2]


@shows("gateway-wire-07")
async def test_each_of_several_messages_in_one_line_is_answered() -> None:
    async with served(TEXT) as (peer, _):
        peer.say(lines(*HELLO))
        await peer.next()
        asked = [calling(1, "ext_text_shout", text="a"), {"id": 2}, request("x", "ping"), 7]
        peer.say(json.dumps(asked).encode() + b"\n")
        answers = [await peer.next() for _ in range(4)]
        refused = [answer["id"] for answer in answers if "error" in answer]
        assert sorted(map(str, refused)) == ["2", "None"]
        assert {answer["id"] for answer in answers if "result" in answer} == {1, "x"}


async def test_a_client_that_went_deaf_ends_the_session() -> None:
    async with served(TEXT) as (peer, serving):
        peer.say(lines(*HELLO))
        await peer.next()
        peer.go_deaf()
        peer.say(lines(calling(1, "ext_text_shout", text="is anybody there?")))
        await ended(serving)


@pytest.mark.both_loops
async def test_a_client_that_is_gone_ends_the_session_though_a_call_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_writer, "CHECK_SECONDS", 0.02)
    program = SLOW.replace('!= "capabilities"', '== "late"', 1).replace("0.2", "1000")
    hung = extension("hung", "morphir", "-S", "-E", "-c", program, limits={"call": "10m"})
    peer = Peer()
    async with inside({"extensions": [hung]}) as gateway:
        serving = asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
        peer.say(lines(*HELLO))
        await peer.next()
        peer.say(lines(calling(1, "ext_hung_late")))
        await until(lambda: gateway.host["hung"].stats.in_flight == 1)
        peer.hang_up()
        peer.go_deaf()
        try:
            await ended(serving)
            assert gateway.host["hung"].stats.in_flight == 0
        finally:
            peer.close()
            gateway.host.kill()


LARGE = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    result = "x" * 200_000
    if asked["method"] == "capabilities":
        result = [{"name": "large", "description": ""}]
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""


@shows("gateway-wire-04")
@pytest.mark.both_loops
async def test_a_client_that_does_not_read_delays_only_itself() -> None:
    large = extension("large", "morphir", "-S", "-E", "-c", LARGE)
    async with inside({"extensions": [large]}) as gateway:
        with closing(Peer()) as slow, closing(Peer()) as quick:
            serving = [
                asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
                for peer in (slow, quick)
            ]
            slow.say(lines(*HELLO, *(calling(n, "ext_large_large") for n in range(4))))
            host = gateway.host
            await until(lambda: sum(ext.stats.result for ext in host.extensions) == 4)
            quick.say(lines(*HELLO, calling("mine", "ext_large_large")))
            assert [(await quick.next())["id"] for _ in range(2)] == ["hello", "mine"]
            received = [(await slow.next())["id"] for _ in range(5)]
            assert sorted(received, key=str) == [0, 1, 2, 3, "hello"]
            for task in serving:
                task.cancel()
            await asyncio.wait(serving)


@shows("gateway-wire-01")
def test_while_it_serves_stdout_is_the_wire_alone() -> None:
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
    done = subprocess.run(
        [sys.executable, "-c", script],
        input="asked\n",
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        env=environment(),
        check=True,
    )
    assert done.stdout == "asked\nafter\n"
    assert done.stderr == "stray\nfrom a child\n"


@pytest.mark.sampled
@shows("gateway-wire-03")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (None, 0)])
def test_ctrl_c_and_the_end_of_stdin_end_it_with_no_child_left(
    number: signal.Signals | None, code: int, tmp_path: Path
) -> None:
    # At the end of stdin, what is under way is answered first: here by its limit of time.
    limits = {"climber": {"limits": {"call": "3s"}}} if number is None else {}
    config = write_config(tmp_path, {"extensions": [TEXT], "overrides": limits})
    with subprocess.Popen(
        command(config, "--own"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(lines(*HELLO, calling(1, "ext_climber_climb", steps=1)))
        process.stdin.write(lines(calling(2, "ext_climber_wait")))
        process.stdin.flush()
        # On a slow machine the extension is ready late, and a notification says so in between.
        messages = map(json.loads, iter(process.stdout.readline, b""))
        replies = (message["id"] for message in messages if "id" in message)
        assert [next(replies), next(replies)] == ["hello", 1]
        if number is None:
            process.stdin.close()
        else:
            process.send_signal(number)
        assert process.wait(LONG_SECONDS) == code
        assert list(replies) in ([], [2])


def test_a_file_will_do_for_stdin(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"extensions": [TEXT]})
    asked = tmp_path / "asked"
    asked.write_bytes(lines(HELLO[0]))
    with asked.open() as file:
        done = subprocess.run(
            command(config, "--own"),
            stdin=file,
            capture_output=True,
            timeout=LONG_SECONDS,
            env=environment(),
        )
    assert done.returncode == 0
    assert json.loads(done.stdout)["id"] == "hello"
