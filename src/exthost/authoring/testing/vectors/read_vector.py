"""Test vectors of the table `read`: bytes, and the messages that the reader must get from them.

A vector is a test case in a TOML file of a dialect. In this one the host reads a reply:

    [[read]]
    name = "a result of null"
    payload = '{"id":0,"result":null}'
    means = 'Reply {"id": 0, "result": null}'

`payload` is one message, to which the framing of the dialect (a newline, for example) is added;
`bytes` has the framing already. With the suffix `_hex` either is written in hexadecimal. `reader =
"guest"` makes the extension the reader. `exthost.authoring.testing.vectors.check` runs the vectors.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from exthost.authoring.testing.vector_notation import (
    GarbagePattern,
    MessagePattern,
    parse_message_pattern,
    parse_pattern,
    split_messages,
)
from exthost.authoring.testing.vectors.vector import Vector
from exthost.dialects.codec import Codec, Positional, Role
from exthost.errors import ProtocolViolation
from exthost.model.messages import Noise, Request
from exthost.wire.framing import EVIDENCE_BYTES, Broken, Item, Skipped

# The largest message that a reader accepts, if the vector does not set `cap`.
MAX_MESSAGE_BYTES = 2**20


class ReadVector:
    """A vector of the table `read`.

    dialect            the dialect whose framing and codecs are checked
    role               the side that reads the bytes
    max_message_bytes  the largest message that it accepts
    expected           the messages, or the garbage, that it must read
    earlier_messages   messages that were exchanged before, which the codecs must know, such as the
                       request of a reply; each with the side that sent it
    data               the bytes, with framing
    """

    def __init__(self, vector: Vector) -> None:
        fields = vector.fields
        self.dialect = vector.dialect
        self.role = Role(fields.get("reader", "host"))
        self.max_message_bytes: int = fields.get("cap", MAX_MESSAGE_BYTES)
        means = fields["means"]
        lines = [means] if isinstance(means, str) else means
        self.expected = [parse_pattern(line) for line in lines]
        self.earlier_messages = [self._parse_earlier(line) for line in fields.get("after", ())]
        self.data = self._frame_data(fields)

    def _parse_earlier(self, line: str) -> tuple[Role, MessagePattern]:
        """Return the sender and the message of a line of the field `after`. The line begins with
        ">" if the host sent the message, and with "<" if the extension (the guest) sent it. Without
        either, the reader of the vector sent it."""
        sender = {"> ": Role.HOST, "< ": Role.GUEST}.get(line[:2])
        if sender is None:
            return self.role, parse_message_pattern(line)
        return sender, parse_message_pattern(line[2:])

    def _make_codecs(self, times: int = 1) -> dict[Role, Codec]:
        """Return new codecs of both sides, which have exchanged the earlier messages this many
        times. A codec can have state: it may map the id of a reply to its request."""
        codecs = {role: self.dialect.codec(role) for role in Role}
        for _ in range(times):
            for sender, pattern in self.earlier_messages:
                receiver = codecs[_other(sender)]
                payload = codecs[sender].encode(pattern.build())
                if isinstance(receiver, Positional) and pattern.type_name == "Request":
                    # In a positional dialect, the place of a frame in the order of all frames
                    # defines what it is. The frame does not name its method.
                    receiver.expect(pattern.fields["method"])
                receiver.decode(payload)
        return codecs

    def _frame_data(self, fields: dict[str, Any]) -> bytes:
        """Return the bytes of the vector, with framing."""
        (key,) = (key for key in fields if key.removesuffix("_hex") in ("payload", "bytes"))
        text = fields[key]
        data = bytes.fromhex(text) if key.endswith("_hex") else text.encode()
        if key.startswith("bytes"):
            return data
        # A payload over the limit of the reader is framed as well, to test that it is rejected.
        framing = self.dialect.framing(max(self.max_message_bytes, len(data)))
        return framing.wrap(data)

    def read(self, chunks: Iterable[bytes], times: int = 1) -> tuple[list[Any], Broken | None]:
        """Read these chunks with new codecs, which have exchanged the earlier messages `times`
        times. Stop at the first protocol violation.

        Return the messages and garbage, and what is wrong with the end of the input: None if it
        ends between two frames."""
        framing = self.dialect.framing(self.max_message_bytes)
        codec = self._make_codecs(times)[self.role]
        received: list[Any] = []
        for chunk in chunks:
            for item in framing.feed(chunk):
                received += _decode_item(codec, item)
                if isinstance(received[-1], ProtocolViolation):
                    return received, None
        return received, framing.end()

    def write(self) -> bytes:
        """Return the expected messages as the other side writes them."""
        codec = self._make_codecs()[_other(self.role)]
        framing = self.dialect.framing(self.max_message_bytes)
        data = b""
        for pattern in self.expected:
            # The check writes the messages of vectors with `canonical = true`.
            assert isinstance(pattern, MessagePattern), "only messages can be canonical"
            data += framing.wrap(codec.encode(pattern.build()))
        return data

    def write_request(self) -> bytes | None:
        """Return the same bytes as `write`, but made with `Codec.request`, with which a host writes
        its calls. Return None if the vector is not a single request to the extension."""
        if self.role is Role.HOST or len(self.expected) != 1:
            return None
        pattern = self.expected[0]
        message = pattern.build() if isinstance(pattern, MessagePattern) else None
        if not isinstance(message, Request) or message.id is None:
            return None
        codec = self.dialect.codec(Role.HOST)
        payload = codec.request(message.method, message.params, message.id)
        return self.dialect.framing(self.max_message_bytes).wrap(payload)

    def skipped_reply_id(self, skipped: Skipped) -> Any:
        """Return the id of the call that a frame over the limit answers, None if unknown."""
        return self.dialect.codec(self.role).reply_id_in_prefix(skipped.head)


def _other(role: Role) -> Role:
    return Role.GUEST if role is Role.HOST else Role.HOST


def _decode_item(codec: Codec, item: Item) -> Sequence[object]:
    """Return the messages of a frame, or the garbage or the violation that it is."""
    if isinstance(item, Skipped | Broken):  # a frame over the limit, or bytes that are not a frame
        return [item]
    frame = bytes(item)
    try:
        messages = split_messages(codec.decode(item))
    except ProtocolViolation as violation:
        return [violation]
    for message in messages:
        if isinstance(message, Noise):
            assert message.data == frame[:EVIDENCE_BYTES], "noise must keep the bytes unchanged"
    return messages


def matches_all(expected: list[MessagePattern | GarbagePattern], received: list[Any]) -> bool:
    """Return whether each pattern matches the item at its place, and none is left over."""
    return len(expected) == len(received) and all(
        pattern.matches(item) for pattern, item in zip(expected, received, strict=True)
    )
