"""The subscription of a process to changes of its settings.

In the dialect synaps, an extension can ask the host to notify it when its settings change: of some
keys, or of every key. A later request for some keys must not end a subscription to every key.
"""

import asyncio
import logging
import sqlite3
from pathlib import Path

import pytest

from exthost.dialects.host_requests import WatchConfig
from exthost.host.api import external_changes
from exthost.host.api.host_api import HostApi, _RequestServer
from exthost.model.messages import Notification
from tests.extensions.harness import wait_until


class FakeProcess:
    """A process that keeps the notifications that it gets."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.keys: list[str] = []

    def send(self, message: Notification) -> None:
        self.keys.append(message.params["key"])

    def unread_bytes(self) -> int:
        return 0

    async def drained(self) -> None: ...


def watch(*keys: str) -> WatchConfig:
    """Return the request to watch these keys, or every key."""
    return WatchConfig(
        keys or None, lambda key, value: Notification("changed", {"key": key, "value": value})
    )


async def test_a_process_that_watches_every_key_continues_to_do_so(tmp_path: Path) -> None:
    api = HostApi({"EXTHOST_HOME": str(tmp_path)})
    process = FakeProcess()
    server = _RequestServer(api, "x", process, None)
    server._subscribe(watch("a"))
    for key in ("a", "b"):
        api.settings.report_change("x", key, "1")
    assert process.keys == ["a"]
    for request in (watch(), watch("c")):  # every key; then one key in addition
        process.keys.clear()
        server._subscribe(request)
        for key in ("a", "b", "c"):
            api.settings.report_change("x", key, "2")
        assert process.keys == ["a", "b", "c"]
    server._unsubscribe()
    await api.close()


@pytest.mark.parametrize("failing_round", [1, 2])
async def test_changes_of_another_host_are_seen_after_a_poll_that_failed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failing_round: int,
) -> None:
    read_settings = external_changes._settings_since
    rounds = 0

    def fail_once(
        connection: sqlite3.Connection, version: int | None
    ) -> tuple[int, external_changes.Settings]:
        nonlocal rounds
        rounds += 1
        if rounds == failing_round:
            raise sqlite3.OperationalError("disk I/O error")
        return read_settings(connection, version)

    monkeypatch.setattr(external_changes, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(external_changes, "_settings_since", fail_once)
    api, other = (HostApi({"EXTHOST_HOME": str(tmp_path)}) for _ in range(2))
    await other.configure("x", "a", "1")
    process = FakeProcess()
    server = _RequestServer(api, "x", process, None)
    with caplog.at_level(logging.WARNING, "exthost"):
        await server.perform(watch("a"))
        await wait_until(lambda: rounds > failing_round + 1)
    assert [record.getMessage()[-14:] for record in caplog.records] == ["disk I/O error"]
    process.keys.clear()
    await other.configure("x", "a", "2")
    await wait_until(lambda: process.keys == ["a"])
    server._unsubscribe()
    await api.close()
    await other.close()
