"""The stdin and stdout of an extension that is written with the SDK belong to the protocol.

A `print` in the extension, in a C library or in a child must not reach the host as a message, so
the SDK keeps the original descriptors for itself (the "wire") and lets stdout lead to stderr. The
other tests are about the end of a program, and about frames: how bytes are divided into messages.
NOISY, SAMPLE and WAITING are test programs; `--dialect` chooses the protocol that they speak.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from exthost_sdk.wire.framing import HeaderFraming, LineFraming, PrefixFraming

import exthost
from tests.authoring.sdk.programs import (
    JSON_DIALECTS,
    LONG_SECONDS,
    NOISY,
    SAMPLE,
    WAITING,
    command,
    running_extension,
    running_process,
    write_manifest,
)
from tests.extensions.proc import is_gone


@pytest.mark.sampled
@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_a_noisy_extension_works_and_its_output_is_logged(
    dialect: str, tmp_path: Path
) -> None:
    bus = exthost.Bus()
    lines: list[str] = []
    bus.subscribe(exthost.events.LogLine, lambda event: lines.append(event.text))
    async with running_extension(NOISY, dialect, tmp_path, events=bus) as ext:
        assert (await ext.call_tool("shout", {"text": "hi"})).text == "HI"
        assert (await ext.call_tool("shout", {"text": "again"})).text == "AGAIN"
        assert (await ext.call_tool("read", {})).data == {"here": "", "child": "''"}
    if dialect != "roder":  # roder does not log output
        text = "\n".join(lines)
        for output in ("printed at import", "printed in a handler", "printf in", "a child prints"):
            assert output in text, text


@pytest.mark.parametrize("dialect", JSON_DIALECTS)
async def test_the_host_skips_a_line_printed_before_the_sdk_was_imported(
    dialect: str, tmp_path: Path
) -> None:
    program = tmp_path / "early.py"
    program.write_text(f'print("too early", flush=True)\n{SAMPLE.read_text()}')
    settings = {}
    if dialect == "roder":
        settings["manifest"] = str(write_manifest(SAMPLE, dialect, tmp_path))
    argv = command(program, dialect)
    async with exthost.connect(argv, dialect=dialect, **settings) as ext:  # type: ignore[arg-type]
        assert (await ext.call_tool("add", {"a": 1, "b": 2})).text == "3"


# A program that prints after the import of the SDK and before it makes its Extension.
EARLY_PRINTS = """
import os, subprocess, sys
from exthost.sdk import Extension
print("printed before it is made", flush=True)
os.write(1, b"written before it is made")
subprocess.run([sys.executable, "-c", "print('a child prints')"], check=True)
ext = Extension("provider/early", capabilities=["provider:early"])
ext.generate(lambda request: {"a.yml": "x: 1"})
ext.run()
"""


async def test_in_cigen_output_before_the_extension_is_made_is_not_sent(
    tmp_path: Path,
) -> None:
    program = tmp_path / "early.py"
    program.write_text(EARLY_PRINTS)
    async with exthost.connect(command(program, "cigen"), dialect="cigen") as ext:
        assert (await ext.call("generate", {}))["fragments"][0]["path"] == "a.yml"


def test_a_program_that_only_imports_the_sdk_or_an_extension_keeps_its_stdout() -> None:
    """For example a test run whose stdout is a pipe."""
    script = "import sys; sys.argv += {words}; {imports}; print('kept')"
    for words, imports in (
        ([], "import exthost.sdk"),
        (["--dialect", "cigen"], "import tests.authoring.sdk.sample"),
    ):
        result = subprocess.run(
            [sys.executable, "-c", script.format(words=words, imports=imports)],
            cwd=Path(__file__).parents[3],
            input=b"",
            stdout=subprocess.PIPE,
            timeout=LONG_SECONDS,
            check=True,
        )
        assert result.stdout == b"kept\n", (words, imports)


def test_stdout_has_only_replies() -> None:
    request = {"id": 1, "method": "shout", "params": {"text": "hi"}}
    result = subprocess.run(
        command(NOISY, "morphir"),
        input=json.dumps(request).encode() + b"\n",
        capture_output=True,
        timeout=LONG_SECONDS,
        check=True,
    )
    assert json.loads(result.stdout) == {"id": 1, "result": "HI"}
    assert result.stdout.count(b"\n") == 1
    for expected in (b"printed at import", b"printf in a handler", b"a child prints", b"forged"):
        assert expected in result.stderr


def test_importing_an_extension_does_not_change_stdout() -> None:
    script = "import tests.authoring.sdk.noisy, os; os.write(1, b'|still stdout')"
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        stdin=subprocess.PIPE,
        capture_output=False,
        stdout=subprocess.PIPE,
        timeout=LONG_SECONDS,
        check=True,
    )
    assert result.stdout.endswith(b"written at import|still stdout")


# -- the end -----------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("program", [SAMPLE, WAITING])
@pytest.mark.parametrize("dialect", ["morphir", "nexo", "synaps", "mcp"])
def test_a_program_exits_at_the_end_of_input(program: Path, dialect: str) -> None:
    with running_process(program, dialect) as process:
        _, errors = process.communicate(timeout=LONG_SECONDS)
        assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize("program", [SAMPLE, WAITING])
def test_a_program_exits_quietly_when_a_socket_is_closed_before_its_output_is_read(
    program: Path,
) -> None:
    """Some hosts, such as those of Node.js, use a socket for stdin and stdout."""
    host_end, child_end = socket.socketpair()
    argv, fd = command(program, "morphir"), child_end.fileno()
    with (
        host_end,
        subprocess.Popen(argv, stdin=fd, stdout=fd, stderr=subprocess.PIPE) as process,
    ):
        child_end.close()
        try:
            host_end.settimeout(LONG_SECONDS)
            host_end.sendall(b'{"id":1,"method":"health_check","params":{}}\n')
            assert host_end.recv(1, socket.MSG_PEEK)
            host_end.close()
            _, errors = process.communicate(timeout=LONG_SECONDS)
            assert (process.returncode, errors) == (0, b"")
        finally:
            process.kill()


def test_calls_in_flight_at_the_end_of_input_are_answered_or_cancelled() -> None:
    requests = [
        {"id": 1, "method": "hang", "params": {"name": "x"}},
        {"id": 2, "method": "fail_later", "params": {}},
        {"id": 3, "method": "pid", "params": {}},
    ]
    with running_process(WAITING, "morphir") as process:
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        output, _ = process.communicate(lines.encode(), timeout=LONG_SECONDS)
        replies = [json.loads(line) for line in output.splitlines()]
        by_id = {reply.get("id"): reply for reply in replies}
        assert by_id[3]["result"] == process.pid
        assert by_id[2]["error"] == "LookupError: not here"
        assert 1 not in by_id and process.returncode == 0


def test_a_program_exits_although_a_handler_does_not_end() -> None:
    with running_process(WAITING, "morphir") as process:
        request = b'{"id":1,"method":"stubborn","params":{}}\n'
        _, errors = process.communicate(request, timeout=LONG_SECONDS)
        assert process.returncode == 1 and b"do not end" in errors


def test_a_program_exits_although_a_thread_of_asyncio_does_not_end() -> None:
    request = b'{"id":1,"method":"hang_in_to_thread","params":{}}\n'
    with running_process(WAITING, "morphir") as process:
        output, errors = process.communicate(request, timeout=LONG_SECONDS)
        assert (process.returncode, output, errors) == (0, b"", b"")


def test_a_program_exits_with_its_parent_although_stdin_stays_open() -> None:
    """The test has the other end of the pipe open."""
    read_end, write_end = os.pipe()
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=0, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, *command(SAMPLE, "morphir")],
        stdin=read_end,
        stdout=subprocess.PIPE,
    ) as parent:
        try:
            os.write(write_end, b'{"id":1,"method":"add","params":{"a":1,"b":2}}\n')
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            parent.send_signal(signal.SIGKILL)
            parent.wait(LONG_SECONDS)
            deadline = time.monotonic() + LONG_SECONDS
            while not is_gone(child):
                assert time.monotonic() < deadline, "the program outlived its parent"
                time.sleep(0.01)
        finally:
            parent.kill()
            os.close(read_end)
            os.close(write_end)


def test_a_host_that_reads_late_gets_all_replies() -> None:
    size, calls = 300_000, 20
    with running_process(WAITING, "morphir") as process:
        assert process.stdin is not None and process.stdout is not None
        for number in range(calls):
            line = {"id": number, "method": "large", "params": {"size": size}}
            process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        replies = [json.loads(process.stdout.readline()) for _ in range(calls)]
        assert sorted(reply["id"] for reply in replies) == list(range(calls))
        assert all(reply["result"] == "x" * size for reply in replies)


# The first fork closes the descriptors of the wire, and then opens a file under one of their
# numbers. The second fork must not close that file. Exit status 2: the number was not used again.
FORKS_TWICE = """
import os, sys
from exthost_sdk.wire.descriptors import claim

