"""Tests of `exthost install FOLDER` and `exthost uninstall NAME`.

`install` copies the folder of an extension into a search path of the config, or with `--link` makes
a symbolic link to it there; `uninstall` deletes the copy or the link. The folder comes from
somebody else, so its names, links, modes and sizes must not harm the user.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import UsageError
from exthost.faces.cli.folder_copy import copy_folder
from tests.dialects.requirements import shows
from tests.extensions.nexo_tree import write_plugin, write_yaml
from tests.faces.cli.cli_process import run_inside as run


def run_json(*arguments: str, code: int = 0) -> Any:
    """Run a verb with --json; return the JSON that it prints."""
    result = run(*arguments, "--json")
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder of the extension `toy`, which is not in a search path."""
    write_plugin(tmp_path / "elsewhere" / "src", "toy")
    (tmp_path / "elsewhere" / "src" / "data").mkdir()
    (tmp_path / "elsewhere" / "src" / "data" / "words").write_text("a b")
    (tmp_path / "elsewhere" / "src" / "first").symlink_to("data/words")
    return tmp_path / "elsewhere" / "src"


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def states(config: str) -> dict[str, str]:
    """Return the state of each extension that `exthost list` shows."""
    rows = run_json("list", "--config", config)["extensions"]
    return {row["id"]: row["state"] for row in rows}


def test_without_a_config_the_error_names_the_setting_that_install_needs(
    tmp_path: Path, source: Path
) -> None:
    result = run("install", str(source), cwd=tmp_path)
    assert result.returncode == 2 and "X1396" in result.stderr
    assert 'search_paths = ["./extensions"]' in result.stderr


@shows("nexo-cli-07")
def test_an_extension_is_installed_updated_and_uninstalled(tmp_path: Path, source: Path) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")], disabled=["toy"]))
    arguments = ("install", str(source), "--config", config)
    target = tmp_path / "x" / "toy"
    plan = run_json(*arguments, "--dry-run")
    assert plan["path"] == str(target) and plan["installed"] is False
    assert not (tmp_path / "x").exists()
    assert run_json(*arguments)["enabled"] is False and states(config) == {"toy": "disabled"}
    assert (target / "first").readlink() == Path("data/words")
    assert "--update" in run_json(*arguments, code=2)["error"]["help"]
    (source / "data" / "words").write_text("new")
    assert run_json(*arguments, "--update", "--enable")["enabled"] is True
    assert (target / "first").read_text() == "new" and states(config) == {"toy": "admitted"}
    error = run_json("uninstall", "toy", "--config", config, code=2)["error"]
    assert error["code"] == "X1397" and str(target) in error["message"] and target.is_dir()
    assert run_json("uninstall", "toy", "--yes", "--config", config)["uninstalled"] is True
    assert states(config) == {} and source.is_dir()
    assert file_names(tmp_path) == ["elsewhere", "extensions.yaml", "x"]
    assert file_names(tmp_path / "x") == []


@shows("nexo-cli-08", "nexo-disc-03")
def test_a_linked_folder_is_followed_and_only_its_link_is_deleted(
    tmp_path: Path, source: Path
) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")], max_depth=3))
    target = tmp_path / "x" / "toy"
    assert run_json("install", str(source), "--link", "--config", config)["linked"] is True
    assert target.readlink() == source and states(config) == {"toy": "admitted"}
    assert json.loads(run("call", "toy", "echo", "a=1", "--json", "--config", config).stdout) == {
        "a": 1
    }
    other = tmp_path / "elsewhere" / "other"
    write_plugin(other, "other")
    (tmp_path / "x" / "other").symlink_to(other)
    (source / "out").symlink_to(other)
    assert states(config) == {"toy": "admitted"}, "these links were not made by install"
    target.unlink()
    target.symlink_to(other)
    assert states(config) == {}, "a changed link is not the link that install made"
    target.unlink()
    run_json("install", str(source), "--link", "--config", config)
    run_json("uninstall", "toy", "--yes", "--config", config)
    assert file_names(tmp_path / "x") == ["other"] and (source / "plugin.toml").is_file()


