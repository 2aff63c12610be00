"""The echo child, compiled from C or its Python equivalent, and a bare process of it.

Owns every process that a baseline starts: each is ended and reaped at the end of its `with` block.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

HERE = Path(__file__).parent
# The pipe size for large messages; also the default system-wide maximum.
PIPE_BYTES = 1 << 20
# A child ends at end of input; after this many seconds it is killed.
STOP_S = 5.0


def build(folder: Path, *, compiled: bool = True) -> tuple[tuple[str, ...], str]:
    """Return the argv of the child, and a note about it for the head of the table."""
    names = ("cc", "gcc", "clang") if compiled else ()
    compiler = next((found for name in names if (found := shutil.which(name))), None)
    twin = (sys.executable, "-I", "-S", str(HERE / "echo.py"))
    if compiler is None:
        return twin, "Python (no C compiler): ratios are milder than with the C child"
    program = folder / "echo"
    words = [compiler, "-O2", "-o", str(program), str(HERE / "echo.c")]
    built = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if built.returncode != 0:
        return twin, f"Python ({compiler} failed): ratios are milder than with the C child"
    return (str(program),), f"C ({Path(compiler).name} -O2)"


def is_c(child: tuple[str, ...]) -> bool:
    """Return whether `build` found a C compiler."""
    return len(child) == 1


class Bare:
    """A child and its two pipe ends, without a layer between."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self.stdin: int = process.stdin.fileno()
        self.stdout: int = process.stdout.fileno()

    def widen(self) -> None:
        """Make the pipes large and non-blocking, for messages that do not fit into one."""
        for fd in (self.stdin, self.stdout):
            os.set_blocking(fd, False)
            if hasattr(fcntl, "F_SETPIPE_SZ"):
                try:
                    fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
                except OSError:
                    pass  # over the user's share of pipe memory: measured as it is


def popen(argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start a process with three pipes, as any host of extensions does."""
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)


def end(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes and reap the process."""
    streams: tuple[IO[bytes] | None, ...] = (process.stdin, process.stdout, process.stderr)
    for stream in streams:
        if stream is not None:
            stream.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def bare(argv: tuple[str, ...]) -> Iterator[Bare]:
    """Start one child for a `with` block."""
    process = popen(argv)
    try:
        yield Bare(process)
    finally:
        end(process)