wire = claim()
if os.fork() == 0:
    file = os.open(os.devnull, os.O_RDONLY)  # gets a number that the wire had
    is_reused = file in wire
    if os.fork() == 0:
        os.fstat(file)
        os._exit(0 if is_reused else 2)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_second_fork_closes_no_file_of_the_program() -> None:
    result = subprocess.run(
        [sys.executable, "-c", FORKS_TWICE], capture_output=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr


# Closes stderr, so that the first free number is 2. Exit status 1: `claim` used it for the wire, or
# stdout does not lead to /dev/null.
WITHOUT_STDERR = """
import os
os.close(2)
from exthost_sdk.wire.descriptors import claim

wire = claim()
is_harmless = os.path.samestat(os.fstat(1), os.stat(os.devnull))
os._exit(0 if is_harmless and min(wire) > 2 else 1)
"""


def test_a_program_without_stderr_prints_to_dev_null() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_STDERR],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0


def test_a_forked_process_does_not_keep_stdout_open() -> None:
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    argv = command(NOISY, "morphir")
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=null) as process:
        try:
            request = b'{"id":1,"method":"fork","params":{}}\n'
            output, _ = process.communicate(request, timeout=LONG_SECONDS)
        finally:
            process.kill()
    # The output has ended (`communicate` returned) although the forked process still runs.
    forked_pid = json.loads(output)["result"]
    os.kill(forked_pid, signal.SIGKILL)


# -- frames ------------------------------------------------------------------------------------

# A framing, a stream of bytes, and the messages in it.
FRAMINGS = [
    (LineFraming, b'{"a":1}\n\n{"b":2}\r\n{"c":3}\n', [b'{"a":1}', b'{"b":2}\r', b'{"c":3}']),
    (
        HeaderFraming,
        b"Content-Length: 2\r\n\r\n{}x: 1\r\ncontent-length:3\n\n[1]Content-Length: 0\r\n\r\n",
        [b"{}", b"[1]", b""],
    ),
    (PrefixFraming, b"\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01c", [b"ab", b"", b"c"]),
]


@pytest.mark.parametrize(("framing", "data", "frames"), FRAMINGS)
def test_frames_do_not_depend_on_how_the_data_is_cut(
    framing: type, data: bytes, frames: list[bytes]
) -> None:
    assert framing().feed(data) == frames
    byte_by_byte = framing()
    assert [item for byte in data for item in byte_by_byte.feed(bytes([byte]))] == frames
    assert byte_by_byte.rest() == b""
    for cut in range(len(data)):
        in_two_parts = framing()
        assert in_two_parts.feed(data[:cut]) + in_two_parts.feed(data[cut:]) == frames
