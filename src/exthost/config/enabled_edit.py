"""Enables or disables an extension in the text of a config; the rest of the text does not change.

TOML is edited with tomlkit, which keeps comments and layout. PyYAML does not keep them, so in YAML
this module replaces one part of the text. Each function returns None if it cannot make the change.
The caller must parse the new text and check that it has the intended meaning before using it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

# The sections that list extensions, and the key that names an extension there.
_ENTRY_LISTS = (("extensions", "name"), ("process_extensions", "id"))


def set_disabled_in_toml(text: str, disabled: Sequence[str]) -> str | None:
    """Return the text with the key `disabled` of `[discovery]` set to this list."""
    document = _parse(text)
    table = None if document is None else document.get("discovery")
    if not isinstance(table, dict):
        return None
    array = table.get("disabled")
    if array is None:
        if _has_header(table):
            _insert_line_below(table, f"disabled = {_format_list(disabled)}")
        else:
            table["disabled"] = list(disabled)
    elif isinstance(array, list):
        _change_array(array, disabled)
    else:
        return None
    return str(document.as_string())


def set_enabled_in_toml(text: str, id: str, enabled: bool) -> str | None:
    """Return the text with `enabled` set in the entry of the extension `id`."""
    document = _parse(text)
    if document is None:
        return None
    for section, name_key in _ENTRY_LISTS:
        for entry in document.get(section, ()):
            if entry.get(name_key) != id:
                continue
            if "enabled" in entry or not _has_header(entry):
                entry["enabled"] = enabled
            else:
                _insert_line_below(entry.item(name_key), f"enabled = {str(enabled).lower()}")
            return str(document.as_string())
    return None


def _parse(text: str) -> Any:
    """Return the document, or None if tomlkit rejects it. tomllib, which has read the config
    before, accepts some texts that tomlkit rejects."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text)
    except TOMLKitError:
        return None


def _has_header(table: Any) -> bool:
    """Return whether the table has a `[table]` header. Inline and dotted tables have no header."""
    from tomlkit.items import Table

    return isinstance(table, Table) and not table.is_super_table() and bool(table.display_name)


def _insert_line_below(item: Any, line: str) -> None:
    """Insert this line directly below the line of the item.

    tomlkit would append a new key at the end of its table, below a comment that belongs to the next
    table.
    """
    newline = item.trivia.trail or "\n"
    item.trivia.trail = f"{newline}{item.trivia.indent}{line}{newline}"


def _change_array(array: Any, values: Sequence[str]) -> None:
    """Change the array to these values. A value that was already in it keeps its comment."""
    new_values = list(values)
    # From the end, because a deletion changes the indexes of the items after it.
    for index in reversed(range(len(array))):
        if array[index] in new_values:
            new_values.remove(array[index])
        else:
            del array[index]
    array.extend(new_values)


def set_disabled_in_yaml(text: str, disabled: Iterable[str]) -> str | None:
    """Return the text with the key `disabled` below `extensions` set to this list."""
    import yaml

    section = _find_key(yaml.compose(text, Loader=yaml.SafeLoader), "extensions")
    if section is None:
        return None
    key, table = section
    # JSON strings in brackets are also a YAML list.
    list_text = _format_list(disabled)
    if table.id != "mapping":  # `extensions:` with nothing below it, or with null
        position = text.index(":", key.end_mark.index) + 1
        text = text[: table.start_mark.index] + text[table.end_mark.index :]
        return f"{text[:position]}\n  disabled: {list_text}{text[position:]}"
    existing = _find_key(table, "disabled")
    if existing is None:
        if table.flow_style:  # a mapping in braces
            position = table.start_mark.index + 1
            comma = ", " if table.value else ""
            return f"{text[:position]}disabled: {list_text}{comma}{text[position:]}"
        first = table.value[0][0].start_mark
        return (
            f"{text[: first.index]}disabled: {list_text}\n{' ' * first.column}{text[first.index :]}"
        )
    key, items = existing
    if items.id != "sequence":
        return None
    if items.flow_style:  # a list in brackets
        return f"{text[: items.start_mark.index]}{list_text}{text[items.end_mark.index :]}"
    end = items.value[-1].end_mark.index
    return f"{text[: key.end_mark.index]}: {list_text}{text[end:]}"


def _find_key(table: Any, name: str) -> tuple[Any, Any] | None:
    """Return the nodes of a key of a YAML mapping and of its value; None if it has no such key."""
    pairs = table.value if table is not None and table.id == "mapping" else ()
    return next(((key, value) for key, value in pairs if key.value == name), None)


def _format_list(ids: Iterable[str]) -> str:
    return f"[{', '.join(json.dumps(id, ensure_ascii=False) for id in ids)}]"
