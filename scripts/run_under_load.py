"""Run a command beside processes that keep the machine busy, and end those processes in every case.

    python scripts/run_under_load.py [--busy 4] [--writers 1] COMMAND [ARGUMENT ...]

A busy process computes without pause; a writer writes a file of 64 MB again and again and forces it
to disk. Each also ends by itself when this process has ended. The exit code is that of the command.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from types import FrameType

# How much a busy process computes between two checks of its parent.
_STEPS = 1_000_000
_FILE_BLOCKS, _BLOCK_BYTES = 64, 1_000_000

BUSY = f"""
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range({_STEPS}):
        pass
"""
WRITER = f"""
import os, sys, tempfile
block = os.urandom({_BLOCK_BYTES})
with tempfile.TemporaryFile(dir=sys.argv[2]) as file:
    while os.getppid() == int(sys.argv[1]):
        file.seek(0)
        for _ in range({_FILE_BLOCKS}):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
"""


@contextlib.contextmanager
def load(busy: int, writers: int) -> Iterator[list[int]]:
    """Start the processes; at the end kill each by its pid."""
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        words = [str(os.getpid()), folder]
        try:
            for text in [BUSY] * busy + [WRITER] * writers:
                command = [sys.executable, "-S", "-E", "-c", text, *words]
                started.append(subprocess.Popen(command))
            yield [process.pid for process in started]
        finally:
            for process in started:
                process.kill()
            for process in started:
                process.wait()


def _stop(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, default=4, help="processes that compute")
    parser.add_argument("--writers", type=int, default=1, help="processes that write to disk")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    args = parser.parse_args()
    if not args.command:
        parser.error("which command?")
    # By default SIGTERM and SIGHUP would end this process without the `finally` above.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    with load(args.busy, args.writers) as pids:
        print(f"load: {args.busy} busy processes, {args.writers} that write: {pids}", flush=True)
        process = subprocess.Popen(args.command)
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
