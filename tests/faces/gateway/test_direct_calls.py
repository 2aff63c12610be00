"""Tool calls that the package's session layer has no part in: they look as if it had."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import mcp_types as types
import pytest

from exthost.faces.gateway import call_response, http_calls, stdio
from exthost.faces.gateway.server import Gateway
from tests.extensions.harness import until
from tests.faces.gateway.gateway_process import STATELESS, inside
from tests.faces.gateway.test_http import ACCEPT
from tests.faces.gateway.test_http_sessions import Served
from tests.faces.gateway.test_http_sessions import served as served_on_http
from tests.faces.gateway.test_relayed_requests import server
from tests.faces.gateway.test_stdio import LONG_SECONDS, Peer, calling, lines, request

pytestmark = pytest.mark.more

ENVELOPE = {
    types.PROTOCOL_VERSION_META_KEY: STATELESS,
    types.CLIENT_CAPABILITIES_META_KEY: {},
    types.CLIENT_INFO_META_KEY: {"name": "raw", "version": "1"},
}
ECHOED = '{"a": 1}'


def hello(**capabilities: Any) -> list[dict[str, Any]]:
    about = {"name": "raw", "version": "1"}
    version = "2025-11-25"
    return [
        request(
            "hello",
            "initialize",
            protocolVersion=version,
            capabilities=capabilities,
            clientInfo=about,
        ),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("open", "ping"),
    ]


def stateless(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**message, "params": {**message["params"], "_meta": {**ENVELOPE, **more}}}


def reporting(message: dict[str, Any]) -> dict[str, Any]:
    """The call, with a request for progress."""
    meta = {**message["params"].get("_meta", {}), "progressToken": "p"}
    return {**message, "params": {**message["params"], "_meta": meta}}


def cancelling(id: Any) -> dict[str, Any]:
    params = {"requestId": id}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def text_of(answer: Any) -> str:
    return str(answer["result"]["content"][0]["text"])


def count_calls(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The ids of the calls that the package has no part in."""
    direct: list[Any] = []
    answer = gateway.answer_call

    async def counted(ctx: Any) -> dict[str, Any]:
        direct.append(ctx.request_id)
        return await answer(ctx)

    monkeypatch.setattr(gateway, "answer_call", counted)
    return direct


# -- stdio -----------------------------------------------------------------------------------


@asynccontextmanager
async def on_pipes(
    monkeypatch: pytest.MonkeyPatch, *opening: dict[str, Any]
) -> AsyncIterator[tuple[Gateway, Peer, list[Any]]]:
    async with inside({"extensions": [server("handshake")]}) as gateway:
        direct = count_calls(gateway, monkeypatch)
        with closing(Peer()) as peer:
            serving = asyncio.ensure_future(stdio.serve(gateway.server, peer.wire))
            try:
                for message in opening:
                    peer.say(lines(message))
                    if "id" in message:
                        assert (await peer.next())["id"] == message["id"]
                yield gateway, peer, direct
            finally:
                serving.cancel()
                await asyncio.wait([serving])


async def test_on_stdio_progress_and_log_messages_come_before_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with on_pipes(monkeypatch, *hello()) as (_, peer, direct):
        peer.say(lines(reporting(calling(1, "ext_server_steps", times=3))))
        reports = [await peer.next() for _ in range(4)]
        assert [report["params"]["progress"] for report in reports[:3]] == [1, 2, 3]
        assert {report["params"]["progressToken"] for report in reports[:3]} == {"p"}
        assert reports[3]["id"] == 1 and text_of(reports[3]) == "done"
        log = {"level": "info", "data": "ü"}
        given = {"method": "notifications/message", "params": log}
        peer.say(lines(calling("two", "ext_server_notify", **given)))
        assert await peer.next() == {"jsonrpc": "2.0", **given}
        assert (await peer.next())["id"] == "two"
        assert direct == [1, "two"]


async def test_on_stdio_a_server_can_ask_the_client_of_a_direct_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with on_pipes(monkeypatch, *hello(elicitation={})) as (_, peer, direct):
        form = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
        given = {"method": "elicitation/create", "params": form}
        peer.say(lines(calling(1, "ext_server_ask", **given)))
        asked = await peer.next()
        assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "who?")
        peer.say(lines({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}))
        answer = json.loads(text_of(await peer.next()))
        assert answer["result"] == {"action": "decline"} and direct == [1]


async def test_on_stdio_a_direct_call_is_cancelled_by_its_id_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with on_pipes(monkeypatch, *hello()) as (gateway, peer, direct):
        child = gateway.host["server"]
        peer.say(lines(calling(1, "ext_server_hang"), calling("2", "ext_server_hang")))
        await until(lambda: child.stats.in_flight == 2)
        peer.say(lines(cancelling("1"), cancelling(2), cancelling(3)))
        await until(lambda: child.stats.cancelled == 2)
        # One that is cancelled before it has begun leaves nothing behind, either.
        peer.say(lines(calling(4, "ext_server_hang"), cancelling(4)))
        peer.say(lines(calling(5, "ext_server_echo", a=1)))
        assert text_of(await peer.next()) == ECHOED
        assert child.stats.in_flight == 0 and direct[-1] == 5


