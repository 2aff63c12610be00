"""The keys of `[cluster]` for addresses, and `runtime_env`, what Ray prepares on each node.

[cluster]
listen = "10.0.0.5:7700"
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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"listen": "10.0.0.5"}, "HOST:PORT is wanted"),
        ({"listen": "::1"}, "write it as [::1]:PORT"),
        ({"listen": "fe80::1:7700"}, "HOST:PORT is wanted"),
        ({"listen": "http://10.0.0.5:7700"}, "HOST:PORT is wanted"),
        ({"listen": " :7700"}, "HOST:PORT is wanted"),
        ({"listen": "a:65536"}, "HOST:PORT is wanted"),
        ({"listen": "a:\u0663"}, "HOST:PORT is wanted"),  # a digit, but not of ASCII
        ({"listen": "a:" + "1" * 5000}, "HOST:PORT is wanted"),
        ({"listen": "0.0.0.0:1"}, "every address of this machine"),
        ({"listen": "[::0]:1"}, "every address of this machine"),
        ({"listen": "0:1"}, "every address of this machine"),
        ({"listen": "0.0.0.0:1", "advertise": "0.0.0.0"}, "no node can connect to 0.0.0.0"),
        ({"advertise": "0.0.0.0:x"}, "HOST or HOST:PORT is wanted"),
        ({"advertise": "a:0"}, "HOST or HOST:PORT is wanted"),
        ({"advertise": "a:70000"}, "HOST or HOST:PORT is wanted"),
        ({"advertise": "::::"}, "HOST or HOST:PORT is wanted"),
        ({"advertise": "[1.2.3.4]:1"}, "HOST or HOST:PORT is wanted"),
        ({"listen": "[::::]:1"}, "HOST:PORT is wanted"),
        ({"advertise": "http://a"}, "HOST or HOST:PORT is wanted"),
    ],
)
def test_an_address_that_cannot_be_used_is_a_problem(values: dict[str, str], message: str) -> None:
    problems = Problems("exthost.toml")
    assert read_cluster_settings(values, Place(problems), None) is None
    assert message in problems.items[0].text


@pytest.mark.parametrize(
    ("listen", "host", "port", "is_encrypted"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0, False),
        ("127.0.0.2:7700", "127.0.0.2", 7700, False),
        ("[::1]:7700", "::1", 7700, False),
        ("LOCALHOST:7700", "LOCALHOST", 7700, False),
        ("10.0.0.5:7700", "10.0.0.5", 7700, True),
        ("[2001:db8::1]:7700", "2001:db8::1", 7700, True),
        ("head.example.org:7700", "head.example.org", 7700, True),
    ],
)
def test_connections_are_encrypted_unless_only_this_machine_can_connect(
    listen: str, host: str, port: int, is_encrypted: bool
) -> None:
    problems = Problems("exthost.toml")
    settings = read_cluster_settings({"listen": listen}, Place(problems), None)
    problems.raise_first()
    assert settings is not None
    assert (settings.host, settings.port, settings.is_encrypted) == (host, port, is_encrypted)


@pytest.mark.parametrize(
    "advertise", ["a", "a.example.org:1", "10.0.0.5", "[::2]:1", "[::2]", "::2"]
)
def test_nodes_connect_to_a_name_or_an_address_with_or_without_a_port(advertise: str) -> None:
    problems = Problems("exthost.toml")
    values = {"listen": "0.0.0.0:7700", "advertise": advertise}
    settings = read_cluster_settings(values, Place(problems), None)
    problems.raise_first()
    assert settings is not None and settings.advertise == advertise
