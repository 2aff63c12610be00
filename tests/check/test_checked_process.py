"""A program that is slow to start is not accused of it."""

import asyncio
import os
import sys

from exthost.check.ledger import Ledger
from exthost.check.starter import Starter
from exthost.connection import connection_spec
from exthost.dialects.find import find_conformance, find_dialect

# Tells how many bytes wait for it, a while after the first has come; then it reads them.
SLOW = """
import fcntl, sys, termios, time
def waiting():
    return int.from_bytes(fcntl.ioctl(0, termios.FIONREAD, bytes(4)), sys.byteorder)
while not waiting():
    time.sleep(0.01)
time.sleep(0.2)
print(waiting(), flush=True)
print(sys.stdin.readline(), flush=True)
"""


async def test_a_message_in_pieces_is_written_when_the_program_has_begun_to_read() -> None:
    spec = connection_spec([sys.executable, "-S", "-E", "-c", SLOW], "morphir", {})
    dialect, conformance = find_dialect("morphir"), find_conformance("morphir")
    starter = Starter(spec, dialect, conformance, os.environ, Ledger(conformance), 60)
    process = await starter.start()
    try:
        await process.write(b'{"a message": true}\n', split=True, seconds=60)
        async with asyncio.timeout(60):
            await process.pipes.ended.wait()
        shown = "".join(line for line in process.byte_log.format_last() if line.startswith("<"))
        assert "1\\n" in shown and '{"a message": true}' in shown
    finally:
        await starter.release_all()
