"""Decoding several replies together has the same result as decoding each of them alone.

One read of an extension's output can have hundreds of small replies. `reply_decoder()` returns a
function that decodes all frames of a read in one call of msgspec, which is faster. It returns None
if any frame is not exactly a reply with an id and a result; the codec then decodes each frame.
"""

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


def split_lines(lines: bytes) -> list[Any]:
    framing = Lines(1 << 20)
    framing.feed(b"\n")  # after this, a byte order mark is not dropped
    return framing.feed(lines)


def decode_each(lines: bytes, codec: Any) -> list[Any]:
    return [codec.decode(frame) for frame in split_lines(lines)]


def decode_together(lines: bytes, codec: Any) -> list[Any]:
    """Decode as a conversation does: together if that is possible, otherwise each alone."""
    frames = split_lines(lines)
    replies: list[Any] | None = codec.decode_replies(frames)
    return [codec.decode(frame) for frame in frames] if replies is None else replies


def test_consecutive_replies_are_decoded_together() -> None:
    assert decode_replies(REPLIES) == [(1, {"a": [1, 2]}), (2, None), (3, "}\n{")]


def test_frames_of_any_buffer_type_are_decoded_together() -> None:
    first, second, third = REPLIES
    frames = [bytearray(first), memoryview(second), third]
    assert decode_replies(frames) == decode_replies(REPLIES) is not None


def test_replies_have_exactly_the_marker_fields_of_the_dialect() -> None:
    with_marker = [b'{"jsonrpc":"2.0",' + reply[1:] for reply in REPLIES]
    assert reply_decoder("jsonrpc")(with_marker) == decode_replies(REPLIES)
    assert reply_decoder("jsonrpc")(REPLIES) is None
    assert decode_replies(with_marker) is None


@pytest.mark.parametrize(
    "item", [Skipped("too long", b"{", 9), Skipped("not a frame", b"x", 1), Broken("cut", b"")]
)
def test_frames_with_an_invalid_frame_are_not_decoded_together(item: Item) -> None:
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
def test_frames_with_another_kind_of_frame_are_not_decoded_together(frame: bytes) -> None:
    for frames in ([frame, *REPLIES], [*REPLIES, frame], [frame, frame]):
        assert decode_replies(frames) is None


def test_frames_that_do_not_contain_one_value_each_are_not_decoded_together() -> None:
    value_over_two_frames = [
        b'{"id":1,"result":',
        b"{}}",
        b'{"id":2,"result":{}}{"id":3,"result":{}}',
    ]
    assert decode_replies(value_over_two_frames) is None
    end_of_value_and_next_value = [b'{"id":1,"result":', b'{}}\n{"id":2,"result":{}}']
    assert decode_replies(end_of_value_and_next_value) is None
    newline_within_a_value = [
        b'{"id":1,"result":\n{}}',
        b'{"id":2,"result":{}}{"id":3,"result":{}}',
    ]
    assert decode_replies(newline_within_a_value) is None


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**20) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
# Put together at random, these make valid replies, other messages, and JSON over several frames.
_fragments = st.sampled_from(
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


@given(st.lists(_fragments, max_size=12), st.booleans())
def test_decoding_together_equals_decoding_each_frame(
    fragments: list[bytes], ends_with_newline: bool
) -> None:
    lines = b"".join(fragments) + (b"\n" if ends_with_newline else b"")
    for name in ("morphir", "nexo", "roder", "mcp"):
        codec: Any = find.find_dialect(name).codec(Role.HOST)
        assert decode_together(lines, codec) == decode_each(lines, codec), name


@given(st.lists(st.tuples(st.integers(0, 10**20), _values), min_size=2, max_size=6))
def test_any_results_are_decoded_as_they_were_encoded(answers: list[tuple[int, Any]]) -> None:
    for name in ("morphir", "nexo", "roder", "mcp"):
        dialect = find.find_dialect(name)
        guest, host = dialect.codec(Role.GUEST), dialect.codec(Role.HOST)
        lines = b"".join(guest.encode(Reply(*answer)) + b"\n" for answer in answers)
        assert decode_together(lines, host) == answers, name
