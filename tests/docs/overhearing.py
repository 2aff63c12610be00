"""A `python3` that runs the real one and writes down what goes over the wire, both ways.

It stands first on PATH, so that manifests stay as they are, and with them what is said of them.
Each line of `record`, beside it, is a direction and some bytes in hex.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

RECORD = Path(__file__).with_name("record")


def pass_on(source: int, sink: int, direction: str) -> None:
    """Until the source ends. Written down first: what is answered was asked before."""
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
