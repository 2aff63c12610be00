"""JSON is decoded and encoded in the same way if msgspec, a fast JSON library, is not installed.

A second interpreter that cannot import msgspec decodes all TEXTS and encodes all VALUES; the tests
compare its results with those of this process. Both processes exchange them as `repr`, which also
distinguishes -0.0, floats and lone surrogates.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import UsageError
from exthost.wire import jsontext

_PROGRAM_WITHOUT_MSGSPEC = """
import ast, sys
sys.modules["msgspec"] = None  # importing it raises ImportError
from exthost.errors import UsageError
from exthost.wire import jsontext
assert jsontext.decode_fast is jsontext._decode_slowly

def call(function, argument):
    try:
        return ("ok", function(argument))
    except (jsontext.NotJson, UsageError) as error:
        return ("no", type(error).__name__)

texts, values = ast.literal_eval(sys.stdin.read())
values = [eval(value, {"nan": float("nan"), "inf": float("inf")}) for value in values]
print(ascii(([call(jsontext.decode, text) for text in texts],
            [call(jsontext.encode, value) for value in values])))
"""

TEXTS = [
    b'{"id":2,"result":{"a":[1,2.5,-0.0,null,true]}}',
    b" [ 1 ]\r",
    b'"\\ud800"',
    b'"\\ud83d\\ude00 \\u00e9"',
    '"é😀"'.encode(),
    b'{"a":1,"a":2}',
    b"18446744073709551616",
    b"1E5",
    b"-0",
    b"NaN",
    b"Infinity",
    b"1e400",
    b"1e-400",
    b"9" * 5000,
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b"\xef\xbb\xbf1",
    "1".encode("utf-16"),
    "[1]".encode("utf-32"),
    b"",
    b"\\u",
    b"{",
    b"[1,]",
    b"01",
    b"1.",
    b'"\x01"',
    b"[" * 100_000,
    b"{}{}",
]
# Values as Python expressions, because they are sent to the other process.
VALUES = [
    "{'id': 2, 'method': 'échö', 'params': None}",
    "['\\ud800', 'é', 1]",
    "[nan, inf, -inf, 1.5]",
    "['\\ud800', nan]",
    "(1, (2,))",
    "2 ** 70",
    "'\\x00\\x1f\\x7f\\u2028\\\"\\\\'",
    "{1: 2}",
    "object()",
    "[object()]",
    "{'a': {'b': {}}}",
    "[]",
]


@pytest.fixture(scope="module")
def results_without_msgspec() -> tuple[list[Any], list[Any]]:
    """The results of the second interpreter: ("ok", result) or ("no", error) for each text and
    each value."""
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM_WITHOUT_MSGSPEC],
        input=repr((TEXTS, VALUES)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert result.returncode == 0, result.stderr
    texts, values = ast.literal_eval(result.stdout)
    return texts, values


@pytest.mark.parametrize("index", range(len(TEXTS)), ids=lambda index: str(TEXTS[index][:20]))
def test_a_text_has_the_same_value(
    results_without_msgspec: tuple[list[Any], list[Any]], index: int
) -> None:
    try:
        expected: tuple[str, Any] = ("ok", jsontext.decode(TEXTS[index]))
    except jsontext.NotJson:
        expected = ("no", "NotJson")
    results_of_texts, _ = results_without_msgspec
    assert repr(results_of_texts[index]) == repr(expected)


@pytest.mark.parametrize("index", range(len(VALUES)), ids=lambda index: VALUES[index][:20])
def test_a_value_has_the_same_text(
    results_without_msgspec: tuple[list[Any], list[Any]], index: int
) -> None:
    value = eval(VALUES[index], {"nan": float("nan"), "inf": float("inf")})
    try:
        expected: tuple[str, Any] = ("ok", jsontext.encode(value))
    except UsageError:
        expected = ("no", "UsageError")
    _, results_of_values = results_without_msgspec
    assert results_of_values[index] == expected


def test_a_float_has_the_same_value_as_in_the_standard_library() -> None:
    """msgspec writes 1e16 as text in another form than `json`."""
    assert json.loads(jsontext.encode(1e16)) == 1e16 == json.loads(json.dumps(1e16))
