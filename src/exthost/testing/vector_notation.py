"""How vectors write down messages: a kind, then its members as JSON.

    Reply {"id": 2, "result": null}         exactly this message; members left out are not compared
    Noise "not JSON"                        no message, and this is in the reason

Shared by the players and by the scripted child.
"""

import json
from dataclasses import dataclass
from typing import Any

from exthost.errors import ProtocolViolation
from exthost.messages import Batch, Failure, Incoming, Message, Noise, Notification, Reply, Request
from exthost.wire.framing import Broken, Skipped

MESSAGES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Request, Reply, Failure, Notification)
}
GARBAGE = {kind.__name__ for kind in (Noise, Skipped, Broken, ProtocolViolation)}


@dataclass(frozen=True)
class Stated:
    """A message as a vector states it."""

    kind: str
    fields: dict[str, Any]

    def message(self, id: Any = None) -> Message:
        """The message itself; `id` where none is stated."""
        members = (
            {"id": id, "message": ""} | self.fields if self.kind != "Notification" else self.fields
        )
        kind = MESSAGES[self.kind]
        made: Message = kind(**{name: members[name] for name in kind._fields if name in members})
        return made

    def fits(self, message: object) -> bool:
        """The same type, and the same members as far as they are stated. 1, 1.0 and true differ."""
        if type(message) is not MESSAGES[self.kind]:
            return False
        return all(repr(getattr(message, name)) == repr(self.fields[name]) for name in self.fields)

    def __str__(self) -> str:
        return f"{self.kind} {json.dumps(self.fields)}"


@dataclass(frozen=True)
class Garbage:
    """Something that is no message, and a part of what is said about it."""

    kind: str
    says: str

    def fits(self, item: object) -> bool:
        if type(item).__name__ != self.kind:
            return False
        message = item.message if isinstance(item, ProtocolViolation) else getattr(item, "why", "")
        return self.says in message

    def __str__(self) -> str:
        return f"{self.kind} {json.dumps(self.says)}"


def messages_in(incoming: Incoming) -> list[Message | Noise]:
    """What a codec handed over, message by message, with a plain reply spelt out."""
    if isinstance(incoming, Batch):
        return list(incoming.messages)
    if isinstance(incoming, Message | Noise):
        return [incoming]
    id, result = incoming
    assert type(id) in (int, str), "only a reply with an id may be handed over plain"
    return [Reply(id, result)]


def parse(text: str) -> Stated | Garbage:
    """Read one message. Raises ValueError for what cannot be one: a vector must not lie idle."""
    kind, _, rest = text.strip().partition(" ")
    value = json.loads(rest) if rest else {}
    if kind in GARBAGE and isinstance(value, str):
        return Garbage(kind, value)
    if kind in MESSAGES and isinstance(value, dict):
        unknown = value.keys() - set(MESSAGES[kind]._fields)
        if unknown:
            raise ValueError(f"{kind} has no member {unknown}: {text}")
        return Stated(kind, value)
    raise ValueError(f"not a message: {text}")


def parse_message(text: str) -> Stated:
    stated = parse(text)
    if isinstance(stated, Garbage):
        raise ValueError(f"not a message: {text}")  # noqa: TRY004 - the text is at fault
    return stated
