"""`exthost enable` and `exthost disable` edit the text of exthost.toml, and keep the rest of it.

An extension that has an entry gets the key `enabled`; one that was found in a search path is added
to, or removed from, the list `disabled` of `[discovery]`. Both functions return the new text, or
None if the text has no such entry or section.
"""

import difflib
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from exthost.config.enabled_edit import (
    set_disabled_in_toml,
    set_disabled_in_yaml,
    set_enabled_in_toml,
)

ENTRIES = """\
# mine
[[extensions]]
name = "one"  # the first
source = { command = "one" }

# what belongs to the second
[[extensions]]
source = { command = "two" }
enabled   =   true # for now
name = "two"
[extensions.env]
A = "1"

[[process_extensions]]
  id = 'three'
"""


def changed_lines(before: str, after: str) -> list[str]:
    """Return the added lines, which begin with +, and the removed lines, which begin with -."""
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_setting_is_added_below_the_name_of_the_entry(newline: str) -> None:
    text = ENTRIES.replace("\n", newline)
    changed = set_enabled_in_toml(text, "one", False)
    assert changed is not None
    assert changed_lines(text, changed) == [f"+ enabled = false{newline}"]
    assert changed.splitlines()[3] == "enabled = false"  # `name` is in line 2, counted from 0
    changed = set_enabled_in_toml(text, "three", False)
    assert changed is not None
    assert changed_lines(text, changed) == [f"+   enabled = false{newline}"]


def test_an_existing_setting_is_changed_in_place() -> None:
    changed = set_enabled_in_toml(ENTRIES, "two", False)
    assert changed == ENTRIES.replace("enabled   =   true", "enabled   =   false")
    assert set_enabled_in_toml(changed, "two", True) == ENTRIES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[extensions]]\nname = "a"', '[[extensions]]\nname = "a"\nenabled = false\n'),
        ("extensions = [{ name = 'a' }]\n", "extensions = [{ name = 'a' , enabled = false}]\n"),
    ],
)
def test_entries_in_other_forms_are_changed(text: str, expected: str) -> None:
    changed = set_enabled_in_toml(text, "a", False)
    assert changed is not None
    assert tomllib.loads(changed) == tomllib.loads(expected)


@pytest.mark.parametrize(
    ("text", "disabled", "expected"),
    [
        (
            "[discovery] # here\n# at\nsearch_paths = ['x']\n# more\n[d]\n",
            ["a"],
            "[discovery] # here\ndisabled = [\"a\"]\n# at\nsearch_paths = ['x']\n# more\n[d]\n",
        ),
        ("[discovery]", ["é"], '[discovery]\ndisabled = ["é"]\n'),
        ("[discovery]\r\na = 1\r\n", ["b"], '[discovery]\r\ndisabled = ["b"]\r\na = 1\r\n'),
        ('[discovery]\ndisabled = ["a"] # all\n', [], "[discovery]\ndisabled = [] # all\n"),
        (
            '[discovery]\ndisabled = [\n  "a", # slow\n  "b", # loud\n]\n',
            ["a", "c"],
            '[discovery]\ndisabled = [\n  "a", # slow\n  "c",\n]\n',
        ),
    ],
)
def test_the_list_of_disabled_extensions_is_changed_in_place(
    text: str, disabled: list[str], expected: str
) -> None:
    assert set_disabled_in_toml(text, disabled) == expected


@pytest.mark.parametrize(
    "text",
    [
        "discovery = { search_paths = ['x'] }\n",
        "discovery.search_paths = ['x']\n",
        "[discovery.watch]\nenabled = true\n",
        "[discovery]\ndisabled = [['x'], 'b']\n",
        "[discovery]\ndisabled = ['''b''', \"b\"]\n",
    ],
)
def test_lists_in_other_forms_are_changed_and_the_rest_is_kept(text: str) -> None:
    changed = set_disabled_in_toml(text, ["a", "b"])
    assert changed is not None
    document: dict[str, Any] = tomllib.loads(changed)["discovery"]
    assert sorted(document.pop("disabled")) == ["a", "b"]
    before = tomllib.loads(text)["discovery"]
    before.pop("disabled", None)
    assert document == before


@pytest.mark.parametrize("value", ["", " null", " ~", " # none", " null # none"])
def test_a_list_is_added_to_an_empty_section_of_yaml(value: str) -> None:
    yaml = pytest.importorskip("yaml")
    changed = set_disabled_in_yaml(f"extensions:{value}\nother: 1\n", ["a: b"])
    assert yaml.safe_load(changed or "") == {"extensions": {"disabled": ["a: b"]}, "other": 1}


def test_a_text_without_the_entry_or_section_is_not_changed() -> None:
    assert set_enabled_in_toml(ENTRIES, "four", True) is None
    assert set_disabled_in_toml(ENTRIES, ["a"]) is None
    assert set_disabled_in_toml("discovery = 3", ["a"]) is None
    assert set_disabled_in_toml("[discovery]\ndisabled = 3", ["a"]) is None


def test_tomlkit_is_not_imported_before_the_first_edit() -> None:
    """Importing tomlkit is slow, and most commands edit nothing."""
    program = (
        "import sys, exthost.faces.cli.enable, exthost.host\n"
        "assert 'tomlkit' not in sys.modules, 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
