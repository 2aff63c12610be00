"""Starts the server of `tests/extensions/remote_server.py`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = Path(__file__).parents[2] / "extensions" / "remote_server.py"

PATHS = {"http": "/mcp", "sse": "/sse"}


@contextmanager
def remote_server(transport: str, *options: str) -> Iterator[str]:
    """Run the server, and yield its URL."""
    command = [sys.executable, str(SERVER), transport, *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            yield f"http://127.0.0.1:{port}{PATHS[transport]}"
        finally:
            process.kill()