@shows("nexo-cli-09")
def test_a_failed_install_changes_nothing(tmp_path: Path, source: Path) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")]))
    install = ("install", "--config", config)
    assert run_json(*install, str(tmp_path / "nothing"), code=2)["error"]["code"] == "X1206"
    (tmp_path / "plain").mkdir()
    error = run_json(*install, str(tmp_path / "plain"), code=2)["error"]
    assert error["code"] == "X1206" and "exthost add NAME" in error["help"]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "plugin.toml" in run_json(*install, str(empty), code=2)["error"]["help"]
    (empty / "plugin.toml").write_text('[plugin]\nid = "core"\nversion = "1"\n')
    assert run_json(*install, str(empty), code=3)["error"]["code"] == "X0202"
    (source / "out").symlink_to("/etc/passwd")
    error = run_json(*install, str(source), code=2)["error"]
    assert (
        error["code"] == "X1396" and "leads out" in error["message"] and "--link" in error["help"]
    )
    (source / "out").unlink()
    os.mkfifo(source / "out")
    assert "neither a file" in run_json(*install, str(source), code=2)["error"]["message"]
    (source / "out").unlink()
    without_search_path = tmp_path / "exthost.toml"
    without_search_path.write_text("")
    error = run_json("install", str(source), "--config", str(without_search_path), code=2)["error"]
    assert error["code"] == "X1396" and "search_paths" in error["help"]
    assert not (tmp_path / "x").exists()
    shutil.copytree(source, tmp_path / "x" / "by-hand", symlinks=True)
    assert "by-hand" in run_json(*install, str(source), code=2)["error"]["message"]
    error = run_json(*install, str(tmp_path / "x" / "by-hand"), code=2)["error"]
    assert "already" in error["message"]


# A roder manifest with an id that is not the name of a folder.
ROGUE_MANIFEST = """
id = {id}
name = "rogue"
version = "0.1.0"
api_version = "0.1.0"
provides = [{{ type = "event_sink", id = "sink" }}]
launch = {{ command = "python3" }}
"""


@pytest.mark.parametrize(
    "id", ["../victim", "/victim", "x/../../victim", "..", ".", ".exthost-links.json", "a\nb", "-x"]
)
def test_an_id_that_is_not_a_folder_name_is_not_installed(tmp_path: Path, id: str) -> None:
    victim, rogue = tmp_path / "victim", tmp_path / "rogue"
    for folder in (victim, rogue, tmp_path / "x"):
        folder.mkdir()
    (victim / "precious").touch()
    id = str(victim) if id == "/victim" else id
    (rogue / "roder-extension.toml").write_text(ROGUE_MANIFEST.format(id=json.dumps(id)))
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")]))
    for option in ("--update", "--link"):
        result = run_json("install", str(rogue), option, "--config", config, code=2)
        assert result["error"]["code"] == "X1396" and "its id" in result["error"]["message"]
    assert file_names(victim) == ["precious"] and file_names(tmp_path / "x") == []


def test_a_copy_has_no_set_user_id_bit_and_is_writable_only_by_its_owner(
    tmp_path: Path, source: Path
) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")]))
    for path, mode in (("shell", 0o6777), ("data/words", 0o1666)):
        (source / path).touch()
        (source / path).chmod(mode)
    (source / "data").chmod(0o3777)
    umask = os.umask(0o022)
    try:
        run_json("install", str(source), "--config", config)
    finally:
        os.umask(umask)
    modes = {
        path: (tmp_path / "x" / "toy" / path).stat().st_mode & 0o7777
        for path in ("shell", "data/words", "data")
    }
    assert modes == {"shell": 0o755, "data/words": 0o644, "data": 0o755}


def test_a_folder_with_a_link_to_its_own_path_is_not_copied(tmp_path: Path, source: Path) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")]))
    (source / "back").symlink_to(source / "data" / "words")
    error = run_json("install", str(source), "--config", config, code=2)["error"]
    assert error["code"] == "X1396" and "back" in error["message"]
    assert not (tmp_path / "x" / "toy").exists()


def test_a_link_that_appears_after_the_check_is_refused_by_the_copy(tmp_path: Path) -> None:
    secret, package = tmp_path / "secret", tmp_path / "source"
    secret.mkdir()
    (secret / "key").write_text("secret")
    for target in ("../secret", "../secret/key", str(secret), "here/../../secret"):
        package.mkdir()
        (package / "here").symlink_to(".")
        (package / "link").symlink_to(target)
        with pytest.raises(UsageError, match="leads out"):
            copy_folder(package, tmp_path / "copy")
        shutil.rmtree(tmp_path / "copy")
        shutil.rmtree(package)


