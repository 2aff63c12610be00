"""A dialect of another package can be used like a built-in dialect.

A dialect is the protocol between a host and an extension. `stepper` is a dialect that a test can
install as a package beside exthost (`tests/toys/stepper.py`).
"""

from pathlib import Path

import pytest

import exthost
from exthost.errors import ConfigError
from tests.toys import stepper


@pytest.fixture
def installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(stepper.installed(tmp_path)))


def _entry(dialect: str) -> dict[str, object]:
    program, *args = stepper.spec("s").argv
    source = {"type": "process", "command": program, "args": args}
    return {"name": "s", "dialect": dialect, "source": source}


@pytest.mark.usefixtures("installed_package")
async def test_a_config_can_name_a_dialect_of_another_package() -> None:
    async with exthost.Host.from_config({"extensions": [_entry("stepper")]}) as host:
        assert host["s"].state == "ready"


@pytest.mark.usefixtures("installed_package")
async def test_connect_can_name_a_dialect_of_another_package() -> None:
    async with exthost.connect(stepper.spec("s").argv, dialect="stepper") as extension:
        assert extension.state == "ready"


async def test_an_unknown_dialect_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no dialect is called 'stepper'"):
        exthost.Host.from_config({"extensions": [_entry("stepper")]})
