"""The error for a failed handshake has the exit status, stderr and the first bytes of stdout.

The handshake of the dialect morphir has two requests: `initialize` and `capabilities`. The program
is the hostile extension of the tests, whose flags say what goes wrong at which stage: with
`die_at=start` it exits before it reads anything, with `hang_at=initialize` it never answers that
request.
"""

import asyncio
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from exthost.dialects.find import find_dialect
from exthost.dialects.morphir.dialect import DIALECT
from exthost.errors import Evidence, ExtensionGone, HandshakeFailed
from exthost.events import Bus, LogLine
from exthost.session import handshake
from exthost.session.session import Session
from tests.extensions.clock import Clock
from tests.extensions.harness import ONE_HOUR, closed_at_end, error_of, unstarted_extension

EXITED = "X0501"
REFUSED = "X0502"
INVALID_OFFER = "X0503"  # of morphir: the reply to `capabilities`
NO_REPLY_IN_TIME = "X0504"
OTHER_DIALECT = "X0506"
START_TOO_LONG = "X0507"


@pytest.mark.parametrize("stage", ["start", "initialize", "capabilities"])
async def test_an_exit_during_the_handshake_is_reported_with_status_and_stderr(stage: str) -> None:
    ext = unstarted_extension(f"die_at={stage}", "code=7")
    async with closed_at_end(ext):
        error = await error_of(ext.start())
        assert isinstance(error, HandshakeFailed) and error.code == EXITED
        assert error.evidence.exit == "exited with 7"
        assert error.evidence.stderr == (f"dying at {stage}",)
        assert error.extension == "hostile" and error.help and error.evidence.argv
        assert ext.state == "failed"
        assert (await error_of(ext.call("echo"))).code == EXITED


async def test_an_exit_within_the_first_line_is_reported_with_that_line() -> None:
    ext = unstarted_extension("half_at=initialize")
    async with closed_at_end(ext):
        error = await error_of(ext.start())
        assert error.code == EXITED and "ended inside a line" in error.message
        assert error.evidence.bytes == '{"id":'


async def test_the_output_before_a_failed_handshake_is_not_shown_if_it_is_private() -> None:
    dialect = replace(DIALECT, traits=replace(DIALECT.traits, redact=True))
    ext = unstarted_extension("half_at=initialize", dialect=dialect)
    async with closed_at_end(ext):
        error = await error_of(ext.start())
        assert error.code == EXITED and error.evidence.bytes == ""


@pytest.mark.parametrize("stage", ["start", "initialize", "capabilities"])
async def test_hanging_in_the_handshake_ends_at_its_limit(stage: str, clock: Clock) -> None:
    bus, is_hanging = Bus(), asyncio.Event()
    bus.subscribe(
        LogLine, lambda line: is_hanging.set() if line.text.startswith("hanging") else None
    )
    clock.stop()
    ext = unstarted_extension(f"hang_at={stage}", limits={"handshake": "0.2s"}, bus=bus)
    async with closed_at_end(ext):
        starting = asyncio.ensure_future(error_of(ext.start()))
        await is_hanging.wait()
        assert not starting.done()
        await clock.advance(0.2)
        error = await starting
    assert isinstance(error, HandshakeFailed) and error.code == NO_REPLY_IN_TIME
    assert "0.2 s" in error.message and error.evidence.stderr == (f"hanging at {stage}",)
    if stage == "capabilities":
        assert "it answered initialize, but not capabilities" in error.message
        assert "wrote nothing to stdout" not in error.message
    else:
        assert "wrote nothing to stdout" in error.message
        assert "it answered" not in error.message


async def test_the_whole_start_has_a_limit(clock: Clock) -> None:
    bus, is_hanging = Bus(), asyncio.Event()
    bus.subscribe(
        LogLine, lambda line: is_hanging.set() if line.text.startswith("hanging") else None
    )
    clock.stop()
    ext = unstarted_extension("hang_at=capabilities", limits={"start": "0.2s"}, bus=bus)
    async with closed_at_end(ext):
        starting = asyncio.ensure_future(error_of(ext.start()))
        await is_hanging.wait()
        await clock.advance(0.2)
        error = await starting
        assert (error.kind, error.code) == ("HandshakeFailed", START_TOO_LONG)
        assert error.message.endswith("within 0.2 s: it answered initialize, but not capabilities")
        assert "does it speak" not in error.help


# An MCP server that answers `tools/list` with a first page, and then waits for its input to end.
HANGS_AT_THE_SECOND_PAGE = """
import json, sys
info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": "a", "version": "1"}}
page = {"tools": [], "nextCursor": "2"}
for line in sys.stdin:
    request = json.loads(line)
    method, params = request["method"], request.get("params") or {}
    if method == "tools/list" and "cursor" in params:
        print("hanging", file=sys.stderr, flush=True)
    elif method in ("initialize", "tools/list"):
        result = info if method == "initialize" else page
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
    elif "id" in request:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
"""


