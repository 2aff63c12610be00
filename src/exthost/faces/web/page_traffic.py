"""Records the messages of extensions, and sends them to the open web pages that display them.

A record is one message between the host and an extension, such as the request or the reply of a
call, or another event of an extension: a line on stderr, an exit, a change of state. Recording
costs time, so only extensions that a page displays are recorded. A page renews its interest from
time to time; otherwise the recording ends. Each extension has its own ring buffer, so that an
extension with many records does not displace the records of another. A page gets the records that
match its search, in batches of a bounded size. Records that do not fit into a batch are counted.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, NamedTuple

from exthost.faces.web.page_values import to_json, truncate
from exthost.host.host import Host
from exthost.session.trace.buffer import TraceBuffer
from exthost.session.trace.record import TraceRecord

# The recording ends this long after the last request of a page, which renews it more often.
INTEREST_SECONDS = 60.0
RENEW_SECONDS = 20.0

# The sizes of the ring buffer of one extension, and of the ring buffer for all extensions ("").
RING_RECORDS, RING_BYTES = 3_000, 4 * 2**20
ALL_RECORDS, ALL_BYTES = 10_000, 16 * 2**20

# The maximum number of ring buffers. The buffer that was requested longest ago is dropped first.
MAX_RINGS = 16

# The size of a batch, and the time between two batches.
BATCH_RECORDS = 300
BATCH_SECONDS = 0.25

# How much earlier or later than a call its records may be, since the times are taken separately.
EARLIER_SECONDS = 0.05
LATER_SECONDS = 0.5

# Longer texts are cut in a list of records.
PREVIEW_CHARACTERS = 400
TEXT_CHARACTERS = 4_000


class _Ring(NamedTuple):
    """A recording in a ring buffer, which drops its oldest records when it is full. `buffer` has
    the records, `unsubscribe` ends the recording, and `timer` does so when no page has requested it
    for INTEREST_SECONDS."""

    buffer: TraceBuffer
    unsubscribe: Callable[[], None]
    timer: asyncio.TimerHandle


class Recorder:
    """The ring buffers of the extensions that pages display. The name "" is that of the buffer for
    all extensions together."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._rings: dict[str, _Ring] = {}

    def watch(self, name: str) -> TraceBuffer:
        """Start or continue to record an extension, and return its ring buffer."""
        ring = self._rings.pop(name, None)  # it is inserted again below, as the newest
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
    """Yield batches of the records that contain each word of `search`: first those in the ring
    buffer, then new records. Runs until it is closed.

    A batch has its records, and under "dropped" the number of records that the page does not get:
    those that the ring buffer has lost since the previous batch, and those over BATCH_RECORDS."""
    words = search.lower().split()
    position = 0  # the number of the first record that is in no batch yet; 0 before the first batch
    buffer = recorder.watch(name)
    while True:
        current_buffer = recorder.watch(name)  # renews the interest
        if current_buffer is not buffer:  # the old ring buffer was dropped meanwhile
            buffer, position = current_buffer, 0
        # The records that the ring buffer has lost before the first batch are not counted.
        lost = max(0, buffer.start - position) if position else 0
        start = max(position, buffer.start)
        records = [
            (number, record)
            for number, record in enumerate(buffer.after(start), start)
            if matches(record, words)
        ]
        position = buffer.end
        left_out = max(0, len(records) - BATCH_RECORDS)
        batch = [as_row(number, record) for number, record in records[-BATCH_RECORDS:]]
        yield {"records": batch, "dropped": lost + left_out}
        try:
            async with asyncio.timeout(RENEW_SECONDS):
                await buffer.wait(position)
        except TimeoutError:
            pass  # time to renew the interest, in the next iteration
        await asyncio.sleep(BATCH_SECONDS)


def matches(record: TraceRecord, words: Iterable[str]) -> bool:
    """Return whether each of these words, which are in lower case, occurs in any field of a
    record."""
    text = ""
    for word in words:
        if not text:
            head = f"{record.extension} {record.kind} {record.method} {record.id} {record.text} "
            text = (head + preview(record)).lower()
        if word not in text:
            return False
    return True


def as_row(number: int, record: TraceRecord) -> dict[str, Any]:
    """Return a record as a row of the page's list, with its data cut to a short line."""
    row = record.as_dict()
    for name in ("params", "result", "error", "data"):
        row.pop(name, None)
    line = preview(record)
    row |= {"number": number, "preview": line[:PREVIEW_CHARACTERS]}
    row["is_cut"] = len(line) > PREVIEW_CHARACTERS
    row["text"] = truncate(record_text(record), TEXT_CHARACTERS)
    return row


def record_text(record: TraceRecord) -> str:
    """Return the text of a record; for a change of state, with the old and the new state."""
    if record.kind == "state" and isinstance(record.data, dict):
        change = f"{record.data.get('before')} → {record.data.get('after')}"
        return f"{change}: {record.text}" if record.text else change
    return record.text


def preview(record: TraceRecord) -> str:
    """Return the data of a record as one line of JSON."""
    if record.data is None:
        return ""
    return to_json(record.data).decode("utf-8", "replace")


def whole_record(buffer: TraceBuffer | None, number: int) -> dict[str, Any] | None:
    """Return the data and the text of one record, or None if the ring buffer no longer has it."""
    if buffer is None or not buffer.start <= number < buffer.end:
        return None
    record = buffer.after(number)[0]
    return {"data": record.data, "text": record.text}


def records_of_call(
    buffer: TraceBuffer | None, start: float, end: float, *, is_answered: bool
) -> list[dict[str, Any]]:
    """Return the messages of the call that ran from `start` to `end` (seconds since 1970), and the
    other records of that time: requests of the extension to the host with their answers, stderr,
    exits and changes of state.

    The page knows the call from an event on the host's event bus, which has the times of the call
    but not its number in the trace. So the call is chosen whose first and last messages are nearest
    to the two times. `is_answered` is whether the last message of the call is its reply; otherwise
    only the first message is compared.
    """
    if buffer is None:
        return []
    candidates = [
        (number, record)
        for number, record in enumerate(buffer.after(buffer.start), buffer.start)
        if start - EARLIER_SECONDS <= record.time <= end + LATER_SECONDS
    ]
    calls: dict[int, list[float]] = {}
    for _, record in candidates:
        if record.call is not None:
            calls.setdefault(record.call, []).append(record.time)

    def time_difference(call: int) -> float:
        times = calls[call]
        return abs(times[0] - start) + (abs(times[-1] - end) if is_answered else 0.0)

    nearest_call = min(calls, key=time_difference, default=None)
    return [
        as_row(number, record)
        for number, record in candidates
        if (record.call is not None and record.call == nearest_call)
        or not record.is_message
        or _is_request_to_host(record)
    ]


def _is_request_to_host(record: TraceRecord) -> bool:
    """Return whether a record is a request of the extension to the host, or the answer to one."""
    is_request = record.kind == "request" and record.direction == "received"
    is_answer = record.kind in ("reply", "failure") and record.direction == "sent"
    return is_request or is_answer
