"""Add or remove an entry in the text of a config; everything else in it stays as it is.

TOML is edited with tomlkit, which keeps comments and layout. Each function returns None if the text
has no place for the change. The caller reads the new text and uses it only if it means what was
wanted.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["add_entry_in_toml", "add_tables_in_toml", "remove_entry_in_toml"]

# Where extensions are listed, and the key of their name there.
_ENTRY_LISTS = (("extensions", "name"), ("process_extensions", "id"))


def add_entry_in_toml(text: str, entry: Mapping[str, Any]) -> str | None:
    """Return the text with one more `[[extensions]]` entry, at its end."""
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
    return _appended(text, tomlkit.dumps(document))


def add_tables_in_toml(text: str, section: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text with these tables of a section, `[section.name]`, at its end."""
    import tomlkit

    document = tomlkit.document()
    outer = tomlkit.table(is_super_table=True)
    for name, values in tables.items():
        table = tomlkit.table()
        for key, value in values.items():
            table.add(key, _inline(value))
        outer.add(name, table)
    document.add(section, outer)
    return _appended(text, tomlkit.dumps(document))


def _inline(value: Any) -> Any:
    """Return a table, and those in it, as one line."""
    if not isinstance(value, Mapping):
        return value
    import tomlkit

    inline = tomlkit.inline_table()
    for key, item in value.items():
        inline.add(key, _inline(item))
    return inline


def _appended(text: str, addition: str) -> str:
    # An entry at the end of the text belongs to no table above it, whatever that is.
    head = text if not text or text.endswith("\n") else text + "\n"
    return head + ("\n" if head.strip() else "") + addition


def remove_entry_in_toml(text: str, id: str) -> str | None:
    """Return the text without the entry of this name."""
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
                if not entries:
                    del document[section]
                return document.as_string()
    servers = document.get("mcp_servers", {})
    if id in servers:
        del servers[id]
        return document.as_string()
    return None
