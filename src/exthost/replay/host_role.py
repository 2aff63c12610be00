"""The host's part of a recorded session: what it says, and what it expects to hear. Pure.

A message is said when everything was heard that the child had sent before it in the recording.
"""

from collections import deque
from collections.abc import Collection
from typing import Any

from exthost.messages import Id, Message, Request
from exthost.replay.chosen_ids import ChosenIds
from exthost.replay.comparison import Difference, Rules, describe
from exthost.replay.script import Script, as_record, message_of
from exthost.trace.record import TraceRecord

__all__ = ["HostRole"]


class HostRole:
    """Plays one script. Members of the names in `ignored` may differ."""

    def __init__(self, script: Script, ignored: Collection[str] = ()) -> None:
        self._records = [record for record in script.records if record.is_message]
        self._has_ended = script.has_ended
        self._chosen = ChosenIds()
        self._rules = Rules(self._chosen, ignored)
        self._done = [False] * len(self._records)
        self._next = 0  # the first record that is neither said nor heard
        self._unheard: dict[Any, dict[Any, deque[int]]] = {}  # by the part they play, by call
        self._ids: dict[Id | None, Id | None] = {}  # of the child's requests: recorded → heard
        self._methods: dict[Id | None, str] = {}
        self.compared = 0  # messages of the child
        for index, record in enumerate(self._records):
            if record.direction == "received":
                calls = self._unheard.setdefault(_part(record), {})
                calls.setdefault(record.call, deque()).append(index)

    @property
    def is_over(self) -> bool:
        """Whether everything was said and heard."""
        return self._advance() == len(self._records)

    def due_messages(self) -> list[Message]:
        """Return what is to be said now."""
        messages: list[Message] = []
        while (index := self._advance()) < len(self._records):
            record = self._records[index]
            if record.direction == "received":
                break
            self._done[index] = True
            if record.kind == "request":
                self._methods[record.id] = record.method
            is_answer = record.kind in ("reply", "failure")
            id = self._ids.get(record.id, record.id) if is_answer else record.id
            record = record._replace(data=self._chosen.apply(record.data))
            messages.append(message_of(record, id))
        return messages

    def receive(self, message: Message) -> Difference | None:
        """Compare a message of the child with the one that plays its part."""
        actual = as_record(message)
        if actual.kind in ("reply", "failure"):
            actual = actual._replace(method=self._methods.get(actual.id, ""))
        queue = self._match(actual)
        if queue is None:
            is_later = actual.kind in ("reply", "failure") and actual.id in self._methods
            if is_later and not self._has_ended:
                return None  # the recording ended while this request was open
            return self.missing(describe(actual))
        index = queue[0]
        recorded = self._records[index]
        difference = self._rules.compare(index + 1, recorded, actual)
        if difference is None:
            queue.popleft()
            self._done[index] = True
            self.compared += 1
            self._chosen.learn(recorded.data, actual.data)
            if isinstance(message, Request):
                self._ids[recorded.id] = message.id
        return difference

    def missing(self, actual: str) -> Difference:
        """Return the difference when this came, and not the next message of the recording."""
        for index in range(self._advance(), len(self._records)):
            record = self._records[index]
            if not self._done[index] and record.direction == "received":
                return Difference(index + 1, describe(record), actual)
        return Difference(0, "", actual)

    def _advance(self) -> int:
        while self._next < len(self._done) and self._done[self._next]:
            self._next += 1
        return self._next

    def _match(self, actual: TraceRecord) -> "deque[int] | None":
        """Return the queue whose first message plays this part: of the call that has an equal one,
        else of the first call."""
        queues = [queue for queue in self._unheard.get(_part(actual), {}).values() if queue]
        for queue in queues:
            if self._rules.compare(0, self._records[queue[0]], actual) is None:
                return queue
        return queues[0] if queues else None


def _part(record: TraceRecord) -> tuple[Any, ...]:
    """Return the part that a message of the child plays."""
    if record.kind in ("reply", "failure"):
        return "answer", record.id
    return record.kind, record.method
