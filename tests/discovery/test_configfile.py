"""Config files that are none: each is refused, and none blocks."""

import os
from pathlib import Path

import pytest

from exthost.discovery.configfile import read_config
from exthost.errors import ConfigError


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert caught.value.code == "X0101"
    return caught.value.message


def test_a_pipe_a_device_and_a_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    assert "not a regular file" in refused(tmp_path / "pipe.toml")
    assert "not a regular file" in refused(Path("/dev/zero"))
    assert refused(tmp_path)


def test_a_sparse_file_of_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.touch()
    os.truncate(path, 3 * 2**30)
    assert "larger than" in refused(path)
