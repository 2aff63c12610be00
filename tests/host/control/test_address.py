"""The path of the control socket of a config: the same for host and client, in a private folder.

A running host listens on a Unix socket, through which commands such as `exthost status` reach it.
The name of the socket is a key that is made from the path of the config. The folder is the first of
several candidates that can be used, and must belong to the user alone.
"""

import os
import stat
from pathlib import Path

import pytest

from exthost.errors import Refused
from exthost.host.control.address import make_private_folder, socket_paths
from exthost.host.control.socket_path import config_key, is_own_folder


def test_a_config_has_the_same_key_under_all_its_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "exthost.toml"
    (tmp_path / "link.toml").symlink_to(config)
    monkeypatch.chdir(tmp_path)
    names = {"exthost.toml", str(config), "./exthost.toml", "link.toml"}
    assert len({config_key(name) for name in names}) == 1
    assert config_key("other.toml") != config_key(config)


def test_the_runtime_folder_is_the_first_candidate(tmp_path: Path) -> None:
    paths = socket_paths("x.toml", {"XDG_RUNTIME_DIR": str(tmp_path), "EXTHOST_HOME": "/h"})
    assert [str(path.parent) for path in paths] == [
        f"{tmp_path}/exthost",
        "/h/run",
        f"/tmp/exthost-{os.geteuid()}",
    ]
    assert {path.name for path in paths} == {config_key("x.toml") + ".sock"}


@pytest.mark.parametrize("folder", ["", "relative", "/no/such/folder", "/proc/1/nothing"])
def test_an_invalid_runtime_folder_is_skipped(folder: str) -> None:
    paths = socket_paths("x.toml", {"XDG_RUNTIME_DIR": folder, "EXTHOST_HOME": "/h"})
    assert str(paths[0].parent) == "/h/run"


def test_a_path_too_long_for_a_socket_is_skipped(tmp_path: Path) -> None:
    """The path of a Unix socket has at most 107 bytes."""
    long_folder = tmp_path / ("x" * 100)
    long_folder.mkdir()
    paths = socket_paths(
        "x.toml", {"XDG_RUNTIME_DIR": str(long_folder), "EXTHOST_HOME": str(long_folder)}
    )
    assert [str(path.parent) for path in paths] == [f"/tmp/exthost-{os.geteuid()}"]


def test_a_private_folder_has_no_permissions_for_others(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    for folder in (tmp_path / "open", tmp_path / "a" / "new"):
        make_private_folder(folder)
        assert is_own_folder(folder) and stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_file_a_link_or_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    invalid_folders = [tmp_path / "file", tmp_path / "link", tmp_path / "file" / "below"]
    if os.geteuid() == 0:  # only root can create a folder of another user
        (tmp_path / "theirs").mkdir()
        os.chown(tmp_path / "theirs", 65534, 65534)  # the user and the group nobody
        invalid_folders.append(tmp_path / "theirs")
    for folder in invalid_folders:
        with pytest.raises(Refused) as caught:
            make_private_folder(folder)
        assert caught.value.code == "X0375"
