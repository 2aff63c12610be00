"""Switching an extension on or off in the text of a config, with all else in it left as it is.

Nothing here writes TOML or YAML anew, which would cost people their comments: one place of the
text is changed. That this came out right is not assumed: whoever asks reads the new text, and
takes it only if it says just what was wanted. None: there is no such place.
"""

import json
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from exthost.documents.toml_positions import lines_of

__all__ = ["entry_in_toml", "list_in_toml", "list_in_yaml"]

_HEADER = re.compile(r"^[ \t]*\[[ \t]*discovery[ \t]*\][^\n]*$", re.MULTILINE)
_NEXT_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_LIST = re.compile(r"^([ \t]*disabled[ \t]*=[ \t]*)\[[^\]]*\]", re.MULTILINE)
_FLAG = re.compile(r"\benabled([ \t]*=[ \t]*)(?:true|false)\b")


def list_in_toml(text: str, disabled: Iterable[str]) -> str | None:
    """The text with this list of `disabled` in its `[discovery]`."""
    header = _HEADER.search(text)
    if header is None:
        return None
    shown = _shown(disabled)
    following = _NEXT_HEADER.search(text, header.end())
    end = following.start() if following else len(text)
    there = _LIST.search(text, header.end(), end)
    # A list of several lines may begin each with "[", so it is also looked for beyond.
    there = there or _LIST.search(text, header.end())
    if there is not None:
        return f"{text[: there.start()]}{there[1]}{shown}{text[there.end() :]}"
    return f"{text[: header.end()]}\ndisabled = {shown}{text[header.end() :]}"


def entry_in_toml(text: str, id: str, on: bool) -> str | None:
    """The text with the entry of this name switched on or off."""
    document = tomllib.loads(text)
    lines = text.split("\n")
    for section, named in (("extensions", "name"), ("process_extensions", "id")):
        for index, entry in enumerate(document.get(section, ())):
            if entry.get(named) != id:
                continue
            said = "true" if on else "false"
            known = lines_of(text)
            if (at := known.get((section, index, "enabled"))) is not None:
                lines[at - 1] = _FLAG.sub(rf"enabled\g<1>{said}", lines[at - 1], count=1)
            elif (at := known.get((section, index, named))) is not None:
                name = lines[at - 1]
                indent = name[: len(name) - len(name.lstrip())]
                lines.insert(at, f"{indent}enabled = {said}")
            return "\n".join(lines)
    return None


def list_in_yaml(text: str, disabled: Iterable[str]) -> str | None:
    """The text with this list of `disabled` below its `extensions`."""
    import yaml

    section = _value(yaml.compose(text, Loader=yaml.SafeLoader), "extensions")
    if section is None:
        return None
    key, table = section
    shown = _shown(disabled)
    if table.id != "mapping":  # `extensions:` with nothing below it
        at = text.index(":", key.end_mark.index) + 1
        return f"{text[:at]}\n  disabled: {shown}{text[at:]}"
    there = _value(table, "disabled")
    if there is None:
        if table.flow_style:
            at = table.start_mark.index + 1
            return f"{text[:at]}disabled: {shown}{', ' if table.value else ''}{text[at:]}"
        first = table.value[0][0].start_mark
        return f"{text[: first.index]}disabled: {shown}\n{' ' * first.column}{text[first.index :]}"
    key, items = there
    if items.id != "sequence":
        return None
    if items.flow_style:
        return f"{text[: items.start_mark.index]}{shown}{text[items.end_mark.index :]}"
    end = items.value[-1].end_mark.index
    return f"{text[: key.end_mark.index]}: {shown}{text[end:]}"


def _value(table: Any, name: str) -> tuple[Any, Any] | None:
    pairs = table.value if table is not None and table.id == "mapping" else ()
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _shown(ids: Iterable[str]) -> str:
    return f"[{', '.join(json.dumps(id, ensure_ascii=False) for id in ids)}]"