async def test_a_list_whose_second_page_is_missing_is_reported_as_such(clock: Clock) -> None:
    bus, is_hanging = Bus(), asyncio.Event()
    bus.subscribe(LogLine, lambda line: is_hanging.set() if line.text == "hanging" else None)
    clock.stop()
    arguments = ["-S", "-E", "-c", HANGS_AT_THE_SECOND_PAGE]
    source = {"type": "process", "command": sys.executable, "args": arguments}
    ext = unstarted_extension(
        dialect=find_dialect("mcp"), bus=bus, source=source, limits={"handshake": "0.2s"}
    )
    async with closed_at_end(ext):
        starting = asyncio.ensure_future(error_of(ext.start()))
        await is_hanging.wait()
        await clock.advance(0.2)
        error = await starting
        assert error.message.endswith("it answered tools/list, but not the next tools/list")


@pytest.mark.parametrize(
    ("flag", "code", "text"),
    [
        ("refuse=initialize", REFUSED, "no initialize today"),
        ("refuse=capabilities", INVALID_OFFER, "no capabilities today"),
        ("capabilities=7", INVALID_OFFER, "not a list"),
        ('capabilities=[{"name":"x"}]', INVALID_OFFER, "item 0 (x) has no description"),
        ("close_at=initialize", EXITED, "closed its stdout and still runs"),
    ],
)
async def test_the_error_for_an_invalid_handshake_names_the_fault(
    flag: str, code: str, text: str
) -> None:
    ext = unstarted_extension(flag, limits={"handshake": ONE_HOUR})
    async with closed_at_end(ext):
        error = await error_of(ext.start())
        assert isinstance(error, HandshakeFailed)
        assert error.code == code and text in error.message and error.help
        assert ext.state == "failed" and ext.stats.pid is None and dict(ext.tools) == {}


async def test_the_handshake_error_names_frames_of_another_dialect(
    clock: Clock,
) -> None:
    bus, has_written_frame = Bus(), asyncio.Event()
    bus.subscribe(LogLine, lambda line: has_written_frame.set() if line.text == "framed" else None)
    clock.stop()
    ext = unstarted_extension("content_length", limits={"handshake": "0.4s"}, bus=bus)
    async with closed_at_end(ext):
        starting = asyncio.ensure_future(error_of(ext.start()))
        await has_written_frame.wait()
        await clock.advance(0.4)
        error = await starting
        assert isinstance(error, HandshakeFailed)
        assert error.code == OTHER_DIALECT and "Content-Length" in error.message and error.help
        assert ext.state == "failed" and ext.stats.pid is None and dict(ext.tools) == {}


async def test_stderr_without_a_newline_at_the_end_is_logged() -> None:
    bus = Bus()
    lines: list[LogLine] = []
    bus.subscribe(LogLine, lines.append)
    ext = unstarted_extension("die_at=initialize", bus=bus)
    async with closed_at_end(ext):
        await error_of(ext.start())
    assert [line.text for line in lines if line.source == "stderr"] == ["dying at initialize"]


@pytest.mark.parametrize(
    # X1001: the process exited; X1002: it had closed its stdout before
    ("code", "exit", "stderr", "text"),
    [
        ("X1002", "exited with 1", ("env: node: No such file or directory",), "in the foreground"),
        ("X1001", "never ran: Exec format error (ENOEXEC)", (), "is the file complete?"),
        ("X1001", "exited with 127", ("env: 'node': No such file or directory",), "names node,"),
        ("X1001", "exited with 127", ("/bin/sh\\r: No such file",), "Windows line ends"),
        ("X1001", "exited with 1", ("open x: No such file",), "see its stderr for the cause"),
        ("X1001", "exited with 1", ("it prints \\r",), "see its stderr for the cause"),
        ("X1001", "exited with 0", (), "exited by itself"),
        ("X1001", "exited with 0", ("done",), "see its stderr for the cause"),
        ("X1001", "exited with 1", ("Parse error",), "the opening of morphir"),
        ("X1001", "exited with 1", (), "run its command by hand"),
    ],
)
def test_the_help_for_an_exit_follows_from_status_and_stderr(
    code: str, exit: str, stderr: tuple[str, ...], text: str
) -> None:
    evidence = Evidence(exit=exit, stderr=stderr, argv=("missing",))
    diagnostics = SimpleNamespace(evidence=lambda: evidence)
    session = SimpleNamespace(diagnostics=diagnostics, dialect=find_dialect("morphir"))
    help = handshake._help_for_exit(cast(Session, session), ExtensionGone(code, "it ended"))
    assert text in help
