"""Servers and clients that misbehave harm only their own calls.

Each gateway here has an extension without faults (`HEALTHY`), or a second client. While a server
hangs, floods or lies, or a client cancels, reuses ids or disconnects, the others must be served.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from exthost.faces.gateway import catalog, stdio
from exthost.faces.gateway.server import Gateway
from tests.extensions.harness import wait_until
from tests.faces.gateway.gateway_process import ERAS, extension, open_gateway, tools_of
from tests.faces.gateway.test_http import ACCEPT
from tests.faces.gateway.test_http_sessions import serve_on_http
from tests.faces.gateway.test_inside import TEXT, client_of, error_details, result_text
from tests.faces.gateway.test_relayed_requests import CHILD, server
from tests.faces.gateway.test_stdio import (
    HANDSHAKE,
    Peer,
    encode_lines,
    request,
    tool_call,
    wait_for_end,
)

# The limit of a wait for an event that always comes. It only bounds a test that hangs.
LONG_SECONDS = 150.0

pytestmark = pytest.mark.more
HEALTHY = "ext_text_shout"  # the tool of the extension without faults


async def assert_others_are_served(client: Client) -> None:
    """Check that the tool of the extension without faults can be called."""
    result = await client.call_tool(HEALTHY, {"text": "hi"})
    assert result.structured_content == {"text": "HI"}


@asynccontextmanager
async def with_healthy_extension(
    *servers: dict[str, Any], era: str = "handshake", **more: Any
) -> AsyncIterator[tuple[Gateway, Client]]:
    """Yield a gateway with these servers and an extension without faults, and a client of it."""
    async with (
        open_gateway(
            {"gateway": {"first_list": "200ms"}, "extensions": [TEXT, *servers]}
        ) as gateway,
        client_of(gateway, era, **more) as client,
        asyncio.timeout(LONG_SECONDS),
    ):
        await tools_of(client, HEALTHY)
        yield gateway, client


# -- servers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phase",
    ["initialize", "tools/list", "resources/list", "prompts/list", "resources/read", "tools/call"],
)
async def test_a_server_that_hangs_harms_only_its_own_calls(
    phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "LIST_SECONDS", 0.2)
    limits = {"call": "300ms", "handshake": "60s"}
    options = json.dumps({"silent": ["server/discover", phase]})
    hung = extension("server", "mcp", "-S", "-E", CHILD, options, limits=limits)
    async with with_healthy_extension(hung) as (gateway, client):
        await assert_others_are_served(client)
        assert isinstance((await client.list_resources()).resources, list)
        assert isinstance((await client.list_prompts()).prompts, list)
        if phase == "tools/call":
            await tools_of(client, "ext_server_echo")
            timed_out = await client.call_tool("ext_server_echo", {})
            assert timed_out.is_error and error_details(timed_out)["code"] == "X0801"
        if phase == "resources/read":
            await tools_of(client, "ext_server_echo")
            with pytest.raises(MCPError):
                await client.read_resource("a:b")
        await assert_others_are_served(client)
        gateway.host.kill()


async def test_a_flooding_server_does_not_affect_others_and_changes_are_combined() -> None:
    changes: list[Any] = []

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changes.append(message)

    async with with_healthy_extension(server("handshake"), message_handler=on_message) as (
        _,
        client,
    ):
        await tools_of(client, "ext_server_flood")
        before = len(changes)
        for method in ("notifications/tools/list_changed", "notifications/message", "no/such"):
            params = {"level": "info", "data": "x" * 100} if method.endswith("message") else {}
            notification = {"method": method, "params": params}
            flooding = asyncio.ensure_future(
                client.call_tool("ext_server_flood", {"what": notification, "times": 3000})
            )
            await assert_others_are_served(client)
            assert result_text(await flooding) == "flooded"
        assert len(changes) - before < 100, "3000 changes are combined into few notifications"
        assert result_text(await client.call_tool("ext_server_echo", {"a": 1})) == '{"a": 1}'


# Tools with invalid descriptions, schemas and names.
INVALID_TOOLS = [
    {"name": "wrong_schema", "inputSchema": {"type": 7, "properties": "none"}},
    {"name": "wrong_reference", "inputSchema": {"$ref": "#/nowhere"}},
    {"name": "no_schema"},
    {"name": "wrong_output", "inputSchema": {"type": "object"}, "outputSchema": {"type": 7}},
    {
        "name": "circle",
        "inputSchema": {"type": "object"},
        "outputSchema": {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": "#/$defs/a"}},
        },
    },
    {"name": "wrong_words", "inputSchema": {"type": "object"}, "description": 7, "annotations": []},
    {"name": "echo", "inputSchema": {"type": "object"}, "description": "a second one"},
    {"name": "n" * 300, "inputSchema": {"type": "object"}},
]


@pytest.mark.parametrize("era", ERAS)
async def test_tools_with_invalid_schemas_are_listed_and_other_tools_of_the_server_work(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with with_healthy_extension(server("handshake", lies=INVALID_TOOLS), era=era) as (
        _,
        client,
    ):
        tools = await tools_of(client, "ext_server_echo", "ext_server_wrong_schema")
        for name in tools:  # each has a schema that clients can read
            assert tools[name].input_schema.get("type") == "object"
        assert tools["ext_server_circle"].output_schema is None
        warnings = [record.getMessage() for record in caplog.records]
        assert (
            sum("circle is offered without its outputSchema" in warning for warning in warnings)
            == 1
        )
        assert result_text(await client.call_tool("ext_server_echo", {"a": 1})) == '{"a": 1}'
        invalid = await client.call_tool("ext_server_typed", {"as": {"sum": "three"}})
        assert invalid.is_error and error_details(invalid)["code"] == "X0661"
        await assert_others_are_served(client)


async def test_a_tool_that_is_renamed_during_a_call_answers_the_call() -> None:
    async with with_healthy_extension(server("handshake")) as (_, client):
        await tools_of(client, "ext_server_rename")
        result = await client.call_tool("ext_server_rename", {})
        assert result_text(result) == "done under the old name"
        await tools_of(client, "ext_server_renamed")
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ext_server_rename", {})
        assert caught.value.code == types.INVALID_PARAMS
        assert "ext_server_renamed" in caught.value.message


# -- clients ---------------------------------------------------------------------------------


def cancellation(id: Any) -> dict[str, Any]:
    """Return the notification that cancels the request with this id."""
    params = {"requestId": id, "reason": "enough"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


async def test_cancelling_twice_or_an_unknown_request_is_harmless() -> None:
    async with open_gateway({"extensions": [server("handshake")]}) as gateway:
        with closing(Peer()) as peer:
            serving = asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
            peer.send(encode_lines(*HANDSHAKE, tool_call(1, "ext_server_hang")))
            assert (await peer.receive())["id"] == "hello"
            child = gateway.host["server"]
            await wait_until(lambda: child.stats.in_flight == 1)
            peer.send(
                encode_lines(
                    cancellation(1), cancellation(1), cancellation("never"), cancellation(None)
                )
            )
            peer.send(encode_lines({"jsonrpc": "2.0", "method": "notifications/cancelled"}))
            await wait_until(lambda: child.stats.cancelled == 1)
            peer.send(encode_lines(tool_call(2, "ext_server_echo", a=1), cancellation(1)))
            answer = await peer.receive()
            while answer.get("id") != 2:  # a cancelled request may or may not be answered
                assert answer.get("id") in (1, None)
                answer = await peer.receive()
            assert answer["result"]["content"][0]["text"] == '{"a": 1}'
            peer.send(encode_lines(cancellation(2), request(3, "ping")))
            assert (await peer.receive())["id"] == 3
            assert (child.stats.cancelled, child.stats.in_flight) == (1, 0)
            serving.cancel()
            await asyncio.wait([serving])


async def test_a_client_that_reuses_ids_gets_an_answer_for_each_request() -> None:
    async with open_gateway({"extensions": [server("handshake")]}) as gateway:
        with closing(Peer()) as one, closing(Peer()) as other:
            serving = [
                asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
                for peer in (one, other)
            ]
            for peer in (one, other):
                peer.send(encode_lines(*HANDSHAKE))
                assert (await peer.receive())["id"] == "hello"
            # Three concurrent calls with the same id, and a call of another client with this id.
            one.send(encode_lines(*(tool_call(7, "ext_server_echo", n=n) for n in range(3))))
            other.send(encode_lines(tool_call(7, "ext_server_echo", n="other")))
            answer = await other.receive()
            assert answer["id"] == 7
            assert answer["result"]["content"][0]["text"] == '{"n": "other"}'
            answers = [await one.receive() for _ in range(3)]
            assert {answer["id"] for answer in answers} == {7}
            texts = [a["result"]["content"][0]["text"] for a in answers if "result" in a]
            assert texts and set(texts) <= {f'{{"n": {n}}}' for n in range(3)}
            # The id is free again.
            one.send(encode_lines(tool_call(7, "ext_server_echo", n="again")))
            assert (await one.receive())["result"]["content"][0]["text"] == '{"n": "again"}'
            for task in serving:
                task.cancel()
            await asyncio.wait(serving)


async def test_a_client_that_disconnects_during_a_call_leaves_no_call_in_flight() -> None:
    with_short_limit = extension("server", "mcp", "-S", "-E", CHILD, limits={"call": "500ms"})
    async with open_gateway({"extensions": [with_short_limit]}) as gateway:
        with closing(Peer()) as gone, closing(Peer()) as staying:
            serving = [
                asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
                for peer in (gone, staying)
            ]
            gone.send(encode_lines(*HANDSHAKE, tool_call(1, "ext_server_hang")))
            assert (await gone.receive())["id"] == "hello"
            child = gateway.host["server"]
            gone.close_writer()
            gone.close_reader()
            await wait_for_end(serving[0])
            assert child.stats.in_flight == 0
            staying.send(encode_lines(*HANDSHAKE, tool_call(1, "ext_server_echo", a=1)))
            assert (await staying.receive())["id"] == "hello"
            assert (await staying.receive())["result"]["content"][0]["text"] == '{"a": 1}'
            serving[1].cancel()
            await asyncio.wait(serving)


async def test_a_client_on_http_that_never_reads_does_not_affect_others() -> None:
    notification = {
        "method": "notifications/message",
        "params": {"level": "info", "data": "x" * 1000},
    }
    async with serve_on_http({"extensions": [server("handshake")]}) as gateway:
        one, other = await gateway.open_session(), await gateway.open_session()
        assert one != other
        sent = ACCEPT | {"Authorization": "Bearer one", "Mcp-Session-Id": one}
        message = tool_call(1, "ext_server_flood", what=notification, times=2000)
        async with gateway.client.stream("POST", gateway.url, json=message, headers=sent) as unread:
            assert unread.status_code == 200
            for n in range(3):
                echo = tool_call(1, "ext_server_echo", n=n)  # the id of the call above
                answer = await gateway.post(echo, Mcp_Session_Id=other)
                assert f'{{\\"n\\": {n}}}' in answer.text and "flooded" not in answer.text
        # The client above disconnected without reading everything; its session is still open.
        answer = await gateway.post(tool_call(2, "ext_server_echo", n=9), Mcp_Session_Id=one)
        assert '{\\"n\\": 9}' in answer.text
