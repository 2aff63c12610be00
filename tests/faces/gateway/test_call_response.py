"""Tests of `CallResponse`, the response to a tool call on HTTP.

It is a JSON body if there is only the reply. If messages such as progress come before the reply, or
the call takes long, it is an event stream, in which comments keep the connection open.
"""

import asyncio
from typing import Any

import pytest

from exthost.faces.gateway.call_response import CallResponse
from exthost.faces.gateway.http_calls import ClientRequests
from exthost.wire import jsontext

REPLY = b'{"jsonrpc":"2.0","id":1,"result":{}}'


class FakeConnection:
    """A connection that keeps the messages that are sent to it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def test_a_reply_without_messages_before_it_is_a_json_body() -> None:
    connection = FakeConnection()
    response = CallResponse(connection.send)
    await response.end(REPLY, 400)
    start, body = connection.sent
    assert start["status"] == 400 and (b"content-type", b"application/json") in start["headers"]
    assert body == {"type": "http.response.body", "body": REPLY}


async def test_a_message_before_the_reply_makes_the_response_an_event_stream() -> None:
    connection = FakeConnection()
    response = CallResponse(connection.send)
    await response.send({"n": 1})
    await response.end(REPLY, 400)
    start, first, last = connection.sent
    assert start["status"] == 200 and (b"content-type", b"text/event-stream") in start["headers"]
    assert first["body"] == b'event: message\r\ndata: {"n":1}\r\n\r\n' and first["more_body"]
    assert REPLY in last["body"] and not last.get("more_body")


async def test_messages_after_the_reply_are_not_sent() -> None:
    connection = FakeConnection()
    response = CallResponse(connection.send)
    await response.end(REPLY, 200)
    await response.send({"n": 1})
    assert len(connection.sent) == 2  # the start and the body of the response


async def test_closing_a_response_without_comments_stops_its_timer() -> None:
    response = CallResponse(FakeConnection().send)
    response.close()
    assert response._timer.cancelled()


async def test_closing_a_response_cancels_the_comment_that_is_being_sent() -> None:
    connection = FakeConnection()
    response = CallResponse(connection.send)
    response._timer.cancel()  # the test starts the comment, not the timer
    response._start_comment()
    response.close()
    task = response._comment_task
    assert task is not None
    await asyncio.wait([task])
    assert task.cancelled() and connection.sent == []


async def test_a_request_to_the_client_that_is_given_up_is_cancelled_in_the_client() -> None:
    connection = FakeConnection()
    response = CallResponse(connection.send)
    asking = asyncio.ensure_future(ClientRequests().ask(response.send, "roots/list", None))
    while len(connection.sent) < 2:  # noqa: ASYNC110 - the start of the response, and the request
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    response.close()
    await response.send({"n": 1})  # is dropped
    request, cancellation = (
        jsontext.decode(part["body"].partition(b"data: ")[2].strip())
        for part in connection.sent[1:]
    )
    assert request["method"] == "roots/list"
    assert cancellation["method"] == "notifications/cancelled"
    assert cancellation["params"]["requestId"] == request["id"]
