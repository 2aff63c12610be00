"""`attach(config, start=True)` starts a host in the background if none runs for this config.

Several programs can share the host, and it ends after the last of them has left. `joined` yields an
MCP client that shares it too, through `exthost gateway --join`; `sync_attach` is the same as
`attach`, for programs without asyncio.
"""

import asyncio
import inspect
import os
from pathlib import Path

import pytest

import exthost
from exthost.errors import NotFound, UsageError
from exthost.faces.cli.client_service import ClientService
from exthost.host.control import attached_host
from exthost.host.control.attached_host import AttachedExtension, AttachedHost
from exthost.host.control.server import ControlServer
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host
from exthost.host.sync.sync_attached_host import SyncAttachedExtension, SyncAttachedHost
from tests.extensions.harness import wait_until
from tests.faces.relay.relay_process import (
    joined,
    server_pids,
    shared_config,
    status,
    wait_until_gone,
)


async def test_a_program_starts_the_host_which_ends_after_it(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    async with exthost.attach(config, start=True) as host:
        pid = host.pid
        assert (await host.call_tool("ext_child_echo", {"a": 1})).text == '{"a": 1}'
        async with exthost.attach(config, start=True) as other:
            assert other.pid == pid, "the host that runs is used"
        with joined(config) as client:
            assert client.text("ext_child_echo", a=2) == '{"a": 2}'
            assert status(config)["host"]["pid"] == pid and len(server_pids(config)) == 1
    wait_until_gone(pid)


@pytest.mark.more
def test_sync_attach_starts_a_host_which_ends_after_it(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with exthost.sync_attach(config, start=True) as host:
        pid = host.pid
        assert host.call_tool("ext_child_echo", {"a": 1}).text == '{"a": 1}'
        assert host["child"].call_tool("echo", {"a": 1}).text == '{"a": 1}'
        assert list(host) == ["child"] and host.status()[0]["id"] == "child"
    wait_until_gone(pid)


async def test_a_host_that_is_ending_is_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "exthost.toml"
    config.write_text("")
    monkeypatch.setattr(attached_host, "RETRY_SECONDS", 0.001)
    attempts: list[int] = []

    class CountedHost(AttachedHost):
        async def refresh(self) -> None:
            attempts.append(self.pid)
            await super().refresh()

    host = Host()
    control = ControlServer(host, StatusReport(host), str(config))
    await control.serve()
    try:
        control.requests.ending = True
        with pytest.raises(UsageError, match="the host is ending"):
            async with CountedHost(config, os.environ):
                pass
        assert len(attempts) == 1  # without `start` no host is to be started in its place
        attached = CountedHost(config, os.environ, start=True)
        opening = asyncio.ensure_future(attached.open())
        await wait_until(lambda: len(attempts) >= 3)
        control.requests.ending = False  # stands for the next host of the config
        assert await opening is attached
        await attached.close()
    finally:
        await control.close()


async def test_a_host_that_ends_because_it_is_unused_accepts_no_client(tmp_path: Path) -> None:
    host = Host()
    control = ControlServer(host, StatusReport(host), str(tmp_path / "exthost.toml"))
    service = ClientService(
        host,
        str(tmp_path / "exthost.toml"),
        make_gateway=pytest.fail,
        say=pytest.fail,
        reload=pytest.fail,
        opening=lambda: None,
        list_http_clients=list,
        ends_when_unused=True,
    )
    try:
        service.open(control)
        service._end_if_unused()
        assert control.requests.ending, "before the tasks that wait for this end have run"
    finally:
        await service.close()
        await control.close()


async def test_a_host_that_cannot_be_started_is_reported_with_the_reason(tmp_path: Path) -> None:
    config = tmp_path / "exthost.toml"
    config.write_text("extensions = 1\n")
    with pytest.raises(NotFound, match="none could be started") as raised:
        async with exthost.attach(config, start=True):
            pass
    # The codes of mistakes in a config begin with X01.
    assert any("X01" in line for line in raised.value.evidence.stderr)


@pytest.mark.parametrize(
    ("blocking_class", "async_class"),
    [(SyncAttachedHost, AttachedHost), (SyncAttachedExtension, AttachedExtension)],
)
def test_the_blocking_classes_have_the_same_methods_and_parameters(
    blocking_class: type, async_class: type
) -> None:
    # Methods that only the modules of exthost call.
    internal = {"ask", "row", "run_verb", "result_reader", "call_own_tool"}
    for name in set(dir(async_class)) - internal:
        is_method = inspect.isfunction(inspect.getattr_static(async_class, name))
        if name.startswith("_") or not is_method:
            continue
        parameters = inspect.signature(getattr(async_class, name)).parameters
        blocking_parameters = inspect.signature(getattr(blocking_class, name)).parameters
        assert list(blocking_parameters) == list(parameters), name
