"""Tests of `find_install_folder`: `exthost install` copies an extension into the first folder among
the search paths of the config. A name such as `$MCP` stands for several folders, and is skipped."""

from pathlib import Path

import pytest

from exthost.config import config_from_mapping
from exthost.errors import UsageError
from exthost.faces.cli.package_folders import find_install_folder


def test_the_first_search_path_that_is_a_folder_is_used(tmp_path: Path) -> None:
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    config = config_from_mapping({"discovery": {"search_paths": ["$MCP", *folders]}})
    assert find_install_folder(config) == tmp_path / "first"


@pytest.mark.parametrize("discovery", [{"search_paths": ["$MCP"]}, {"enabled": False}])
def test_a_config_without_a_folder_is_reported(discovery: dict[str, object]) -> None:
    with pytest.raises(UsageError) as raised:
        find_install_folder(config_from_mapping({"discovery": discovery}))
    assert raised.value.code == "X1396"
