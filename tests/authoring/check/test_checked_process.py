"""How `exthost check` explains a missing answer: the program is still starting, or it does not
flush its output.

A program that buffers its output writes nothing until its input ends. So if a request was read and
not answered, the check ends the input, and looks whether output arrives then.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.starter import Starter, describe_wait
from exthost.dialects.find import find_conformance, find_dialect
from exthost.host.connection import connection_spec

BAD = Path(__file__).parent / "bad_extension.py"

# A program that prints how many bytes it can read 0.2 s after the first byte, and then reads them.
SLOW_READER = """
import fcntl, sys, termios, time
def waiting():
    return int.from_bytes(fcntl.ioctl(0, termios.FIONREAD, bytes(4)), sys.byteorder)
while not waiting():
    time.sleep(0.01)
time.sleep(0.2)
print(waiting(), flush=True)
print(sys.stdin.readline(), flush=True)
"""


# A program that writes its answers into a buffer.
NEVER_FLUSHES = "import sys\nfor line in sys.stdin: sys.stdout.write('{}\\n')"
NEVER_ANSWERS = "import sys\nfor line in sys.stdin: pass"


def make_starter(program: str) -> Starter:
    spec = connection_spec([sys.executable, "-S", "-E", "-c", program], "morphir", {})
    dialect, conformance = find_dialect("morphir"), find_conformance("morphir")
    return Starter(spec, dialect, conformance, os.environ, Ledger(conformance), 60)


async def test_a_split_message_is_completed_when_the_program_has_begun_to_read() -> None:
    starter = make_starter(SLOW_READER)
    process = await starter.start()
    try:
        await process.write(b'{"a message": true}\n', split=True, seconds=60)
        async with asyncio.timeout(60):
            await process.pipes.ended.wait()
        output = "".join(line for line in process.byte_log.format_last() if line.startswith("<"))
        # At first there was only one byte of the message to read.
        assert "1\\n" in output and '{"a message": true}' in output
    finally:
        await starter.release_all()


@pytest.mark.parametrize(("program", "writes"), [(NEVER_FLUSHES, True), (NEVER_ANSWERS, False)])
async def test_output_that_arrives_at_the_end_of_input_was_not_flushed(
    program: str, writes: bool
) -> None:
    starter = make_starter(program)
    process = await starter.start()
    try:
        await process.write(b"{}\n")
        async with asyncio.timeout(60):
            await process.pipes.wait_read(has_begun=False)
        assert process.has_read and not process.has_written
        await process.find_unflushed_output(seconds=60)
        assert process.writes_at_end_only is writes
    finally:
        await starter.release_all()


def test_flushing_is_suggested_only_if_the_request_was_read() -> None:
    assert "flush" in describe_wait(has_read=True, has_written=False)
    assert "starting" in describe_wait(has_read=False, has_written=False)
    assert "flush" not in describe_wait(has_read=True, has_written=True)


async def test_the_first_long_handshake_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exthost.authoring.check.starter._ANNOUNCED_SECONDS", 0.0)
    lines: list[str] = []
    spec = connection_spec([sys.executable, "-S", "-E", str(BAD), "morphir", "none"], "morphir", {})
    dialect, conformance = find_dialect("morphir"), find_conformance("morphir")
    starter = Starter(
        spec, dialect, conformance, os.environ, Ledger(conformance), 60, announce=lines.append
    )
    try:
        for _ in range(2):
            await starter.connect()
    finally:
        await starter.release_all()
    [line] = lines
    assert "waiting for the handshake of bad_extension" in line and "at most 30 s" in line
