"""Replies that are decoded together are what they are one by one, or are left to that."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.dialects import find
from exthost.dialects.codec import Role
from exthost.model.messages import Reply
from exthost.wire.framing import Broken, Item, Skipped
from exthost.wire.jsontext import reply_decoder
from exthost.wire.lines import Lines

REPLIES = [
    b'{"id":1,"result":{"a":[1,2]}}',
    b'{"id":2,"result":null}',
    b'{"id":3,"result":"}\\n{"}',
]

decode_replies = reply_decoder()


def frames_of(lines: bytes) -> list[Any]:
    framing = Lines(1 << 20)
    framing.feed(b"\n")  # no byte-order mark from here on
    return framing.feed(lines)


def one_by_one(lines: bytes, codec: Any) -> list[Any]:
    return [codec.decode(frame) for frame in frames_of(lines)]


def at_once(lines: bytes, codec: Any) -> list[Any]:
    """Decode as a conversation does."""
    frames = frames_of(lines)
    replies: list[Any] | None = codec.decode_replies(frames)
    return [codec.decode(frame) for frame in frames] if replies is None else replies


def test_replies_that_follow_one_another_are_decoded_at_once() -> None:
    assert decode_replies(REPLIES) == [(1, {"a": [1, 2]}), (2, None), (3, "}\n{")]


def test_frames_in_any_kind_of_memory_are_decoded_at_once() -> None:
    first, second, third = REPLIES
    frames = [bytearray(first), memoryview(second), third]
    assert decode_replies(frames) == decode_replies(REPLIES) is not None


def test_the_markers_of_a_dialect_must_be_there_and_no_others() -> None:
    marked = [b'{"jsonrpc":"2.0",' + reply[1:] for reply in REPLIES]
    assert reply_decoder("jsonrpc")(marked) == decode_replies(REPLIES)
    assert reply_decoder("jsonrpc")(REPLIES) is None
    assert decode_replies(marked) is None


@pytest.mark.parametrize(
    "item", [Skipped("too long", b"{", 9), Skipped("not a frame", b"x", 1), Broken("cut", b"")]
)
def test_an_invalid_frame_leaves_all_to_be_read_one_by_one(item: Item) -> None:
    assert decode_replies([*REPLIES, item]) is None
    assert decode_replies([item, *REPLIES]) is None


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b" ",
        b"warming up",
        b"17",
        b"[]",
        b'{"id":1}',
        b'{"result":1}',
        b'{"id":-1,"result":1}',
        b'{"id":true,"result":1}',
        b'{"id":2.0,"result":1}',
        b'{"id":"1","result":1}',
        b'{"id":null,"result":1}',
        b'{"id":1,"error":"no"}',
        b'{"id":1,"result":1,"error":null}',
        b'{"method":"log","params":{}}',
        b'{"id":1,"result":1}{"id":2,"result":2}',
        b'{"id":1,"result":1} {"id":2,"result":2}',
        b'{"id":1,"result":"\xff"}',
        b'{"id":1,"result":NaN}',
        b'{"id":1,"result":1}\r',
        b'{"id":1,"result":',
        b'1}\n{"id":1,"result":1}{"id":2,"result":2}',
    ],
)
def test_one_other_frame_and_all_are_looked_at_one_by_one(frame: bytes) -> None:
    for frames in ([frame, *REPLIES], [*REPLIES, frame], [frame, frame]):
        assert decode_replies(frames) is None


def test_a_value_over_two_frames_is_not_made_up_for_by_a_frame_of_two_values() -> None:
    spread = [b'{"id":1,"result":', b"{}}", b'{"id":2,"result":{}}{"id":3,"result":{}}']
    assert decode_replies(spread) is None
    beside = [b'{"id":1,"result":', b'{}}\n{"id":2,"result":{}}']
    assert decode_replies(beside) is None
    inside = [b'{"id":1,"result":\n{}}', b'{"id":2,"result":{}}{"id":3,"result":{}}']
    assert decode_replies(inside) is None


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**20) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
_scraps = st.sampled_from(
    [
        b'{"id":1,"result":{}}',
        b'{"id":7,"result":{"id":1}}',
        b'{"jsonrpc":"2.0","id":4,"result":{}}',
        b'{"id":4,"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","method":"m","params":{}}',
        b'{"id":1,"id":2,"result":{}}',
        b'{"id":18446744073709551616,"result":{}}',
        b"{",
        b"}",
        b"{}",
        b'"id":1,"result":',
        b"\n",
        b"}\n{",
        b" ",
        b"\r",
        b"x",
    ]
)


@given(st.lists(_scraps, max_size=12), st.booleans())
def test_decoding_at_once_equals_decoding_one_by_one(scraps: list[bytes], end: bool) -> None:
    lines = b"".join(scraps) + (b"\n" if end else b"")
    for name in ("morphir", "nexo", "roder", "mcp"):
        codec: Any = find.find_dialect(name).codec(Role.HOST)
        assert at_once(lines, codec) == one_by_one(lines, codec), name


@given(st.lists(st.tuples(st.integers(0, 10**20), _values), min_size=2, max_size=6))
def test_any_results_come_out_as_they_went_in(answers: list[tuple[int, Any]]) -> None:
    for name in ("morphir", "nexo", "roder", "mcp"):
        dialect = find.find_dialect(name)
        guest, host = dialect.codec(Role.GUEST), dialect.codec(Role.HOST)
        lines = b"".join(guest.encode(Reply(*answer)) + b"\n" for answer in answers)
        assert at_once(lines, host) == answers, name
