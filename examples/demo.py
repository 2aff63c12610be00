"""The program of `make demo`: six dialects behind one API, a wrong call, a crash and a sandbox.

Each extension is a program in this folder. `make demo` installs bubblewrap if it can. Without
bubblewrap, the last part shows the error of an extension whose sandbox cannot be enforced.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import exthost
from exthost.events import StateChanged

HERE = Path(__file__).parent
PYTHON = sys.executable


def process(script: str) -> dict[str, Any]:
    return {"type": "process", "command": PYTHON, "args": [str(HERE / script)]}


# The contents of an exthost.toml. The host finds the nexo, cigen and synaps extensions on disk.
CONFIG: dict[str, Any] = {
    "extensions": [
        {"name": "text", "source": process("morphir/text.py")},
        {
            "name": "fragile",
            "source": process("morphir/fragile.py"),
            "restart": {"strategy": "exponential", "initial_delay": "100ms", "max_retries": 3},
        },
    ],
    "process_extensions": [
        {
            "id": "demo-python",
            "manifest": str(HERE / "roder/python/roder-extension.toml"),
            "command": PYTHON,
            "args": [str(HERE / "roder/python/extension.py")],
        }
    ],
    "mcp_servers": {"words": {"command": PYTHON, "args": [str(HERE / "mcp/text.py")]}},
    "discovery": {
        "search_paths": [str(HERE / folder) for folder in ("nexo", "cigen", "synaps")],
        "allowlist": ["weather", "cigen-provider-demo", "notes"],
    },
}

# One call in each dialect.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("ext_text_shout", {"text": "hello"}),
    ("ext_weather_get_weather", {"city": "Lima"}),
    ("ext_cigen-provider-demo_generate", {"schema": {"jobs": [{"id": "test"}]}}),
    ("ext_notes_add_note", {"text": "six dialects, one host"}),
    ("ext_demo-python_count_words", {"text": "one two three"}),
    ("ext_words_count", {"text": "one two three four"}),
]


def show(text: str) -> None:
    print(text, flush=True)


def show_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: tuple[str, ...]) -> str:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        return "    " + " │ ".join(padded).rstrip()

    show(line(header))
    show("    " + "─┼─".join("─" * width for width in widths))
    for row in rows:
        show(line(row))


def short(text: str, most: int = 44) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


async def call_each_dialect(host: exthost.Host) -> None:
    async def call(name: str, arguments: dict[str, Any]) -> tuple[str, ...]:
        began = time.perf_counter()
        result = await host.call_tool(name, arguments)
        took = f"{(time.perf_counter() - began) * 1000:.1f} ms"
        extension = host[host.tools[name].extension]
        return extension.dialect.name, name, took, short(str(result))

    rows = [await call(name, arguments) for name, arguments in CALLS]
    show_table(("DIALECT", "TOOL", "TIME", "RESULT"), rows)


async def make_a_mistake(host: exthost.Host) -> None:
    try:
        await host.call_tool("ext_text_shout", {"txet": "hello"})
    except exthost.errors.UsageError as error:
        show("    " + str(error).replace("\n", "\n    "))


async def crash(host: exthost.Host) -> None:
    changes = host.events.subscribe(
        StateChanged, lambda event: show(f"    {event.extension}: {event.before} → {event.after}")
    )
    try:
        await host.call_tool("ext_fragile_divide", {"a": 1, "b": 0})
    except exthost.errors.ExtensionGone as error:
        show("    " + str(error).replace("\n", "\n    "))
    show(f"    6 / 3 = {await host.call_tool('ext_fragile_divide', {'a': 6, 'b': 3})}")
    changes()


async def look_out_of_a_sandbox(folder: str) -> None:
    secret = Path(folder, "secret.txt")
    secret.write_text("the password")  # noqa: ASYNC240 - nothing else runs
    command = [PYTHON, str(HERE / "morphir/curious.py")]
    show(f"    permissions: no network and no files; the call asks it to read {secret.name}")
    try:
        async with exthost.connect(
            command, dialect="morphir", name="curious", permissions={"network": False}
        ) as ext:
            show(f"    {await ext.call_tool('read', {'path': str(secret)})}")
    except (exthost.errors.CallFailed, exthost.errors.Refused) as error:
        show("    " + str(error).replace("\n", "\n    ").replace(folder, "…"))


async def main() -> None:
    show("Six dialects, one host (press Ctrl-C to stop)")
    with tempfile.TemporaryDirectory() as folder:
        # Extensions store data in a folder of the demo. `python3` is the interpreter of the demo.
        path = os.pathsep.join([str(Path(PYTHON).parent), os.environ["PATH"]])
        environ = {**os.environ, "EXTHOST_HOME": folder, "PATH": path}
        async with exthost.Host.from_config(CONFIG, environ=environ) as host:
            show(f"\n1. {len(host)} extensions are ready; one call in each dialect\n")
            await call_each_dialect(host)
            show("\n2. Arguments that do not fit the schema are not sent\n")
            await make_a_mistake(host)
            show("\n3. A crash fails its call; the next call waits for a new process\n")
            await crash(host)
        show("\n4. A sandboxed program cannot read a file that it was not granted\n")
        await look_out_of_a_sandbox(folder)
    show("\nNext: read README.md, or run .venv/bin/exthost --help")


if __name__ == "__main__":
    asyncio.run(main())
