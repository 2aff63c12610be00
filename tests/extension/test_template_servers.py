"""Ten MCP servers of other projects give the same answers from a template as without one.

A template is a process that has imported the modules of a program and waits. The program is then
started by a fork of this process (`start_method="template"`), which saves the time of the imports.

`make servers` installs the servers. The test of a server that is not installed is skipped.
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from tests.extension.test_templates import start_method, start_next, templates

SERVERS = Path(sys.prefix, "servers")

# The package and the program of each server, its arguments, and a call that needs no network.
# {folder} is a new repository of Git.
CALLS: dict[str, tuple[str, list[str], str, dict[str, Any]]] = {
    "mcp-server-time": (
        "mcp-server-time",
        ["--local-timezone", "UTC"],
        "convert_time",
        {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"},
    ),
    "mcp-server-git": (
        "mcp-server-git",
        [],
        "git_status",
        {"repo_path": "{folder}"},
    ),
    "mcp-server-fetch": (
        "mcp-server-fetch",
        ["--ignore-robots-txt"],
        "fetch",
        {"url": "http://127.0.0.1:1/"},
    ),
    "mcp-server-sqlite": (
        "mcp-server-sqlite",
        ["--db-path", "{folder}/test.db"],
        "read_query",
        {"query": "SELECT 6 * 7 AS answer"},
    ),
    "mcp-server-calculator": (
        "mcp-server-calculator",
        [],
        "calculate",
        {"expression": "sqrt(2) * 3"},
    ),
    "arxiv-mcp-server": (
        "arxiv-mcp-server",
        ["--storage-path", "{folder}"],
        "list_papers",
        {},
    ),
    "mcp-text-editor": (
        "mcp-text-editor",
        [],
        "get_text_file_contents",
        {"files": [{"file_path": "{folder}/text", "ranges": [{"start": 1}]}]},
    ),
    "excel-mcp-server": (
        "excel-mcp-server",
        ["stdio"],
        "create_workbook",
        {"path": "{folder}/book.xlsx"},
    ),
    "office-word-mcp-server": (
        "word_mcp_server",
        [],
        "list_available_documents",
        {"directory": "{folder}"},
    ),
    "mcp-simple-timeserver": (
        "mcp-simple-timeserver",
        [],
        "calculate_time_distance",
        {"from_date": "2026-01-01", "to_date": "2026-03-01"},
    ),
}


async def ask(extension: Any, tool: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
    """Return what the server offers, and its answer to the call."""
    result = await extension.call_tool(tool, arguments, check=False)
    tools = [(item.name, item.description, item.input_schema) for item in extension.offer.tools]
    return extension.offer.name, extension.offer.version, tools, result.raw


async def restart_from_template(extension: Any) -> None:
    """Restart the extension from a template that has the modules of its first run."""
    starter = templates(extension)
    starter._learn(extension._starter.prepared().plan)
    while (building := starter._building) is not None:  # longer than a start would wait
        await asyncio.wait([building])
    await extension.restart()
    assert starter.last.method == "template", starter.last


@pytest.mark.more
@pytest.mark.parametrize("server", CALLS)
async def test_a_server_gives_the_same_answers_from_a_template(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, args, tool, arguments = CALLS[server]
    path = SERVERS / server / "bin" / program
    if not path.exists():
        pytest.skip(f"{server} is not installed: `make servers` installs it where PyPI is")
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))
    folder = tmp_path / "folder"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)  # noqa: ASYNC221 - 5 ms
    (folder / "text").write_text("a line\n")
    argv = [str(path), *(word.format(folder=folder) for word in args)]
    arguments = _fill_in(arguments, folder)
    settings: dict[str, Any] = {"dialect": "mcp", "limits": {"start": 60, "handshake": 60}}
    async with exthost.connect(argv, **settings) as extension:
        await ask(extension, tool, arguments)  # some create a file at the first call
        cold = await ask(extension, tool, arguments)
    async with exthost.connect(argv, start_method="template", **settings) as extension:
        await ask(extension, tool, arguments)
        await restart_from_template(extension)
        from_template = await ask(extension, tool, arguments)
        await start_next(extension)  # a process that is started before it is needed
        await extension.restart()
        started_in_advance = await ask(extension, tool, arguments)
        assert start_method(extension)["last"] == "template"
    assert from_template == cold
    assert started_in_advance == cold


def _fill_in(value: Any, folder: Path) -> Any:
    """Replace {folder} in all texts of the arguments of a call."""
    if isinstance(value, dict):
        return {key: _fill_in(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_in(item, folder) for item in value]
    return value.format(folder=folder) if isinstance(value, str) else value
