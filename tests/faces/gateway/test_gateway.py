"""The gateway with the official MCP client for Python, on stdio and HTTP and in both eras of MCP.

The gateway is an MCP server in front of extensions of all dialects (protocols): a client lists
their tools and calls them, whatever protocol the extension speaks. ROWS has an extension and a call
for each dialect. The eras are the older MCP with a handshake and the newer, stateless one. Each
test runs the same checks (`check_everything`) with another transport or era.
"""

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
from tests.extensions.nexo_tree import write_plugin
from tests.extensions.roder import config_entry as roder_entry
from tests.extensions.synaps_tree import write_plugin as synaps_plugin
from tests.faces.gateway.gateway_process import (
    ERAS,
    ROOT,
    STATELESS,
    RunningGateway,
    extension,
    http_client,
    http_gateway,
    stdio_client,
    tools_of,
    write_config,
)

TEXT = str(ROOT / "examples" / "morphir" / "text.py")
CIGEN = str(ROOT / "tests" / "extensions" / "cigen_child.py")
MCP = str(ROOT / "tests" / "extensions" / "mcp_child.py")
# The limit of a wait for an event that always comes. It only bounds a test that hangs.
LONG_SECONDS = 150.0


class Row(NamedTuple):
    """An extension of one dialect, and a call of one of its tools.

    `entry` returns its entry in the table `table` of the config, or None for an extension that was
    written into the search path. `read_result` returns the part of the result to compare.
    """

    dialect: str
    entry: Callable[[Path], dict[str, Any] | None]
    tool: str
    arguments: dict[str, Any]
    read_result: Callable[[types.CallToolResult], Any]
    expected: Any
    table: str = "extensions"


def result_text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def structured(result: types.CallToolResult) -> Any:
    """Return the structured content of a result; its text must be the same value."""
    assert result.structured_content == json.loads(result_text(result))
    return result.structured_content


def no_entry(written: Path) -> None:
    """Return None: the extension was written into the search path, and needs no entry."""


def read_roder_arguments(result: types.CallToolResult) -> Any:
    """Return the arguments that the roder extension got. The text of its result must be its
    data."""
    assert result.structured_content is not None
    data = result.structured_content["data"]
    assert json.loads(result_text(result)) == data
    return data["arguments"]


# The gateway also has the test extension `climber`, whose calls report progress or never end.
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
        read_roder_arguments,
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
        lambda result: (result_text(result), result.structured_content),
        ("typed", {"sum": 3}),
    ),
    Row(
        "synaps",
        lambda folder: no_entry(synaps_plugin(folder / "found" / "notes")),
        "ext_notes_echo",
        {"a": [1]},
        structured,
        {"a": [1]},
    ),
]


def write_all_dialects(folder: Path) -> Path:
    """Write a config with an extension of each dialect, and with the search path `found`."""
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
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, RunningGateway]]:
    """A gateway on HTTP for all tests of this module, and the folder of its config."""
    folder = tmp_path_factory.mktemp("shared")
    with http_gateway(write_all_dialects(folder)) as running:
        yield folder, running


