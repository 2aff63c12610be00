"""Many streams and messages on one connection, without I/O (pure).

A `Multiplexer` is one end of the connection between a host and an agent, the program that runs the
host's processes on another machine (a node). Each pipe of a process is a stream. `receive` takes
the bytes that arrived and returns events; the methods that send add frames to `output`, which
`link.Link` writes to the socket. Each frame has a header of eight bytes: the length of its payload
(3 bytes), its kind (1) and the number of its stream (4).

    DATA     bytes of a stream
    CREDIT   the receiver of a stream has consumed so many bytes, so more may be sent
    END      the sender of a stream has sent everything
    RESET    the receiver of a stream does not want more of it
    PART     the beginning of a message, which the next frames of the stream continue
    MESSAGE  a message (an object as JSON), or its last part
    HEARTBEAT  empty: it shows that the sender is alive

**Flow control.** The sender of a stream may send WINDOW_BYTES that the receiver has not consumed.
So a process that does not read, or that floods its output, does not block the other streams, and
the memory for each stream is bounded. A peer that sends more has broken the protocol
(`ProtocolError`). Data of a stream that is not open is dropped, because it may have been sent
before the peer knew that the stream was closed.
"""

import json
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

# Both ends of a connection must have the same version.
PROTOCOL_VERSION = 1

# How many bytes of a stream may be sent and not yet consumed. A larger window would let one stream
# use more memory; with a smaller one, large messages would wait for credit.
WINDOW_BYTES = 256 * 1024

# The window of a stream whose receiver prepares for large messages (`widen`).
WIDE_WINDOW_BYTES = 2 * 1024 * 1024

# A receiver reports what it has consumed in steps of this size, because a report for each small
# message would cost as much as the message.
CONSUME_BYTES = WINDOW_BYTES // 8

# The most bytes of one frame: other streams wait no longer than it takes to send them.
MAX_FRAME_BYTES = 256 * 1024

# The longest message is the order to start a process, which has all of its environment variables
# and the code of its sandbox.
MAX_MESSAGE_BYTES = 8 * 1024 * 1024

# Up to this size the payload of a frame is copied behind its header, because a copy of so few bytes
# takes less time than the sending of a second buffer.
_JOIN_BYTES = 4096

# From this size on, a received payload is passed on as a memoryview instead of a copy.
_VIEW_BYTES = 16 * 1024

_HEADER = struct.Struct(">II")
_HEADER_BYTES = _HEADER.size  # a constant, because `receive` uses it for each frame
_CREDIT = struct.Struct(">I")


class Kind(IntEnum):
    """The kinds of frames, and of events."""

    DATA = 0
    CREDIT = 1
    END = 2
    RESET = 3
    PART = 4
    MESSAGE = 5
    HEARTBEAT = 6


_DATA = int(Kind.DATA)
_HEARTBEAT = _HEADER.pack(Kind.HEARTBEAT, 0)


class ProtocolError(ValueError):
    """The peer has sent something that the protocol does not allow."""


# What was received: the kind, the number of the stream, and the payload: bytes (DATA), an object
# (MESSAGE), otherwise None. It is a plain tuple, because there is one for each frame.
FrameEvent = tuple[int, int, Any]


class _Incoming:
    """A stream that this end receives.

    window    how many bytes its sender may have sent that are not consumed yet
    room      how many more bytes the sender may send now
    consumed  how many bytes were consumed since the last CREDIT
    """

    __slots__ = ("consumed", "room", "window")

    def __init__(self) -> None:
        self.window = self.room = WINDOW_BYTES
        self.consumed = 0