def test_a_folder_larger_than_the_disk_is_not_copied(tmp_path: Path, source: Path) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")]))
    (source / "bomb").touch()
    os.truncate(source / "bomb", 2**43)  # 8 TiB, which take no room on the disk
    arguments = ("install", str(source), "--config", config, "--max-size", "100TB")
    error = run_json(*arguments, code=2)["error"]
    assert error["code"] == "X1396" and "free" in error["message"]
    assert not (tmp_path / "x" / "toy").exists()


def test_the_size_of_a_copy_is_limited(tmp_path: Path, source: Path) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")]))
    (source / "large").touch()
    os.truncate(source / "large", 2**30)
    arguments = ("install", str(source), "--config", config)
    for options in ((), ("--dry-run",), ("--max-size", "1000MB")):
        error = run_json(*arguments, *options, code=2)["error"]
        assert error["code"] == "X1396" and "--max-size" in error["help"], error
        assert not (tmp_path / "x" / "toy").exists()
    assert run_json(*arguments, "--max-size", "2GiB", "--dry-run")["installed"] is False
    (source / "large").unlink()
    for number in range(30):
        (source / f"small-{number}").touch()
    # Each small file counts as at least 4,096 bytes.
    assert "4,096" in run_json(*arguments, "--max-size", "100KB", code=2)["error"]["message"]
    assert run_json(*arguments, "--max-size", "1MB")["installed"] is True
    error = run_json(*arguments, "--update", "--max-size", "nothing", code=2)["error"]
    assert error["code"] == "X1316"


def test_a_copy_stops_at_the_maximum_size(tmp_path: Path) -> None:
    max_bytes = 30_000
    (tmp_path / "source").mkdir()
    for number in range(9):
        (tmp_path / "source" / f"{number}").write_bytes(b"x" * 9000)
    with pytest.raises(UsageError, match="larger than"):
        copy_folder(tmp_path / "source", tmp_path / "copy", max_bytes)
    assert sum(path.stat().st_size for path in (tmp_path / "copy").iterdir()) <= max_bytes


@shows("nexo-cli-09")
def test_update_needs_an_installed_copy(tmp_path: Path, source: Path) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")]))
    arguments = ("install", str(source), "--config", config)
    error = run_json(*arguments, "--update", code=2)["error"]
    assert error["code"] == "X1206" and "--update" in error["help"]
    assert not (tmp_path / "x").exists()
    run_json(*arguments)
    error = run_json(*arguments, "--update", "--link", code=2)["error"]
    assert error["code"] == "X1316" and "uninstall" in error["help"]
    assert not (tmp_path / "x" / "toy").is_symlink()


def test_the_command_in_the_help_is_quoted_for_the_shell(tmp_path: Path) -> None:
    rogue = tmp_path / "x" / "rogue"
    rogue.mkdir(parents=True)
    (rogue / "roder-extension.toml").write_text(ROGUE_MANIFEST.format(id='"$(reboot)"'))
    config = str(write_yaml(tmp_path, search_paths=[str(tmp_path / "x")]))
    error = run_json("uninstall", "$(reboot)", "--config", config, code=2)["error"]
    assert error["help"] == "exthost uninstall '$(reboot)' --yes"


@shows("nexo-cli-09")
def test_uninstall_deletes_neither_a_search_path_nor_an_entry_of_the_config(
    tmp_path: Path, source: Path
) -> None:
    config = str(write_yaml(tmp_path, search_paths=[str(source)]))
    error = run_json("uninstall", "toy", "--yes", "--config", config, code=2)["error"]
    assert error["code"] == "X1396" and (source / "plugin.toml").is_file()
    entry = tmp_path / "exthost.toml"
    entry.write_text('[[extensions]]\nname = "a"\nsource = { type = "process", command = "a" }\n')
    error = run_json("uninstall", "a", "--yes", "--config", str(entry), code=2)["error"]
    assert error["help"].endswith("exthost remove a")
