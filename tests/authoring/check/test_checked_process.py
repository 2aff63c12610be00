"""How `exthost check` explains a missing answer: the program is still starting, or it does not
flush its output.

A program that buffers its output writes nothing until its input ends. So if a request was read and
not answered, the check ends the input, and looks whether output arrives then.
"""

import ast
import asyncio
import dataclasses
import os
import sys
from pathlib import Path

import pytest

from exthost.authoring.check.checked_process import KEPT_CHARACTERS, KEPT_PROBLEMS
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.starter import Starter, describe_wait
from exthost.dialects.find import find_conformance, find_dialect
from exthost.dialects.message_audit import (
    _KEPT_BYTES,
    _MAX_PYTHON_CHARACTERS,
    _MAX_UNDECIDED,
    MessageAudit,
)
from exthost.host.connection import connection_spec
from exthost.model.messages import Failure, Noise

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


def make_starter(program: str, name: str = "morphir") -> Starter:
    spec = connection_spec([sys.executable, "-S", "-E", "-c", program], name, {})
    dialect, conformance = find_dialect(name), find_conformance(name)
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


# Writes more different lines than are kept, a response with a long version, and a last line.
FLOODS = f"""
import sys
sys.stdin.readline()
for number in range({3 * KEPT_PROBLEMS}):
    print(f"line {{number}}")
print("[" * 100_000)
print('{{"id": 1, "jsonrpc": "' + "x" * 100_000 + '", "result": 1}}')
print('{{"error": {{"code": 1, "message": ""}}}}', flush=True)
"""


async def test_a_program_that_floods_its_output_leaves_few_problems() -> None:
    starter = make_starter(FLOODS, "nexo")
    process = await starter.start()
    try:
        await process.write(b"{}\n")
        async with asyncio.timeout(60):
            await process.pipes.ended.wait()
    finally:
        await starter.release_all()
    rules = [problem.rule for problem, _ in process.problems]
    assert rules.count("stdout-noise") == KEPT_PROBLEMS and rules.count("version-member") == 2
    for problem, exchange in process.problems:
        assert not problem.data
        assert len(problem.message) + sum(map(len, exchange)) < 10_000
    outcomes = {outcome.rule.name: outcome for outcome in starter.ledger.outcomes("")}
    [noise] = outcomes["stdout-noise"].findings
    assert noise.message.endswith(f"(and {KEPT_PROBLEMS - 1} or more such lines)")
    long_version = outcomes["version-member"].findings[0].message
    assert long_version.endswith("x…") and len(long_version) == KEPT_CHARACTERS + 1


def test_a_flood_of_responses_without_an_id_is_kept_in_bounded_memory() -> None:
    audit = MessageAudit(find_conformance("nexo"))
    audit.add_request(1, "ping")
    text = "x" * 10 * _KEPT_BYTES
    frame = b'{"jsonrpc": "2.0", "error": {"code": 1, "message": "%s"}}' % text.encode()
    for _ in range(2 * _MAX_UNDECIDED):
        audit.check_frame(frame, Failure(None, text, 1))
    assert len(audit._without_id) == _MAX_UNDECIDED
    assert sum(len(response.data) for response in audit._without_id) == _MAX_UNDECIDED * _KEPT_BYTES


def test_a_long_line_is_not_parsed_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> None:
        raise AssertionError(f"{len(text)} characters were parsed")

    monkeypatch.setattr(ast, "literal_eval", fail)
    audit = MessageAudit(find_conformance("nexo"))
    line = b"[" + b"0," * _MAX_PYTHON_CHARACTERS + b"None]"
    [problem] = audit.check_frame(line, Noise(line, ""))
    assert problem.rule == "json"


# Stores texts, asks for all of them when it has got a part of a long message, and writes how many
# messages and records it has read.
ASKS = """
import json, sys
def send(id, method, **params):
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    payload = json.dumps(message)
    sys.stdout.write(f"Content-Length: {len(payload)}\\r\\n\\r\\n{payload}")
    sys.stdout.flush()
def read(first=b""):
    header = first + sys.stdin.buffer.readline() + sys.stdin.buffer.readline()
    return json.loads(sys.stdin.buffer.read(int(header.split()[1])))
for number in range(20):
    send(number, "memory.append", namespace="notes", content="x" * 16_000)
first = sys.stdin.buffer.read(1)
send(20, "memory.query", namespace="notes", limit=20)
messages = [read(first), *(read() for _ in range(21))]
print(f"read {len(messages)} messages, {len(messages[-1]['result']['records'])} records")
"""


async def test_a_long_answer_of_the_host_is_written_whole_after_another_message() -> None:
    starter = make_starter(ASKS, "synaps")
    starter.spec = dataclasses.replace(starter.spec, id="notes")
    process = await starter.start()
    try:
        payload = b'["' + b"y" * 1_000_000 + b'"]'
        frame = b"Content-Length: %d\r\n\r\n%s" % (len(payload), payload)
        await process.write(frame, seconds=60)
        async with asyncio.timeout(60):
            await process.pipes.ended.wait()
        assert "read 22 messages, 20 records" in process.byte_log.format_last()[-1]
    finally:
        await starter.release_all()


async def test_a_process_whose_release_is_cancelled_is_released_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starter = make_starter(NEVER_ANSWERS)
    process = await starter.start()

    async def never_exits(seconds: float) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(process.pipes, "exits_within", never_exits)
        releasing = asyncio.create_task(starter.release(process))
        await asyncio.sleep(0)
        releasing.cancel()
        await asyncio.wait([releasing])
    await starter.release_all()
    assert await process.pipes.exits_within(60) is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pipes.pid, 0)
