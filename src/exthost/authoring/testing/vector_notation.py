"""How a test vector writes down a message: its type, then its fields as JSON.

    Reply {"id": 2, "result": null}    a message with these fields; fields left out are not compared
    Noise "not JSON"                   bytes that are not a message; the text is part of the reason

A vector uses such a pattern for a message that is expected, and for one that is to be sent.
"""

import json
from dataclasses import dataclass
from typing import Any

from exthost.errors import ProtocolViolation
from exthost.model import messages
from exthost.model.shortened_text import shorten_to
from exthost.wire.framing import Broken, Skipped

# A longer text is cut in the report of a vector that fails.
_MAX_CHARACTERS = 2000

MESSAGE_TYPES: dict[str, type[Any]] = {
    type_.__name__: type_
    for type_ in (messages.Request, messages.Reply, messages.Failure, messages.Notification)
}

# The values and exceptions of framings and codecs for bytes that are not a message.
GARBAGE_TYPES = {type_.__name__ for type_ in (messages.Noise, Skipped, Broken, ProtocolViolation)}


@dataclass(frozen=True)
class MessagePattern:
    """A message as a vector writes it down: the name of its type, and some or all fields."""

    type_name: str
    fields: dict[str, Any]

    def build(self, id: Any = None) -> messages.Message:
        """Return a message with these fields. `id` is used if the pattern has no id."""
        fields = self.fields
        if self.type_name != "Notification":
            # The defaults of fields without which the message cannot be made.
            fields = {"id": id, "message": "", **fields}
        type_ = MESSAGE_TYPES[self.type_name]
        message: messages.Message = type_(
            **{name: fields[name] for name in type_._fields if name in fields}
        )
        return message

    def matches(self, message: object) -> bool:
        """Return whether the message has this type and all fields of the pattern."""
        if type(message) is not MESSAGE_TYPES[self.type_name]:
            return False
        # By `repr`, because 1, 1.0 and True are equal and must not pass for each other.
        return all(repr(getattr(message, name)) == repr(self.fields[name]) for name in self.fields)

    def __str__(self) -> str:
        return f"{self.type_name} {json.dumps(self.fields)}"


@dataclass(frozen=True)
class GarbagePattern:
    """Bytes that are not a message: the type of the value that is returned, or of the error that is
    raised, for them, and a part of its reason."""

    type_name: str
    reason_part: str

    def matches(self, item: object) -> bool:
        """Return whether the item has this type, and a reason that contains this text."""
        if type(item).__name__ != self.type_name:
            return False
        reason = (
            item.message if isinstance(item, ProtocolViolation) else getattr(item, "reason", "")
        )
        return self.reason_part in reason

    def __str__(self) -> str:
        return f"{self.type_name} {json.dumps(self.reason_part)}"


def shorten(text: object) -> str:
    """Return a value as text for the report of a failure. `…` marks where it was cut."""
    return shorten_to(_MAX_CHARACTERS, str(text))


def split_messages(incoming: messages.Incoming) -> list[messages.Message | messages.Noise]:
    """Return a decoded value as a list of messages: the messages of a batch, or a single one."""
    if isinstance(incoming, messages.Batch):
        return list(incoming.messages)
    if isinstance(incoming, messages.Message | messages.Noise):
        return [incoming]
    # A codec may return a successful reply as a plain (id, result), which is faster.
    id, result = incoming
    assert type(id) in (int, str), "only a reply with an id may be a plain tuple"
    return [messages.Reply(id, result)]


def parse_pattern(text: str) -> MessagePattern | GarbagePattern:
    """Return the pattern in this text. Raises ValueError if the text is not a pattern, or names
    unknown fields: a vector with a pattern that nothing can match would check nothing."""
    type_name, _, rest = text.strip().partition(" ")
    value = json.loads(rest) if rest else {}
    if type_name in GARBAGE_TYPES and isinstance(value, str):
        return GarbagePattern(type_name, value)
    if type_name in MESSAGE_TYPES and isinstance(value, dict):
        unknown = value.keys() - set(MESSAGE_TYPES[type_name]._fields)
        if unknown:
            raise ValueError(f"{type_name} has no field {unknown}: {text}")
        return MessagePattern(type_name, value)
    raise ValueError(f"not a message: {text}")


def parse_message_pattern(text: str) -> MessagePattern:
    """Return the pattern in this text. Raises ValueError if it is not the pattern of a message."""
    pattern = parse_pattern(text)
    if isinstance(pattern, GarbagePattern):
        raise ValueError(f"not a message: {text}")  # noqa: TRY004 - the text is at fault
    return pattern
