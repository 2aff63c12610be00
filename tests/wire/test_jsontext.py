"""JSON text: agreement with the standard library, and everything that a child may get wrong."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.errors import UsageError
from exthost.wire import jsontext
from exthost.wire.jsontext import NotJson, leading_id, may_be_reply

# Every character, lone surrogates among them: Node writes them.
any_text = st.text(st.characters(), max_size=30)
any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=20,
)


def stdlib(text: bytes) -> Any:
    """What the standard library reads, held to the standard: UTF-8, no NaN, no infinity."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    def finite(digits: str) -> float:
        number = float(digits)
        if math.isinf(number):
            raise ValueError(digits)
        return number

    return json.loads(text.decode(), parse_constant=refuse, parse_float=finite)


@given(any_json)
def test_the_standard_library_reads_our_output(value: Any) -> None:
    assert stdlib(jsontext.encode(value)) == value


@given(any_json, st.booleans(), st.sampled_from([None, 1]))
def test_we_read_the_output_of_the_standard_library(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    try:
        written = text.encode()
    except UnicodeEncodeError:  # a lone surrogate that was not escaped
        return
    assert jsontext.decode(written) == value


@given(any_json)
def test_without_terminal_controls_the_text_has_the_same_value(value: Any) -> None:
    text = jsontext.escape_terminal_controls(jsontext.encode(value))
    assert jsontext.decode(text) == jsontext.decode(jsontext.encode(value))
    assert not re.search(
        "[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text.decode()
    )


@given(any_json)
def test_a_value_comes_back_with_its_types(value: Any) -> None:
    assert repr(jsontext.decode(jsontext.encode(value))) == repr(value)


_BITS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"d800", b"\\udc00", b"0", b"12"]
_BITS += [
    b"-",
    b".",
    b"e9",
    b"e999",
    b"true",
    b"null",
    b"NaN",
    b'"a"',
    b" ",
    b"\t",
    b"\x00",
    b"\xff",
]
_BITS += ["é".encode(), b"\xed\xa0\x80", b"\xef\xbb\xbf"]


@given(st.lists(st.sampled_from(_BITS) | st.binary(max_size=2), max_size=12).map(b"".join))
def test_we_take_and_refuse_the_same_texts_as_the_standard_library(text: bytes) -> None:
    try:
        expected = stdlib(text)
    except ValueError:
        with pytest.raises(NotJson):
            jsontext.decode(text)
    else:
        assert repr(jsontext.decode(text)) == repr(expected)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_value_or_not_json(data: bytes) -> None:
    try:
        jsontext.decode(data)
    except NotJson as refused:
        assert str(refused)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_may_be_decoded(kind: type[bytes]) -> None:
    assert jsontext.decode(kind(b'{"a":"\\ud800"}')) == {"a": "\ud800"}
    with pytest.raises(NotJson):
        jsontext.decode(kind(b"\\u"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\\ud800"', "\ud800"),
        (b'"\\udc00"', "\udc00"),
        (b'"\\ud800\\u0041"', "\ud800A"),
        (b'"\\udc00\\ud800"', "\udc00\ud800"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'{"\\ud800":["\\udfff"]}', {"\ud800": ["\udfff"]}),
    ],
)
def test_lone_surrogates_are_read_and_written_as_escapes(text: bytes, value: Any) -> None:
    assert jsontext.decode(text) == value
    written = jsontext.encode(value)
    assert jsontext.decode(written) == value
    written.decode("utf-8")  # strictly


@pytest.mark.parametrize(
    "text",
    [
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b'{"a":NaN,"b":"\\ud800"}',
        b"1e400",
        b'["\\ud800",1e400]',
        b"9" * 5000,
        b'"\xed\xa0\x80"',
        b'["\xed\xa0\x80","\\ud800"]',
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-32"),
        b"",
        b" ",
        b"{} {}",
        b"{'a':1}",
        b'{"a":1,}',
        b"01",
        b'"\x01"',
    ],
)
def test_text_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(NotJson):
        jsontext.decode(text)


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
@pytest.mark.parametrize("escape", [b"", b'"\\ud800",'])
def test_100_000_brackets_are_refused(bracket: bytes, escape: bytes) -> None:
    text = b"[" + escape + bracket * 100_000
    with pytest.raises(NotJson, match=r"nested too deeply|not JSON"):
        jsontext.decode(text)
    closed = b"[" + escape + b"[" * 100_000 + b"]" * 100_001
    with pytest.raises(NotJson, match="nested too deeply"):
        jsontext.decode(closed)


