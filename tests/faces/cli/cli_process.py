"""Helpers for tests of the command line: they run verbs and hosts, and write configs.

`run_inside` calls `main` in the test process, with another working folder, environment and standard
streams. It starts no interpreter, so tests of output, exit codes and JSON use it. `run_exthost` and
`run_json` are short forms of it. `run_process` starts `python -m exthost`, for tests of imports,
signals, closed streams and the process itself. `host_process` is a context manager with `exthost
run` as a child process; `shared_host` is the same for a fixture that serves several tests.
`extension` and `write_config` write the config.
"""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from exthost.faces.cli import main
from exthost.host import detection
from exthost.process import host_protection
from tests.extensions.proc import MARK, all_pids, environment_of, read_process

STDERR_WRITER = Path(__file__).parents[2] / "extensions" / "stderr_writer.py"
EXTHOST = [sys.executable, "-m", "exthost"]

# Like EXTHOST, for a host that waits ten minutes for an extension to stop: see patient_host.py.
PATIENT = [sys.executable, str(Path(__file__).with_name("patient_host.py"))]

# The limit of a wait for an event that always comes. It only bounds a test that hangs.
RUN_SECONDS = 150.0

# How long detection waits for an answer in a dialect (protocol) that the extension does not speak.
SILENT_SECONDS = 0.1


def run_inside(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",
    silent_in: Sequence[str] = (),
    deletes_cwd: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run one verb in this process; return its exit code and output like those of a process that
    has ended.

    A verb without `--dialect` tries one dialect (protocol) after the other. It waits RUN_SECONDS
    for an answer in each, except in those of `silent_in`, in which the extension does not answer.
    With `deletes_cwd`, the folder `cwd` is deleted after it was entered.
    """
    original_order = detection.detection_order

    def detection_order(program: str) -> list[tuple[str, float]]:
        """Return the original order, with other seconds of silence after which a try fails."""
        return [
            (name, SILENT_SECONDS if name in silent_in else RUN_SECONDS)
            for name, _ in original_order(program)
        ]

    stdin = _TextStream(input.encode())
    stdout, stderr = _TextStream(), _TextStream()
    with (
        chdir(cwd or "."),
        mock.patch.dict(os.environ, env or {}, clear=env is not None),
        mock.patch.object(sys, "stdin", stdin),
        # Hardening cannot be undone, and would keep debuggers away from the test process.
        mock.patch.object(host_protection, "harden"),
        mock.patch.object(detection, "detection_order", detection_order),
        mock.patch.object(detection, "SEARCH_SECONDS", RUN_SECONDS),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            if deletes_cwd and cwd is not None:
                cwd.rmdir()
            code: Any = main([str(word) for word in arguments])
        except SystemExit as exit:  # argparse, after --help
            code = exit.code
    return subprocess.CompletedProcess(arguments, code, stdout.text(), stderr.text())


class _TextStream(io.TextIOWrapper):
    """A standard stream in memory, in UTF-8. Bytes written to its buffer are part of its text."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        self.seek(0)
        return self.read()


def run_process(
    *arguments: str | Path, cwd: Path | None = None, **more: Any
) -> "subprocess.CompletedProcess[str]":
    """Run one verb as a child process."""
    return subprocess.run(
        [*EXTHOST, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
        **more,
    )


def extension(name: str, *command: str, more: str = "") -> str:
    """Return the entry of an extension for `write_config`; `more` is added to its TOML.

    The default command runs stderr_writer.py. The extension has no pid namespace, so the pids that
    it reports are those that the test sees and signals.
    """
    program, *args = command or (sys.executable, "-S", "-E", str(STDERR_WRITER))
    source = f"{{ type = 'process', command = '{program}', args = {json.dumps(args)} }}"
    return f'[[extensions]]\nname = "{name}"\nsource = {source}\nlifetime = "plain"\n{more}\n'


def write_config(folder: Path, *entries: str) -> Path:
    """Write `exthost.toml` with these entries; return its path."""
    file = folder / "exthost.toml"
    file.write_text("".join(entries))
    return file


@contextmanager
def host_process(
    folder: Path, *arguments: str, program: Sequence[str] = EXTHOST, **variables: str
) -> Iterator["subprocess.Popen[str]"]:
    """Yield a host process (`exthost run`) whose extensions are ready; end it by SIGTERM."""
    with subprocess.Popen(
        [*program, "run", *arguments],
        cwd=folder,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_for(process, "extensions ready")
            yield process
        finally:
            # Also after an error: a host that is killed cannot end its extensions.
            try:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    process.communicate(timeout=RUN_SECONDS)
            finally:
                process.kill()  # does nothing if it has ended


def wait_for(process: "subprocess.Popen[str]", text: str) -> str:
    """Return the next line on stderr that contains this text. Kill the process if it does not
    write one for RUN_SECONDS."""
    assert process.stderr is not None
    lines = []
    timer = threading.Timer(RUN_SECONDS, process.kill)
    timer.start()
    try:
        for line in process.stderr:
            lines.append(line)
            if text in line:
                return line
    finally:
        timer.cancel()
        timer.join()
    raise AssertionError(f"no line with {text!r}: {''.join(lines)}")


def run_exthost(
    folder: Path, *arguments: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run one verb in this process, in this folder and with these further variables."""
    return run_inside(*arguments, cwd=folder, env=os.environ | variables)


@contextmanager
def shared_host(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Yield a host that serves several tests.

    The leak check of conftest.py fails a test that leaves a process whose variable MARK has the
    value of this test run. The processes of this host continue after a test, so they have another
    value. All of them must have ended when the host has ended.
    """
    mark = f"shared-host-{uuid.uuid4().hex}"
    with host_process(folder, **{MARK: mark}) as host:
        yield host
    remaining = [pid for pid in all_pids() if f"{MARK}={mark}".encode() in environment_of(pid)]
    assert not remaining, [read_process(pid) for pid in remaining]


def run_json(folder: Path, *arguments: str, code: int = 0) -> Any:
    """Run one verb with --json; return the JSON that it prints."""
    result = run_exthost(folder, *arguments, "--json")
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)
