"""Files that cannot be a config are refused, and settings of a package apply to its servers.

A package is an extension that discovery finds by its manifest. The manifest of `toy` contains an
MCP server as well, whose id is `toy.more`. If the config restricts the package, the server must be
restricted too, because the author of the package chooses its command.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exthost.config import Config, config_from_mapping
from exthost.config.discovery.configfile import ConfiguredExtensions, find_extensions, read_config
from exthost.errors import ConfigError
from exthost.launch.prerequisites import find_name_conflict
from exthost.model.spec import Permissions, Pins, Requires, Spec
from tests.extensions import nexo_tree


def read_error(path: Path) -> str:
    """Return the message of the error for a file that is not a config."""
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert caught.value.code == "X0101"  # the file cannot be read
    return caught.value.message


def test_a_pipe_a_device_and_a_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    assert "not a regular file" in read_error(tmp_path / "pipe.toml")
    assert "not a regular file" in read_error(Path("/dev/zero"))
    assert read_error(tmp_path)


def test_a_sparse_file_of_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.touch()
    os.truncate(path, 3 * 2**30)
    assert "larger than" in read_error(path)


def test_the_secrets_of_many_extensions_are_found_without_comparing_each_with_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For thousands of extensions, comparing all pairs would take minutes."""
    entries = [{"name": f"e{n}", "source": {"command": "true"}} for n in range(50)]
    config = config_from_mapping({"extensions": entries})
    specs, extensions = config.specs, ConfiguredExtensions(config=config, specs=config.specs)

    class NotIterable(tuple[Spec, ...]):
        """A tuple that can be asked for a member, but not searched."""

        def __iter__(self) -> Iterator[Spec]:
            raise AssertionError("all extensions were searched for one")

        def __contains__(self, item: object) -> bool:
            return any(item == spec for spec in self)

    object.__setattr__(config, "specs", NotIterable(specs))

    def refuse_comparison(spec: object, other_spec: object) -> bool:
        raise AssertionError("extensions were compared with each other")

    monkeypatch.setattr(Spec, "__eq__", refuse_comparison)
    # A manifest that discovery has found asks for a variable of the host.
    with_secret = Spec(
        id="found", argv=("true",), requires=Requires(env=("A_TOKEN",)), dialect="nexo"
    )
    for spec in (*specs, with_secret):
        assert extensions.asks_for_secrets(spec) == (("A_TOKEN",) if spec is with_secret else ())
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
        # A permission of the package is not a permission of its server.
        (
            {
                "defaults": {"permissions": {}},
                "overrides": {"toy": {"permissions": {"network": True}, "sandbox": "off"}},
            },
            Permissions(),
            None,
        ),
        # The operator can name the server.
        (
            {"overrides": {"toy": {"permissions": {}}, "toy.more": {"sandbox": "off"}}},
            Permissions(),
            "off",
        ),
        ({}, None, None),
    ],
)
def test_the_sandbox_of_a_package_applies_to_its_servers(
    tmp_path: Path, config: dict[str, Any], permissions: Permissions | None, sandbox: str | None
) -> None:
    nexo_tree.write_plugin(tmp_path / "toy", "toy", more=SERVER)
    discovery = {"discovery": {"search_paths": [str(tmp_path)]}}
    configured = find_extensions(config_from_mapping({**discovery, **config}))
    (server,) = (spec for spec in configured.specs if spec.id == "toy.more")
    assert (server.permissions, server.sandbox) == (permissions, sandbox)


def test_the_pins_of_a_package_apply_to_its_servers(tmp_path: Path) -> None:
    nexo_tree.write_plugin(tmp_path / "toy", "toy", more=SERVER)
    pins = {"package": "0" * 64, "manifest": "2" * 64, "program": "1" * 64}
    config = {
        "discovery": {"search_paths": [str(tmp_path)]},
        "overrides": {"toy": {"sha256": pins, "on_weaker": "refuse"}},
    }
    configured = find_extensions(config_from_mapping(config))
    (server,) = (spec for spec in configured.specs if spec.id == "toy.more")
    # The pin of the program is not that of the server, whose command is in the manifest.
    assert server.sha256 == Pins(package="0" * 64, manifest="2" * 64)
    assert server.on_weaker == "refuse"


def test_extensions_of_a_file_keep_its_path_in_a_config_made_of_them(tmp_path: Path) -> None:
    """`exthost tools --start` makes such a config. The sandbox protects the file and the audit, and
    the lock and secrets depend on the folder of the file."""
    path = tmp_path / "exthost.toml"
    path.write_text(
        '[audit]\npath = "audit.jsonl"\n'
        '[[extensions]]\nname = "a"\nsource = { type = "process", command = "true" }\n'
    )
    [spec] = find_extensions(read_config(path)).specs
    assert spec.config_file == str(path)
    [copied] = find_extensions(Config(specs=(spec,))).specs
    assert (copied.config_file, copied.audit_file) == (spec.config_file, spec.audit_file)
    assert copied.audit_file == str(tmp_path / "audit.jsonl")
