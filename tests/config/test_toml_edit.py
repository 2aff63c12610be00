"""Entries and permissions are edited in the text of a TOML config, without a file.

`exthost add`, `exthost remove` and `exthost learn --write` use these functions. They return the new
text, or None if the text has no such entry or is not valid.
"""

import tomllib
from typing import Any

import pytest

from exthost.config.entry_edit import add_entry_in_toml, add_tables_in_toml, remove_entry_in_toml
from exthost.config.permissions_edit import set_permissions_in_toml

ENTRIES = """\
# The first.
[[extensions]]
name = "a"

[[extensions]]
name = "b"
"""
PROCESS_ENTRY = '[[process_extensions]]\nid = "a"\n'
SERVERS = '[mcp_servers.a]\ncommand = "a"\n\n[mcp_servers.b]\ncommand = "b"\n'


@pytest.mark.parametrize("text", ["", "\n", "x = 1", "x = 1\n", ENTRIES])
def test_an_entry_is_added_at_the_end(text: str) -> None:
    entry: dict[str, Any] = {"name": "new", "source": {"type": "process"}, "args": ["x"]}
    new_text = add_entry_in_toml(text, entry)
    assert new_text is not None and new_text.startswith(text)
    document, before = tomllib.loads(new_text), tomllib.loads(text)
    assert document.pop("extensions") == [*before.pop("extensions", []), entry]
    assert document == before
    assert "source = {" in new_text  # a mapping is an inline table
    # An empty line separates the entry from text before it.
    assert ('\n\n[[extensions]]\nname = "new"' in new_text) == bool(text.strip())


def test_tables_of_a_section_are_added_at_the_end() -> None:
    tables: dict[str, dict[str, Any]] = {
        "a": {"command": "x", "env": {"A": {"env": "B"}}},
        "b": {"url": "y"},
    }
    new_text = add_tables_in_toml("x = 1\n", "mcp_servers", tables)
    assert tomllib.loads(new_text) == {"x": 1, "mcp_servers": tables}
    assert "[mcp_servers.a]" in new_text and "[mcp_servers]\n" not in new_text
    assert "env = {" in new_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ENTRIES, {"extensions": [{"name": "b"}]}),
        (PROCESS_ENTRY, {}),
        (SERVERS, {"mcp_servers": {"b": {"command": "b"}}}),
        ("x = 1\n", None),
        ("x = \n", None),
    ],
)
def test_an_entry_is_removed_from_its_section(text: str, expected: dict[str, Any] | None) -> None:
    new_text = remove_entry_in_toml(text, "a")
    assert (new_text if new_text is None else tomllib.loads(new_text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ENTRIES,
            {"extensions": [{"name": "a", "permissions": {"network": True}}, {"name": "b"}]},
        ),
        (PROCESS_ENTRY, {"process_extensions": [{"id": "a", "permissions": {"network": True}}]}),
        (
            '[mcp_servers.a]\npermissions = {filesystem = ["x"], network = false}\n',
            {"mcp_servers": {"a": {"permissions": {"filesystem": ["x"], "network": True}}}},
        ),
        ("", {"overrides": {"a": {"permissions": {"network": True}}}}),
        (
            "[overrides.a]\nlimits = {call = 1}\n",
            {"overrides": {"a": {"limits": {"call": 1}, "permissions": {"network": True}}}},
        ),
        (
            "overrides = {b = {}}\n",
            {"overrides": {"a": {"permissions": {"network": True}}, "b": {}}},
        ),
        ('[[extensions]]\nname = "a"\npermissions = "all"\n', None),
        ("x = \n", None),
    ],
)
def test_permissions_are_set_in_the_entry_or_in_overrides(
    text: str, expected: dict[str, Any] | None
) -> None:
    """An extension that discovery has found has no entry, so its permissions are an override."""
    new_text = set_permissions_in_toml(text, "a", {"network": True})
    assert (new_text if new_text is None else tomllib.loads(new_text)) == expected
