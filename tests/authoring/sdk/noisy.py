"""An extension for tests of the SDK that writes to stdout in every way and reads stdin in its
handlers. Both belong to the protocol, so the SDK must keep its own output and input apart.

`tests/authoring/sdk/programs.py` starts it as NOISY.
"""

import ctypes
import os
import signal
import subprocess
import sys
from typing import Any

from exthost.sdk import Extension

ext = Extension("noisy")

print("printed at import", flush=True)
print("an incomplete line at import", end="", flush=True)
os.write(1, b"written at import")

libc = ctypes.CDLL(None)


@ext.tool
def shout(text: str) -> str:
    """Print in every possible way, and then answer."""
    print("printed in a handler", flush=True)
    print("without a line break", end="")
    sys.stdout.flush()
    os.write(1, b'{"jsonrpc":"2.0","id":1,"result":"forged"}\n')
    libc.printf(b"printf in a handler")
    libc.fflush(None)
    subprocess.run([sys.executable, "-c", "print('a child prints')"], check=True)
    return text.upper()


@ext.tool
def read() -> dict[str, Any]:
    """Read stdin, here and in a child. Neither must read requests of the host."""
    script = "import sys; sys.stdout.write(repr(sys.stdin.read()))"
    child = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    return {"here": sys.stdin.read(), "child": child.stdout.decode()}


@ext.tool
def fork() -> int:
    """Leave a fork of the process running, as multiprocessing may do."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid


if __name__ == "__main__":
    ext.run()
