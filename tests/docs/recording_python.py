"""A `python3` that runs the real one and records the bytes in both directions.

It is the first on PATH, so that manifests need no change. Each line of the file `record` beside it
is a direction and some bytes in hex.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

RECORD = Path(__file__).with_name("record")


def pass_on(source: int, sink: int, direction: str) -> None:
    """Copy bytes until the source ends. Each is recorded first: requests precede answers."""
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
    asked = (sys.stdin.fileno(), child.stdin.fileno(), "→")
    threading.Thread(target=pass_on, args=asked, daemon=True).start()
    pass_on(child.stdout.fileno(), sys.stdout.fileno(), "←")
    os._exit(child.wait())


if __name__ == "__main__":
    main()
