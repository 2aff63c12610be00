"""The child's part of a recorded session: what it says to each message of the host. Pure.

What belongs to a call is said in the order of that call, as soon as its request was heard. What
belongs to none is said when everything before it in the recording was heard and said. So a host
that sends the same requests in another order gets the same replies.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from exthost.messages import Failure, Id, Message, Noise, Request
from exthost.replay.chosen_ids import ChosenIds
from exthost.replay.comparison import Difference, Rules, describe
from exthost.replay.script import Script, as_record, message_of
from exthost.trace.record import TraceRecord

__all__ = ["ExtensionRole", "StderrLine"]

NOT_RECORDED = "the recording has no such request"

# Of requests of one method, so many are compared in search of an equal one.
_COMPARED = 64


class StderrLine(str):
    """A line that the child writes to stderr."""

    __slots__ = ()


class ExtensionRole:
    """Plays one script. `differences` are those of what the host sent."""

    def __init__(self, script: Script) -> None:
        self._records = script.records
        self._has_ended = script.has_ended
        self._done = [False] * len(script.records)
        self._first = 0  # all records before this one are done
        self._of_call: dict[Any, deque[int]] = {}  # records in the order of their call
        self._unheard: dict[Any, deque[int]] = {}  # messages of the host by the part they play
        self._ids: dict[Id | None, Id | None] = {}  # of the host's requests: recorded → heard
        self._chosen = ChosenIds()
        self._rules = Rules(self._chosen)
        self.differences: list[Difference] = []
        for index, record in enumerate(script.records):
            group = _group(record)
            if group is not None:
                self._of_call.setdefault(group, deque()).append(index)
            if record.direction == "sent":
                self._unheard.setdefault(_part(record), deque()).append(index)

    @property
    def is_over(self) -> bool:
        """Whether everything was heard and said, and the process ended after that."""
        return self._has_ended and self._first_undone() == len(self._records)

    @property
    def next_method(self) -> str:
        """The method of the next request, for a dialect that matches by order."""
        for index in range(self._first_undone(), len(self._records)):
            record = self._records[index]
            if not self._done[index] and (record.direction, record.kind) == ("sent", "request"):
                return record.method
        return ""

    def first_messages(self) -> list[Message | Noise | StderrLine]:
        """Return what the child says before it hears anything."""
        return list(self._say(None))

    def receive(self, message: Message) -> list[Message | Noise | StderrLine]:
        """Return what the child says to a message of the host."""
        actual = as_record(message)
        index = self._match(actual)
        if index is None:
            self.differences.append(Difference(0, "", describe(actual)))
            if isinstance(message, Request):
                return [Failure(message.id, NOT_RECORDED, -32601)]
            return []
        recorded = self._records[index]
        difference = self._rules.compare(self._number(index), recorded, actual)
        if difference is not None:
            self.differences.append(difference)
        self._done[index] = True
        self._chosen.learn(recorded.data, actual.data)
        if isinstance(message, Request):
            self._ids[recorded.id] = message.id
        return list(self._say(_group(recorded)))

    def _number(self, index: int) -> int:
        return sum(record.is_message for record in self._records[: index + 1])

    def _match(self, actual: TraceRecord) -> int | None:
        """Return the recorded message that plays this part: an equal one, else the first."""
        candidates = self._unheard.get(_part(actual))
        if not candidates:
            return None
        for index in list(candidates)[:_COMPARED]:
            if self._rules.compare(0, self._records[index], actual) is None:
                candidates.remove(index)
                return index
        return candidates.popleft()

    def _say(self, group: Any) -> Iterator[Message | Noise | StderrLine]:
        """Yield what is due after a record of this group was done."""
        while True:
            index = self._due_of(group)
            if index is None:
                index = self._first_undone()
                if index == len(self._records) or self._records[index].direction == "sent":
                    return
                group = _group(self._records[index])
            self._done[index] = True
            yield self._message_of(self._records[index])

    def _due_of(self, group: Any) -> int | None:
        """Return the next record of a call, if it is the child's to say."""
        records = self._of_call.get(group)
        while records and self._done[records[0]]:
            records.popleft()
        if not records or self._records[records[0]].direction == "sent":
            return None
        return records[0]

    def _first_undone(self) -> int:
        while self._first < len(self._done) and self._done[self._first]:
            self._first += 1
        return self._first

    def _message_of(self, record: TraceRecord) -> Message | Noise | StderrLine:
        if record.kind == "stderr":
            return StderrLine(record.text)
        if record.kind == "noise":
            return Noise(record.text.encode(), str(record.data))
        is_answer = record.kind in ("reply", "failure")
        record = record._replace(data=self._chosen.apply(record.data))
        return message_of(record, self._ids.get(record.id, record.id) if is_answer else record.id)


def _part(record: TraceRecord) -> tuple[Any, ...]:
    """Return the part that a message of the host plays."""
    if record.kind in ("reply", "failure"):
        return "answer", record.id
    return record.kind, record.method


def _group(record: TraceRecord) -> Any:
    """Return what holds the records of a call together; None if only the order of all does."""
    if record.call is not None and (record.id is not None or record.kind == "notification"):
        return record.call
    if record.id is None or record.kind == "notification":
        return None
    # A request that stays open, or one of the child's own, and its answer.
    by_host = record.direction == "sent"
    return ("host" if by_host == (record.kind == "request") else "child"), record.id
