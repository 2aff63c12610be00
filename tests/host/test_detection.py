"""`connect` without a dialect: it is detected by trying handshakes, also with slow programs.

The programs are real processes. A program may take long to start, but after it has read the first
request it must answer within the patience of the dialect. Otherwise the next dialect is tried.
"""

import asyncio
import sys
from pathlib import Path

import pytest

import exthost
from exthost.errors import HandshakeFailed
from exthost.events import Bus, LogLine
from exthost.host import detection
from exthost.host.connection import connection_spec
from exthost.host.detection import DetectedConnection
from tests.extensions.clock import Clock
from tests.extensions.harness import wait_until
from tests.faces.cli.cli_process import run_inside

EXAMPLES = Path(__file__).parents[2] / "examples"
PROVIDER = EXAMPLES / "cigen" / "cigen-provider-demo"

EXITED_IN_HANDSHAKE = "X0501"
NO_REPLY_IN_TIME = "X0504"

# The help of an error whose cause a program has written to stderr.
SEE_STDERR = "see its stderr for the cause"

# The exit status of the command line.
EXIT_HANDSHAKE_FAILED = 5

# Writes a line when it starts, waits for a file, then runs one of the examples.
SLOW_PROGRAM = """
import runpy, sys, time
from pathlib import Path
folder, program = Path(sys.argv[1]), sys.argv[2]
with (folder / "starts").open("a") as starts:
    starts.write("started\\n")
while not (folder / "go").exists():
    time.sleep(0.01)
runpy.run_path(program, run_name="__main__")
"""
# Reads its input and answers nothing.
SILENT_PROGRAM = "import sys\nfor line in sys.stdin: pass"
PROGRAM_THAT_NEVER_READS = "import time\ntime.sleep(1000)"


def python_command(text: str, *arguments: object) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", text, *map(str, arguments)]


def set_patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Give up every dialect after this many seconds without an answer. The dialects are tried in
    the order for a program whose name says nothing about its dialect."""
    order = [(name, seconds) for name, _ in detection.detection_order("anything")]
    monkeypatch.setattr(detection, "detection_order", lambda program: order)


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs that never answer: tests with them end sooner."""
    set_patience(monkeypatch, 0.2)


@pytest.mark.more
@pytest.mark.parametrize(
    ("dialect", "command"),
    [
        ("morphir", [sys.executable, EXAMPLES / "morphir" / "text.py"]),
        ("mcp", [sys.executable, EXAMPLES / "mcp" / "text.py"]),
        ("cigen", [sys.executable, PROVIDER]),
    ],
)
async def test_connect_detects_the_dialect(dialect: str, command: list[str]) -> None:
    async with exthost.connect(command) as ext:
        assert ext.dialect.name == dialect
        assert ext.state == "ready"


def test_the_blocking_connect_detects_the_dialect() -> None:
    with exthost.sync_connect([sys.executable, str(EXAMPLES / "mcp" / "text.py")]) as ext:
        assert ext.dialect.name == "mcp"


