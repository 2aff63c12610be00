"""The role of the extension in a replay: decides what to send after each message of the host.

A recorded message of the extension that belongs to a call is sent as soon as the request of the
call has been received and the earlier messages of that call have been sent. A message that belongs
to no call is sent when everything before it in the recording has been sent and received. So a host
that sends the same requests in another order gets the same replies. Does no I/O.
"""

from collections import deque
from collections.abc import Collection, Iterator
from itertools import accumulate, islice
from typing import Any

from exthost.authoring.replay.comparison import Difference, MessageComparer, describe, match_key
from exthost.authoring.replay.generated_ids import GeneratedIds
from exthost.authoring.replay.script import Script, as_record, make_message
from exthost.model.messages import Failure, Id, Message, Noise, Request
from exthost.session.trace.record import TraceRecord

# The message of the error reply to a request that the recording does not have.
NOT_RECORDED = "the recording has no such request"

# How many recorded messages of one method are compared in the search for an equal one. The limit
# keeps a long recording from making each message slow.
_MAX_COMPARED = 64


class StderrLine(str):
    """A line that the extension writes to stderr, not a message."""

    __slots__ = ()


class ExtensionRole:
    """Replays the extension of one script. JSON fields whose name is in `ignored` may differ.

    `differences` are the differences between the messages of the host and the recorded ones. The
    replay continues after a difference. `compared` is how many messages of the host matched a
    recorded one, equal or not.
    """

    def __init__(self, script: Script, ignored: Collection[str] = ()) -> None:
        self._records = script.records
        self._has_ended = script.has_ended
        self._done = [False] * len(script.records)  # whether each record was sent or received
        self._first = 0  # the records before this index are done
        self._by_call: dict[Any, deque[int]] = {}  # the indexes of each call's records
        # The indexes of the host's recorded messages that are not received yet, by `match_key`.
        self._expected: dict[Any, deque[int]] = {}
        # The actual id of each request of the host, by its recorded id.
        self._request_ids: dict[Id | None, Id | None] = {}
        self._generated_ids = GeneratedIds()
        self._comparer = MessageComparer(self._generated_ids, ignored, script.extension)
        # The number of each record among the messages of the recording, from 1.
        self._numbers = list(accumulate(record.is_message for record in script.records))
        self._requests = deque[int]()  # the indexes of the host's requests that are not received
        self.differences: list[Difference] = []
        self.compared = 0
        for index, record in enumerate(script.records):
            call_key = _call_key(record)
            if call_key is not None:
                self._by_call.setdefault(call_key, deque()).append(index)
            if record.direction == "sent":
                self._expected.setdefault(match_key(record), deque()).append(index)
                if record.kind == "request":
                    self._requests.append(index)

    @property
    def is_over(self) -> bool:
        """Whether every message was sent and received, and the recorded process then ended."""
        return self._has_ended and self._first_undone() == len(self._records)

    @property
    def next_method(self) -> str:
        """The method of the next recorded request of the host, or "". Positional dialects, whose
        replies carry no id and match requests by order, need it to decode the request."""
        while self._requests and self._done[self._requests[0]]:
            self._requests.popleft()
        return self._records[self._requests[0]].method if self._requests else ""

    @property
    def expects_messages(self) -> bool:
        """Whether the recording has messages of the host, apart from those that were received."""
        return any(self._expected.values())

    def first_messages(self) -> list[Message | Noise | StderrLine]:
        """Return what the extension sends before it receives anything."""
        return list(self._send_due(None))

    def receive(self, message: Message) -> list[Message | Noise | StderrLine]:
        """Return what the extension sends after this message of the host."""
        actual = as_record(message)
        index = self._match(actual)
        if index is None:
            self.differences.append(Difference(0, "", describe(actual)))
            if isinstance(message, Request):
                return [Failure(message.id, NOT_RECORDED, -32601)]
            return []
        recorded = self._records[index]
        self.compared += 1
        difference = self._comparer.compare(self._numbers[index], recorded, actual)
        if difference is not None:
            self.differences.append(difference)
        self._done[index] = True
        self._generated_ids.remember(recorded.data, actual.data)
        if isinstance(message, Request):
            self._request_ids[recorded.id] = message.id
        return list(self._send_due(_call_key(recorded)))

    def _match(self, actual: TraceRecord) -> int | None:
        """Remove the recorded message that matches from the expected ones, and return its index.
        This is an equal message, or else the first one with the same `match_key`. Return None if
        no recorded message has this key."""
        candidates = self._expected.get(match_key(actual))
        if not candidates:
            return None
        for index in list(islice(candidates, _MAX_COMPARED)):
            if self._comparer.compare(0, self._records[index], actual) is None:
                candidates.remove(index)
                return index
        return candidates.popleft()

    def _send_due(self, call_key: Any) -> Iterator[Message | Noise | StderrLine]:
        """Yield what the extension sends after a message of this call: the next messages of the
        call, and then the next messages of the whole recording, up to one of the host."""
        while True:
            index = self._next_of_call(call_key)
            if index is None:
                index = self._first_undone()
                if index == len(self._records) or self._records[index].direction == "sent":
                    return
                call_key = _call_key(self._records[index])
            self._done[index] = True
            yield self._make_message(self._records[index])

    def _next_of_call(self, call_key: Any) -> int | None:
        """Return the index of the next record of a call, or None if the host sends it or no record
        is left."""
        records = self._by_call.get(call_key)
        while records and self._done[records[0]]:
            records.popleft()
        if not records or self._records[records[0]].direction == "sent":
            return None
        return records[0]

    def _first_undone(self) -> int:
        """Return the index of the first record that was not sent or received."""
        while self._first < len(self._done) and self._done[self._first]:
            self._first += 1
        return self._first

    def _make_message(self, record: TraceRecord) -> Message | Noise | StderrLine:
        if record.kind == "stderr":
            return StderrLine(record.text)
        if record.kind == "noise":
            # A recording that was edited may have a surrogate.
            return Noise(record.text.encode(errors="replace"), str(record.data))
        is_reply = record.kind in ("reply", "failure")
        record = record._replace(data=self._generated_ids.replace_in(record.data))
        id = self._request_ids.get(record.id, record.id) if is_reply else record.id
        return make_message(record, id)


def _call_key(record: TraceRecord) -> Any:
    """Return a key that the records of one call share; None if the record belongs to no call."""
    if record.call is not None and (record.id is not None or record.kind == "notification"):
        return record.call
    if record.id is None or record.kind == "notification":
        return None
    # The trace has no call number for a request of the extension, and for a request of the host
    # that stays open. The request and its reply share the id and the side that sent the request.
    # The host and the extension may use the same ids, so the side is a part of the key.
    is_from_host = record.direction == "sent"
    requester = "host" if is_from_host == (record.kind == "request") else "extension"
    return requester, record.id
