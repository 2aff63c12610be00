"""Secrets in an error are hidden: in its evidence, and in the answer of the extension.

The evidence is what the host knows about the cause, such as the last bytes of the output, in which
an extension may have written the value of a variable.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import BreakerOpen, CallFailed, Evidence, HandshakeFailed
from exthost.events import Bus, LogLine
from exthost.extension.call_queue import CallQueue
from exthost.session.diagnostics import MAX_NAMES, OTHER_NAMES
from exthost.session.failures import SHOWN_BYTES, Violated, unreadable_output_error
from exthost.session.trace.secrets import HIDDEN, MIN_SECRET_CHARACTERS, SecretFilter
from exthost.wire.framing import Broken
from tests.extensions.fake_child import FakeChild, session_with
from tests.extensions.harness import wait_until

SECRET = "tok-0123456789abcdef"


@pytest.mark.parametrize(
    "evidence",
    [Evidence(bytes=f"x {SECRET}"), Evidence(details=(f"x {SECRET}",))],
    ids=["only_bytes", "only_details"],
)
async def test_a_secret_in_the_evidence_of_an_error_is_hidden(evidence: Evidence) -> None:
    loop = asyncio.get_running_loop()
    queue = CallQueue("x", max_in_flight=1, is_shared=False, bus=Bus(), loop=loop)
    fake_child = FakeChild()
    session = session_with(fake_child, queue)
    session.diagnostics.use_secret_filter(SecretFilter([SECRET]))
    error = CallFailed("X0701", "no", evidence=evidence)
    session.diagnostics.hide_in_error(error)
    hidden: list[Any] = [error.evidence.bytes, *error.evidence.details]
    assert [text for text in hidden if text] == [f"x {HIDDEN}"]
    fake_child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)


# An MCP server that writes its secret into error replies, and into a result marked as an error.
SERVER = """
import json, os, sys
secret = os.environ["TOKEN"]
for line in sys.stdin:
    message = json.loads(line)
    method, reply = message["method"], {}
    if "id" not in message:
        continue
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        reply["result"] = {"protocolVersion": version, "capabilities": {"tools": {}},
                           "serverInfo": {"name": "leaky", "version": "1"}}
    elif method == "tools/list":
        names = ("reply", "result")
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        reply["result"] = {"tools": tools}
    elif message["params"]["name"] == "reply":
        data = {"token": "a name", "texts": [f"x {secret}", 7], secret: None}
        reply["error"] = {"code": -32000, "message": f"no {secret}", "data": data}
    else:
        content = [{"type": "text", "text": f"no {secret}"}]
        reply["result"] = {"isError": True, "content": content}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"""


@asynccontextmanager
async def leaky_extension(tmp_path: Path, **settings: Any) -> AsyncIterator[exthost.Extension]:
    token = tmp_path / "token"
    token.write_text(SECRET)
    token.chmod(0o600)
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", SERVER]}
    entry = {"name": "leaky", "dialect": "mcp", "source": source, **settings}
    entry["env"] = {"TOKEN": {"file": str(token)}}
    async with exthost.Host.from_config({"extensions": [entry]}) as host:
        yield host["leaky"]


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_secret_in_the_answer_of_a_failed_call_is_hidden(
    processes: int, tmp_path: Path
) -> None:
    async with leaky_extension(tmp_path, pool={"min": processes, "max": processes}) as extension:
        with pytest.raises(CallFailed) as reply:
            await extension.call_tool("reply", {})
        assert reply.value.data == {"token": "a name", "texts": [f"x {HIDDEN}", 7], HIDDEN: None}
        with pytest.raises(CallFailed) as marked_result:
            await extension.call_tool("result", {})
        result = await extension.call_tool("result", {}, check=False)
        assert result.text == f"no {SECRET}"  # a result belongs to the caller
        error = extension.internals.calls.tool_error(result, "result")  # as after a hook
        for shown in (reply.value, marked_result.value, error):
            assert SECRET not in json.dumps(shown.as_dict()) + str(shown)
            assert HIDDEN in shown.message


@pytest.mark.parametrize("limit", ["start", "handshake"])
async def test_a_secret_in_the_output_of_a_failed_start_is_hidden(
    limit: str, tmp_path: Path
) -> None:
    """The output is in another framing, so that it is evidence, and no error ends the wait."""
    code = (
        "import os, sys\n"
        "print('Content-Length: 9\\r\\n\\r\\n' + os.environ['TOKEN'], flush=True)\n"
        "sys.stdin.read()"
    )
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", code]}
    limits = {"start": 60, "handshake": 60, limit: 0.5}
    never = {"restart": {"strategy": "never"}}
    async with leaky_extension(tmp_path, source=source, limits=limits, **never) as extension:
        cause = extension.cause
        assert isinstance(cause, HandshakeFailed)
        shown = cause.evidence.bytes
        assert HIDDEN in shown or not shown  # on a busy machine the output may be too late
        assert SECRET not in json.dumps(cause.as_dict()) + str(cause)


async def test_a_secret_in_the_cause_of_an_open_breaker_is_hidden(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    breaker = {"failures": 1, "open": 60, "count_error_replies": True}
    for tool in ("reply", "result"):
        async with leaky_extension(tmp_path, breaker=breaker) as extension:
            with pytest.raises(CallFailed):
                await extension.call_tool(tool, {})
            with pytest.raises(BreakerOpen) as refused:
                await extension.call_tool(tool, {})
            shown = f"{refused.value} {extension.cause!r}"
            assert SECRET not in shown + caplog.text and HIDDEN in shown


@pytest.mark.parametrize("depth", [300, 480, 900])
@pytest.mark.parametrize("marked", [False, True], ids=["error_reply", "marked_result"])
async def test_a_deeply_nested_error_with_a_secret_ends_its_call(
    depth: int, marked: bool, tmp_path: Path
) -> None:
    deep = f"'[' * {depth} + json.dumps(secret) + ']' * {depth}"
    form = (
        '{"isError":true,"content":[],"structuredContent":{"deep":%s}}'
        if marked
        else '{"code":-32000,"message":"no","data":%s}'
    )
    member = "result" if marked else "error"
    reply = f'{{"jsonrpc":"2.0","id":%s,"{member}":{form}}}'
    code = SERVER.replace(
        "    print(",
        f"    if method == 'tools/call':\n"
        f"        print({reply!r} % (message['id'], {deep}), flush=True)\n"
        f"        continue\n"
        f"    print(",
    )
    source = {"command": sys.executable, "args": ["-S", "-E", "-c", code]}
    async with leaky_extension(tmp_path, source=source) as extension:
        with pytest.raises(CallFailed) as caught:
            await extension.call_tool("reply", {}, timeout=60)
        assert SECRET not in json.dumps(caught.value.data)


@pytest.mark.parametrize("at", [SHOWN_BYTES - 1, SHOWN_BYTES - 5, SHOWN_BYTES - 15])
async def test_a_secret_that_is_cut_in_faulty_output_is_hidden(at: int) -> None:
    """In the evidence of the session's end, in the log, and in the name of a count."""
    text = "x" * at + SECRET + "y" * 50
    loop = asyncio.get_running_loop()
    bus = Bus()
    lines: list[LogLine] = []
    bus.subscribe(LogLine, lines.append)
    queue = CallQueue("x", max_in_flight=1, is_shared=False, bus=bus, loop=loop)
    fake_child = FakeChild()
    session = session_with(fake_child, queue)
    diagnostics = session.diagnostics
    diagnostics.use_secret_filter(SecretFilter([SECRET]))
    violation = unreadable_output_error(Broken("no", text.encode()), "morphir")
    error = Violated(violation).error(diagnostics, "m")
    diagnostics.stray(text.encode(), "no")
    diagnostics.count("a count", "a warning", [text])
    diagnostics.count_and_log(f"no use for {text}")
    shown = [
        diagnostics.evidence(text.encode()).bytes,
        *(line.text for line in lines),
        *diagnostics.counts,
    ]
    assert len(shown) == 7
    assert "xt" not in "".join(shown)
    assert SECRET[:MIN_SECRET_CHARACTERS] not in error.evidence.bytes
    fake_child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)


async def test_the_names_of_counts_are_bounded() -> None:
    loop = asyncio.get_running_loop()
    queue = CallQueue("x", max_in_flight=1, is_shared=False, bus=Bus(), loop=loop)
    fake_child = FakeChild()
    session = session_with(fake_child, queue)
    for number in range(3 * MAX_NAMES):
        session.diagnostics.count_and_log(f"no use for {number} {'x' * 10_000}")
    counts = session.diagnostics.counts
    assert counts.total() == 3 * MAX_NAMES and counts[OTHER_NAMES] == 2 * MAX_NAMES
    assert max(map(len, counts)) <= SHOWN_BYTES
    fake_child.exit()
    await wait_until(lambda: session.lifetime.released.is_set)
