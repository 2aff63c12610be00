"""Tests of `exthost trace`, of the option `--trace FILE`, and of `exthost replay FILE`.

A trace is a recording of the messages between a host and an extension, as JSON lines. `trace` shows
or saves the messages of a running host; `--trace` records those of one verb. `replay FILE --
COMMAND` sends the recorded requests to a program and compares its replies. `replay FILE` alone
takes the place of the extension: it gives the recorded replies.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exthost.faces.cli.verbs import BROKEN_PIPE
from tests.faces.cli.cli_process import (
    EXTHOST,
    RUN_SECONDS,
    extension,
    run_exthost,
    run_inside,
    shared_host,
    write_config,
)

TEXT = Path(__file__).parents[3] / "examples" / "morphir" / "text.py"
PROGRAM = [sys.executable, "-S", "-E", str(TEXT)]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A call of a tool, recorded from its first message to its last."""
    file = tmp_path_factory.mktemp("trace") / "recording.jsonl"
    options = ["--dialect", "morphir", "--trace", str(file)]
    result = run_inside("call", "shout", "text=hi", *options, "--", *PROGRAM)
    assert (result.returncode, json.loads(result.stdout)) == (0, {"text": "HI"}), result.stderr
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running host with two extensions."""
    folder = tmp_path_factory.mktemp("traced")
    more = 'env = { MY_TOKEN = "a-secret-word" }'
    write_config(folder, extension("text", *PROGRAM, more=more), extension("other", *PROGRAM))
    with shared_host(folder):
        yield folder


def read_records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_recording_begins_with_its_version_and_its_dialect(recording: Path) -> None:
    header, *records = read_records(recording)
    assert header["format"] == "exthost-trace" and header["version"] == 1
    assert header["dialect"] == "morphir"
    assert (recording.stat().st_mode & 0o777) == 0o600
    shout = [item for item in records if item.get("method") == "shout"]
    assert [item["direction"] for item in shout] == ["sent", "received"]
    assert shout[0]["params"] == {"text": "hi"} and shout[1]["result"] == {"text": "HI"}
    assert shout[0]["call"] == shout[1]["call"]


def test_inspect_writes_its_trace_to_stderr() -> None:
    result = run_inside("inspect", "--trace", "-", "--dialect", "morphir", "--", *PROGRAM)
    header = json.loads(next(line for line in result.stderr.splitlines() if line.startswith("{")))
    assert result.returncode == 0 and header["dialect"] == "morphir"
    assert '"method":"capabilities"' in result.stderr


def test_replay_finds_no_difference_for_the_same_program(recording: Path) -> None:
    result = run_inside("replay", recording, "--json", "--", *PROGRAM)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {"difference": None, "compared": 3}


def test_replay_shows_the_first_difference(recording: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.jsonl"
    changed.write_text(recording.read_text().replace('"HI"', '"OH"'))
    result = run_inside("replay", changed, "--", *PROGRAM)
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    # Message 1 to 4 are the handshake and the list of tools, and 5 is the call of `shout`.
    assert lines[0] == "the first difference: message 6 of the recording, a reply to shout"
    assert [line.split()[-1] for line in lines[1:]] == ["result.text", '"OH"', '"HI"']
    ignored = run_inside("replay", changed, "--ignore", "text", "--", *PROGRAM)
    assert ignored.returncode == 0, ignored.stdout


def test_ignoring_the_result_ignores_no_other_difference(recording: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.jsonl"
    changed.write_text(recording.read_text().replace('"result":{"text":"HI"}', '"result":[7]'))
    assert run_inside("replay", changed, "--", *PROGRAM).returncode == 1
    ignored = run_inside("replay", changed, "--ignore", "result", "--", *PROGRAM)
    assert ignored.returncode == 0, ignored.stdout
    others = run_inside("replay", changed, "--ignore", "params", "--", *PROGRAM)
    assert others.returncode == 1 and "result" in others.stdout


def test_the_size_of_a_recording_is_limited(recording: Path, tmp_path: Path) -> None:
    large = tmp_path / "large"
    shutil.copy(recording, large)
    os.truncate(large, 2**28)  # twice the default limit
    for file, options in (
        (large, ()),
        (Path("/dev/zero"), ("--max-size", "1MB")),
        (recording, ("--max-size", "100")),
    ):
        result = run_inside("replay", file, *options, "--json", "--", *PROGRAM)
        error = json.loads(result.stdout)["error"]
        assert error["code"] == "X1389" and "--max-size" in error["help"], error
    result = run_inside("replay", recording, "--max-size", "1GB", "--", *PROGRAM)
    assert result.returncode == 0, result.stderr


def test_a_replay_that_compares_nothing_fails(recording: Path, tmp_path: Path) -> None:
    lines = recording.read_text().splitlines(keepends=True)
    unanswered = tmp_path / "unanswered.jsonl"
    # It was recorded until the first request.
    end = next(number for number, line in enumerate(lines) if '"direction":"received"' in line)
    unanswered.write_text("".join(lines[:end]))
    result = run_inside("replay", unanswered, "--", *PROGRAM)
    assert result.returncode == 1 and "nothing was compared" in result.stdout
    result = subprocess.run(
        [*EXTHOST, "replay", str(recording)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert result.returncode == 1 and "nothing was compared" in result.stderr


def test_a_program_that_ends_or_stays_silent_is_a_difference(recording: Path) -> None:
    result = run_inside("replay", recording, "--", sys.executable, "-c", "raise SystemExit(3)")
    assert result.returncode == 1 and "it ended: exited with 3" in result.stdout
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    result = run_inside("replay", recording, "--timeout", "100ms", "--", *silent)
    assert result.returncode == 1 and "nothing within 0.1 s" in result.stdout


def test_the_output_of_a_program_cannot_control_the_terminal(
    recording: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # An escape sequence and a character of two bytes are each written in two pieces.
    pieces = [b"\x1b", b"]0;title\x07 \xc3", b"\xa9\xff\n", b"\xc2\x9b31m\tred\n"]
    code = f"import os, time\nfor piece in {pieces}: os.write(2, piece); time.sleep(0.05)"
    run_inside("replay", recording, "--", sys.executable, "-c", code)
    output = capfd.readouterr().err
    assert "\\x1b]0;title\\x07 é\\xff\n\\x9b31m\tred\n" in output
    assert "\x1b" not in output and "\x9b" not in output


def test_a_replayed_recording_gives_the_answers_of_its_program(recording: Path) -> None:
    arguments = ["call", "shout", "text=hi", "--dialect", "morphir", "--"]
    result = run_inside(*arguments, *EXTHOST, "replay", str(recording))
    assert (result.returncode, json.loads(result.stdout)) == (0, {"text": "HI"}), result.stderr
    assert "difference" not in result.stderr


@pytest.mark.more
@pytest.mark.parametrize("member", ["text", "params"])
def test_a_replayed_recording_ignores_differences_in_the_given_fields(
    member: str, recording: Path
) -> None:
    arguments = ["call", "shout", "text=ho", "--dialect", "morphir", "--", *EXTHOST, "replay"]
    assert "the first difference" in run_inside(*arguments, str(recording)).stderr
    result = run_inside(*arguments, str(recording), "--ignore", member)
    assert (result.returncode, json.loads(result.stdout)) == (0, {"text": "HI"}), result.stderr
    assert "difference" not in result.stderr


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        # Cut in the middle, of a later version, another file, only the header, without the start of
        # the process, and with the sessions of two extensions.
        (lambda text: text[: len(text) // 2], "X1384", "is cut"),
        (lambda text: text.replace('"version":1', '"version":7'), "X1385", "version 7"),
        (lambda text: "root:x:0:0:root\n", "X1384", "line 1"),
        (lambda text: "\n".join(text.split("\n")[:1]) + "\n", "X1388", "no session"),
        (lambda text: text.replace('"kind":"spawned"', '"kind":"stderr"'), "X1388", "no session"),
        (lambda text: text + text.replace('"text",', '"more",'), "X1387", "several"),
    ],
)
def test_a_recording_that_cannot_be_replayed_is_an_error_with_the_reason(
    change: Any, code: str, message: str, recording: Path, tmp_path: Path
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(change(recording.read_text()))
    result = run_inside("replay", file, "--", *PROGRAM)
    assert result.returncode == 2 and f"error[{code}]" in result.stderr and message in result.stderr
    assert run_inside("replay", tmp_path / "nothing").returncode == 2


def test_the_error_for_a_name_missing_from_a_recording_lists_its_names(recording: Path) -> None:
    result = run_inside("replay", recording, "--name", "nope")
    assert result.returncode == 2
    assert "error[X1388]: the recording has no extension 'nope'" in result.stderr
    assert "help:   its extensions are: text" in result.stderr


# -- with a running host -----------------------------------------------------------------------


def start_trace(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start `exthost trace` as a child process."""
    pipe = subprocess.PIPE
    command = [*EXTHOST, "trace", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def call_until_traced(folder: Path, process: "subprocess.Popen[str]", *arguments: str) -> str:
    """Make calls until the trace has its number of messages and ends; return its output."""
    while process.poll() is None:
        run_exthost(folder, "call", *arguments)
    out, errors = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode == 0, errors
    return out


def test_trace_shows_the_messages_of_a_running_host(folder: Path) -> None:
    with start_trace(folder, "text", "--count", "2") as process:
        output = call_until_traced(folder, process, "text", "shout", "text=a-secret-word")
    # The first message can be the reply to a call that was made before the trace began.
    lines = sorted(line.partition(" text ")[2] for line in output.splitlines())
    assert lines[0].startswith("← reply to shout #") and lines[1].startswith("→ shout #")
    assert '{"text":"***"}' in lines[1] and "a-secret-word" not in output


def test_the_output_of_trace_as_json_is_a_recording(folder: Path) -> None:
    with start_trace(folder, "--json", "--count", "2") as process:
        output = call_until_traced(folder, process, "other", "shout", "text=x")
    header, *records = map(json.loads, output.splitlines())
    assert header["dialect"] == "morphir" and header["version"] == 1
    record_kinds = {record["kind"] for record in records if record["extension"] == "other"}
    assert record_kinds == {"request", "reply"}


def test_a_session_that_is_saved_from_its_start_can_be_replayed(
    folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "saved.jsonl"
    with start_trace(folder, "text", "--save", str(file)) as process:
        while not file.exists() or "spawned" not in file.read_text():
            run_exthost(folder, "restart", "text")
        run_exthost(folder, "call", "text", "shout", "text=again")
        while '"AGAIN"' not in file.read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=RUN_SECONDS)[1]
    assert process.returncode == 0 and f"in {file}" in errors
    result = run_inside("replay", file, "--json", "--", *PROGRAM)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("call", "text", "shout", "text=x"),
        ("call", "text", "shout", "text=x", "--timeout", "9m"),
        ("list",),
        ("logs",),
        ("status",),
        ("status", "--json"),
        ("tools",),
        ("info", "text"),
        ("inspect", "text"),
    ],
    ids=" ".join,
)
@pytest.mark.sampled
def test_a_verb_whose_reader_has_left_ends_without_a_message(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    run_exthost(folder, "call", "text", "shout", "text=x")  # so that there is a log
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        command = [*EXTHOST, *arguments]
        process = subprocess.run(
            command,
            cwd=folder,
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    finally:
        os.close(write_end)
    assert process.returncode == BROKEN_PIPE
    assert "error" not in process.stderr and "Error" not in process.stderr


def test_a_trace_whose_reader_has_left_ends_without_a_message(folder: Path) -> None:
    with start_trace(folder, "text") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        while process.poll() is None:
            run_exthost(folder, "call", "text", "shout", "text=x")
        errors = process.stderr.read()
    assert (process.returncode, errors) == (BROKEN_PIPE, "messages of text; Ctrl-C ends\n")


@pytest.mark.more
def test_a_trace_that_cannot_be_written_ends_with_an_error(folder: Path) -> None:
    with start_trace(folder, "text", "--save", "/dev/full") as process:
        while process.poll() is None:
            run_exthost(folder, "call", "text", "shout", "text=x")
        errors = process.communicate(timeout=RUN_SECONDS)[1]
    assert process.returncode == 2 and "error[X1386]: the trace /dev/full is not" in errors
    assert "messages in" not in errors  # the file has no messages


@pytest.mark.more
def test_trace_of_an_unknown_name_or_without_a_host_is_an_error(
    folder: Path, tmp_path: Path
) -> None:
    result = run_exthost(folder, "trace", "txt")
    assert result.returncode == 2 and "did you mean 'text'?" in result.stderr
    result = run_inside("trace", cwd=tmp_path, env=os.environ)
    assert result.returncode == 2 and "no host is running" in result.stderr