async def test_a_slow_program_is_detected_with_its_first_process(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = 60.0  # so long that no busy machine exceeds it after the file `go` exists
    set_patience(monkeypatch, patience)
    command = python_command(SLOW_PROGRAM, tmp_path, EXAMPLES / "mcp" / "text.py")
    connection = DetectedConnection(connection_spec(command, None, {}), seconds=100 * patience)

    async def detect() -> str:
        async with connection as ext:
            return ext.dialect.name

    detected = asyncio.ensure_future(detect())
    starts = tmp_path / "starts"
    try:
        await wait_until(starts.exists)
        for _ in range(5):
            await clock.advance(patience)
        assert not detected.done() and connection.attempts == []
        (tmp_path / "go").touch()
        assert await detected == "mcp"
        assert starts.read_text().splitlines() == ["started"]
    finally:
        detected.cancel()
        await asyncio.wait([detected])


@pytest.mark.more
async def test_a_program_that_reads_and_does_not_answer_is_given_up(short_patience: None) -> None:
    with pytest.raises(HandshakeFailed) as caught:
        async with exthost.connect(python_command(SILENT_PROGRAM)):
            pass
    assert caught.value.code == NO_REPLY_IN_TIME
    assert "it read the opening and did not complete the handshake" in caught.value.message
    assert "does it flush stdout" in caught.value.help


@pytest.mark.more
async def test_the_stderr_of_a_silent_extension_is_the_evidence(short_patience: None) -> None:
    complaint = "import sys\nprint('DEMO_KEY is not set', file=sys.stderr, flush=True)\n"
    with pytest.raises(HandshakeFailed) as caught:
        async with exthost.connect(python_command(complaint + SILENT_PROGRAM)):
            pass
    error = caught.value
    assert error.code == NO_REPLY_IN_TIME
    assert error.evidence.stderr == ("DEMO_KEY is not set",) and error.evidence.argv
    assert error.help.startswith(f"{SEE_STDERR}; ")


async def test_the_stderr_of_an_extension_that_never_reads_is_the_evidence(clock: Clock) -> None:
    complaint = "import sys\nprint('waiting for a lock', file=sys.stderr, flush=True)\n"
    spec = connection_spec(python_command(complaint + PROGRAM_THAT_NEVER_READS), None, {})
    bus = Bus()
    # The limit of the search is 100 s. That of the start is 110 s, with a less specific error.
    bus.subscribe(LogLine, lambda line: clock.move(105))
    with pytest.raises(HandshakeFailed) as caught:
        async with DetectedConnection(spec, events=bus, seconds=100):
            pass
    error = caught.value
    assert error.code == NO_REPLY_IN_TIME and "did not read its input" in error.message
    assert error.evidence.stderr == ("waiting for a lock",)


async def test_a_program_that_exits_in_each_attempt_is_reported_once(
    tmp_path: Path,
) -> None:
    with pytest.raises(HandshakeFailed) as caught:
        async with exthost.connect([sys.executable, str(tmp_path / "missing.py")]):
            pass
    error = caught.value
    assert error.code == EXITED_IN_HANDSHAKE and "ended before any handshake" in error.message
    assert sum("can't open file" in line for line in error.evidence.stderr) == 1
    assert error.evidence.argv


@pytest.mark.parametrize(
    ("program", "help"),
    [
        ("pass", "it exited by itself, without an error, and wrote nothing to stderr: "),
        ("raise SystemExit(3)", "its stderr does not name the cause: run its command"),
        ("raise SystemExit('no key')", f"{SEE_STDERR}; or it needs its own option"),
    ],
)
async def test_the_help_for_a_program_that_exits_points_to_stderr_only_if_it_has_output(
    program: str, help: str
) -> None:
    with pytest.raises(HandshakeFailed) as caught:
        async with exthost.connect(python_command(program)):
            pass
    assert caught.value.code == EXITED_IN_HANDSHAKE and caught.value.help.startswith(help)
    assert "it needs its own option to speak a dialect" in caught.value.help
    assert (SEE_STDERR in caught.value.help) is bool(caught.value.evidence.stderr)


def test_the_detection_of_a_program_that_never_reads_ends_at_its_limit() -> None:
    program = python_command(PROGRAM_THAT_NEVER_READS)
    result = run_inside("inspect", "--timeout", "500ms", "--json", "--", *program)
    assert result.returncode == EXIT_HANDSHAKE_FAILED, result.stderr
    # The message names the limit that ended the search: not the default of SEARCH_SECONDS.
    output = result.stdout + result.stderr
    assert "did not read its input within the 0.5 s of the search" in output


def test_timeout_limits_a_handshake_in_a_given_dialect() -> None:
    program = python_command(SILENT_PROGRAM)
    result = run_inside("inspect", "--timeout", "500ms", "--dialect", "nexo", "--", *program)
    assert result.returncode == EXIT_HANDSHAKE_FAILED
    assert "it was not ready within 0.5 s" in result.stderr
