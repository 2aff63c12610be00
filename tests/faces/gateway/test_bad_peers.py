"""Servers and clients that misbehave: each harms its own calls, and nobody else's."""

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
from tests.extensions.harness import until
from tests.faces.gateway.gateway_process import ERAS, extension, inside, tools_of
from tests.faces.gateway.test_http import ACCEPT
from tests.faces.gateway.test_http_sessions import served as served_on_http
from tests.faces.gateway.test_inside import TEXT, client_of, error_details, text
from tests.faces.gateway.test_relayed_requests import CHILD, server
from tests.faces.gateway.test_stdio import HELLO, Peer, calling, ended, lines, request

LONG_SECONDS = 150.0

pytestmark = pytest.mark.more
HEALTHY = "ext_text_shout"


async def assert_others_are_served(client: Client) -> None:
    result = await client.call_tool(HEALTHY, {"text": "hi"})
    assert result.structured_content == {"text": "HI"}


@asynccontextmanager
async def beside_a_healthy_one(
    *servers: dict[str, Any], era: str = "handshake", **more: Any
) -> AsyncIterator[tuple[Gateway, Client]]:
    async with (
        inside({"gateway": {"first_list": "200ms"}, "extensions": [TEXT, *servers]}) as gateway,
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
async def test_a_server_that_hangs_in_any_phase_harms_its_own_calls_alone(
    phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "LIST_SECONDS", 0.2)
    limits = {"call": "300ms", "handshake": "60s"}
    report = json.dumps({"silent": ["server/discover", phase]})
    hung = extension("server", "mcp", "-S", "-E", CHILD, report, limits=limits)
    async with beside_a_healthy_one(hung) as (gateway, client):
        await assert_others_are_served(client)
        assert isinstance((await client.list_resources()).resources, list)
        assert isinstance((await client.list_prompts()).prompts, list)
        if phase == "tools/call":
            await tools_of(client, "ext_server_echo")
            late = await client.call_tool("ext_server_echo", {})
            assert late.is_error and error_details(late)["code"] == "X0801"
        if phase == "resources/read":
            await tools_of(client, "ext_server_echo")
            with pytest.raises(MCPError):
                await client.read_resource("a:b")
        await assert_others_are_served(client)
        gateway.host.kill()


async def test_a_flooding_server_does_not_affect_others_and_its_changes_are_reported_briefly() -> (
    None
):
    changes: list[Any] = []

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changes.append(message)

    async with beside_a_healthy_one(server("handshake"), message_handler=on_message) as (_, client):
        await tools_of(client, "ext_server_flood")
        before = len(changes)
        for method in ("notifications/tools/list_changed", "notifications/message", "no/such"):
            params = {"level": "info", "data": "x" * 100} if method.endswith("message") else {}
            what = {"method": method, "params": params}
            flooding = asyncio.ensure_future(
                client.call_tool("ext_server_flood", {"what": what, "times": 3000})
            )
            await assert_others_are_served(client)
            assert text(await flooding) == "flooded"
        assert len(changes) - before < 100
        assert text(await client.call_tool("ext_server_echo", {"a": 1})) == '{"a": 1}'


LIES = [
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
async def test_a_server_that_lies_about_schemas_is_listed_and_its_other_tools_work(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with beside_a_healthy_one(server("handshake", lies=LIES), era=era) as (_, client):
        listed = await tools_of(client, "ext_server_echo", "ext_server_wrong_schema")
        for name in listed:  # each has a schema that clients can read
            assert listed[name].input_schema.get("type") == "object"
        assert listed["ext_server_circle"].output_schema is None
        warnings = [record.getMessage() for record in caplog.records]
        assert sum("circle is offered without its outputSchema" in each for each in warnings) == 1
        assert text(await client.call_tool("ext_server_echo", {"a": 1})) == '{"a": 1}'
        broken = await client.call_tool("ext_server_typed", {"as": {"sum": "three"}})
        assert broken.is_error and error_details(broken)["code"] == "X0661"
        await assert_others_are_served(client)


async def test_a_tool_that_is_renamed_while_it_is_called_answers_and_is_then_unknown() -> None:
    async with beside_a_healthy_one(server("handshake")) as (_, client):
        await tools_of(client, "ext_server_rename")
        done = await client.call_tool("ext_server_rename", {})
        assert text(done) == "done under the old name"
        await tools_of(client, "ext_server_renamed")
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ext_server_rename", {})
        assert caught.value.code == types.INVALID_PARAMS
        assert "ext_server_renamed" in caught.value.message


# -- clients ---------------------------------------------------------------------------------


def cancelled(id: Any) -> dict[str, Any]:
    params = {"requestId": id, "reason": "enough"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


async def test_a_client_that_cancels_twice_or_an_unknown_request_goes_on() -> None:
    async with inside({"extensions": [server("handshake")]}) as gateway:
        with closing(Peer()) as peer:
            serving = asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
            peer.say(lines(*HELLO, calling(1, "ext_server_hang")))
            assert (await peer.next())["id"] == "hello"
            child = gateway.host["server"]
            await until(lambda: child.stats.in_flight == 1)
            peer.say(lines(cancelled(1), cancelled(1), cancelled("never"), cancelled(None)))
            peer.say(lines({"jsonrpc": "2.0", "method": "notifications/cancelled"}))
            await until(lambda: child.stats.cancelled == 1)
            peer.say(lines(calling(2, "ext_server_echo", a=1), cancelled(1)))
            answer = await peer.next()
            while (
                answer.get("id") != 2
            ):  # whether a cancelled request is answered is its own matter
                assert answer.get("id") in (1, None)
                answer = await peer.next()
            assert answer["result"]["content"][0]["text"] == '{"a": 1}'
            peer.say(lines(cancelled(2), request(3, "ping")))
            assert (await peer.next())["id"] == 3
            assert (child.stats.cancelled, child.stats.in_flight) == (1, 0)
            serving.cancel()
            await asyncio.wait([serving])


async def test_a_client_that_reuses_ids_gets_an_answer_for_each_and_harms_only_itself() -> None:
    async with inside({"extensions": [server("handshake")]}) as gateway:
        with closing(Peer()) as one, closing(Peer()) as other:
            serving = [
                asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
                for peer in (one, other)
            ]
            for peer in (one, other):
                peer.say(lines(*HELLO))
                assert (await peer.next())["id"] == "hello"
            # Under way at once under one id; and the same id of another client.
            one.say(lines(*(calling(7, "ext_server_echo", n=n) for n in range(3))))
            other.say(lines(calling(7, "ext_server_echo", n="other")))
            answer = await other.next()
            assert answer["id"] == 7
            assert answer["result"]["content"][0]["text"] == '{"n": "other"}'
            answers = [await one.next() for _ in range(3)]
            assert {answer["id"] for answer in answers} == {7}
            texts = [a["result"]["content"][0]["text"] for a in answers if "result" in a]
            assert texts and set(texts) <= {f'{{"n": {n}}}' for n in range(3)}
            one.say(lines(calling(7, "ext_server_echo", n="again")))  # not under way any more
            assert (await one.next())["result"]["content"][0]["text"] == '{"n": "again"}'
            for task in serving:
                task.cancel()
            await asyncio.wait(serving)


async def test_a_client_that_disappears_in_a_call_leaves_nothing_under_way() -> None:
    brief = extension("server", "mcp", "-S", "-E", CHILD, limits={"call": "500ms"})
    async with inside({"extensions": [brief]}) as gateway:
        with closing(Peer()) as gone, closing(Peer()) as stays:
            serving = [
                asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
                for peer in (gone, stays)
            ]
            gone.say(lines(*HELLO, calling(1, "ext_server_hang")))
            assert (await gone.next())["id"] == "hello"
            child = gateway.host["server"]
            gone.hang_up()
            gone.go_deaf()
            await ended(serving[0])
            assert child.stats.in_flight == 0
            stays.say(lines(*HELLO, calling(1, "ext_server_echo", a=1)))
            assert (await stays.next())["id"] == "hello"
            assert (await stays.next())["result"]["content"][0]["text"] == '{"a": 1}'
            serving[1].cancel()
            await asyncio.wait(serving)


async def test_on_http_two_clients_of_one_token_one_of_which_never_reads() -> None:
    what = {"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}}
    async with served_on_http({"extensions": [server("handshake")]}) as gateway:
        one, other = await gateway.session(), await gateway.session()
        assert one != other
        sent = ACCEPT | {"Authorization": "Bearer one", "Mcp-Session-Id": one}
        message = calling(1, "ext_server_flood", what=what, times=2000)
        async with gateway.client.stream("POST", gateway.url, json=message, headers=sent) as unread:
            assert unread.status_code == 200
            for n in range(3):
                echo = calling(1, "ext_server_echo", n=n)  # the same id as the other's
                answer = await gateway.post(echo, Mcp_Session_Id=other)
                assert f'{{\\"n\\": {n}}}' in answer.text and "flooded" not in answer.text
        # It went without reading to the end; its session goes on.
        answer = await gateway.post(calling(2, "ext_server_echo", n=9), Mcp_Session_Id=one)
        assert '{\\"n\\": 9}' in answer.text
