"""Tests of MCP servers behind the gateway: results, progress, cancellation and changes of tools.

The client of the gateway and the server behind it each use one of the two eras of MCP (with a
handshake, or stateless). Each test runs with all four combinations.
"""

import asyncio
import json
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.extensions.harness import wait_until
from tests.faces.gateway.gateway_process import ERAS, ROOT, extension, open_gateway
from tests.faces.gateway.test_inside import client_of, error_details, result_text, tool_names

CHILD = str(ROOT / "tests" / "extensions" / "mcp_child.py")
# The limit of a wait for an event that always comes. It only bounds a test that hangs.
LONG_SECONDS = 150.0

pytestmark = pytest.mark.parametrize(
    ("era", "server_era"), [(client_era, server_era) for client_era in ERAS for server_era in ERAS]
)


def config_with_server(era: str) -> dict[str, Any]:
    """Return a config with an MCP server (mcp_child.py) that speaks this era."""
    options = json.dumps({"era": era})
    return {"extensions": [extension("server", "mcp", "-S", "-E", CHILD, options)]}


async def received_messages(client: Client) -> list[Any]:
    """Return the messages that the server has received."""
    messages: list[Any] = json.loads(result_text(await client.call_tool("ext_server_heard")))
    return messages


async def test_results_are_relayed_and_checked_against_their_output_schema(
    era: str, server_era: str
) -> None:
    async with (
        open_gateway(config_with_server(server_era)) as gateway,
        client_of(gateway, era) as client,
    ):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        schema = tools["ext_server_typed"].output_schema
        assert schema is not None and schema["required"] == ["sum"]
        typed = await client.call_tool("ext_server_typed", {"as": {"sum": 3}})
        assert (result_text(typed), typed.structured_content) == ("typed", {"sum": 3})
        invalid = await client.call_tool("ext_server_typed", {"as": {"sum": "three"}})
        assert invalid.is_error and error_details(invalid)["code"] == "X0661"


async def test_progress_and_cancellation_are_relayed(era: str, server_era: str) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with (
        open_gateway(config_with_server(server_era)) as gateway,
        client_of(gateway, era) as client,
    ):
        arguments = {"times": 3, "seconds": 0}
        result = await client.call_tool(
            "ext_server_steps", arguments, progress_callback=on_progress
        )
        assert result_text(result) == "done"
        assert sorted(steps) == [(n, 3, f"step {n}") for n in (1, 2, 3)]
        waiting = asyncio.ensure_future(client.call_tool("ext_server_hang", {}))
        extension = gateway.host["server"]
        await wait_until(lambda: extension.stats.in_flight == 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        await wait_until(lambda: extension.stats.cancelled == 1)
        messages = await received_messages(client)
        (call_id,) = [
            item["id"] for item in messages if item.get("params", {}).get("name") == "hang"
        ]
        (cancellation,) = [item for item in messages if item["method"] == "notifications/cancelled"]
        assert cancellation["params"]["requestId"] == call_id


async def test_tools_that_a_server_adds_are_announced_to_clients(era: str, server_era: str) -> None:
    notifications: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            notifications.put_nowait(message)

    async def listen(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            notifications.put_nowait("listening")
            async for change in changes:
                notifications.put_nowait(change)

    # In the era with a handshake, notifications come by themselves; a stateless client must listen.
    handler = on_message if era == "handshake" else None
    async with (
        open_gateway(config_with_server(server_era)) as gateway,
        client_of(gateway, era, message_handler=handler) as client,
        asyncio.timeout(LONG_SECONDS),
    ):
        assert "ext_server_new" not in await tool_names(client)
        listener = asyncio.ensure_future(listen(client)) if era == "stateless" else None
        if listener is not None:
            await notifications.get()
        await client.call_tool("ext_server_change", {"add": ["new"]})
        await notifications.get()
        assert "ext_server_new" in await tool_names(client)
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])
