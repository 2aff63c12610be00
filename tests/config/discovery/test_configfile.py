"""Config files that are none are refused and do not block; what is said of a package holds."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exthost.config import config_from_mapping
from exthost.config.discovery.configfile import ConfiguredExtensions, find_extensions, read_config
from exthost.errors import ConfigError
from exthost.launch.prerequisites import find_name_conflict
from exthost.model.spec import Permissions, Pins, Requires, Spec
from tests.extensions import nexo_tree


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


def test_the_secrets_of_many_extensions_are_found_without_comparing_each_with_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [{"name": f"e{n}", "source": {"command": "true"}} for n in range(50)]
    config = config_from_mapping({"extensions": entries})
    specs, wanted = config.specs, ConfiguredExtensions(config=config, specs=config.specs)

    class Unsearched(tuple[Spec, ...]):
        def __iter__(self) -> Iterator[Spec]:
            raise AssertionError("all extensions were searched for one")

        def __contains__(self, one: object) -> bool:
            return any(one == spec for spec in self)

    object.__setattr__(config, "specs", Unsearched(specs))

    def compare(one: object, other: object) -> bool:
        raise AssertionError("extensions were compared with each other")

    monkeypatch.setattr(Spec, "__eq__", compare)
    found = Spec(id="found", argv=("true",), requires=Requires(env=("A_TOKEN",)), dialect="nexo")
    for spec in (*specs, found):
        assert wanted.asks_for_secrets(spec) == (("A_TOKEN",) if spec is found else ())
        assert find_name_conflict(spec, specs) is None


SERVER = """
[mcp_servers.more]
transport = "stdio"
command = "python3"
"""


@pytest.mark.parametrize(
    ("config", "permissions", "sandbox"),
    [
        ({"overrides": {"toy": {"permissions": {}}}}, Permissions(), None),
        (
            {"overrides": {"toy": {"permissions": {"network": True}, "sandbox": "best-effort"}}},
            Permissions(network=True),
            "best-effort",
        ),
        # What is granted to the package's own program is not granted to the further one.
        (
            {
                "defaults": {"permissions": {}},
                "overrides": {"toy": {"permissions": {"network": True}, "sandbox": "off"}},
            },
            Permissions(),
            None,
        ),
        # The operator may name the further one.
        (
            {"overrides": {"toy": {"permissions": {}}, "toy.more": {"sandbox": "off"}}},
            Permissions(),
            "off",
        ),
        ({}, None, None),
    ],
)
def test_a_package_does_not_leave_its_sandbox_by_a_further_program(
    tmp_path: Path, config: dict[str, Any], permissions: Permissions | None, sandbox: str | None
) -> None:
    nexo_tree.plugin(tmp_path / "toy", "toy", more=SERVER)
    discovery = {"discovery": {"search_paths": [str(tmp_path)]}}
    found = find_extensions(config_from_mapping({**discovery, **config}))
    (server,) = (spec for spec in found.specs if spec.id == "toy.more")
    assert (server.permissions, server.sandbox) == (permissions, sandbox)


def test_the_pin_of_a_package_is_that_of_its_further_programs(tmp_path: Path) -> None:
    nexo_tree.plugin(tmp_path / "toy", "toy", more=SERVER)
    pins = {"package": "0" * 64, "manifest": "2" * 64, "program": "1" * 64}
    config = {
        "discovery": {"search_paths": [str(tmp_path)]},
        "overrides": {"toy": {"sha256": pins, "on_weaker": "refuse"}},
    }
    found = find_extensions(config_from_mapping(config))
    (server,) = (spec for spec in found.specs if spec.id == "toy.more")
    # The manifest has the command of the further program.
    assert server.sha256 == Pins(package="0" * 64, manifest="2" * 64)
    assert server.on_weaker == "refuse"
