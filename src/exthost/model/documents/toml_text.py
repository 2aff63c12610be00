"""Parses TOML from an untrusted file, such as the manifest of an extension.

The time that `tomllib` takes is quadratic in the number of parts of a dotted key: a file of 64 KB
with a key of 32,000 parts takes most of a minute. Therefore a key with too many parts is rejected
before the text is parsed.
"""

import re
import tomllib
from typing import Any

# Keys of real files have fewer than ten parts.
MAX_KEY_PARTS = 200

# A comment or a string, also one that does not end.
_QUOTED = re.compile(
    r"""
    \#[^\n]*
    | \"{3} (?:[^\\]|\\.)*? (?:\"{3}|\\?\Z)
    | '{3} .*? (?:'{3}|\Z)
    | " (?:[^"\\\n]|\\[^\n])* "?
    | '[^'\n]*'?
    """,
    re.DOTALL | re.VERBOSE,
)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the document. Raises ValueError if it is not valid, usually a
    `tomllib.TOMLDecodeError`, and RecursionError if it is nested too deep."""
    if any(line.count(".") > MAX_KEY_PARTS for line in text.split("\n")):
        # Dots in strings and comments do not count. Their line ends are kept, for the number of the
        # line in the error.
        unquoted = _QUOTED.sub(lambda match: "\n" * match[0].count("\n"), text)
        for number, line in enumerate(unquoted.split("\n"), 1):
            # The items of a list may have dots, too, and are not parts of one key.
            keys = re.split(r"[^A-Za-z0-9_. \t-]", line)
            if max(key.count(".") for key in keys) > MAX_KEY_PARTS:
                raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts (at line {number})")
    return tomllib.loads(text)
