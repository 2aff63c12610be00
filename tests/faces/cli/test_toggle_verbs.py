"""Tests of `exthost enable NAME` and `exthost disable NAME`, which edit the config file.

They change one place, such as `enabled = false` of an entry or the list `disabled` of discovered
extensions, and keep the comments and the style of the file.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.requirements import shows
from tests.extensions.nexo_tree import write_plugin
from tests.faces.cli.cli_process import run_exthost, run_json

ENTRIES = """\
# mine
[[extensions]]
name = "one"  # the first
source = { command = "one" }

[[extensions]]
source = { command = "two" }
enabled = true # for now
name = "two"

[discovery]
# where they are
search_paths = ["x"]

[defaults]
start = "lazy"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two nexo extensions (folders with a manifest), `x/a` and `x/b`. The first also
    has an MCP server `s`, which is listed as `a.s`."""
    write_plugin(tmp_path / "x" / "a", "a", more='[mcp_servers.s]\ncommand = "sh"')
    write_plugin(tmp_path / "x" / "b", "b")
    return tmp_path


def states(folder: Path, config: str = "exthost.toml") -> dict[str, str]:
    """Return the state of each extension that `exthost list` shows."""
    rows: Any = run_json(folder, "list", "--config", config)["extensions"]
    return {row["id"]: row["state"] for row in rows}


@shows("nexo-cli-04")
def test_entries_and_discovered_extensions_are_disabled_and_enabled_and_comments_stay(
    folder: Path,
) -> None:
    file = folder / "exthost.toml"
    file.write_text(ENTRIES)
    file.chmod(0o640)
    before = states(folder)
    for id in ("one", "two", "a"):
        result = run_json(folder, "disable", id)
        assert (result["id"], result["enabled"], result["changed"]) == (id, False, True)
        assert not run_json(folder, "disable", id)["changed"]
    off = {"one": "disabled", "two": "disabled", "a": "disabled", "a.s": "disabled"}
    assert states(folder) == {**off, "b": before["b"]}
    text = file.read_text()
    for comment in ("# mine", "# the first", "# for now", "# where they are"):
        assert comment in text
    for id in ("one", "two", "a"):
        assert run_json(folder, "enable", id)["changed"]
    assert states(folder) == before
    assert file.stat().st_mode & 0o777 == 0o640
    temporary_files = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert temporary_files == []


@shows("nexo-cli-04")
@pytest.mark.parametrize(
    "text",
    [
        "extensions:\n  # where\n  search_paths: [x]\n",
        "extensions:\n  search_paths: [x]\n  disabled: [] # none\n  max_depth: 3\n",
        "extensions:\n  disabled:\n    # no\n    - c # gone\n  # where\n  search_paths:\n    - x\n",
        'extensions: {search_paths: ["x"], disabled: ["c"]}\n',
        'extensions: {search_paths: ["x"]}',
        "\ufeffextensions:\r\n  search_paths: [x]\r\n",
    ],
)
def test_a_yaml_config_of_every_style_is_edited(folder: Path, text: str) -> None:
    file = folder / "extensions.yaml"
    file.write_bytes(text.encode())
    before = states(folder, "extensions.yaml")
    assert "a" in before
    assert run_json(folder, "disable", "a", "--config", "extensions.yaml")["changed"]
    after = states(folder, "extensions.yaml")
    assert {id for id, state in after.items() if state != "disabled"} == {"b"}
    assert ("# where" in file.read_text()) == ("# where" in text)
    assert run_json(folder, "enable", "a", "--config", "extensions.yaml")["changed"]
    assert states(folder, "extensions.yaml") == before


def test_the_config_is_unchanged_if_an_extension_cannot_be_disabled(
    folder: Path,
) -> None:
    file = folder / "exthost.toml"
    file.write_text(ENTRIES)
    for id, code in (("a.s", "X1326"), ("onee", "X1206")):
        error = run_json(folder, "disable", id, code=2)["error"]
        assert error["code"] == code and "a" in error["help"]
    assert file.read_text() == ENTRIES
    servers = folder / "servers.json"
    servers.write_text(text := '{"mcpServers": {"one": {"command": "one"}}}')
    error = run_json(folder, "disable", "one", "--config", "servers.json", code=2)["error"]
    assert error["code"] == "X1327" and servers.read_text() == text
    assert error["help"] == 'write "disabled": true into its entry by hand'
    commented = folder / "servers.jsonc"  # as opencode calls it
    commented.write_text(f"// mine\n{text}")
    error = run_json(folder, "disable", "one", "--config", "servers.jsonc", code=2)["error"]
    assert (
        error["code"] == "X1327"
        and error["help"] == 'write "disabled": true into its entry by hand'
    )
    servers.write_text(text.replace('"one"}', '"one", "disabled": true}'))
    error = run_json(folder, "enable", "one", "--config", "servers.json", code=2)["error"]
    assert error["help"] == 'write "disabled": false into its entry by hand'
    assert (
        run_json(folder, "disable", "a", "--config", "none.toml", code=3)["error"]["code"]
        == "X0101"
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_config_with_inline_tables_is_edited(folder: Path, newline: str) -> None:
    file = folder / "exthost.toml"
    text = """# mine
discovery = { search_paths = ["x"] } # where
extensions = [{ name = "one", source = { command = "one" } }]
"""
    file.write_bytes(text.replace("\n", newline).encode())
    before = states(folder)
    for id in ("a", "one"):
        assert run_json(folder, "disable", id)["changed"]
    off = {"one": "disabled", "a": "disabled", "a.s": "disabled"}
    assert states(folder) == {**off, "b": before["b"]}
    changed = file.read_bytes().decode()
    assert "# mine" in changed and "# where" in changed
    assert changed.count(newline) == changed.count("\n") == text.count("\n")
    for id in ("a", "one"):
        assert run_json(folder, "enable", id)["changed"]
    assert states(folder) == before


def test_a_config_that_is_a_symlink_stays_a_symlink(folder: Path) -> None:
    (folder / "real").mkdir()
    real = folder / "real" / "exthost.toml"
    real.write_text(ENTRIES)
    (folder / "exthost.toml").symlink_to(os.path.relpath(real, folder))
    assert run_exthost(folder, "disable", "a").stdout == "a: disabled\n"
    assert (folder / "exthost.toml").is_symlink() and '["a"]' in real.read_text()
