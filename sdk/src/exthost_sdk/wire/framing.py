"""Splits the bytes that were read into frames, and makes frames of messages.

A frame is one message as bytes on the wire, by the rules of a dialect: a line, or a message with
its length before it.

`feed` takes the bytes of one read and returns the frames that are now complete. `rest` returns the
bytes of an incomplete frame at the end of input, b"" if there is none. A frame that cannot be
parsed raises ValueError; no later frame can be found after that.
"""

from typing import Protocol


class FrameSplitter(Protocol):
    """Splits the input of one connection into frames."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that these bytes complete."""

    def rest(self) -> bytes:
        """Return the bytes of a frame that is not complete."""


class LineFraming:
    """Each line is a frame. Blank lines are skipped."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []  # the parts of a line whose end was not read yet

    def feed(self, data: bytes) -> list[bytes]:
        if not self._kept and data.endswith(b"\n") and data.find(b"\n") == len(data) - 1:
            return [data[:-1]] if len(data) > 1 else []  # one line, as in most reads
        if b"\n" not in data:
            self._kept.append(data)
            return []
        *lines, last = data.split(b"\n")
        lines[0] = b"".join([*self._kept, lines[0]])
        self._kept = [last] if last else []
        return [line for line in lines if line and not line.isspace()]

    def rest(self) -> bytes:
        return b"".join(self._kept)


class HeaderFraming:
    """A frame is `Content-Length: N`, a blank line, and N bytes."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._body = -1  # where the body begins in `_kept`; -1 until its headers are read
        self._end = 0  # where it ends

    def feed(self, data: bytes) -> list[bytes]:
        self._kept += data
        frames = []
        while self._has_headers() and len(self._kept) >= self._end:
            frames.append(bytes(self._kept[self._body : self._end]))
            del self._kept[: self._end]
            self._body = -1
        return frames

    def _has_headers(self) -> bool:
        """Return whether the headers of the next frame are complete; then set `_body` and
        `_end`."""
        if self._body >= 0:
            return True
        start, length = 0, None
        while (stop := self._kept.find(b"\n", start)) >= 0:
            line = bytes(self._kept[start:stop]).strip()
            start = stop + 1
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                if not value.strip().isdigit():
                    raise ValueError(f"not a Content-Length: {line[:80]!r}")
                length = int(value)
            elif not line and length is not None:
                self._body, self._end = start, start + length
                return True
        return False

    def rest(self) -> bytes:
        return bytes(self._kept)


class PrefixFraming:
    """A frame is its length as a 32-bit big-endian number, and that many bytes."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._kept += data
        frames = []
        while len(self._kept) >= 4:
            end = 4 + int.from_bytes(self._kept[:4], "big")
            if len(self._kept) < end:
                break
            frames.append(bytes(self._kept[4:end]))
            del self._kept[:end]
        return frames

    def rest(self) -> bytes:
        return bytes(self._kept)


def with_newline(payload: bytes) -> bytes:
    """Return the frame of a line; JSON text has no line break of its own."""
    return payload + b"\n"


def with_header(payload: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)


def with_prefix(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload
