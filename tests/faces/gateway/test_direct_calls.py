"""Tests of direct calls: tool calls that the gateway answers by a faster path.

The gateway is an MCP server, written with the package `mcp`. For ordinary tool calls it uses a
faster path (`Gateway.answer_call`). Clients must not notice a difference. The tests send raw
messages on stdio and on HTTP; `direct` is a list of the ids of the calls that took the faster path.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import mcp_types as types
import pytest

from exthost.faces.gateway import call_response, http_calls, stdio
from exthost.faces.gateway.server import Gateway
from tests.extensions.harness import wait_until
from tests.faces.gateway.gateway_process import STATELESS, open_gateway
from tests.faces.gateway.test_http import ACCEPT
from tests.faces.gateway.test_http_sessions import GatewayOnHttp, serve_on_http
from tests.faces.gateway.test_relayed_requests import server
from tests.faces.gateway.test_stdio import LONG_SECONDS, Peer, encode_lines, request, tool_call

pytestmark = pytest.mark.more

# The `_meta` of each request in the stateless era.
ENVELOPE = {
    types.PROTOCOL_VERSION_META_KEY: STATELESS,
    types.CLIENT_CAPABILITIES_META_KEY: {},
    types.CLIENT_INFO_META_KEY: {"name": "raw", "version": "1"},
}
ECHOED = '{"a": 1}'  # the result of the tool `echo` with a=1


def handshake(**capabilities: Any) -> list[dict[str, Any]]:
    """Return the first messages of a client with these capabilities."""
    client_info = {"name": "raw", "version": "1"}
    version = "2025-11-25"
    return [
        request(
            "hello",
            "initialize",
            protocolVersion=version,
            capabilities=capabilities,
            clientInfo=client_info,
        ),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("open", "ping"),
    ]


def in_stateless_era(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a request with the `_meta` of the stateless era."""
    return {**message, "params": {**message["params"], "_meta": {**ENVELOPE, **more}}}


def with_progress(message: dict[str, Any]) -> dict[str, Any]:
    """Return the call with a request for progress."""
    meta = {**message["params"].get("_meta", {}), "progressToken": "p"}
    return {**message, "params": {**message["params"], "_meta": meta}}


def cancellation(id: Any) -> dict[str, Any]:
    """Return the notification that cancels the request with this id."""
    params = {"requestId": id}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def text_of(answer: Any) -> str:
    """Return the text of the first block of a result."""
    return str(answer["result"]["content"][0]["text"])


