"""A handshake that fails says why: exit, stderr, the bytes that came; and nothing is left."""

import asyncio

import pytest

from exthost.errors import HandshakeFailed
from exthost.events import Bus, LogLine
from tests.extensions.clock import Clock
from tests.extensions.harness import NEVER, closing, failing, unstarted


@pytest.mark.parametrize("stage", ["start", "initialize", "capabilities"])
async def test_death_in_the_handshake_is_reported_with_exit_and_stderr(stage: str) -> None:
    ext = unstarted(f"die_at={stage}", "code=7")
    async with closing(ext):
        error = await failing(ext.start())
        assert isinstance(error, HandshakeFailed) and error.code == "X0501"
        assert error.evidence.exit == "exited with 7"
        assert error.evidence.stderr == (f"dying at {stage}",)
        assert error.extension == "hostile" and error.help and error.evidence.argv
        assert ext.state == "failed"
        assert (await failing(ext.call("echo"))).code == "X0501"


async def test_death_inside_the_first_line_shows_the_line() -> None:
    ext = unstarted("half_at=initialize")
    async with closing(ext):
        error = await failing(ext.start())
        assert error.code == "X0501" and "ended inside a line" in error.message
        assert error.evidence.bytes == '{"id":'


@pytest.mark.parametrize("stage", ["start", "initialize", "capabilities"])
async def test_hanging_in_the_handshake_ends_at_its_limit(stage: str, clock: Clock) -> None:
    bus, hangs = Bus(), asyncio.Event()
    bus.subscribe(LogLine, lambda line: hangs.set() if line.text.startswith("hanging") else None)
    clock.stop()
    ext = unstarted(f"hang_at={stage}", limits={"handshake": "0.2s"}, bus=bus)
    async with closing(ext):
        starting = asyncio.ensure_future(failing(ext.start()))
        await hangs.wait()
        assert not starting.done()
        await clock.advance(0.2)
        error = await starting
    assert isinstance(error, HandshakeFailed) and error.code == "X0504"
    assert "0.2 s" in error.message and error.evidence.stderr == (f"hanging at {stage}",)
    silent = "wrote nothing to stdout" in error.message
    assert silent == (stage != "capabilities")
    names_steps = "it answered initialize, but not capabilities" in error.message
    assert names_steps == (stage == "capabilities")


async def test_the_whole_start_has_a_limit_of_its_own(clock: Clock) -> None:
    bus, hangs = Bus(), asyncio.Event()
    bus.subscribe(LogLine, lambda line: hangs.set() if line.text.startswith("hanging") else None)
    clock.stop()
    ext = unstarted("hang_at=capabilities", limits={"start": "0.2s"}, bus=bus)
    async with closing(ext):
        starting = asyncio.ensure_future(failing(ext.start()))
        await hangs.wait()
        await clock.advance(0.2)
        error = await starting
        assert (error.kind, error.code) == ("HandshakeFailed", "X0507")
        assert error.message.endswith("within 0.2 s: it answered initialize, but not capabilities")
        assert "does it speak" not in error.help


@pytest.mark.parametrize(
    ("flag", "code", "text"),
    [
        ("refuse=initialize", "X0502", "no initialize today"),
        ("refuse=capabilities", "X0503", "no capabilities today"),
        ("capabilities=7", "X0503", "not a list"),
        ('capabilities=[{"name":"x"}]', "X0503", "item 0 (x) has no description"),
        ("close_at=initialize", "X0501", "closed its stdout and still runs"),
    ],
)
async def test_a_bad_handshake_names_its_fault_and_leaves_nothing(
    flag: str, code: str, text: str
) -> None:
    ext = unstarted(flag, limits={"handshake": NEVER})
    async with closing(ext):
        error = await failing(ext.start())
        assert isinstance(error, HandshakeFailed)
        assert error.code == code and text in error.message and error.help
        assert ext.state == "failed" and ext.stats.pid is None and dict(ext.tools) == {}


async def test_frames_of_another_dialect_are_named_when_the_handshake_s_time_is_up(
    clock: Clock,
) -> None:
    bus, framed = Bus(), asyncio.Event()
    bus.subscribe(LogLine, lambda line: framed.set() if line.text == "framed" else None)
    clock.stop()
    ext = unstarted("content_length", limits={"handshake": "0.4s"}, bus=bus)
    async with closing(ext):
        starting = asyncio.ensure_future(failing(ext.start()))
        await framed.wait()
        await clock.advance(0.4)
        error = await starting
        assert isinstance(error, HandshakeFailed)
        assert error.code == "X0506" and "Content-Length" in error.message and error.help
        assert ext.state == "failed" and ext.stats.pid is None and dict(ext.tools) == {}


async def test_stderr_after_the_last_newline_is_handed_on_too() -> None:
    bus = Bus()
    lines: list[LogLine] = []
    bus.subscribe(LogLine, lines.append)
    ext = unstarted("die_at=initialize", bus=bus)
    async with closing(ext):
        await failing(ext.start())
    assert [line.text for line in lines if line.source == "stderr"] == ["dying at initialize"]
