"""Sets the permissions of an extension in the text of a TOML config; the rest of the text does not
change.

tomlkit keeps comments and layout. The caller must parse the new text and check that it has the
intended meaning before using it.
"""

from collections.abc import Mapping
from typing import Any

# The sections that list extensions, and the key that names an extension there.
_ENTRY_LISTS = (("extensions", "name"), ("process_extensions", "id"))


def set_permissions_in_toml(text: str, id: str, values: Mapping[str, Any]) -> str | None:
    """Return the text with these keys of `permissions` set for the extension `id`: in its entry, or
    under `[overrides]` if it has none. Other keys of `permissions` stay as they are. Return None if
    the text cannot be edited."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable

    try:
        document = tomlkit.parse(text)
    except TOMLKitError:
        return None
    entry = _find_entry(document, id)
    if entry is None:
        overrides = document.setdefault("overrides", tomlkit.table(is_super_table=True))
        is_inline = isinstance(overrides, InlineTable)
        entry = overrides.setdefault(id, tomlkit.inline_table() if is_inline else tomlkit.table())
    permissions = entry.get("permissions")
    if permissions is None:
        permissions = tomlkit.inline_table()
        permissions.update(values)
        entry["permissions"] = permissions
    elif isinstance(permissions, dict):
        for key, value in values.items():
            permissions[key] = value
    else:
        return None
    return document.as_string()


def _find_entry(document: Any, id: str) -> Any:
    """Return the table of the extension `id`; None if there is none."""
    for section, name_key in _ENTRY_LISTS:
        for entry in document.get(section, ()):
            if entry.get(name_key) == id:
                return entry
    # A config of Codex (`.codex/config.toml`) has a table of MCP servers, by id.
    return document.get("mcp_servers", {}).get(id)