class ChangeHandler:
    """A message handler of a client that collects notifications of changed tools."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[Any] = asyncio.Queue()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changes.put_nowait(message)


@asynccontextmanager
async def tool_changes(
    client: Client, era: str, handler: ChangeHandler
) -> AsyncIterator[Callable[[], Any]]:
    """Yield a function whose result can be awaited until the client is notified of changed tools,
    in the way of its era."""
    if era == "handshake":
        yield handler.changes.get
        return
    async with client.listen(tools_list_changed=True) as changes:
        yield changes.__anext__


async def tool_names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools}


# -- steps of every client ---------------------------------------------------------------------


async def check_a_tool_of_every_dialect(client: Client) -> None:
    tools = await tools_of(client, "ext_text_shout", *(row.tool for row in ROWS))
    assert tools["ext_text_shout"].description == "[ext:text] Upper case"
    assert tools["ext_text_shout"].input_schema["required"] == ["text"]
    for row in ROWS:
        assert tools[row.tool].input_schema["type"] == "object", row.dialect
        result = await client.call_tool(row.tool, row.arguments)
        assert not result.is_error, (row.dialect, result)
        assert row.read_result(result) == row.expected, row.dialect


async def check_progress(client: Client) -> None:
    """Check that a call reports progress only if the client asks for it."""
    received: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append((progress, total, message))

    climb_tool = "ext_climber_climb"
    result = await client.call_tool(climb_tool, {"steps": 50}, progress_callback=on_progress)
    assert result.structured_content == {"climbed": 50}
    assert sorted(received) == [(n, 50, f"step {n}") for n in range(1, 51)]
    result = await client.call_tool(climb_tool, {"steps": 3})
    assert result.structured_content == {"climbed": 3}
    assert len(received) == 50, "this call did not ask for progress"


async def check_cancellation(client: Client) -> None:
    """Check that a cancelled call is cancelled in the extension."""
    call_started = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        call_started.set()

    waiting = asyncio.ensure_future(
        client.call_tool("ext_climber_wait", {}, progress_callback=on_progress)
    )
    async with asyncio.timeout(LONG_SECONDS):
        await call_started.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    async with asyncio.timeout(LONG_SECONDS):
        calls: Any = {"cancelled": [], "waiting": ["at least one"]}
        # Wait until the extension has received the cancellation of each call.
        while calls["cancelled"] != calls["waiting"]:
            calls = (await client.call_tool("ext_climber_heard")).structured_content


async def check_changed_extensions(
    client: Client, era: str, handler: ChangeHandler, folder: Path, id: str
) -> None:
    """Check that the client is notified of a new and of a changed extension."""
    assert f"ext_{id}_echo" not in await tool_names(client)
    async with tool_changes(client, era, handler) as next_change:
        async with asyncio.timeout(LONG_SECONDS):
            write_plugin(folder / "found" / id, id)
            while f"ext_{id}_echo" not in await tool_names(client):
                await next_change()
            write_plugin(folder / "found" / id, id, behaviour={"offer": {"tools": ["other"]}})
            while f"ext_{id}_other" not in await tool_names(client):
                await next_change()
    assert f"ext_{id}_echo" not in await tool_names(client)


async def check_everything(
    client: Client, era: str, handler: ChangeHandler, folder: Path, id: str
) -> None:
    """Check the properties of the connection, and all of the above."""
    assert (client.protocol_version == STATELESS) is (era == "stateless")
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("exthost", __version__)
    assert client.server_capabilities.tools == types.ToolsCapability(list_changed=True)
    await check_a_tool_of_every_dialect(client)
    await check_progress(client)
    await check_cancellation(client)
    await check_changed_extensions(client, era, handler, folder, id)


@pytest.mark.more
@pytest.mark.sampled(1 / 2)
@shows(
    "gateway-tools-01",
    "gateway-tools-03",
    "gateway-call-01",
    "gateway-call-03",
    "gateway-call-04",
    "gateway-wire-05",
)
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_on_stdio_can_use_every_dialect(era: str, tmp_path: Path) -> None:
    handler = ChangeHandler()
    async with stdio_client(write_all_dialects(tmp_path), era, message_handler=handler) as client:
        await check_everything(client, era, handler, tmp_path, "later")


@pytest.mark.more
@pytest.mark.sampled
@shows(
    "gateway-tools-01",
    "gateway-tools-03",
    "gateway-call-01",
    "gateway-call-03",
    "gateway-call-04",
    "gateway-wire-05",
)
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_on_http_can_use_every_dialect(
    era: str, shared: tuple[Path, RunningGateway]
) -> None:
    folder, running = shared
    handler = ChangeHandler()
    async with http_client(running, era, message_handler=handler) as client:
        await check_everything(client, era, handler, folder, f"later-{era}")


@pytest.mark.more
@shows("gateway-wire-06")
async def test_concurrent_clients_receive_only_their_own_progress(
    shared: tuple[Path, RunningGateway],
) -> None:
    received: dict[str, list[float]] = {era: [] for era in ERAS}

    async def call_climb(client: Client, era: str, steps: int) -> Any:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            received[era].append(progress)

        arguments = {"steps": steps}
        result = await client.call_tool(
            "ext_climber_climb", arguments, progress_callback=on_progress
        )
        return result.structured_content

    _, running = shared
    async with http_client(running, "handshake") as one, http_client(running, "stateless") as two:
        results = await asyncio.gather(
            *(call_climb(one, "handshake", 3) for _ in range(5)),
            *(call_climb(two, "stateless", 4) for _ in range(5)),
        )
    assert results == [{"climbed": 3}] * 5 + [{"climbed": 4}] * 5
    assert sorted(received["handshake"]) == sorted([1, 2, 3] * 5)
    assert sorted(received["stateless"]) == sorted([1, 2, 3, 4] * 5)