@pytest.mark.parametrize("is_stateless", [False, True])
async def test_on_stdio_errors_and_unusual_calls_are_answered_as_by_the_package(
    is_stateless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = [stateless(request("first", "tools/list"))] if is_stateless else hello()
    dressed = stateless if is_stateless else dict
    async with on_pipes(monkeypatch, *opening) as (_, peer, direct):
        for tool, code in (("ext_server_none", types.INVALID_PARAMS), (7, types.INVALID_PARAMS)):
            peer.say(lines(dressed(request(1, "tools/call", name=tool))))
            answer = await peer.next()
            assert (answer["id"], answer["error"]["code"]) == (1, code)
        large = 2**70
        peer.say(lines(dressed(calling(2, "ext_server_echo", a=large))))
        assert str(large) in text_of(await peer.next())
        peer.say(lines(dressed(calling(2, "ext_server_echo", a="\ud800"))))
        assert (await peer.next())["error"]["code"] == types.INVALID_REQUEST
        peer.say(json.dumps(dressed(calling(3, "ext_server_echo", a=1))).encode() + b"\r\n")
        assert text_of(await peer.next()) == ECHOED
        assert 3 in direct
        # The era of a connection does not change.
        other = dict if is_stateless else stateless
        peer.say(lines(other(calling(4, "ext_server_echo", a=1))))
        answer = await peer.next()
        assert answer["id"] == 4 and "error" in answer and 4 not in direct
        if is_stateless:
            wrong = {types.PROTOCOL_VERSION_META_KEY: "1999-01-01"}
            peer.say(lines(stateless(calling(5, "ext_server_echo"), **wrong)))
            assert (await peer.next())["error"]["code"] == types.UNSUPPORTED_PROTOCOL_VERSION
            peer.say(lines(dressed(calling(6, "ext_server_echo", a=1))))
            assert (await peer.next())["result"]["resultType"] == "complete"


# -- HTTP ------------------------------------------------------------------------------------


@asynccontextmanager
async def in_session(
    monkeypatch: pytest.MonkeyPatch, **capabilities: Any
) -> AsyncIterator[tuple[Served, dict[str, str], Gateway]]:
    """A gateway, and the headers of an open session whose next call is a direct one."""
    opened: list[Gateway] = []
    begin = Gateway.open

    def open_and_keep(gateway: Gateway) -> Any:
        opened.append(gateway)
        return begin(gateway)

    monkeypatch.setattr(Gateway, "open", open_and_keep)
    async with served_on_http({"extensions": [server("handshake")]}) as gateway:
        first, ready, _ = hello(**capabilities)
        session = str((await gateway.post(first)).headers["mcp-session-id"])
        headers = {"Mcp_Session_Id": session}
        assert (await gateway.post(ready, **headers)).status_code == 202
        yield gateway, headers, opened[0]


async def test_on_http_a_result_is_a_json_body_and_progress_makes_it_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_session(monkeypatch) as (gateway, headers, _):
        answer = await gateway.post(calling(1, "ext_server_echo", a=1), **headers)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["mcp-session-id"] == headers["Mcp_Session_Id"]
        assert answer.json()["id"] == 1 and text_of(answer.json()) == ECHOED
        answer = await gateway.post(reporting(calling(2, "ext_server_steps", times=2)), **headers)
        assert answer.headers["content-type"] == "text/event-stream"
        reported = events(answer.text)
        assert [report["params"]["progress"] for report in reported[:2]] == [1, 2]
        assert reported[2]["id"] == 2 and text_of(reported[2]) == "done"
        unknown = await gateway.post(calling(3, "ext_server_none"), **headers)
        assert unknown.json()["error"]["code"] == types.INVALID_PARAMS
        monkeypatch.setattr(http_calls, "PACKAGE_SECONDS", 0.0)  # the package gets a ping, not this
        answer = await gateway.post(calling(4, "ext_server_echo", a=1), **headers)
        assert answer.headers["content-type"] == "application/json"


async def test_on_http_calls_keep_their_session_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    observed: list[str] = []
    ping_session = http_calls.ping_session

    async def counted(app: Any, scope: Any) -> bool:
        observed.append(scope["path"])
        return await ping_session(app, scope)

    monkeypatch.setattr(http_calls, "ping_session", counted)
    async with in_session(monkeypatch) as (gateway, headers, _):
        async with asyncio.timeout(LONG_SECONDS):
            calls = [calling(id, "ext_server_echo", a=1) for id in range(10)]
            answers = await asyncio.gather(*(gateway.post(call, **headers) for call in calls))
        assert all(text_of(answer.json()) == ECHOED for answer in answers)
        assert len(observed) == 1, "not before each call"
        monkeypatch.setattr(http_calls, "ping_session", refused)
        monkeypatch.setattr(http_calls, "PACKAGE_SECONDS", 0.0)
        answer = await gateway.post(calling(3, "ext_server_echo", a=1), **headers)
        assert answer.headers["content-type"].startswith("text/event-stream"), "by the package"


async def refused(app: Any, scope: Any) -> bool:
    return False


def events(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def test_on_http_a_call_that_takes_long_becomes_a_stream_that_is_kept_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_session(monkeypatch) as (gateway, headers, inner):
        monkeypatch.setattr(call_response, "COMMENT_SECONDS", 0.05)
        sent = ACCEPT | {
            "Authorization": "Bearer one",
            "Mcp-Session-Id": headers["Mcp_Session_Id"],
        }
        message = calling(1, "ext_server_hang")
        async with (
            asyncio.timeout(LONG_SECONDS),
            gateway.client.stream("POST", gateway.url, json=message, headers=sent) as answer,
        ):
            assert answer.headers["content-type"] == "text/event-stream"
            parts = answer.aiter_text()
            assert (await anext(parts)).startswith(": ")
            done = await gateway.post(cancelling(1), **headers)
            assert done.status_code == 202
            rest = "".join([part async for part in parts])
        [cancelled] = events(rest)
        assert (cancelled["id"], cancelled["error"]["code"]) == (1, -32800)
        await until(lambda: inner.host["server"].stats.cancelled == 1)


async def test_on_http_the_end_of_a_session_ends_its_direct_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_session(monkeypatch) as (gateway, headers, inner):
        child = inner.host["server"]
        hanging = asyncio.ensure_future(gateway.post(calling(1, "ext_server_hang"), **headers))
        await until(lambda: child.stats.in_flight == 1)
        sent = {"Authorization": "Bearer one", "Mcp-Session-Id": headers["Mcp_Session_Id"]}
        ended = await gateway.client.delete(gateway.url, headers=sent)
        assert ended.status_code == 200
        async with asyncio.timeout(LONG_SECONDS):
            assert "error" in (await hanging).json()
        await until(lambda: child.stats.in_flight == 0)
        gone = await gateway.post(calling(2, "ext_server_echo", a=1), **headers)
        assert gone.status_code == 404


@pytest.mark.parametrize("refuses", [False, True])
async def test_on_http_a_server_can_ask_the_client_of_a_direct_call(
    refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
    given = {"method": "elicitation/create", "params": form}
    async with in_session(monkeypatch, elicitation={}) as (gateway, headers, _):
        sent = ACCEPT | {
            "Authorization": "Bearer one",
            "Mcp-Session-Id": headers["Mcp_Session_Id"],
        }
        message = calling(1, "ext_server_ask", **given)
        async with (
            asyncio.timeout(LONG_SECONDS),
            gateway.client.stream("POST", gateway.url, json=message, headers=sent) as answer,
        ):
            parts = answer.aiter_text()
            [asked] = events(await anext(parts))
            assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "who?")
            error = {"code": -1, "message": "no"}
            outcome = {"error": error} if refuses else {"result": {"action": "decline"}}
            reply = {"jsonrpc": "2.0", "id": asked["id"], **outcome}
            unknown = await gateway.post({**reply, "id": "exthost-77"}, **headers)
            done = await gateway.post(reply, **headers)
            assert (unknown.status_code, done.status_code) == (202, 202)
            [result] = events("".join([part async for part in parts]))
        report = json.loads(text_of(result))
        if refuses:
            assert report["error"]["code"] == -1
        else:
            assert report["result"] == {"action": "decline"}


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
async def test_on_http_the_refusals_of_the_package_apply(
    headers: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_session(monkeypatch) as (gateway, known, _):
        answer = await gateway.post(calling(1, "ext_server_echo", a=1), **(known | headers))
        assert answer.status_code == status, answer.text


async def test_on_http_stateless_calls_are_direct_and_their_headers_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    headers = {
        "Mcp_Protocol_Version": STATELESS,
        "Mcp_Method": "tools/call",
        "Mcp_Name": "ext_server_echo",
    }
    async with in_session(monkeypatch) as (gateway, _, inner):
        message = stateless(calling(1, "ext_server_echo", a=1))
        answer = await gateway.post(message, **headers)
        assert text_of(answer.json()) == ECHOED and "mcp-session-id" not in answer.headers
        assert answer.json()["result"]["resultType"] == "complete"
        wrong = await gateway.post(message, **(headers | {"Mcp_Name": "another"}))
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, types.HEADER_MISMATCH)
        unknown = stateless(calling(2, "ext_server_none"))
        refused = await gateway.post(unknown, **(headers | {"Mcp_Name": "ext_server_none"}))
        assert (refused.status_code, refused.json()["id"]) == (400, 2)
        # A client that closes its connection cancels its call.
        hang = {"Mcp_Name": "ext_server_hang"}
        hanging = asyncio.ensure_future(
            gateway.post(stateless(calling(3, "ext_server_hang")), **(headers | hang))
        )
        child = inner.host["server"]
        await until(lambda: child.stats.in_flight == 1)
        hanging.cancel()
        await until(lambda: child.stats.cancelled == 1)
