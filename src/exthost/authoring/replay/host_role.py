"""The role of the host in a replay: decides what to send, and compares what it receives.

A recording has the messages of one session in their order. A message of the host is sent when every
message that the extension had sent before it in the recording has been received. Does no I/O;
`pipe_replay` calls it:

    for message in role.due_messages(): …           send it
    difference = role.receive(message, call)        for each message of the extension
"""

from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Any

from exthost.authoring.replay.comparison import Difference, MessageComparer, describe, match_key
from exthost.authoring.replay.generated_ids import GeneratedIds
from exthost.authoring.replay.script import Script, as_record, make_message
from exthost.model.messages import Id, Message, Request
from exthost.session.call import Call
from exthost.session.trace.record import TraceRecord


class HostRole:
    """Replays the host of one script. JSON fields whose name is in `ignored` may differ. `compared`
    is how many messages of the extension were equal to the recorded ones so far."""

    def __init__(self, script: Script, ignored: Collection[str] = ()) -> None:
        self._records = [record for record in script.records if record.is_message]
        self._has_ended = script.has_ended
        self._generated_ids = GeneratedIds()
        self._comparer = MessageComparer(self._generated_ids, ignored)
        self._done = [False] * len(self._records)  # whether each record was sent or received
        self._next = 0  # the first record that is not done
        # The indexes of the extension's messages that are not received yet, by `match_key`, and
        # then by the number of the call. Messages of one call keep their order; calls may overtake
        # each other.
        self._expected: dict[Any, dict[Any, deque[int]]] = {}
        # The actual id of each request of the extension, by its recorded id.
        self._request_ids: dict[Id | None, Id | None] = {}
        self.compared = 0
        for index, record in enumerate(self._records):
            if record.direction == "received":
                calls = self._expected.setdefault(match_key(record), OrderedDict())
                calls.setdefault(record.call, deque()).append(index)

    @property
    def is_over(self) -> bool:
        """Whether every message was sent and received."""
        return self._advance() == len(self._records)

    def due_messages(self) -> list[Message]:
        """Return the messages to send now."""
        messages: list[Message] = []
        while (index := self._advance()) < len(self._records):
            record = self._records[index]
            if record.direction == "received":
                break
            self._done[index] = True
            is_reply = record.kind in ("reply", "failure")
            id = self._request_ids.get(record.id, record.id) if is_reply else record.id
            record = record._replace(data=self._generated_ids.replace_in(record.data))
            messages.append(make_message(record, id))
        return messages

    def receive(self, message: Message, call: Call | None) -> Difference | None:
        """Compare a message of the extension with the recorded one that it matches. `call` is the
        call whose request a reply answers. Return the difference, or None."""
        actual = as_record(message, "" if call is None else call.method)
        queue = self._match(actual)
        if queue is None:
            is_reply = actual.kind in ("reply", "failure") and call is not None
            if is_reply and not self._has_ended:
                return None  # the recording stopped before this reply
            return self.unexpected(describe(actual))
        index = queue[0]
        recorded = self._records[index]
        difference = self._comparer.compare(index + 1, recorded, actual)
        if difference is None:
            queue.popleft()
            if not queue:
                del self._expected[match_key(actual)][recorded.call]
            self._done[index] = True
            self.compared += 1
            self._generated_ids.remember(recorded.data, actual.data)
            if isinstance(message, Request):
                self._request_ids[recorded.id] = message.id
        return difference

    def unexpected(self, actual: str) -> Difference:
        """Return the difference between the next recorded message of the extension and an event
        that occurred instead. `actual` describes the event, such as the end of the program."""
        for index in range(self._advance(), len(self._records)):
            record = self._records[index]
            if not self._done[index] and record.direction == "received":
                return Difference(index + 1, describe(record), actual)
        return Difference(0, "", actual)

    def _advance(self) -> int:
        """Return the index of the first record that is not done."""
        while self._next < len(self._done) and self._done[self._next]:
            self._next += 1
        return self._next

    def _match(self, actual: TraceRecord) -> "deque[int] | None":
        """Return the queue of the call to which the message belongs: the first queue that begins
        with an equal message, or else the first queue. Return None if no recorded message that is
        still expected has the same `match_key`."""
        queues = self._expected.get(match_key(actual), {}).values()
        for queue in queues:
            if self._comparer.compare(0, self._records[queue[0]], actual) is None:
                return queue
        return next(iter(queues), None)
