"""Sets or removes a member of an object in a JSON text with comments; the rest does not change.

For example, `set_member(text, "mcpServers", "weather", {...})` adds a server to the settings of an
editor. Comments and trailing commas are found by blanking them out: `jsonc.strict_text` returns
strict JSON in which each character is at the same position as in the text.

The caller must parse the new text and compare it with what was intended before using it: a function
returns None only for a text that it does not understand.
"""

import json
from typing import Any, NamedTuple

from exthost.model.documents import jsonc

_SPACE = " \t\r\n"


class _Member(NamedTuple):
    """A member of an object in a text.

    name   its name
    start  the position of its name
    value  the position of its value
    end    the position after its value
    """

    name: str
    start: int
    value: int
    end: int


class _Object(NamedTuple):
    """An object in a text: the positions of its two braces, and its members."""

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
    # Commas are found in `without_comments`, because `strict` lacks the trailing ones.
    without_comments, strict = jsonc.without_comments(text), jsonc.strict_text(text)
    top = _read_object(strict, _skip(strict, 0))
    member = None if top is None else top.find(section)
    inner = None if member is None else _read_object(strict, member.value)
    old = None if inner is None else inner.find(name)
    if inner is None or old is None:
        return None
    # The indent and the line end before the member are removed with it.
    start, end = old.start, old.end
    while start > inner.start + 1 and text[start - 1] in " \t":
        start -= 1
    if start > inner.start + 1 and text[start - 1] == "\n":
        start -= 1
    index = inner.members.index(old)
    after = _skip(without_comments, end)
    if without_comments[after] == ",":
        end = after + 1
    elif index > 0:  # the last member: the comma of the member before it is removed
        comma = without_comments.index(",", inner.members[index - 1].end)
        text = text[:comma] + " " + text[comma + 1 :]
        if not text[comma + 1 : start].strip():  # no comment is between them
            start = comma
    return text[:start] + text[end:]


def _insert(text: str, parent: _Object, name: str, value: Any) -> str:
    """Return the text with a new last member."""
    without_comments = jsonc.without_comments(text)
    parent_indent = _indent_of(text, parent.start)
    if parent.members:
        last = parent.members[-1]
        indent = _indent_of(text, last.start)
        if without_comments[_skip(without_comments, last.end)] != ",":
            text = f"{text[: last.end]},{text[last.end :]}"
            parent = parent._replace(end=parent.end + 1)  # the comma moved the brace
    else:
        indent = parent_indent + "  "
    before = text[: parent.end].rstrip()
    member = f"{json.dumps(name, ensure_ascii=False)}: {_dump(value, indent)}"
    return f"{before}\n{indent}{member}\n{parent_indent}{text[parent.end :]}"


def _read_object(strict: str, start: int) -> _Object | None:
    """Return the object at this position of strict JSON; None if it is not one."""
    if strict[start : start + 1] != "{":
        return None
    decoder = json.JSONDecoder()
    members: list[_Member] = []
    position = _skip(strict, start + 1)
    try:
        while strict[position] != "}":
            name, name_end = decoder.raw_decode(strict, position)
            colon = _skip(strict, name_end)
            value = _skip(strict, colon + 1)
            end = decoder.raw_decode(strict, value)[1]
            members.append(_Member(name, position, value, end))
            position = _skip(strict, end)
            if strict[position] == ",":
                position = _skip(strict, position + 1)
    except (IndexError, ValueError, RecursionError):  # not JSON, or the text ends in the object
        return None
    return _Object(start, position, members)


def _skip(text: str, position: int) -> int:
    """Return the position of the first character from here on that is not white space."""
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _indent_of(text: str, position: int) -> str:
    """Return the blanks at the beginning of the line of a position."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dump(value: Any, indent: str) -> str:
    """Return a value as JSON whose lines, except the first, begin with this indent."""
    step = "\t" if "\t" in indent else "  "
    return json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{indent}")
