"""How tests start programs of the SDK: under the real host, or with bare pipes."""

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

# A limit that no test is about.
LONG_SECONDS = 150.0


def command(program: Path, dialect: str) -> list[str]:
    return [sys.executable, str(program), "--dialect", dialect]


def write_manifest(program: Path, dialect: str, folder: Path) -> Path:
    """Copy the program into a folder with the manifest that it prints; return the manifest."""
    (folder / program.name).write_bytes(program.read_bytes())
    words = [sys.executable, str(program), "--manifest", dialect]
    done = subprocess.run(words, capture_output=True, check=True, timeout=LONG_SECONDS)
    names = {"nexo": "plugin.toml", "roder": "roder-extension.toml"}
    path = folder / names.get(dialect, ".synaps-plugin/plugin.json")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(done.stdout)
    return path


@asynccontextmanager
async def started(
    program: Path, dialect: str, folder: Path, **settings: Any
) -> AsyncIterator[Extension]:
    """The program under the host, in a process of its own."""
    words = command(program, dialect)
    if dialect == "roder":
        manifest = write_manifest(program, dialect, folder)
        words[1] = str(folder / program.name)
        settings["manifest"] = str(manifest)
    limits: Any = {"handshake": "60s", "start": "60s", **settings.pop("limits", {})}
    async with exthost.connect(words, dialect=dialect, limits=limits, **settings) as ext:
        yield ext


@contextmanager
def piped(program: Path, dialect: str, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """The program with bare pipes; it is killed at the end, if it has not ended by itself."""
    pipe = subprocess.PIPE
    words = command(program, dialect)
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, **options) as process:
        try:
            yield process
        finally:
            process.kill()