def record_direct_calls(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which the id of each direct call will be appended."""
    direct: list[Any] = []
    answer = gateway.answer_call

    async def record_and_answer(ctx: Any) -> dict[str, Any]:
        direct.append(ctx.request_id)
        return await answer(ctx)

    monkeypatch.setattr(gateway, "answer_call", record_and_answer)
    return direct


# -- stdio -----------------------------------------------------------------------------------


@asynccontextmanager
async def connected_peer(
    monkeypatch: pytest.MonkeyPatch, *opening: dict[str, Any]
) -> AsyncIterator[tuple[Gateway, Peer, list[Any]]]:
    """Yield a gateway, a client that has sent these messages, and the list of direct calls."""
    async with open_gateway({"extensions": [server("handshake")]}) as gateway:
        direct = record_direct_calls(gateway, monkeypatch)
        with closing(Peer()) as peer:
            serving = asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
            try:
                for message in opening:
                    peer.send(encode_lines(message))
                    if "id" in message:
                        assert (await peer.receive())["id"] == message["id"]
                yield gateway, peer, direct
            finally:
                serving.cancel()
                await asyncio.wait([serving])


async def test_on_stdio_progress_and_log_messages_come_before_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected_peer(monkeypatch, *handshake()) as (_, peer, direct):
        peer.send(encode_lines(with_progress(tool_call(1, "ext_server_steps", times=3))))
        reports = [await peer.receive() for _ in range(4)]
        assert [report["params"]["progress"] for report in reports[:3]] == [1, 2, 3]
        assert {report["params"]["progressToken"] for report in reports[:3]} == {"p"}
        assert reports[3]["id"] == 1 and text_of(reports[3]) == "done"
        log = {"level": "info", "data": "ü"}
        notification = {"method": "notifications/message", "params": log}
        peer.send(encode_lines(tool_call("two", "ext_server_notify", **notification)))
        assert await peer.receive() == {"jsonrpc": "2.0", **notification}
        assert (await peer.receive())["id"] == "two"
        assert direct == [1, "two"]


async def test_on_stdio_a_server_can_ask_the_client_of_a_direct_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected_peer(monkeypatch, *handshake(elicitation={})) as (_, peer, direct):
        form = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
        elicitation = {"method": "elicitation/create", "params": form}
        peer.send(encode_lines(tool_call(1, "ext_server_ask", **elicitation)))
        question = await peer.receive()
        assert (question["method"], question["params"]["message"]) == ("elicitation/create", "who?")
        peer.send(
            encode_lines({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        )
        answer = json.loads(text_of(await peer.receive()))
        assert answer["result"] == {"action": "decline"} and direct == [1]


async def test_on_stdio_a_direct_call_is_cancelled_by_its_id_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected_peer(monkeypatch, *handshake()) as (gateway, peer, direct):
        child = gateway.host["server"]
        peer.send(encode_lines(tool_call(1, "ext_server_hang"), tool_call("2", "ext_server_hang")))
        await wait_until(lambda: child.stats.in_flight == 2)
        # Some clients change the type of an id: "1" cancels 1, and 2 cancels "2". The id 3 is
        # unknown.
        peer.send(encode_lines(cancellation("1"), cancellation(2), cancellation(3)))
        await wait_until(lambda: child.stats.cancelled == 2)
        # A call that is cancelled before it has begun.
        peer.send(encode_lines(tool_call(4, "ext_server_hang"), cancellation(4)))
        peer.send(encode_lines(tool_call(5, "ext_server_echo", a=1)))
        assert text_of(await peer.receive()) == ECHOED
        assert child.stats.in_flight == 0 and direct[-1] == 5


@pytest.mark.parametrize("is_stateless", [False, True])
async def test_on_stdio_invalid_and_unusual_calls_are_answered(
    is_stateless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = [in_stateless_era(request("first", "tools/list"))] if is_stateless else handshake()
    in_era = in_stateless_era if is_stateless else dict
    async with connected_peer(monkeypatch, *opening) as (_, peer, direct):
        for tool, code in (("ext_server_none", types.INVALID_PARAMS), (7, types.INVALID_PARAMS)):
            peer.send(encode_lines(in_era(request(1, "tools/call", name=tool))))
            answer = await peer.receive()
            assert (answer["id"], answer["error"]["code"]) == (1, code)
        large = 2**70
        peer.send(encode_lines(in_era(tool_call(2, "ext_server_echo", a=large))))
        assert str(large) in text_of(await peer.receive())
        peer.send(encode_lines(in_era(tool_call(2, "ext_server_echo", a="\ud800"))))
        assert (await peer.receive())["error"]["code"] == types.INVALID_REQUEST
        peer.send(json.dumps(in_era(tool_call(3, "ext_server_echo", a=1))).encode() + b"\r\n")
        assert text_of(await peer.receive()) == ECHOED
        assert 3 in direct
        # A connection cannot change its era.
        in_other_era = dict if is_stateless else in_stateless_era
        peer.send(encode_lines(in_other_era(tool_call(4, "ext_server_echo", a=1))))
        answer = await peer.receive()
        assert answer["id"] == 4 and "error" in answer and 4 not in direct
        if is_stateless:
            wrong = {types.PROTOCOL_VERSION_META_KEY: "1999-01-01"}
            peer.send(encode_lines(in_stateless_era(tool_call(5, "ext_server_echo"), **wrong)))
            assert (await peer.receive())["error"]["code"] == types.UNSUPPORTED_PROTOCOL_VERSION
            peer.send(encode_lines(in_era(tool_call(6, "ext_server_echo", a=1))))
            assert (await peer.receive())["result"]["resultType"] == "complete"


# -- HTTP ------------------------------------------------------------------------------------


@asynccontextmanager
async def open_session(
    monkeypatch: pytest.MonkeyPatch, **capabilities: Any
) -> AsyncIterator[tuple[GatewayOnHttp, dict[str, str], Gateway]]:
    """Yield a gateway on HTTP, the headers of an open session whose calls are direct, and the
    `Gateway` itself."""
    gateways: list[Gateway] = []
    original_open = Gateway.open

    def open_and_keep(gateway: Gateway) -> Any:
        gateways.append(gateway)
        return original_open(gateway)

    monkeypatch.setattr(Gateway, "open", open_and_keep)
    async with serve_on_http({"extensions": [server("handshake")]}) as gateway:
        first, ready, _ = handshake(**capabilities)
        session = str((await gateway.post(first)).headers["mcp-session-id"])
        headers = {"Mcp_Session_Id": session}
        assert (await gateway.post(ready, **headers)).status_code == 202
        yield gateway, headers, gateways[0]


async def test_on_http_a_result_is_a_json_body_and_progress_makes_it_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_session(monkeypatch) as (gateway, headers, _):
        answer = await gateway.post(tool_call(1, "ext_server_echo", a=1), **headers)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["mcp-session-id"] == headers["Mcp_Session_Id"]
        assert answer.json()["id"] == 1 and text_of(answer.json()) == ECHOED
        answer = await gateway.post(
            with_progress(tool_call(2, "ext_server_steps", times=2)), **headers
        )
        assert answer.headers["content-type"] == "text/event-stream"
        messages = events(answer.text)
        assert [report["params"]["progress"] for report in messages[:2]] == [1, 2]
        assert messages[2]["id"] == 2 and text_of(messages[2]) == "done"
        unknown = await gateway.post(tool_call(3, "ext_server_none"), **headers)
        assert unknown.json()["error"]["code"] == types.INVALID_PARAMS
        monkeypatch.setattr(http_calls, "PACKAGE_SECONDS", 0.0)  # the session is pinged first
        answer = await gateway.post(tool_call(4, "ext_server_echo", a=1), **headers)
        assert answer.headers["content-type"] == "application/json"


async def test_on_http_calls_keep_their_session_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    pings: list[str] = []
    ping_session = http_calls.ping_session

    async def record_and_ping(app: Any, scope: Any) -> bool:
        pings.append(scope["path"])
        return await ping_session(app, scope)

    monkeypatch.setattr(http_calls, "ping_session", record_and_ping)
    async with open_session(monkeypatch) as (gateway, headers, _):
        async with asyncio.timeout(LONG_SECONDS):
            calls = [tool_call(id, "ext_server_echo", a=1) for id in range(10)]
            answers = await asyncio.gather(*(gateway.post(call, **headers) for call in calls))
        assert all(text_of(answer.json()) == ECHOED for answer in answers)
        assert len(pings) == 1, "the session is not pinged before each call"
        monkeypatch.setattr(http_calls, "ping_session", refuse_ping)
        monkeypatch.setattr(http_calls, "PACKAGE_SECONDS", 0.0)
        answer = await gateway.post(tool_call(3, "ext_server_echo", a=1), **headers)
        assert answer.headers["content-type"].startswith("text/event-stream"), (
            "the package answers this call"
        )


async def refuse_ping(app: Any, scope: Any) -> bool:
    return False


def events(text: str) -> list[Any]:
    """Return the messages of an event stream."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def test_on_http_a_call_that_takes_long_becomes_a_stream_that_is_kept_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_session(monkeypatch) as (gateway, headers, inner):
        monkeypatch.setattr(call_response, "COMMENT_SECONDS", 0.05)
        sent = ACCEPT | {
            "Authorization": "Bearer one",
            "Mcp-Session-Id": headers["Mcp_Session_Id"],
        }
        message = tool_call(1, "ext_server_hang")
        async with (
            asyncio.timeout(LONG_SECONDS),
            gateway.client.stream("POST", gateway.url, json=message, headers=sent) as answer,
        ):
            assert answer.headers["content-type"] == "text/event-stream"
            parts = answer.aiter_text()
            assert (await anext(parts)).startswith(": ")
            accepted = await gateway.post(cancellation(1), **headers)
            assert accepted.status_code == 202
            rest = "".join([part async for part in parts])
        [response] = events(rest)
        assert (response["id"], response["error"]["code"]) == (1, -32800)  # cancelled
        await wait_until(lambda: inner.host["server"].stats.cancelled == 1)


async def test_on_http_the_end_of_a_session_ends_its_direct_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_session(monkeypatch) as (gateway, headers, inner):
        child = inner.host["server"]
        hanging = asyncio.ensure_future(gateway.post(tool_call(1, "ext_server_hang"), **headers))
        await wait_until(lambda: child.stats.in_flight == 1)
        sent = {"Authorization": "Bearer one", "Mcp-Session-Id": headers["Mcp_Session_Id"]}
        deleted = await gateway.client.delete(gateway.url, headers=sent)
        assert deleted.status_code == 200
        async with asyncio.timeout(LONG_SECONDS):
            assert "error" in (await hanging).json()
        await wait_until(lambda: child.stats.in_flight == 0)
        response = await gateway.post(tool_call(2, "ext_server_echo", a=1), **headers)
        assert response.status_code == 404


@pytest.mark.parametrize("refuses", [False, True])
async def test_on_http_a_server_can_ask_the_client_of_a_direct_call(
    refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
    elicitation = {"method": "elicitation/create", "params": form}
    async with open_session(monkeypatch, elicitation={}) as (gateway, headers, _):
        sent = ACCEPT | {
            "Authorization": "Bearer one",
            "Mcp-Session-Id": headers["Mcp_Session_Id"],
        }
        message = tool_call(1, "ext_server_ask", **elicitation)
        async with (
            asyncio.timeout(LONG_SECONDS),
            gateway.client.stream("POST", gateway.url, json=message, headers=sent) as answer,
        ):
            parts = answer.aiter_text()
            [question] = events(await anext(parts))
            assert (question["method"], question["params"]["message"]) == (
                "elicitation/create",
                "who?",
            )
            error = {"code": -1, "message": "no"}
            outcome = {"error": error} if refuses else {"result": {"action": "decline"}}
            reply = {"jsonrpc": "2.0", "id": question["id"], **outcome}
            # A reply to a request that was never sent is ignored.
            unknown = await gateway.post({**reply, "id": "exthost-77"}, **headers)
            accepted = await gateway.post(reply, **headers)
            assert (unknown.status_code, accepted.status_code) == (202, 202)
            [result] = events("".join([part async for part in parts]))
        reply_seen_by_server = json.loads(text_of(result))
        if refuses:
            assert reply_seen_by_server["error"]["code"] == -1
        else:
            assert reply_seen_by_server["result"] == {"action": "decline"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "attacker.example"}, 421),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Accept": "application/json"}, 406),
        ({"Content_Type": "text/plain"}, 400),
        ({"Mcp_Session_Id": "no-such-session"}, 404),
        ({"Mcp_Protocol_Version": "1999-01-01"}, 400),
    ],
)
async def test_on_http_requests_that_the_package_refuses_are_refused(
    headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_session(monkeypatch) as (gateway, session_headers, _):
        answer = await gateway.post(
            tool_call(1, "ext_server_echo", a=1), **(session_headers | headers)
        )
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("meta", [7, "a", [1], None])
async def test_on_http_a_call_with_unusual_meta_is_answered_as_on_stdio(
    meta: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_session(monkeypatch) as (gateway, headers, _):
        call = tool_call(1, "ext_server_echo", a=1)
        call["params"]["_meta"] = meta
        answer = await gateway.post(call, **headers)
        assert answer.status_code == 200 and "result" in answer.text, answer.text


async def test_on_http_stateless_calls_are_direct_and_their_headers_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    headers = {
        "Mcp_Protocol_Version": STATELESS,
        "Mcp_Method": "tools/call",
        "Mcp_Name": "ext_server_echo",
    }
    async with open_session(monkeypatch) as (gateway, _, inner):
        message = in_stateless_era(tool_call(1, "ext_server_echo", a=1))
        answer = await gateway.post(message, **headers)
        assert text_of(answer.json()) == ECHOED and "mcp-session-id" not in answer.headers
        assert answer.json()["result"]["resultType"] == "complete"
        wrong = await gateway.post(message, **(headers | {"Mcp_Name": "another"}))
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, types.HEADER_MISMATCH)
        unknown = in_stateless_era(tool_call(2, "ext_server_none"))
        refused = await gateway.post(unknown, **(headers | {"Mcp_Name": "ext_server_none"}))
        assert (refused.status_code, refused.json()["id"]) == (400, 2)
        # A client that closes its connection cancels its call.
        hang = {"Mcp_Name": "ext_server_hang"}
        hanging = asyncio.ensure_future(
            gateway.post(in_stateless_era(tool_call(3, "ext_server_hang")), **(headers | hang))
        )
        child = inner.host["server"]
        await wait_until(lambda: child.stats.in_flight == 1)
        hanging.cancel()
        await wait_until(lambda: child.stats.cancelled == 1)
