"""How tests run the command line: inside the test process, or as a process of its own.

`run_inside` calls `main` with its own folder, variables and standard streams. It costs no
interpreter start, so every claim about output, exit codes and JSON uses it. `run_process` starts
`python -m exthost`: for claims about imports, signals, closed streams and the process itself.
`running` is a host that runs beside the test.
"""

import io
import json
import os
import signal
import subprocess
import sys
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

# The same, for a host that waits for an extension to stop, without a limit.
PATIENT = [sys.executable, str(Path(__file__).with_name("patient_host.py"))]

# A limit that no test is about. The time limit of the test itself is about as long.
RUN_SECONDS = 150.0

# For a dialect in which the extension stays silent: only the limit ends the attempt.
SILENT_SECONDS = 0.1


def run_inside(
    *words: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",
    silent_in: Sequence[str] = (),
    deletes_cwd: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run one verb in this process; return what a process of its own would have returned.

    Detection gives each dialect as much time as the machine needs, except those in `silent_in`: the
    extension does not answer in them, so a moment is enough. With `deletes_cwd`, the folder `cwd`
    is deleted after it was entered.
    """
    order = detection.detection_order

    def detection_order(program: str) -> list[tuple[str, float]]:
        names = [name for name, _ in order(program)]
        return [(name, SILENT_SECONDS if name in silent_in else RUN_SECONDS) for name in names]

    stdin = _TextStream(input.encode())
    stdout, stderr = _TextStream(), _TextStream()
    with (
        chdir(cwd or "."),
        mock.patch.dict(os.environ, env or {}, clear=env is not None),
        mock.patch.object(sys, "stdin", stdin),
        # It cannot be undone, and would keep debuggers away from the test process.
        mock.patch.object(host_protection, "harden"),
        mock.patch.object(detection, "detection_order", detection_order),
        mock.patch.object(detection, "SEARCH_SECONDS", RUN_SECONDS),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            if deletes_cwd and cwd is not None:
                cwd.rmdir()
            code: Any = main([str(word) for word in words])
        except SystemExit as exit:  # argparse, after --help
            code = exit.code
    return subprocess.CompletedProcess(words, code, stdout.text(), stderr.text())


class _TextStream(io.TextIOWrapper):
    """A standard stream of UTF-8 text in memory; bytes written to its buffer are part of it."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        self.seek(0)
        return self.read()


def run_process(
    *words: str | Path, cwd: Path | None = None, **more: Any
) -> "subprocess.CompletedProcess[str]":
    """Run one verb as a process of its own."""
    return subprocess.run(
        [*EXTHOST, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
        **more,
    )


def extension(name: str, *command: str, more: str = "") -> str:
    """Return an entry of a config. The default command runs stderr_writer.py. The extension has no
    namespace of its own, so the pids that it reports are those that we see and signal."""
    program, *args = command or (sys.executable, "-S", "-E", str(STDERR_WRITER))
    source = f"{{ type = 'process', command = '{program}', args = {json.dumps(args)} }}"
    return f'[[extensions]]\nname = "{name}"\nsource = {source}\nlifetime = "plain"\n{more}\n'


def write_config(folder: Path, *entries: str) -> Path:
    file = folder / "exthost.toml"
    file.write_text("".join(entries))
    return file


@contextmanager
def running(
    folder: Path, *words: str, program: Sequence[str] = EXTHOST, **variables: str
) -> Iterator["subprocess.Popen[str]"]:
    """Yield a running host, once its extensions are ready. End it by SIGTERM if it still runs."""
    with subprocess.Popen(
        [*program, "run", *words],
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
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=RUN_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()


def wait_for(process: "subprocess.Popen[str]", text: str) -> str:
    """Return the first line on stderr that contains this text."""
    assert process.stderr is not None
    observed = []
    for line in process.stderr:
        observed.append(line)
        if text in line:
            return line
    raise AssertionError("".join(observed))


def exthost(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return run_inside(*words, cwd=folder, env=os.environ | variables)


@contextmanager
def shared_host(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Yield a host that serves several tests. Its processes have a marker variable of their own, so
    that they are no leak of a test. They must be gone when the host has ended."""
    mark = f"shared-host-{uuid.uuid4().hex}"
    with running(folder, **{MARK: mark}) as host:
        yield host
    left = [pid for pid in all_pids() if f"{MARK}={mark}".encode() in environment_of(pid)]
    assert not left, [read_process(pid) for pid in left]


def run_json(folder: Path, *words: str, code: int = 0) -> Any:
    """Return the JSON that a verb prints."""
    done = exthost(folder, *words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)
