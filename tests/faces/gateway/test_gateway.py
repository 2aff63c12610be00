"""The gateway under the official MCP client: on either way in, in either era of the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
import pytest
from mcp import Client

from exthost._version import __version__
from tests.dialects.requirements import shows
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.nexo_tree import plugin
from tests.extensions.roder import entry as roder_entry
from tests.extensions.synaps_tree import plugin as synaps_plugin
from tests.faces.gateway.gateway_process import (
    ERAS,
    ROOT,
    STATELESS,
    Running,
    extension,
    http_gateway,
    on_http,
    on_stdio,
    tools_of,
    write_config,
)

TEXT = str(ROOT / "examples" / "morphir" / "text.py")
CIGEN = str(ROOT / "tests" / "extensions" / "cigen_child.py")
MCP = str(ROOT / "tests" / "extensions" / "mcp_child.py")
LONG_SECONDS = 150.0


class Row(NamedTuple):
    """One dialect: what its extension is in the config (None: it was put into the folder `found`),
    a tool of it, and what comes of a call."""

    dialect: str
    entry: Callable[[Path], dict[str, Any] | None]
    tool: str
    arguments: dict[str, Any]
    shows: Callable[[types.CallToolResult], Any]
    expected: Any
    table: str = "extensions"


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def structured(result: types.CallToolResult) -> Any:
    """What is said twice must agree."""
    assert result.structured_content == json.loads(text(result))
    return result.structured_content


def found(_: Path) -> None:
    """It is no entry of the config: it was put where extensions are looked for."""


ROWS = [
    Row(
        "morphir",
        lambda _: extension("text", "morphir", "-S", "-E", TEXT),
        "ext_text_shout",
        {"text": "hi"},
        structured,
        {"text": "HI"},
    ),
    Row(
        "nexo",
        lambda _: extension("agent", "nexo", "-S", "-E", str(NEXO)),
        "ext_agent_echo",
        {"a": None, "b": ["ü"]},
        structured,
        {"a": None, "b": ["ü"]},
    ),
    Row(
        "roder",
        lambda folder: roder_entry(folder, id="wire"),
        "ext_wire_echo",
        {"a": 1},
        # Its text is its content, which this one fills with its data.
        lambda result: (
            (json.loads(text(result)) == result.structured_content["data"])
            and result.structured_content["data"]["arguments"]
        ),
        {"a": 1},
        table="process_extensions",
    ),
    Row(
        "cigen",
        lambda _: extension("ci", "cigen", CIGEN),
        "ext_ci_generate",
        {"schema": {"version": "1", "jobs": [{"id": "build"}]}},
        lambda result: structured(result)["fragments"][0]["path"],
        "heard.json",
    ),
    Row(
        "mcp",
        lambda _: extension("server", "mcp", "-S", "-E", MCP),
        "ext_server_typed",
        {"as": {"sum": 3}},
        lambda result: (text(result), result.structured_content),
        ("typed", {"sum": 3}),
    ),
    Row(
        "synaps",
        lambda folder: found(synaps_plugin(folder / "found" / "notes")),
        "ext_notes_echo",
        {"a": [1]},
        structured,
        {"a": [1]},
    ),
]


def every_dialect(folder: Path) -> Path:
    """A config with each, and a folder `found` in which more of them are looked for."""
    watch = {"enabled": True, "debounce_ms": 50, "reload": True}
    document: dict[str, Any] = {
        "discovery": {"search_paths": [str(folder / "found")], "watch": watch}
    }
    (folder / "found").mkdir()
    for row in ROWS:
        if (entry := row.entry(folder)) is not None:
            document.setdefault(row.table, []).append(entry)
    return write_config(folder, document)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Running]]:
    """One gateway on HTTP for all tests here: it takes a second to start."""
    folder = tmp_path_factory.mktemp("shared")
    with http_gateway(every_dialect(folder)) as running:
        yield folder, running


class News:
    """What a client was told of its own accord."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[Any] = asyncio.Queue()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changes.put_nowait(message)


@asynccontextmanager
async def changes_received(
    client: Client, era: str, news: News
) -> AsyncIterator[Callable[[], Any]]:
    """Something to await until the client is told, in the manner of its era, of changed tools."""
    if era == "handshake":
        yield news.changes.get
        return
    async with client.listen(tools_list_changed=True) as changes:
        yield changes.__anext__


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools}


# -- what every client does, on every way in ---------------------------------------------------


