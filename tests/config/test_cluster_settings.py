"""The key `runtime_env` of `[cluster]`: what Ray prepares on each node for the extensions.

[cluster]
runtime_env = { working_dir = "programs", pip = ["numpy"] }
"""

from typing import Any

import pytest

from exthost.config.cluster import read_cluster_settings
from exthost.model.documents.problems import Place, Problems


@pytest.mark.parametrize(
    # working_root: the folder on this machine whose content the nodes get
    ("working_dir", "expected", "working_root"),
    [
        ("programs", "/etc/exthost/programs", "/etc/exthost/programs"),
        ("/opt/programs", "/opt/programs", "/opt/programs"),
        ("s3://programs/1.zip", "s3://programs/1.zip", "/etc/exthost"),
    ],
)
def test_a_working_dir_is_relative_to_the_folder_of_the_config(
    working_dir: str, expected: str, working_root: str
) -> None:
    problems = Problems("exthost.toml")
    runtime_env: dict[str, Any] = {"working_dir": working_dir, "pip": ["numpy"]}
    settings = read_cluster_settings({"runtime_env": runtime_env}, Place(problems), "/etc/exthost")
    problems.raise_first()
    assert settings is not None
    assert settings.runtime_env == {"working_dir": expected, "pip": ["numpy"]}
    assert settings.working_root == working_root


def test_an_image_in_the_runtime_env_is_an_error_that_names_the_key_for_images() -> None:
    problems = Problems("exthost.toml")
    read_cluster_settings({"runtime_env": {"image_uri": "text:1"}}, Place(problems), None)
    assert "pool.image" in problems.items[0].text
