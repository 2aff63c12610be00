"""Messages of extensions as they come, for the pages that look at them. Bounded.

Recording costs time, so only the extensions that a page shows are recorded. A page renews its
request from time to time; without that, recording ends. Each extension has a ring buffer of its
own, so that many records of one do not push out those of another. A page gets the records that
match its search in batches of a bounded size; the others are counted.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, NamedTuple

from exthost.host.host import Host
from exthost.trace.buffer import TraceBuffer
from exthost.trace.record import TraceRecord
from exthost.web.page_values import cut, to_json

# A page renews its request every 20 s.
INTEREST_SECONDS = 60.0

# The ring of one extension, and that of all together ("").
RING_RECORDS, RING_BYTES = 3_000, 4 * 2**20
ALL_RECORDS, ALL_BYTES = 10_000, 16 * 2**20

# How many extensions are recorded at a time. The one that was shown longest ago is dropped.
MAX_RINGS = 16

# The size of a batch, and how often one is sent.
BATCH_RECORDS = 300
BATCH_SECONDS = 0.25

# Records of a call may have a slightly earlier or later time than the call itself.
EARLIER_SECONDS = 0.05
LATER_SECONDS = 0.5

PREVIEW_CHARACTERS = 400
TEXT_CHARACTERS = 4_000


class _Ring(NamedTuple):
    buffer: TraceBuffer
    unsubscribe: Callable[[], None]
    timer: asyncio.TimerHandle


class Recorder:
    """The ring buffers of the extensions that pages show. The name "" stands for all together."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._rings: dict[str, _Ring] = {}

    def watch(self, name: str) -> TraceBuffer:
        """Record an extension from now on, or continue to; return its ring buffer."""
        ring = self._rings.pop(name, None)
        if ring is None:
            while len(self._rings) >= MAX_RINGS:
                self._drop(next(iter(self._rings)))
            limits = (RING_RECORDS, RING_BYTES) if name else (ALL_RECORDS, ALL_BYTES)
            buffer = TraceBuffer(*limits)
            unsubscribe = self._host.traffic.subscribe(buffer, name)
        else:
            ring.timer.cancel()
            buffer, unsubscribe = ring.buffer, ring.unsubscribe
        timer = self._loop.call_later(INTEREST_SECONDS, self._drop, name)
        self._rings[name] = _Ring(buffer, unsubscribe, timer)
        return buffer

    def find(self, name: str) -> TraceBuffer | None:
        """Return the ring buffer of an extension; None if it is not recorded."""
        ring = self._rings.get(name)
        return ring.buffer if ring is not None else None

    def close(self) -> None:
        """Stop recording."""
        for name in tuple(self._rings):
            self._drop(name)

    def _drop(self, name: str) -> None:
        ring = self._rings.pop(name, None)
        if ring is not None:
            ring.timer.cancel()
            ring.unsubscribe()
            ring.buffer.close()


async def follow_traffic(
    recorder: Recorder, name: str, search: str
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield batches of the records that match, those that are kept first. Runs until closed."""
    words = search.lower().split()
    position = 0
    buffer = recorder.watch(name)
    while True:
        if recorder.watch(name) is not buffer:  # it was dropped, and is recorded again
            buffer, position = recorder.watch(name), 0
        dropped = max(0, buffer.start - position) if position else 0
        start = max(position, buffer.start)
        records = [
            (number, record)
            for number, record in enumerate(buffer.after(start), start)
            if matches(record, words)
        ]
        position = buffer.end
        dropped += max(0, len(records) - BATCH_RECORDS)
        batch = [as_row(number, record) for number, record in records[-BATCH_RECORDS:]]
        yield {"records": batch, "dropped": dropped}
        try:
            async with asyncio.timeout(INTEREST_SECONDS / 3):
                await buffer.wait(position)
        except TimeoutError:
            pass  # time to renew the request
        await asyncio.sleep(BATCH_SECONDS)


def matches(record: TraceRecord, words: Iterable[str]) -> bool:
    """Return whether a record has each of these words, in lower case, in any of its parts."""
    text = ""
    for word in words:
        if not text:
            head = f"{record.extension} {record.kind} {record.method} {record.id} {record.text} "
            text = (head + preview(record)).lower()
        if word not in text:
            return False
    return True


def as_row(number: int, record: TraceRecord) -> dict[str, Any]:
    """Return a record as the page lists it: what it says is cut to a line."""
    row = record.as_dict()
    for name in ("params", "result", "error", "data"):
        row.pop(name, None)
    shown = preview(record)
    row |= {"number": number, "preview": shown[:PREVIEW_CHARACTERS]}
    row["is_cut"] = len(shown) > PREVIEW_CHARACTERS
    row["text"] = cut(text_of(record), TEXT_CHARACTERS)
    return row


def text_of(record: TraceRecord) -> str:
    """Return the text of a record; of a move, from where to where."""
    if record.kind == "state" and isinstance(record.data, dict):
        move = f"{record.data.get('before')} → {record.data.get('after')}"
        return f"{move}: {record.text}" if record.text else move
    return record.text


def preview(record: TraceRecord) -> str:
    """Return what a record says, as one line of JSON."""
    if record.data is None:
        return ""
    return to_json(record.data).decode("utf-8", "replace")


def whole_record(buffer: TraceBuffer | None, number: int) -> dict[str, Any] | None:
    """Return what one record says, if it is still kept."""
    if buffer is None or not buffer.start <= number < buffer.end:
        return None
    record = buffer.after(number)[0]
    return {"data": record.data, "text": record.text}


def records_of_call(
    buffer: TraceBuffer | None, start: float, end: float, *, is_answered: bool
) -> list[dict[str, Any]]:
    """Return the messages of the call that ran from `start` to `end`, in seconds since 1970, and
    what else happened then: stderr, exits, moves.

    The bus does not number calls as the trace does: the call is the one whose messages fit the two
    moments best. `is_answered`: its last message is its reply.
    """
    if buffer is None:
        return []
    recent = [
        (number, record)
        for number, record in enumerate(buffer.after(buffer.start), buffer.start)
        if start - EARLIER_SECONDS <= record.time <= end + LATER_SECONDS
    ]
    calls: dict[int, list[float]] = {}
    for _, record in recent:
        if record.call is not None:
            calls.setdefault(record.call, []).append(record.time)

    def misfit(call: int) -> float:
        times = calls[call]
        return abs(times[0] - start) + (abs(times[-1] - end) if is_answered else 0.0)

    best = min(calls, key=misfit, default=None)
    return [
        as_row(number, record)
        for number, record in recent
        if record.call == best or not record.is_message
    ]