async def calls_a_tool_of_every_dialect(client: Client) -> None:
    listed = await tools_of(client, "ext_text_shout", *(row.tool for row in ROWS))
    assert listed["ext_text_shout"].description == "[ext:text] Upper case"
    assert listed["ext_text_shout"].input_schema["required"] == ["text"]
    for row in ROWS:
        assert listed[row.tool].input_schema["type"] == "object", row.dialect
        result = await client.call_tool(row.tool, row.arguments)
        assert not result.is_error, (row.dialect, result)
        assert row.shows(result) == row.expected, row.dialect


async def receives_progress(client: Client) -> None:
    received: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append((progress, total, message))

    climb_tool = "ext_climber_climb"
    result = await client.call_tool(climb_tool, {"steps": 50}, progress_callback=on_progress)
    assert result.structured_content == {"climbed": 50}
    assert sorted(received) == [(n, 50, f"step {n}") for n in range(1, 51)]
    unasked = await client.call_tool(climb_tool, {"steps": 3})
    assert unasked.structured_content == {"climbed": 3} and len(received) == 50


async def cancels_a_long_call(client: Client) -> None:
    under_way = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        under_way.set()

    waiting = asyncio.ensure_future(
        client.call_tool("ext_climber_wait", {}, progress_callback=on_progress)
    )
    async with asyncio.timeout(LONG_SECONDS):
        await under_way.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    async with asyncio.timeout(LONG_SECONDS):
        behaviour: Any = {"cancelled": [], "waiting": ["at least one"]}
        while (
            behaviour["cancelled"] != behaviour["waiting"]
        ):  # each was told, in the dialect's own words
            behaviour = (await client.call_tool("ext_climber_heard")).structured_content


async def sees_an_extension_come_and_change(
    client: Client, era: str, news: News, folder: Path, id: str
) -> None:
    assert f"ext_{id}_echo" not in await names(client)
    async with changes_received(client, era, news) as report:
        async with asyncio.timeout(LONG_SECONDS):
            plugin(folder / "found" / id, id)
            while f"ext_{id}_echo" not in await names(client):
                await report()
            plugin(folder / "found" / id, id, behaviour={"offer": {"tools": ["other"]}})
            while f"ext_{id}_other" not in await names(client):
                await report()
    assert f"ext_{id}_echo" not in await names(client)


async def everything(client: Client, era: str, news: News, folder: Path, id: str) -> None:
    assert (client.protocol_version == STATELESS) is (era == "stateless")
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("exthost", __version__)
    assert client.server_capabilities.tools == types.ToolsCapability(list_changed=True)
    await calls_a_tool_of_every_dialect(client)
    await receives_progress(client)
    await cancels_a_long_call(client)
    await sees_an_extension_come_and_change(client, era, news, folder, id)


@shows(
    "gateway-tools-01",
    "gateway-tools-03",
    "gateway-call-01",
    "gateway-call-03",
    "gateway-call-04",
    "gateway-wire-05",
)
@pytest.mark.parametrize("era", ERAS)
async def test_one_session_on_stdio_has_all_of_it(era: str, tmp_path: Path) -> None:
    news = News()
    async with on_stdio(every_dialect(tmp_path), era, message_handler=news) as client:
        await everything(client, era, news, tmp_path, "later")


@shows(
    "gateway-tools-01",
    "gateway-tools-03",
    "gateway-call-01",
    "gateway-call-03",
    "gateway-call-04",
    "gateway-wire-05",
)
@pytest.mark.parametrize("era", ERAS)
async def test_one_session_on_http_has_all_of_it(era: str, shared: tuple[Path, Running]) -> None:
    folder, running = shared
    news = News()
    async with on_http(running, era, message_handler=news) as client:
        await everything(client, era, news, folder, f"later-{era}")


@shows("gateway-wire-06")
async def test_two_clients_at_once_do_not_hear_of_each_other(shared: tuple[Path, Running]) -> None:
    received: dict[str, list[float]] = {era: [] for era in ERAS}

    async def climb_tool(client: Client, era: str, steps: int) -> Any:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            received[era].append(progress)

        arguments = {"steps": steps}
        result = await client.call_tool(
            "ext_climber_climb", arguments, progress_callback=on_progress
        )
        return result.structured_content

    _, running = shared
    async with on_http(running, "handshake") as one, on_http(running, "stateless") as two:
        climbed = await asyncio.gather(
            *(climb_tool(one, "handshake", 3) for _ in range(5)),
            *(climb_tool(two, "stateless", 4) for _ in range(5)),
        )
    assert climbed == [{"climbed": 3}] * 5 + [{"climbed": 4}] * 5
    assert sorted(received["handshake"]) == sorted([1, 2, 3] * 5)
    assert sorted(received["stateless"]) == sorted([1, 2, 3, 4] * 5)
