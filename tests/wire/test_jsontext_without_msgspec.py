"""Where msgspec is not installed the same texts have the same values.

The fallback is run in an interpreter that cannot import msgspec; questions and answers travel as
`repr`, which also tells -0.0, floats and lone surrogates apart.
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

_WITHOUT = """
import ast, sys
sys.modules["msgspec"] = None  # importing it raises ImportError
from exthost.errors import UsageError
from exthost.wire import jsontext
assert jsontext.decode_fast is jsontext._decode_slowly

def tried(work, argument):
    try:
        return ("ok", work(argument))
    except (jsontext.NotJson, UsageError) as refused:
        return ("no", type(refused).__name__)

texts, values = ast.literal_eval(sys.stdin.read())
values = [eval(value, {"nan": float("nan"), "inf": float("inf")}) for value in values]
print(ascii(([tried(jsontext.decode, text) for text in texts],
            [tried(jsontext.encode, value) for value in values])))
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
def without() -> tuple[list[Any], list[Any]]:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT],
        input=repr((TEXTS, VALUES)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    texts, values = ast.literal_eval(done.stdout)
    return texts, values


@pytest.mark.parametrize("at", range(len(TEXTS)), ids=lambda at: str(TEXTS[at][:20]))
def test_a_text_has_the_same_value(without: tuple[list[Any], list[Any]], at: int) -> None:
    try:
        here: tuple[str, Any] = ("ok", jsontext.decode(TEXTS[at]))
    except jsontext.NotJson:
        here = ("no", "NotJson")
    assert repr(without[0][at]) == repr(here)


@pytest.mark.parametrize("at", range(len(VALUES)), ids=lambda at: VALUES[at][:20])
def test_a_value_has_the_same_text(without: tuple[list[Any], list[Any]], at: int) -> None:
    value = eval(VALUES[at], {"nan": float("nan"), "inf": float("inf")})
    try:
        here: tuple[str, Any] = ("ok", jsontext.encode(value))
    except UsageError:
        here = ("no", "UsageError")
    assert without[1][at] == here


def test_a_float_is_written_differently_and_means_the_same() -> None:
    assert json.loads(jsontext.encode(1e16)) == 1e16 == json.loads(json.dumps(1e16))