def test_of_members_named_twice_the_last_one_counts() -> None:
    assert jsontext.decode(b'{"id":1,"a":0,"id":2}') == {"id": 2, "a": 0}
    assert jsontext.decode(b'{"id":1,"id":"\\ud800"}') == {"id": "\ud800"}


def test_numbers_of_any_size_keep_their_value() -> None:
    for number in (2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**60):
        assert jsontext.decode(jsontext.encode(number)) == number


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_written_as_null(value: float) -> None:
    assert jsontext.encode({"a": [value, 1.5]}) == b'{"a":[null,1.5]}'
    # Also where a lone surrogate makes the standard library write it.
    assert jsontext.decode(jsontext.encode(["\ud800", (value,)])) == ["\ud800", [None]]


def test_the_text_is_compact_and_in_utf_8_and_keeps_the_order() -> None:
    assert jsontext.encode({"b": "é", "a": [1, None]}) == '{"b":"é","a":[1,null]}'.encode()


def _ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    "value",
    [object(), {"a": object()}, _ring(), ["\ud800", object()], ["\ud800", _ring()]],
    ids=["object", "object in a dict", "ring", "object by a surrogate", "ring by a surrogate"],
)
def test_an_unwritable_value_is_a_usage_error(value: Any) -> None:
    with pytest.raises(UsageError) as refused:
        jsontext.encode(value)
    assert refused.value.code == "X1302"


@pytest.mark.parametrize(
    ("head", "id"),
    [
        (b'{"id":7,"result":[1,2', 7),
        (b'{"id":7}', 7),
        (b' { "id" : 7 , "result', 7),
        (b'{"jsonrpc":"2.0","id":12,"result":{', 12),
        (b'{"ok":true,"n":-1.5e3,"s":"a\\"b","id":3,', 3),
        (b'{"s":"\\\\","id":3,', 3),
        (b'{"id":18446744073709551615,"r', 18446744073709551615),
        (b'{"id":0,', 0),
        # Somebody else's id.
        (b'{"result":{"id":7,', None),
        (b'{"result":[{"id":7}', None),
        (b'{"result":"\\"id\\":7,', None),
        (b'{"result":"x","nested":{"id":7,', None),
        # No id, or one that is not whole.
        (b'{"id":7', None),
        (b'{"id":"7",', None),
        (b'{"id":7.5,"result":1', None),
        (b'{"id":-7,"result":1', None),
        (b'{"id":true,"result":1', None),
        (b'{"id":123456789012345678901,', None),
        (b'[{"id":7,', None),
        (b'"id":7,', None),
        (b"", None),
        # With a method it is no reply.
        (b'{"method":"log","id":7,"params":"xxx', None),
        (b'{"id":7,"method":"ask","params":"xxx', None),
        (b'{"id":7, "method" : "ask","params":"xxx', None),
        (b'{"methods":"log","id":7,"result":"xxx', 7),
    ],
)
def test_the_leading_id_is_found_only_where_it_is_the_messages_own(
    head: bytes, id: int | None
) -> None:
    assert leading_id(head) == id


@given(st.lists(st.sampled_from(_BITS) | st.just(b'"id":7,'), max_size=60).map(b"".join))
def test_no_head_makes_the_search_for_an_id_raise(head: bytes) -> None:
    found = leading_id(head)
    assert found is None or isinstance(found, int)


@pytest.mark.parametrize(
    "unit", [b'"a":1,', b'"a" ,', b" ", b'"', b"\\", b'"a":"', b"1", b'"a":1 ']
)
def test_a_head_made_to_be_searched_for_ever_is_not(unit: bytes) -> None:
    # Would not return in the lifetime of the test run if the pattern could be led astray.
    head = b"{" + unit * (4096 // len(unit))
    assert leading_id(head) is None
    assert may_be_reply(head)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"id":7,"result":[[],[', True),
        (b'{"result":[[],[', True),
        (b'{"jsonrpc":"2.0","error":{"method":', True),
        (b' \r\n{ "jsonrpc" : "2.0" , "resu', True),
        (b'[{"id":7,"result":[', True),
        (b'{"methods":1,"result":[', True),
        (b'{"params":{"a":1},"method":"log"', True),  # after a nested value, nothing is known
        (b"", True),
        (b"   ", True),
        (b'{"method":"log","params":[[],[', False),
        (b'{ "jsonrpc": "2.0", "method": "log", "params": [[], [', False),
        (b'{"jsonrpc":"2.0","id":7,"method":"ask","params":[', False),
        (b'{"text":"\\"","method":"log","params":[', False),
        (b"xxxxxxxx", False),
        (b' "text', False),
        (b"123", False),
    ],
)
def test_a_large_message_is_recognised_by_its_first_fields(head: bytes, expected: bool) -> None:
    assert may_be_reply(head) is expected
