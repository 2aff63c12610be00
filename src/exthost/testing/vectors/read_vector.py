"""Vectors of the table `read`: bytes → messages, in either role."""

from collections.abc import Iterable, Sequence
from typing import Any

from exthost.dialects.codec import Codec, Positional, Role
from exthost.errors import ProtocolViolation
from exthost.messages import Noise, Request
from exthost.testing.vector_notation import Garbage, Stated, messages_in, parse, parse_message
from exthost.testing.vectors.vector import Vector
from exthost.wire.framing import EVIDENCE_BYTES, Broken, Item, Skipped

__all__ = ["ReadVector", "fit"]

CAP = 2**20


class ReadVector:
    """A vector of the table `read`."""

    def __init__(self, vector: Vector) -> None:
        row = vector.row
        self.dialect = vector.dialect
        self.role = Role(row.get("reader", "host"))
        self.cap: int = row.get("cap", CAP)
        means = row["means"]
        self.means = [parse(line) for line in ([means] if isinstance(means, str) else means)]
        self.after = [self._spoken(line) for line in row.get("after", ())]
        self.bytes = self._bytes(row)

    def _spoken(self, line: str) -> tuple[Role, Stated]:
        signs = {"> ": Role.HOST, "< ": Role.GUEST}
        role = signs.get(line[:2])
        return (self.role, parse_message(line)) if role is None else (role, parse_message(line[2:]))

    def _both(self, times: int = 1) -> dict[Role, Codec]:
        """The codecs of both ends, after what went before."""
        codecs = {role: self.dialect.codec(role) for role in Role}
        for _ in range(times):
            for role, stated in self.after:
                other = Role.GUEST if role is Role.HOST else Role.HOST
                encoded = codecs[role].encode(stated.message())
                listener = codecs[other]
                if isinstance(listener, Positional) and stated.kind == "Request":
                    listener.expect(stated.fields["method"])
                listener.decode(encoded)
        return codecs

    def _bytes(self, row: dict[str, Any]) -> bytes:
        (key,) = (key for key in row if key.removesuffix("_hex") in ("payload", "bytes"))
        text = row[key]
        data = bytes.fromhex(text) if key.endswith("_hex") else text.encode()
        if key.startswith("bytes"):
            return data
        framing = self.dialect.framing(max(self.cap, len(data)))
        return framing.wrap(data)

    def read(self, chunks: Iterable[bytes], times: int = 1) -> tuple[list[Any], Broken | None]:
        """What the reader makes of these bytes."""
        framing, codec = self.dialect.framing(self.cap), self._both(times)[self.role]
        received: list[Any] = []
        for chunk in chunks:
            for item in framing.feed(chunk):
                received += _decoded(codec, item)
                if isinstance(received[-1], ProtocolViolation):
                    return received, None
        return received, framing.end()

    def write(self) -> bytes:
        """The same messages, written by the other role."""
        other = Role.GUEST if self.role is Role.HOST else Role.HOST
        framing, codec = self.dialect.framing(self.cap), self._both()[other]
        written = b""
        for stated in self.means:
            assert isinstance(stated, Stated), "only messages can be canonical"
            payload = codec.encode(stated.message())
            written += framing.wrap(payload)
        return written

    def write_request(self) -> bytes | None:
        """The same by the short cut that every call takes; None if it is no single request."""
        if len(self.means) != 1 or not isinstance(stated := self.means[0], Stated):
            return None
        message = stated.message()
        if not isinstance(message, Request) or message.id is None or self.role is Role.HOST:
            return None
        codec = self.dialect.codec(Role.HOST)
        payload = codec.request(message.method, message.params, message.id)
        return self.dialect.framing(self.cap).wrap(payload)

    def answers(self, skipped: Skipped) -> Any:
        return self.dialect.codec(self.role).reply_id_in_prefix(skipped.head)


def _decoded(codec: Codec, item: Item) -> Sequence[object]:
    if isinstance(item, Skipped | Broken):
        return [item]
    frame = bytes(item)
    try:
        messages = messages_in(codec.decode(item))
    except ProtocolViolation as violation:
        return [violation]
    for message in messages:
        if isinstance(message, Noise):
            assert message.data == frame[:EVIDENCE_BYTES], "noise must be kept as it was"
    return messages


def fit(expected: list[Stated | Garbage], received: list[Any]) -> bool:
    return len(expected) == len(received) and all(
        stated.fits(item) for stated, item in zip(expected, received, strict=True)
    )
