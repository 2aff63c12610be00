"""`remote_server` starts the MCP server on HTTP of `tests/extensions/remote_server.py`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = Path(__file__).parents[2] / "extensions" / "remote_server.py"

# By transport: the path of the server.
PATHS = {"http": "/mcp", "sse": "/sse"}


@contextmanager
def remote_server(transport: str, *options: str) -> Iterator[str]:
    """Run the server with these options on a free port; yield its URL."""
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
