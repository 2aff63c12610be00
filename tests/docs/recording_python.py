"""Runs the real Python in place of `python3`, and records its stdin and stdout.

A test writes it into a folder that is first on PATH, so manifests that start `python3` need no
change. Each line of the file `record` in the same folder is a direction and some bytes in hex.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

RECORD = Path(__file__).with_name("record")


def copy_and_record(source: int, sink: int, direction: str) -> None:
    """Copy bytes until the source ends. They are recorded before they are written, so that
    requests come before their answers in the record."""
    while piece := os.read(source, 65536):
        with RECORD.open("a") as record:
            record.write(f"{direction} {piece.hex()}\n")
        os.write(sink, piece)
    os.close(sink)


def main() -> None:
    child = subprocess.Popen(
        [sys.executable, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None and child.stdout is not None
    stdin_arguments = (sys.stdin.fileno(), child.stdin.fileno(), "→")
    threading.Thread(target=copy_and_record, args=stdin_arguments, daemon=True).start()
    copy_and_record(child.stdout.fileno(), sys.stdout.fileno(), "←")
    os._exit(child.wait())


if __name__ == "__main__":
    main()
