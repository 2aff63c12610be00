"""Tests of the process of a host that `exthost up -d` starts."""

import asyncio
from pathlib import Path

from exthost.config import Config
from exthost.faces.cli.background_service import BackgroundService, ServiceContext
from exthost.faces.cli.displays import QuietDisplay
from exthost.faces.cli.host_process import HostProcess


async def test_the_host_is_open_for_clients_when_its_messages_are_written(tmp_path: Path) -> None:
    """`exthost up -d` prints the messages of the host when it is open."""
    opened_before = []
    flushed = asyncio.Event()

    class RecordingDisplay(QuietDisplay):
        async def flush(self) -> None:
            opened_before.append(process._requests.opened)
            await super().flush()
            flushed.set()

    async def serve(_: ServiceContext) -> None:
        await flushed.wait()

    services = [BackgroundService(serve)]
    path = str(tmp_path / "exthost.toml")
    process = HostProcess(path, Config(), lambda *_: RecordingDisplay(), services)
    async with process:
        assert await asyncio.wait_for(process.run(), 60) == 0
        assert opened_before == [False] and process._requests.opened
