"""A path that a user names leads to one extension, or to an error that says what to name."""

from pathlib import Path

import pytest

from exthost.config.discovery.extension_at_path import spec_at
from exthost.errors import NotFound, UsageError

CONFIG = """
[[extensions]]
name = "one"
source = {type = "process", command = "x"}
"""

MANIFEST = """
id = "{id}"
name = "Demo"
version = "1.0.0"
api_version = "^0.1"
[launch]
command = "python3"
[[provides]]
type = "event_sink"
id = "events"
"""


def write_manifest(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "roder-extension.toml").write_text(text)


def test_the_only_extension_of_a_config_is_found(tmp_path: Path) -> None:
    (tmp_path / "exthost.toml").write_text(CONFIG)
    assert spec_at(tmp_path).id == "one"


def test_of_several_extensions_in_a_config_one_must_be_named(tmp_path: Path) -> None:
    config = tmp_path / "exthost.toml"
    config.write_text(CONFIG + CONFIG.replace("one", "two"))
    with pytest.raises(UsageError, match="has several extensions: one, two") as caught:
        spec_at(tmp_path)
    assert caught.value.help.startswith(f"name one instead of the folder, with --config {config}; ")


def test_a_config_without_an_extension_needs_an_entry(tmp_path: Path) -> None:
    config = tmp_path / "exthost.toml"
    config.touch()
    with pytest.raises(UsageError, match="has no extension") as caught:
        spec_at(tmp_path)
    assert f"exthost add NAME --dialect D --config {config} -- COMMAND" in caught.value.help


def test_of_several_packages_in_a_folder_the_folder_of_one_must_be_named(tmp_path: Path) -> None:
    for id in ("one", "two"):
        write_manifest(tmp_path / id, MANIFEST.format(id=id))
    with pytest.raises(UsageError, match="has several extensions: one, two") as caught:
        spec_at(tmp_path)
    assert caught.value.help == f"name {tmp_path}/one or {tmp_path}/two"


def test_several_manifests_with_errors_are_named_with_their_errors(tmp_path: Path) -> None:
    for id in ("one", "two"):
        write_manifest(tmp_path / id, "id = ")
    with pytest.raises(NotFound, match="has 2 manifests, and all of them have errors") as caught:
        spec_at(tmp_path)
    assert f"; {tmp_path}/two/roder-extension.toml: " in caught.value.message
