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
    """Pass the output of one end to the other, and return its events. The pieces that the other end
    receives have the sizes in `cuts`, and the last one is the rest."""
    data = b"".join(source.take_output())
    events: list[FrameEvent] = []
    for size in cuts or ():
        events += receive(target, data[:size])
        data = data[size:]
    return events + receive(target, data)


def receive(target: Multiplexer, data: bytes) -> list[FrameEvent]:
    """Return the events in this data, received as `Link` does: first by `receive_one`, which is
    faster and returns None unless the data is exactly one frame of the kind DATA."""
    only_frame = target.receive_one(data)
    return target.receive(data) if only_frame is None else [(Kind.DATA, *only_frame)]


def data_of(events: list[FrameEvent], stream: int) -> bytes:
    return b"".join(
        bytes(payload) for kind, number, payload in events if kind == Kind.DATA and number == stream
    )


def kinds_of(events: list[FrameEvent]) -> list[int]:
    return [kind for kind, _, _ in events]


def make_frame(kind: int, stream: int, payload: bytes) -> bytes:
    """Return a frame: three bytes with the length, one with the kind, four with the stream."""
    return (len(payload) << 8 | kind).to_bytes(4, "big") + stream.to_bytes(4, "big") + payload


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
    windows = dict.fromkeys(STREAMS, WINDOW_BYTES)
    messages: list[dict[str, int]] = []
    received_messages: list[dict[str, int]] = []
    for number, (action, stream, size) in enumerate(actions):
        if action == "send":
            data = bytes([number]) * size
            # `pack` is a faster way for little data when no output waits; otherwise it returns b"".
            packed = sender.pack(stream, data)
            if packed:
                sender.output.append(packed)
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
            windows[stream] = WIDE_WINDOW_BYTES
        events = transfer(sender, receiver, cuts)
        for each in STREAMS:
            received[each] += data_of(events, each)
            assert len(received[each]) - consumed[each] <= windows[each]
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


def test_a_large_message_is_sent_in_parts() -> None:
    sender, receiver = open_pair()
    text = "x" * (3 * MAX_FRAME_BYTES)
    sender.send_message(4, {"text": text})
    assert max(map(len, sender.output)) <= MAX_FRAME_BYTES
    # The cuts are inside a frame: after a part of its payload, and a few bytes later.
    assert transfer(sender, receiver, [100_000, 5]) == [(Kind.MESSAGE, 4, {"text": text})]


def test_data_and_messages_of_other_streams_may_come_between_the_parts_of_a_message() -> None:
    _, receiver = open_pair()
    data = b"".join(
        [
            make_frame(Kind.PART, 4, b'{"text":'),
            make_frame(Kind.DATA, 1, b"data"),
            make_frame(Kind.PART, 5, b'{"other":'),
            make_frame(Kind.MESSAGE, 4, b'"x"}'),
            make_frame(Kind.MESSAGE, 5, b'"y"}'),
        ]
    )
    assert receive(receiver, data) == [
        (Kind.DATA, 1, b"data"),
        (Kind.MESSAGE, 4, {"text": "x"}),
        (Kind.MESSAGE, 5, {"other": "y"}),
    ]


def test_an_end_and_a_reset_are_reported_once_and_later_data_is_dropped() -> None:
    sender, receiver = open_pair()
    sender.send(1, b"last")
    sender.end(1)
    sender.end(1)
    events = transfer(sender, receiver)
    assert kinds_of(events) == [Kind.DATA, Kind.END]
    receiver.reset(2)
    receiver.reset(2)
    sender.send(2, b"sent before the reset arrived")
    assert transfer(sender, receiver) == []
    assert kinds_of(transfer(receiver, sender)) == [Kind.RESET]
    assert 2 not in sender.credits  # the sender has forgotten the stream


def test_an_end_or_a_reset_that_arrives_again_is_dropped() -> None:
    sender, receiver = open_pair()
    assert kinds_of(receive(receiver, 2 * make_frame(Kind.END, 1, b""))) == [Kind.END]
    assert kinds_of(receive(sender, 2 * make_frame(Kind.RESET, 2, b""))) == [Kind.RESET]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(make_frame(9, 1, b""), "a frame of kind 9 has 0 bytes", id="kind"),
        pytest.param(
            (0xFFFFFF << 8).to_bytes(4, "big") + bytes(4),
            "a frame of kind 0 has 16777215 bytes",
            id="length",
        ),
        # The first frame fills the window, which is as large as the largest frame.
        pytest.param(
            make_frame(Kind.DATA, 1, bytes(MAX_FRAME_BYTES)) + make_frame(Kind.DATA, 1, b"x"),
            "more was sent in stream 1 than its window",
            id="window",
        ),
        pytest.param(
            make_frame(Kind.CREDIT, 1, b"12"), "a frame with a credit of another size", id="credit"
        ),
        pytest.param(make_frame(Kind.MESSAGE, 1, b"{"), "a message is not JSON: ", id="not JSON"),
        pytest.param(
            make_frame(Kind.MESSAGE, 1, b"[1]"), "a message is not an object", id="not an object"
        ),
        pytest.param(
            make_frame(Kind.MESSAGE, 1, b"[" * 100_000), "a message is not JSON: ", id="deep"
        ),
        pytest.param(
            make_frame(Kind.PART, 1, bytes(MAX_FRAME_BYTES))
            * (MAX_MESSAGE_BYTES // MAX_FRAME_BYTES + 1),
            "a message is too long",
            id="long message",
        ),
    ],
)
def test_a_frame_that_the_protocol_does_not_allow_is_an_error(data: bytes, message: str) -> None:
    _, receiver = open_pair()
    with pytest.raises(ProtocolError) as caught:
        receive(receiver, data)
    assert str(caught.value).startswith(message)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_error_or_events(data: bytes) -> None:
    _, receiver = open_pair()
    try:
        receive(receiver, data)
    except ProtocolError:
        pass
