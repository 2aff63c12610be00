"""A real `exthost run` in a folder of its own, and what others ask of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TALKER = Path(__file__).parents[1] / "extensions" / "talker.py"
EXTHOST = [sys.executable, "-m", "exthost"]
RUN_SECONDS = 30


def extension(name: str, *command: str, more: str = "") -> str:
    """An entry of a config; without a command, the talker."""
    program, *args = command or (sys.executable, "-S", "-E", str(TALKER))
    source = f"{{ type = 'process', command = '{program}', args = {json.dumps(args)} }}"
    return f'[[extensions]]\nname = "{name}"\nsource = {source}\n{more}\n'


def write_config(folder: Path, *entries: str) -> Path:
    file = folder / "exthost.toml"
    file.write_text("".join(entries))
    return file


@contextmanager
def running(folder: Path, *words: str, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """A host that runs, from when its extensions are there; ended by SIGTERM if it still runs."""
    with subprocess.Popen(
        [*EXTHOST, "run", *words],
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
    """The first line on stderr that has this text."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError("".join(seen))


def exthost(folder: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*EXTHOST, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
        env=os.environ | variables,
    )


def told(folder: Path, *words: str, code: int = 0) -> Any:
    """The JSON that a verb prints."""
    done = exthost(folder, *words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)
