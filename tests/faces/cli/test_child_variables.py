"""Which variables of the host process extensions get: not the token of its service."""

from pathlib import Path

import pytest

from exthost.config import Config
from exthost.faces.cli.background_service import BackgroundService, ServiceContext
from exthost.faces.cli.displays import QuietDisplay
from exthost.faces.cli.host_process import HostProcess
from exthost.faces.http_server.token import VARIABLE


async def serve_nothing(_: ServiceContext) -> None:
    raise AssertionError("the process is not run")


@pytest.mark.parametrize("has_service", [True, False])
async def test_extensions_beside_a_service_do_not_get_its_token(
    has_service: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "secret")
    services = [BackgroundService(serve_nothing)] if has_service else []
    process = HostProcess(
        str(tmp_path / "exthost.toml"), Config(), lambda *_: QuietDisplay(), services
    )
    process.display.close()
    assert (VARIABLE in process.host._environ) != has_service
