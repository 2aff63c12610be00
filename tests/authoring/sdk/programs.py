"""Starts the test programs that are written with the SDK, with the real host or with bare pipes.

One program speaks every dialect (the protocol of a host), for example `sample.py --dialect mcp`.

    SAMPLE   synchronous tools, in the loop that reads one request after the other
    WAITING  asynchronous tools and threads, in an event loop
    NOISY    prints to stdout, which carries the protocol
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import exthost
from exthost import Extension

HERE = Path(__file__).parent
SAMPLE = HERE / "sample.py"
NOISY = HERE / "noisy.py"
WAITING = HERE / "waiting_extension.py"

JSON_DIALECTS = ("morphir", "nexo", "synaps", "roder", "mcp")

# A time limit that no test reaches.
LONG_SECONDS = 150.0


def command(program: Path, dialect: str) -> list[str]:
    return [sys.executable, str(program), "--dialect", dialect]


def write_manifest(program: Path, dialect: str, folder: Path) -> Path:
    """Copy the program into a folder, write the manifest that it prints there, and return the path
    of the manifest."""
    (folder / program.name).write_bytes(program.read_bytes())
    argv = [sys.executable, str(program), "--manifest", dialect]
    result = subprocess.run(argv, capture_output=True, check=True, timeout=LONG_SECONDS)
    names = {"nexo": "plugin.toml", "roder": "roder-extension.toml"}
    path = folder / names.get(dialect, ".synaps-plugin/plugin.json")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(result.stdout)
    return path


@asynccontextmanager
async def running_extension(
    program: Path, dialect: str, folder: Path, **settings: Any
) -> AsyncIterator[Extension]:
    """Start the program in a new process with the host, and yield the extension."""
    argv = command(program, dialect)
    if dialect == "roder":  # a roder program reads the manifest beside it
        manifest = write_manifest(program, dialect, folder)
        argv[1] = str(folder / program.name)
        settings["manifest"] = str(manifest)
    limits: Any = {"handshake": "60s", "start": "60s", **settings.pop("limits", {})}
    async with exthost.connect(argv, dialect=dialect, limits=limits, **settings) as ext:
        yield ext


@contextmanager
def running_process(
    program: Path, dialect: str, **options: Any
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the program with bare pipes, and kill it at the end of the block."""
    pipe = subprocess.PIPE
    argv = command(program, dialect)
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, **options) as process:
        try:
            yield process
        finally:
            process.kill()
