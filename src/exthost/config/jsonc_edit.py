"""Sets or removes a member of an object in a JSON text with comments; the rest does not change.

The caller must parse the new text and compare it with what was intended before using it: a function
returns None only for a text that it does not understand.
"""

import json
from typing import Any, NamedTuple

from exthost.model.documents import jsonc

_SPACE = " \t\r\n"


class _Member(NamedTuple):
    """A member of an object: its name, and the positions of its name and of its value."""

    name: str
    start: int
    value: int
    end: int


class _Object(NamedTuple):
    """An object in a text: the positions of its braces, and its members."""

    start: int
    end: int
    members: list[_Member]

    def find(self, name: str) -> _Member | None:
        return next((member for member in self.members if member.name == name), None)


def set_member(text: str, section: str, name: str, value: Any) -> str | None:
    """Return the text with `{section: {name: value}}` in it."""
    if not text.strip():
        return json.dumps({section: {name: value}}, indent=2, ensure_ascii=False) + "\n"
    strict = jsonc.strict_text(text)
    top = _read_object(strict, _skip(strict, 0))
    if top is None:
        return None
    member = top.find(section)
    if member is None:
        return _insert(text, top, section, {name: value})
    inner = _read_object(strict, member.value)
    if inner is None:
        return None
    old = inner.find(name)
    if old is None:
        return _insert(text, inner, name, value)
    return text[: old.value] + _dump(value, _indent_of(text, old.start)) + text[old.end :]


def remove_member(text: str, section: str, name: str) -> str | None:
    """Return the text without this member of the section. The section itself stays."""
    plain, strict = jsonc.without_comments(text), jsonc.strict_text(text)
    top = _read_object(strict, _skip(strict, 0))
    member = None if top is None else top.find(section)
    inner = None if member is None else _read_object(strict, member.value)
    old = None if inner is None else inner.find(name)
    if inner is None or old is None:
        return None
    start, end = old.start, old.end
    while start > inner.start + 1 and text[start - 1] in " \t":
        start -= 1
    if start > inner.start + 1 and text[start - 1] == "\n":
        start -= 1
    position = inner.members.index(old)
    comma = _skip(plain, end)
    if plain[comma] == ",":
        end = comma + 1
    elif position > 0:  # the last one: the comma before it goes
        before = plain.index(",", inner.members[position - 1].end)
        text = text[:before] + " " + text[before + 1 :]
        if not text[before + 1 : start].strip():
            start = before
    return text[:start] + text[end:]


def _insert(text: str, parent: _Object, name: str, value: Any) -> str:
    """Return the text with a new last member."""
    plain = jsonc.without_comments(text)
    outer = _indent_of(text, parent.start)
    if parent.members:
        last = parent.members[-1]
        indent = _indent_of(text, last.start)
        if plain[_skip(plain, last.end)] != ",":
            text = f"{text[: last.end]},{text[last.end :]}"
            parent = parent._replace(end=parent.end + 1)
    else:
        indent = outer + "  "
    before = text[: parent.end].rstrip()
    member = f"{json.dumps(name, ensure_ascii=False)}: {_dump(value, indent)}"
    return f"{before}\n{indent}{member}\n{outer}{text[parent.end :]}"


def _read_object(plain: str, start: int) -> _Object | None:
    """Return the object at this position of strict JSON; None if it is not one."""
    if plain[start : start + 1] != "{":
        return None
    decoder = json.JSONDecoder()
    members: list[_Member] = []
    position = _skip(plain, start + 1)
    try:
        while plain[position] != "}":
            name, colon = decoder.raw_decode(plain, position)
            value = _skip(plain, _skip(plain, colon) + 1)
            end = decoder.raw_decode(plain, value)[1]
            members.append(_Member(name, position, value, end))
            position = _skip(plain, end)
            if plain[position] == ",":
                position = _skip(plain, position + 1)
    except (IndexError, ValueError, RecursionError):
        return None
    return _Object(start, position, members)


def _skip(plain: str, position: int) -> int:
    """Return the position of the first character from here on that is not white space."""
    while position < len(plain) and plain[position] in _SPACE:
        position += 1
    return position


def _indent_of(text: str, position: int) -> str:
    """Return the blanks at the beginning of the line of a position."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dump(value: Any, indent: str) -> str:
    step = "\t" if "\t" in indent else "  "
    return json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{indent}")
