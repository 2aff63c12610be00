"""A config or a search path that other users can write is reported.

Such a user could change the config, and so run programs with the rights of the user of exthost.
"""

import os
from pathlib import Path

import pytest

from exthost.config.discovery.configfile import find_extensions, read_config

WRITABLE = "X0113"  # the code of the report


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config with three search paths, which only its owner can write."""
    (tmp_path / "extensions").mkdir(mode=0o755)
    path = tmp_path / "exthost.toml"
    path.write_text('[discovery]\nsearch_paths = ["extensions", "$PATH", "missing"]\n')
    path.chmod(0o644)
    return path


def reported_names(config: Path) -> list[str]:
    """Return the names of the files and folders that are reported."""
    diagnostics = find_extensions(read_config(config)).diagnostics
    return [Path(diagnostic.path).name for diagnostic in diagnostics if diagnostic.code == WRITABLE]


def test_files_that_everybody_can_write_are_reported(config: Path) -> None:
    assert reported_names(config) == []
    config.chmod(0o666)
    (config.parent / "extensions").chmod(0o1777)
    assert reported_names(config) == ["exthost.toml", "extensions"]
    config.chmod(0o664)  # writable by the group is allowed
    config.parent.chmod(0o777)
    (config.parent / "extensions").chmod(0o755)
    assert reported_names(config) == [config.parent.name]
    config.chmod(0o666)  # no further warning: the config can be replaced by writing to the folder
    assert reported_names(config) == [config.parent.name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_files_that_another_user_owns_are_reported(config: Path) -> None:
    os.chown(config, 65534, 65534)  # the user and the group nobody
    os.chown(config.parent / "extensions", 65534, 65534)
    assert reported_names(config) == ["exthost.toml", "extensions"]
