"""YAML for the values of a workflow: mappings, lists, text, numbers, truth values and null.

Text that YAML could take for something else is quoted. Text of several lines is a block, so that a
person can read a script.
"""

import json
import re
from typing import Any

__all__ = ["to_yaml"]

# Nothing that YAML reads as anything but text: a letter or a path first, and then no indicator.
# With a dot first it may be a number, such as .5 and .inf.
_PLAIN = re.compile(r"([A-Za-z_/]|\./)[A-Za-z0-9_./@-]*( [A-Za-z0-9_./@-]+)*")

# Words that YAML 1.1 reads as truth values or null; GitHub's own key `on` is among them.
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def to_yaml(value: Any) -> str:
    """Return the YAML document of a mapping."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Any) -> list[str]:
    """Return the lines of a mapping or a list that is not empty."""
    lines = []
    if isinstance(value, dict):
        for key, item in value.items():
            lines += _entry(f"{_scalar(key)}:", item)
        return lines
    for item in value:
        if isinstance(item, dict | list) and item:
            first, *rest = _lines(item)
            lines += [f"- {first}", *(f"  {line}" if line else "" for line in rest)]
        else:
            lines += _entry("-", item)
    return lines


def _entry(head: str, value: Any) -> list[str]:
    if isinstance(value, dict | list) and value:
        return [head, *(f"  {line}" if line else "" for line in _lines(value))]
    if _is_block(value):
        # The last line end is the block's own, or none: `|` and `|-` say which.
        mark = "|" if value.endswith("\n") else "|-"
        return [f"{head} {mark}", *(f"  {line}" if line else "" for line in _text_lines(value))]
    return [head] if value is None else [f"{head} {_scalar(value)}"]


def _text_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _is_block(value: Any) -> bool:
    """Whether this is text of several lines that a block keeps as it is."""
    if not isinstance(value, str) or "\n" not in value or value.endswith("\n\n"):
        return False
    lines = _text_lines(value)
    is_printable = all(line.replace("\t", "").isprintable() for line in lines)
    return is_printable and bool(lines[0]) and not lines[0].startswith((" ", "\t"))


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)  # which YAML contains
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return '"' + "".join(map(_quoted, value)) + '"'


def _quoted(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"
