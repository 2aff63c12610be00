"""The end of a replay of a recorded session: the program may send messages until it closes stdout.

`play_host` sends the recorded messages of a host to a program, and compares what it answers.
"""

import os
import sys
from pathlib import Path

import pytest

from exthost.authoring.replay import pipe_replay
from exthost.authoring.replay.pipe_replay import play_extension, play_host
from exthost.authoring.replay.script import Script
from exthost.errors import UsageError
from exthost.session.trace.record import TraceRecord

# Writes to stderr without end, and answers nothing.
NOISY = """
import sys
while True:
    print("still here", file=sys.stderr)
"""

# Writes lines without end that are not messages.
FLOODS = """
import sys
while True:
    print("still here")
"""

# Answers one request. By its argument, at the end of stdin it writes another message, waits, writes
# lines without end, to stderr or stdout, or exits.
PROGRAM = """
import sys, time
sys.stdin.readline()
print('{"id": 0, "result": []}', flush=True)
sys.stdin.read()
if sys.argv[1] == "writes":
    print('{"method": "more"}', flush=True)
if sys.argv[1] == "waits":
    time.sleep(600)
while sys.argv[1] == "shouts":
    print("still here", file=sys.stderr)
while sys.argv[1] == "floods":
    print("still here")
"""

SCRIPT = Script(
    extension="x",
    dialect="morphir",
    pid=1,
    records=(
        TraceRecord(0.0, "x", "request", "sent", id=0, method="capabilities", data={}),
        TraceRecord(0.1, "x", "reply", "received", id=0, method="capabilities", data=[]),
    ),
    has_ended=True,
)


@pytest.mark.parametrize(("at_end", "is_different"), [("writes", True), ("exits", False)])
def test_a_message_after_the_last_recorded_one_is_a_difference(
    at_end: str, is_different: bool
) -> None:
    outcome = play_host(SCRIPT, [sys.executable, "-SE", "-c", PROGRAM, at_end], seconds=60)
    assert (outcome.difference is not None) == is_different, outcome.difference


def test_lines_on_stderr_do_not_count_as_messages(tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("wb") as stderr:
        command = [sys.executable, "-SE", "-c", NOISY]
        outcome = play_host(SCRIPT, command, seconds=0.1, stderr=stderr.fileno())
    assert outcome.difference is not None and "nothing within 0.1 s" in str(outcome.difference)


@pytest.mark.more
def test_lines_that_are_not_messages_do_not_count_as_messages() -> None:
    outcome = play_host(SCRIPT, [sys.executable, "-SE", "-c", FLOODS], seconds=0.1)
    assert outcome.difference is not None and "no message within 0.1 s" in str(outcome.difference)


def test_a_program_that_writes_without_end_after_its_last_message_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipe_replay, "_END_SECONDS", 0.1)
    command = [sys.executable, "-SE", "-c", PROGRAM, "floods"]
    assert play_host(SCRIPT, command, seconds=60).difference is None


def test_a_difference_is_known_if_the_host_then_closes_its_pipe() -> None:
    input_end, host_end = os.pipe()
    closed_end, output_end = os.pipe()
    os.close(closed_end)
    os.write(host_end, b'{"id": 7, "method": "capabilities", "params": {"a": 1}}\n')
    os.close(host_end)
    try:
        role = play_extension(SCRIPT, stdin=input_end, stdout=output_end)
    finally:
        os.close(input_end)
        os.close(output_end)
    assert role.compared == 1 and len(role.differences) == 1


def test_a_request_that_the_dialect_does_not_have_is_a_usage_error() -> None:
    request = TraceRecord(0.0, "x", "request", "sent", id=0, method="unknown", data={})
    script = Script("x", "cigen", 1, (request,), has_ended=True)
    with pytest.raises(UsageError, match="does not have: 'unknown'"):
        play_host(script, [sys.executable, "-SE", "-c", "import sys; sys.stdin.read()"], seconds=60)


def test_half_a_character_in_a_recording_is_replaced() -> None:
    records = (
        TraceRecord(0.0, "x", "noise", "received", text="a\ud800", data="why"),
        TraceRecord(0.0, "x", "stderr", text="a\ud800"),
    )
    script = Script("x", "morphir", 1, records, has_ended=True)
    read_end, write_end = os.pipe()
    try:
        play_extension(script, stdin=read_end, stdout=write_end, stderr=write_end)
        assert os.read(read_end, 100) == b"a?\na?\n"
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_program_that_only_writes_to_stderr_after_its_last_message_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe_replay, "_END_SECONDS", 0.1)
    with (tmp_path / "stderr").open("wb") as stderr:
        command = [sys.executable, "-SE", "-c", PROGRAM, "shouts"]
        outcome = play_host(SCRIPT, command, seconds=60, stderr=stderr.fileno())
    assert outcome.difference is None


def test_a_program_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_replay, "_END_SECONDS", 0.1)
    outcome = play_host(SCRIPT, [sys.executable, "-SE", "-c", PROGRAM, "waits"], seconds=60)
    assert outcome.difference is None
