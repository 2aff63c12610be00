"""Edits of a config: one value changes, every other byte stays."""

import difflib
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from exthost.config.enabled_edit import set_disabled_in_toml, set_enabled_in_toml

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


def added_and_removed(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_entry_gets_one_line_below_its_name(newline: str) -> None:
    text = ENTRIES.replace("\n", newline)
    changed = set_enabled_in_toml(text, "one", False)
    assert changed is not None
    assert added_and_removed(text, changed) == [f"+ enabled = false{newline}"]
    assert changed.splitlines()[3] == "enabled = false"
    changed = set_enabled_in_toml(text, "three", False)
    assert changed is not None
    assert added_and_removed(text, changed) == [f"+   enabled = false{newline}"]


def test_a_flag_that_is_there_is_changed_in_place() -> None:
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
def test_an_entry_of_another_form_is_changed_too(text: str, expected: str) -> None:
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
def test_a_list_of_another_form_is_reported_with_the_expected_form(text: str) -> None:
    changed = set_disabled_in_toml(text, ["a", "b"])
    assert changed is not None
    document: dict[str, Any] = tomllib.loads(changed)["discovery"]
    assert sorted(document.pop("disabled")) == ["a", "b"]
    before = tomllib.loads(text)["discovery"]
    before.pop("disabled", None)
    assert document == before


def test_a_text_without_such_a_place_is_not_changed() -> None:
    assert set_enabled_in_toml(ENTRIES, "four", True) is None
    assert set_disabled_in_toml(ENTRIES, ["a"]) is None
    assert set_disabled_in_toml("discovery = 3", ["a"]) is None
    assert set_disabled_in_toml("[discovery]\ndisabled = 3", ["a"]) is None


def test_the_library_is_imported_by_the_first_edit() -> None:
    program = (
        "import sys, exthost.faces.cli.enable, exthost.host\n"
        "assert 'tomlkit' not in sys.modules, 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
