"""Decoding and encoding JSON: compared with the standard library, and with invalid texts.

`jsontext` uses msgspec, a fast library, if it is installed. Messages come from programs in any
language, and may be hostile. Strict JSON in UTF-8 is accepted, and lone surrogates in escapes,
which Node writes; NaN, infinities and other encodings are refused.
"""

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

# All characters, including lone surrogates: halves of a character in UTF-16.
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


def decode_with_stdlib(text: bytes) -> Any:
    """Decode strictly with the standard library: only UTF-8, no NaN, no infinity."""

    def refuse_constant(name: str) -> None:
        raise ValueError(name)

    def parse_finite(digits: str) -> float:
        number = float(digits)
        if math.isinf(number):
            raise ValueError(digits)
        return number

    return json.loads(text.decode(), parse_constant=refuse_constant, parse_float=parse_finite)


@given(any_json)
def test_the_standard_library_reads_the_encoded_text(value: Any) -> None:
    assert decode_with_stdlib(jsontext.encode(value)) == value


@given(any_json, st.booleans(), st.sampled_from([None, 1]))
def test_the_output_of_the_standard_library_is_decoded(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # a lone surrogate that was not escaped
        return
    assert jsontext.decode(encoded) == value


@given(any_json)
def test_without_terminal_controls_the_text_has_the_same_value(value: Any) -> None:
    text = jsontext.escape_terminal_controls(jsontext.encode(value))
    assert jsontext.decode(text) == jsontext.decode(jsontext.encode(value))
    assert not re.search(
        "[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text.decode()
    )


@given(any_json)
def test_a_decoded_value_has_the_types_of_the_encoded_value(value: Any) -> None:
    assert repr(jsontext.decode(jsontext.encode(value))) == repr(value)


_FRAGMENTS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"\\u",
    b"d800",
    b"\\udc00",
    b"0",
    b"12",
]
_FRAGMENTS += [
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
_FRAGMENTS += ["é".encode(), b"\xed\xa0\x80", b"\xef\xbb\xbf"]


@given(st.lists(st.sampled_from(_FRAGMENTS) | st.binary(max_size=2), max_size=12).map(b"".join))
def test_the_same_texts_are_refused_as_by_the_standard_library(text: bytes) -> None:
    try:
        expected = decode_with_stdlib(text)
    except ValueError:
        with pytest.raises(NotJson):
            jsontext.decode(text)
    else:
        assert repr(jsontext.decode(text)) == repr(expected)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_value_or_not_json(data: bytes) -> None:
    try:
        jsontext.decode(data)
    except NotJson as error:
        assert str(error)


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_any_type_of_buffer_can_be_decoded(buffer_type: type[bytes]) -> None:
    assert jsontext.decode(buffer_type(b'{"a":"\\ud800"}')) == {"a": "\ud800"}
    with pytest.raises(NotJson):
        jsontext.decode(buffer_type(b"\\u"))


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
    encoded = jsontext.encode(value)
    assert jsontext.decode(encoded) == value
    encoded.decode("utf-8")  # raises an exception if it is not UTF-8


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
    balanced_text = b"[" + escape + b"[" * 100_000 + b"]" * 100_001
    with pytest.raises(NotJson, match="nested too deeply"):
        jsontext.decode(balanced_text)


def test_the_last_of_several_members_with_the_same_name_is_used() -> None:
    assert jsontext.decode(b'{"id":1,"a":0,"id":2}') == {"id": 2, "a": 0}
    assert jsontext.decode(b'{"id":1,"id":"\\ud800"}') == {"id": "\ud800"}


def test_numbers_of_any_size_keep_their_value() -> None:
    for number in (2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**60):
        assert jsontext.decode(jsontext.encode(number)) == number


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_written_as_null(value: float) -> None:
    assert jsontext.encode({"a": [value, 1.5]}) == b'{"a":[null,1.5]}'
    # A value with a lone surrogate is encoded by the standard library.
    assert jsontext.decode(jsontext.encode(["\ud800", (value,)])) == ["\ud800", [None]]


def test_the_text_is_compact_and_in_utf_8_and_keeps_the_order() -> None:
    assert jsontext.encode({"b": "é", "a": [1, None]}) == '{"b":"é","a":[1,null]}'.encode()


def _list_with_itself() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"a": object()},
        _list_with_itself(),
        ["\ud800", object()],
        ["\ud800", _list_with_itself()],
    ],
    ids=["object", "object in a dict", "loop", "object and surrogate", "loop and surrogate"],
)
def test_a_value_that_json_cannot_represent_is_a_usage_error(value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        jsontext.encode(value)
    assert caught.value.code == "X1302"  # the value cannot be written as JSON


# The head is the first bytes of a large message, of which the rest has not arrived yet.
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
        # The id of a nested object or text.
        (b'{"result":{"id":7,', None),
        (b'{"result":[{"id":7}', None),
        (b'{"result":"\\"id\\":7,', None),
        (b'{"result":"x","nested":{"id":7,', None),
        # No id, or an id that is incomplete or not a natural number.
        (b'{"id":7', None),
        (b'{"id":"7",', None),
        (b'{"id":7.5,"result":1', None),
        (b'{"id":-7,"result":1', None),
        (b'{"id":true,"result":1', None),
        (b'{"id":123456789012345678901,', None),
        (b'[{"id":7,', None),
        (b'"id":7,', None),
        (b"", None),
        # A message with a method is not a reply.
        (b'{"method":"log","id":7,"params":"xxx', None),
        (b'{"id":7,"method":"ask","params":"xxx', None),
        (b'{"id":7, "method" : "ask","params":"xxx', None),
        (b'{"methods":"log","id":7,"result":"xxx', 7),
    ],
)
def test_the_leading_id_is_the_id_of_the_message_itself(head: bytes, id: int | None) -> None:
    assert leading_id(head) == id


@given(st.lists(st.sampled_from(_FRAGMENTS) | st.just(b'"id":7,'), max_size=60).map(b"".join))
def test_leading_id_raises_no_exception_for_any_bytes(head: bytes) -> None:
    id = leading_id(head)
    assert id is None or isinstance(id, int)


@pytest.mark.parametrize(
    "unit", [b'"a":1,', b'"a" ,', b" ", b'"', b"\\", b'"a":"', b"1", b'"a":1 ']
)
def test_a_hostile_head_does_not_take_for_ever_to_search(unit: bytes) -> None:
    # With a pattern that backtracks, the search would not end during the test run.
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
        (b'{"params":{"a":1},"method":"log"', True),  # fields after a nested value are not examined
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