class Multiplexer:
    """One end of a connection. `output` has the buffers to send, in order, and `output_bytes` their
    size; `take_output` removes them. `credits` has the number of bytes that may be sent now in each
    stream that this end sends."""

    __slots__ = (
        "_frame_kind",
        "_frame_left",
        "_frame_stream",
        "_incoming",
        "_partial_header",
        "_partial_payload",
        "_parts",
        "credits",
        "output",
        "output_bytes",
    )

    def __init__(self) -> None:
        self.output: list[bytes | memoryview] = []
        self.output_bytes = 0
        self.credits: dict[int, int] = {}
        self._incoming: dict[int, _Incoming] = {}
        self._parts: dict[int, bytearray] = {}  # unfinished messages, by stream
        self._partial_header = b""
        # The frame that is being received. `_frame_left` is how many bytes of its payload are
        # missing; 0 if the next bytes are a header.
        self._frame_kind = self._frame_stream = self._frame_left = 0
        # The payload so far, of a frame that is not DATA: such a frame is handled when it is
        # complete. DATA is passed on in the parts in which it arrives.
        self._partial_payload = b""

    # -- sending -----------------------------------------------------------------------------

    def open_outgoing(self, stream: int) -> None:
        """Begin a stream that this end sends."""
        self.credits[stream] = WINDOW_BYTES

    def pack(self, stream: int, data: bytes | memoryview) -> bytes:
        """Return the frame of `data`, which the caller must write to the socket at once. Return b""
        if the caller must use `send` instead: the data is large, or the credit does not suffice, or
        other output waits."""
        size = len(data)
        credit = self.credits.get(stream, 0)
        if size > credit or size > _JOIN_BYTES or self.output or not size:
            return b""
        self.credits[stream] = credit - size
        return _HEADER.pack(size << 8 | _DATA, stream) + data

    def send(self, stream: int, data: bytes | memoryview) -> int:
        """Send as much of `data` as the credit of the stream allows. Return the number of bytes."""
        credit = self.credits.get(stream, 0)
        size = len(data)
        if size > credit:
            size = credit
            data = memoryview(data)[:size]
        if not size:
            return 0
        self.credits[stream] = credit - size
        if size <= MAX_FRAME_BYTES:
            self._add_frame(_DATA, stream, data)
        else:
            view = memoryview(data)
            for start in range(0, size, MAX_FRAME_BYTES):
                self._add_frame(_DATA, stream, view[start : start + MAX_FRAME_BYTES])
        return size

    def end(self, stream: int) -> None:
        """End a stream that this end sends. Does nothing if it is not open."""
        if self.credits.pop(stream, None) is not None:
            self._add_frame(Kind.END, stream)

    def send_message(self, stream: int, message: Mapping[str, Any]) -> None:
        """Send an object. The stream need not be open."""
        text = json.dumps(message, separators=(",", ":")).encode()
        while len(text) > MAX_FRAME_BYTES:
            self._add_frame(Kind.PART, stream, text[:MAX_FRAME_BYTES])
            text = text[MAX_FRAME_BYTES:]
        self._add_frame(Kind.MESSAGE, stream, text)

    def send_beat(self) -> None:
        """Show that this end is alive."""
        self.output.append(_HEARTBEAT)
        self.output_bytes += len(_HEARTBEAT)

    def _add_frame(self, kind: int, stream: int, payload: bytes | memoryview = b"") -> None:
        size = len(payload)
        header = _HEADER.pack(size << 8 | kind, stream)
        if size <= _JOIN_BYTES:
            self.output.append(header + payload)
        else:
            self.output += (header, payload)
        self.output_bytes += size + len(header)

    def take_output(self) -> list[bytes | memoryview]:
        """Remove and return the buffers to send."""
        output, self.output, self.output_bytes = self.output, [], 0
        return output

    # -- receiving ---------------------------------------------------------------------------

    def open_incoming(self, stream: int) -> None:
        """Begin a stream that this end receives."""
        self._incoming[stream] = _Incoming()

    def consume(self, stream: int, count: int) -> None:
        """Allow the sender of a stream to send as many more bytes, because they were consumed."""
        incoming = self._incoming.get(stream)
        if incoming is None:
            return
        incoming.consumed += count
        if incoming.consumed * 2 >= incoming.window:
            self._report_credit(stream, incoming)

    def widen(self, stream: int) -> None:
        """Let the sender of a stream send more at once."""
        incoming = self._incoming.get(stream)
        if incoming is not None and incoming.window < WIDE_WINDOW_BYTES:
            incoming.consumed += WIDE_WINDOW_BYTES - incoming.window
            incoming.window = WIDE_WINDOW_BYTES
            self._report_credit(stream, incoming)

    def _report_credit(self, stream: int, incoming: _Incoming) -> None:
        self._add_frame(Kind.CREDIT, stream, _CREDIT.pack(incoming.consumed))
        incoming.room += incoming.consumed
        incoming.consumed = 0

    def reset(self, stream: int) -> None:
        """Receive no more of a stream. Does nothing if it is not open."""
        if self._incoming.pop(stream, None) is not None:
            self._add_frame(Kind.RESET, stream)

    def receive_one(self, data: bytes) -> tuple[int, bytes | memoryview] | None:
        """Return the number of the stream and the payload if these bytes are exactly one frame of
        data, which they nearly always are. Otherwise do nothing and return None: the caller must
        use `receive`. This method changes nothing that senders use."""
        size = len(data) - _HEADER_BYTES
        if size <= 0 or size > MAX_FRAME_BYTES or self._frame_left or self._partial_header:
            return None
        length_and_kind, stream = _HEADER.unpack_from(data)
        incoming = self._incoming.get(stream)
        # The kind of data is 0.
        if length_and_kind != size << 8 or incoming is None or size > incoming.room:
            return None
        incoming.room -= size
        view_or_copy = data if size < _VIEW_BYTES else memoryview(data)
        return stream, view_or_copy[_HEADER_BYTES:]

    def receive(self, data: bytes) -> list[FrameEvent]:
        """Return the events in these bytes. Raises ProtocolError."""
        events: list[FrameEvent] = []
        if self._partial_header:
            data = self._partial_header + data
            self._partial_header = b""
        offset, size = 0, len(data)
        while offset < size:
            if not self._frame_left:
                if size - offset < _HEADER_BYTES:
                    self._partial_header = data[offset:]
                    break
                length_and_kind, self._frame_stream = _HEADER.unpack_from(data, offset)
                self._frame_kind = length_and_kind & 255
                self._frame_left = length_and_kind >> 8
                offset += _HEADER_BYTES
                self._check_frame()
                if not self._frame_left:
                    self._on_complete_frame(b"", events)
                continue
            count = min(self._frame_left, size - offset)
            source = data if count < _VIEW_BYTES else memoryview(data)
            chunk = source[offset : offset + count]
            offset += count
            self._frame_left -= count
            if self._frame_kind == _DATA:
                if self._frame_stream in self._incoming:
                    events.append((_DATA, self._frame_stream, chunk))
            elif self._frame_left:
                self._partial_payload += chunk
            else:
                payload, self._partial_payload = self._partial_payload + chunk, b""
                self._on_complete_frame(payload, events)
        return events

    def _check_frame(self) -> None:
        """Check the header of a frame. Count data against the window of its stream."""
        size, stream = self._frame_left, self._frame_stream
        if size > MAX_FRAME_BYTES or self._frame_kind > Kind.HEARTBEAT:
            raise ProtocolError(f"a frame of kind {self._frame_kind} has {size} bytes")
        if self._frame_kind == _DATA:
            incoming = self._incoming.get(stream)
            if incoming is not None:
                incoming.room -= size
                if incoming.room < 0:
                    raise ProtocolError(f"more was sent in stream {stream} than its window")

    def _on_complete_frame(self, payload: bytes, events: list[FrameEvent]) -> None:
        """Handle a frame that is not data, and append its event, if it has one."""
        kind, stream = self._frame_kind, self._frame_stream
        match kind:
            case Kind.CREDIT:
                if len(payload) != _CREDIT.size:
                    raise ProtocolError("a frame with a credit of another size")
                if stream in self.credits:
                    self.credits[stream] += _CREDIT.unpack(payload)[0]
                    events.append((kind, stream, None))
            case Kind.END:
                if self._incoming.pop(stream, None) is not None:
                    events.append((kind, stream, None))
            case Kind.RESET:
                if self.credits.pop(stream, None) is not None:
                    events.append((kind, stream, None))
            case Kind.PART | Kind.MESSAGE:
                self._on_message(kind, stream, payload, events)

    def _on_message(self, kind: int, stream: int, payload: bytes, events: list[FrameEvent]) -> None:
        """Collect the parts of a message. Append its event when it is complete."""
        if kind == Kind.PART:
            self._parts.setdefault(stream, bytearray()).extend(payload)
            if sum(map(len, self._parts.values())) > MAX_MESSAGE_BYTES:
                raise ProtocolError("a message is too long")
            return
        text = self._parts.pop(stream, b"") + payload
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a message is not JSON: {error}") from None
        if not isinstance(message, dict):
            raise ProtocolError("a message is not an object")
        events.append((kind, stream, message))
