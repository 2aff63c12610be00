"""Tests of `EventStreamResponse`, which sends events to a browser (`data: {…}`)."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from exthost.faces.web.event_stream import EventStreamResponse, OpenStreams


async def events(*, fails: bool) -> AsyncGenerator[dict[str, int], None]:
    """Yield one event, and then end or fail."""
    yield {"number": 1}
    if fails:
        raise LookupError("no more events")


async def send_all(*, fails: bool) -> list[dict[str, Any]]:
    """Return the messages of a response to a client that stays connected."""
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    response = EventStreamResponse(events(fails=fails), OpenStreams())
    with pytest.raises(LookupError) if fails else contextlib.nullcontext():
        await response({"type": "http"}, receive, send)
    return sent


@pytest.mark.parametrize("fails", [False, True])
async def test_the_events_are_sent_and_their_error_is_raised(fails: bool) -> None:
    start, event, *_ = await send_all(fails=fails)
    assert start["status"] == 200
    assert event["body"] == b'data: {"number":1}\n\n'
