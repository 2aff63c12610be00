"""Adds or removes an entry in the text of a TOML config; the rest of the text does not change.

tomlkit keeps comments and layout. A function whose result may be None returns None if it cannot
make the change. The caller must parse the new text and check that it has the intended meaning
before using it.
"""

from collections.abc import Mapping
from typing import Any

# The sections that list extensions, and the key that names an extension there.
_ENTRY_LISTS = (("extensions", "name"), ("process_extensions", "id"))


def add_entry_in_toml(text: str, entry: Mapping[str, Any]) -> str | None:
    """Return the text with this `[[extensions]]` entry added at the end. Values that are mappings
    become inline tables."""
    import tomlkit

    table = tomlkit.table()
    for key, value in entry.items():
        if isinstance(value, Mapping):
            inline = tomlkit.inline_table()
            inline.update(value)
            table.add(key, inline)
        else:
            table.add(key, value)
    document = tomlkit.document()
    entries = tomlkit.aot()
    entries.append(table)
    document.add("extensions", entries)
    return _append(text, tomlkit.dumps(document))


def add_tables_in_toml(text: str, section: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text with a table `[section.name]` added at the end for each item of `tables`."""
    import tomlkit

    document = tomlkit.document()
    outer = tomlkit.table(is_super_table=True)
    for name, values in tables.items():
        table = tomlkit.table()
        for key, value in values.items():
            table.add(key, _make_inline(value))
        outer.add(name, table)
    document.add(section, outer)
    return _append(text, tomlkit.dumps(document))


def _make_inline(value: Any) -> Any:
    """Return a table as an inline table, with its nested tables."""
    if not isinstance(value, Mapping):
        return value
    import tomlkit

    inline = tomlkit.inline_table()
    for key, item in value.items():
        inline.add(key, _make_inline(item))
    return inline


def _append(text: str, addition: str) -> str:
    # At the end, because a table header anywhere else would cut off the end of the table before it.
    head = text if not text or text.endswith("\n") else text + "\n"
    return head + ("\n" if head.strip() else "") + addition


def remove_entry_in_toml(text: str, id: str) -> str | None:
    """Return the text without the entry of the extension `id`, or None if it has no such entry."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
    except TOMLKitError:
        return None
    for section, name_key in _ENTRY_LISTS:
        entries = document.get(section, ())
        for index, entry in enumerate(entries):
            if entry.get(name_key) == id:
                del entries[index]
                if not entries:  # tomlkit would write an empty array
                    del document[section]
                return document.as_string()
    # A config of Codex (`.codex/config.toml`) has a table of MCP servers, by id.
    servers = document.get("mcp_servers", {})
    if id in servers:
        del servers[id]
        return document.as_string()
    return None
