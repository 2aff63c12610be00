"""A buffer of the last records of a trace, for a reader that may be slow.

A record is a message between a host and an extension, or an event; the web page shows them. The
buffer is a listener for `Traffic.subscribe`. Its records and their bytes are limited. When it is
full, it drops the oldest record, so a slow reader neither blocks the host nor fills its memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from itertools import islice

from exthost.session.trace.record import TraceRecord

MAX_RECORDS = 10_000
MAX_BYTES = 16 * 2**20


class TraceBuffer:
    """The last records. Pass it to `Traffic.subscribe`, and read it on the same event loop.

    Records are numbered from 0 in the order of their arrival. `end` is the number that the next
    record gets, and `start` is the number of the oldest record that is kept. Both only grow.
    """

    def __init__(self, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._records: deque[TraceRecord] = deque()
        self._bytes = 0
        self._arrived: asyncio.Event | None = None
        self._closed = False
        self.end = 0

    def __call__(self, record: TraceRecord) -> None:
        """Add a record, and drop the oldest ones if the buffer is full."""
        self._records.append(record)
        self._bytes += record.weight
        self.end += 1
        while len(self._records) > self._max_records or (
            self._bytes > self._max_bytes and len(self._records) > 1
        ):
            self._bytes -= self._records.popleft().weight
        if self._arrived is not None:
            self._arrived.set()

    def __len__(self) -> int:
        return len(self._records)

    @property
    def start(self) -> int:
        """The number of the oldest record that is kept."""
        return self.end - len(self._records)

    def after(self, number: int, limit: int | None = None) -> list[TraceRecord]:
        """Return the records from this number on that are still kept; `limit` of them at most."""
        skipped = max(0, number - self.start)
        count = max(0, len(self._records) - skipped)
        if limit is not None and count > limit:  # the reader is far behind: few of many
            return list(islice(self._records, skipped, skipped + limit))
        # The reader is nearly up to date. Only the end of the deque is read, backwards.
        newest = list(islice(reversed(self._records), count))
        return newest[::-1]

    async def wait(self, number: int) -> None:
        """Return when the record of this number has come, or the buffer was closed."""
        while self.end <= number and not self._closed:
            if self._arrived is None:
                self._arrived = asyncio.Event()
            self._arrived.clear()
            await self._arrived.wait()

    def close(self) -> None:
        """End all waits, because no further record comes."""
        self._closed = True
        if self._arrived is not None:
            self._arrived.set()

    async def follow(self, number: int = 0) -> AsyncIterator[tuple[TraceRecord, int]]:
        """Yield each record from this number on, with the number of records that were dropped right
        before it, until the buffer is closed."""
        while True:
            await self.wait(number)
            records = self.after(number)
            if not records and self._closed:
                return
            dropped = max(0, self.start - number)
            number = self.end
            for record in records:
                yield record, dropped
                dropped = 0
