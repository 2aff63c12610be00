"""`Multiplexer`, which divides one connection between a host and an agent into numbered streams.

A sender may send as much of a stream as its window allows; the receiver grants more when it has
consumed data. So a stream that is not consumed does not hold up the others. Each end is a
Multiplexer without I/O: bytes go in, and events (kind, stream, payload) come out.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.cluster.multiplexer import (
    MAX_FRAME_BYTES,
    MAX_MESSAGE_BYTES,
    WIDE_WINDOW_BYTES,
    WINDOW_BYTES,
    FrameEvent,
    Kind,
    Multiplexer,
    ProtocolError,
)

STREAMS = (1, 2, 3)


def open_pair() -> tuple[Multiplexer, Multiplexer]:
    """Return a sender and a receiver of the same streams."""
    sender, receiver = Multiplexer(), Multiplexer()
    for stream in STREAMS:
        sender.open_outgoing(stream)
        receiver.open_incoming(stream)
    return sender, receiver


def transfer(
    source: Multiplexer, target: Multiplexer, cuts: list[int] | None = None
) -> list[FrameEvent]:
    """Pass the output of one end to the other, in pieces of these sizes."""
    data = b"".join(source.take_output())
    events: list[FrameEvent] = []
    for size in cuts or ():
        events += receive(target, data[:size])
        data = data[size:]
    return events + receive(target, data)


def receive(target: Multiplexer, data: bytes) -> list[FrameEvent]:
    # `receive_one` is a faster way for data that is exactly one frame.
    only_frame = target.receive_one(data)
    return target.receive(data) if only_frame is None else [(Kind.DATA, *only_frame)]


def data_of(events: list[FrameEvent], stream: int) -> bytes:
    return b"".join(
        bytes(payload) for kind, number, payload in events if kind == Kind.DATA and number == stream
    )


def kinds_of(events: list[FrameEvent]) -> list[int]:
    return [kind for kind, _, _ in events]


# Actions of both ends: the name of the action, the stream, and a number of bytes.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(STREAMS), st.integers(0, 3 * WINDOW_BYTES)),
        st.tuples(st.just("consume"), st.sampled_from(STREAMS), st.integers(0, WINDOW_BYTES)),
        st.tuples(st.just("message"), st.sampled_from(STREAMS), st.integers(0, 1000)),
        st.tuples(st.just("widen"), st.sampled_from(STREAMS), st.just(0)),
    ),
    max_size=30,
)


@given(steps, st.lists(st.integers(1, 40_000), max_size=20))
def test_every_stream_arrives_in_order_within_its_window(
    actions: list[tuple[str, int, int]], cuts: list[int]
) -> None:
    sender, receiver = open_pair()
    sent = dict.fromkeys(STREAMS, b"")
    received = dict.fromkeys(STREAMS, b"")
    consumed = dict.fromkeys(STREAMS, 0)
    messages: list[dict[str, int]] = []
    received_messages: list[dict[str, int]] = []
    for number, (action, stream, size) in enumerate(actions):
        if action == "send":
            data = bytes([number]) * size
            # `pack` is a faster way for little data when no output waits; otherwise it returns b"".
            frame = sender.pack(stream, data)
            if frame:
                sender.output.append(frame)
                sent[stream] += data
            else:
                sent[stream] += data[: sender.send(stream, data)]
        elif action == "consume":
            count = min(size, len(received[stream]) - consumed[stream])
            consumed[stream] += count
            receiver.consume(stream, count)
        elif action == "message":
            messages.append({"n": size})
            sender.send_message(stream, {"n": size})
        else:
            receiver.widen(stream)
        events = transfer(sender, receiver, cuts)
        for each in STREAMS:
            received[each] += data_of(events, each)
            assert len(received[each]) - consumed[each] <= WIDE_WINDOW_BYTES
        received_messages += [payload for kind, _, payload in events if kind == Kind.MESSAGE]
        transfer(receiver, sender)
    assert received == sent and received_messages == messages


def test_a_stream_that_is_not_consumed_does_not_block_the_others() -> None:
    sender, receiver = open_pair()
    assert sender.send(1, bytes(WINDOW_BYTES + 1)) == WINDOW_BYTES
    assert sender.send(1, b"x") == 0
    for _ in range(20):
        assert sender.send(2, bytes(WINDOW_BYTES)) == WINDOW_BYTES
        receiver.consume(2, len(data_of(transfer(sender, receiver), 2)))
        transfer(receiver, sender)
    assert sender.send(1, b"x") == 0


def test_a_large_message_is_sent_in_parts_that_other_streams_interrupt() -> None:
    sender, receiver = open_pair()
    text = "x" * (3 * MAX_FRAME_BYTES)
    sender.send_message(4, {"text": text})
    sender.send(1, b"data")
    events = transfer(sender, receiver, [100_000, 5])
    assert kinds_of(events) == [Kind.MESSAGE, Kind.DATA]
    assert events[0][2] == {"text": text}


def test_an_end_and_a_reset_are_reported_once_and_later_data_is_dropped() -> None:
    sender, receiver = open_pair()
    sender.send(1, b"last")
    sender.end(1)
    sender.end(1)
    events = transfer(sender, receiver)
    assert kinds_of(events) == [Kind.DATA, Kind.END]
    receiver.reset(2)
    sender.send(2, b"sent before the reset arrived")
    assert transfer(sender, receiver) == []
    assert kinds_of(transfer(receiver, sender)) == [Kind.RESET]
    assert 2 not in sender.credits  # the sender has forgotten the stream


def frame(kind: int, stream: int, payload: bytes) -> bytes:
    """Return a frame: three bytes with the length, one with the kind, four with the stream."""
    return (len(payload) << 8 | kind).to_bytes(4, "big") + stream.to_bytes(4, "big") + payload


@pytest.mark.parametrize(
    "data",
    [
        frame(9, 1, b""),
        (0xFFFFFF << 8).to_bytes(4, "big") + bytes(4),  # a length over the limit
        frame(Kind.DATA, 1, bytes(MAX_FRAME_BYTES)) + frame(Kind.DATA, 1, b"more than the window"),
        frame(Kind.CREDIT, 1, b"12"),
        frame(Kind.MESSAGE, 1, b"{"),
        frame(Kind.MESSAGE, 1, b"[1]"),
        frame(Kind.MESSAGE, 1, b"[" * 100_000),
        frame(Kind.PART, 1, bytes(MAX_FRAME_BYTES)) * (MAX_MESSAGE_BYTES // MAX_FRAME_BYTES + 1),
    ],
    ids=["kind", "length", "window", "credit", "not JSON", "no object", "deep", "long message"],
)
def test_a_frame_that_the_protocol_does_not_allow_is_an_error(data: bytes) -> None:
    _, receiver = open_pair()
    with pytest.raises(ProtocolError):
        receive(receiver, data)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_error_or_events(data: bytes) -> None:
    _, receiver = open_pair()
    try:
        receive(receiver, data)
    except ProtocolError:
        pass
