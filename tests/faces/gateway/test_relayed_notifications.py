"""Tests of notifications that the gateway relays between its clients and the MCP servers behind it.

These are log messages, updates of resources, changes of the client's folders (roots), and progress
of requests for resources and prompts. Only the clients that asked for a notification get it.
"""

import asyncio
import json
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from pydantic import FileUrl

from tests.extensions.harness import wait_until
from tests.faces.gateway.gateway_process import ERAS, open_gateway
from tests.faces.gateway.test_inside import client_of, result_text
from tests.faces.gateway.test_relayed_requests import received_params, server

# The limit of a wait for an event that always comes. It only bounds a test that hangs.
LONG_SECONDS = 150.0

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


async def notify(client: Client, method: str, params: Any) -> None:
    """Make the server send this notification."""
    arguments = {"method": method, "params": params}
    assert result_text(await client.call_tool("ext_server_notify", arguments)) == "notified"


async def test_log_messages_and_updates_reach_only_their_subscribers() -> None:
    messages: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    messages_of_other: list[Any] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        messages.put_nowait(("log", (params.level, params.data)))

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            messages.put_nowait(("updated", str(message.params.uri)))

    async def on_other(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            messages_of_other.append(message)

    async with (
        open_gateway({"extensions": [server("handshake")]}) as gateway,
        client_of(gateway, logging_callback=on_log, message_handler=on_message) as client,
        client_of(gateway, message_handler=on_other) as other,
        asyncio.timeout(LONG_SECONDS),
    ):
        # `other` asks for nothing.
        await client.set_logging_level("warning")
        await client.subscribe_resource("a:b")
        log = {"level": "error", "data": {"text": "ü"}, "logger": "l"}
        await notify(client, "notifications/message", {**log, "level": "info", "data": "too low"})
        await notify(client, "notifications/message", log)
        await notify(client, "notifications/resources/updated", {"uri": "a:other"})
        await notify(client, "notifications/resources/updated", {"uri": "a:b"})
        received = [await messages.get(), await messages.get()]
        assert sorted(received) == [("log", ("error", {"text": "ü"})), ("updated", "a:b")]
        await client.unsubscribe_resource("a:b")
        await notify(client, "notifications/resources/updated", {"uri": "a:b"})
        await other.send_ping()  # earlier notifications come before the reply
        assert messages.empty() and not messages_of_other


async def test_a_client_with_several_calls_receives_a_log_message_once() -> None:
    logs: list[Any] = []
    other_logs: list[Any] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logs.append(params.data)

    async def on_other_log(params: types.LoggingMessageNotificationParams) -> None:
        other_logs.append(params.data)

    async with (
        open_gateway({"extensions": [server("handshake")]}) as gateway,
        client_of(gateway, logging_callback=on_log) as client,
        client_of(gateway, logging_callback=on_other_log) as other,
        asyncio.timeout(LONG_SECONDS),
    ):
        await client.list_tools()
        await other.list_tools()
        calls = [
            asyncio.ensure_future(caller.call_tool("ext_server_hang", {}))
            for caller in (client, client, other)
        ]
        await wait_until(lambda: gateway.host["server"].stats.in_flight == 3)
        await notify(client, "notifications/message", {"level": "error", "data": 1})
        await notify(client, "notifications/message", {"level": "error", "data": 2})
        await client.send_ping()
        await other.send_ping()
        assert logs == other_logs == [1, 2]
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_gets_the_roots_of_the_client_of_its_call_and_changes_of_roots(
    era: str,
) -> None:
    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///here"), name="here")])

    async with (
        open_gateway({"extensions": [server("handshake")]}) as gateway,
        client_of(gateway, era, list_roots_callback=roots) as client,
        asyncio.timeout(LONG_SECONDS),
    ):
        answer = json.loads(
            result_text(await client.call_tool("ext_server_ask", {"method": "roots/list"}))
        )
        assert answer["result"]["roots"] == [{"uri": "file:///here", "name": "here"}]
        if era == "handshake":
            await client.send_roots_list_changed()
            params: list[Any] = []
            while not params:
                params = await received_params(client, "notifications/roots/list_changed")


@pytest.mark.parametrize("era", ERAS)
async def test_progress_of_resources_and_prompts_reaches_their_client(era: str) -> None:
    steps: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with (
        open_gateway({"extensions": [server("handshake")]}) as gateway,
        client_of(gateway, era) as client,
        asyncio.timeout(LONG_SECONDS),
    ):
        await client.list_prompts()
        read_request = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri="a:b"))
        await client.session.send_request(
            read_request, types.ReadResourceResult, progress_callback=on_progress
        )
        assert steps == [1]
        prompt_request = types.GetPromptRequest(
            params=types.GetPromptRequestParams(name="ext_server_first", arguments={"role": "user"})
        )
        with pytest.raises(Exception, match="messages"):  # the prompt of this server is invalid
            await client.session.send_request(
                prompt_request, types.GetPromptResult, progress_callback=on_progress
            )
        assert steps == [1, 1]
