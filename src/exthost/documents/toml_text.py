"""Parses TOML that somebody else wrote.

`tomllib` takes time quadratic in the parts of a dotted key: one of 32,000 parts, in a file of
64 KB, takes most of a minute. So a key of absurd length is refused before the parser sees it.
"""

import re
import tomllib
from typing import Any

__all__ = ["MAX_KEY_PARTS", "parse_toml"]

# Real keys have a handful.
MAX_KEY_PARTS = 200

_QUOTED = re.compile(r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the document. Raises ValueError, as `tomllib.loads` does, and RecursionError."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MAX_KEY_PARTS:
            bare = _QUOTED.sub("", line).partition("#")[0]
            if bare.count(".") > MAX_KEY_PARTS:
                raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts (at line {number})")
    return tomllib.loads(text)
