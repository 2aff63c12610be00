"""MCP servers behind the gateway: all they say passes through, in whichever eras the ends speak."""

import asyncio
import json
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.extensions.harness import until
from tests.faces.gateway.gateway_process import ERAS, ROOT, extension, inside
from tests.faces.gateway.test_inside import client_of, error_details, names, text

CHILD = str(ROOT / "tests" / "extensions" / "mcp_child.py")
LONG_SECONDS = 150.0

pytestmark = pytest.mark.parametrize(
    ("era", "servers"), [(one, other) for one in ERAS for other in ERAS]
)


def server(era: str) -> dict[str, Any]:
    report = json.dumps({"era": era})
    return {"extensions": [extension("server", "mcp", "-S", "-E", CHILD, report)]}


async def heard(client: Client) -> list[Any]:
    report: list[Any] = json.loads(text(await client.call_tool("ext_server_heard")))
    return report


async def test_results_come_as_they_are_with_the_schema_they_promise(
    era: str, servers: str
) -> None:
    async with inside(server(servers)) as gateway, client_of(gateway, era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        promised = listed["ext_server_typed"].output_schema
        assert promised is not None and promised["required"] == ["sum"]
        typed = await client.call_tool("ext_server_typed", {"as": {"sum": 3}})
        assert (text(typed), typed.structured_content) == ("typed", {"sum": 3})
        broken = await client.call_tool("ext_server_typed", {"as": {"sum": "three"}})
        assert broken.is_error and error_details(broken)["code"] == "X0661"


async def test_progress_and_cancellation_pass_through(era: str, servers: str) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with inside(server(servers)) as gateway, client_of(gateway, era) as client:
        arguments = {"times": 3, "seconds": 0}
        done = await client.call_tool("ext_server_steps", arguments, progress_callback=on_progress)
        assert text(done) == "done"
        assert sorted(steps) == [(n, 3, f"step {n}") for n in (1, 2, 3)]
        waiting = asyncio.ensure_future(client.call_tool("ext_server_hang", {}))
        extension = gateway.host["server"]
        await until(lambda: extension.stats.in_flight == 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        await until(lambda: extension.stats.cancelled == 1)
        messages = await heard(client)
        (hung,) = [item["id"] for item in messages if item.get("params", {}).get("name") == "hang"]
        (taken_back,) = [item for item in messages if item["method"] == "notifications/cancelled"]
        assert taken_back["params"]["requestId"] == hung


async def test_tools_that_a_server_adds_are_announced_to_clients(era: str, servers: str) -> None:
    report: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            report.put_nowait(message)

    async def listening(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            report.put_nowait("listening")
            async for change in changes:
                report.put_nowait(change)

    news = on_message if era == "handshake" else None
    async with (
        inside(server(servers)) as gateway,
        client_of(gateway, era, message_handler=news) as client,
        asyncio.timeout(LONG_SECONDS),
    ):
        assert "ext_server_new" not in await names(client)
        listener = asyncio.ensure_future(listening(client)) if era == "stateless" else None
        if listener is not None:
            await report.get()
        await client.call_tool("ext_server_change", {"add": ["new"]})
        await report.get()
        assert "ext_server_new" in await names(client)
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])
