"""A dialect that another package brings is one like ours, wherever dialects are named."""

from pathlib import Path

import pytest

import exthost
from exthost.errors import ConfigError
from tests.toys import stepper


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(stepper.installed(tmp_path)))


def _entry(dialect: str) -> dict[str, object]:
    program, *args = stepper.spec("s").argv
    source = {"type": "process", "command": program, "args": args}
    return {"name": "s", "dialect": dialect, "source": source}


@pytest.mark.usefixtures("package")
async def test_a_config_may_name_it() -> None:
    async with exthost.Host.from_config({"extensions": [_entry("stepper")]}) as host:
        assert host["s"].state == "ready"


@pytest.mark.usefixtures("package")
async def test_connect_may_name_it() -> None:
    async with exthost.connect(stepper.spec("s").argv, dialect="stepper") as extension:
        assert extension.state == "ready"


async def test_an_unregistered_dialect_is_a_mistake_of_the_config() -> None:
    with pytest.raises(ConfigError, match="no dialect is called 'stepper'"):
        exthost.Host.from_config({"extensions": [_entry("stepper")]})
