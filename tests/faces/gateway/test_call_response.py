"""The response to a tool call on HTTP, with a connection that is made up."""

from typing import Any

from exthost.faces.gateway.call_response import CallResponse

REPLY = b'{"jsonrpc":"2.0","id":1,"result":{}}'


class MadeUpConnection:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def test_a_reply_alone_is_a_body_of_json() -> None:
    connection = MadeUpConnection()
    response = CallResponse(connection.send)
    await response.end(REPLY, 400)
    start, body = connection.sent
    assert start["status"] == 400 and (b"content-type", b"application/json") in start["headers"]
    assert body == {"type": "http.response.body", "body": REPLY}


async def test_a_message_before_the_reply_makes_it_a_stream_of_events() -> None:
    connection = MadeUpConnection()
    response = CallResponse(connection.send)
    await response.send({"n": 1})
    await response.end(REPLY, 400)
    start, first, last = connection.sent
    assert start["status"] == 200 and (b"content-type", b"text/event-stream") in start["headers"]
    assert first["body"] == b'event: message\r\ndata: {"n":1}\r\n\r\n' and first["more_body"]
    assert REPLY in last["body"] and not last.get("more_body")


async def test_messages_after_the_reply_are_not_sent() -> None:
    connection = MadeUpConnection()
    response = CallResponse(connection.send)
    await response.end(REPLY, 200)
    await response.send({"n": 1})
    assert len(connection.sent) == 2
