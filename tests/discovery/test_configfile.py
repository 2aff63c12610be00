"""Config files that are none: each is refused, and none blocks."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exthost.config import config_from_mapping
from exthost.discovery.configfile import ConfiguredExtensions, read_config
from exthost.errors import ConfigError
from exthost.launch.prerequisites import find_name_conflict
from exthost.spec import Requires, Spec


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
