"""The tools that an extension offered last are listed before it runs.

An offer is what an extension announces in its handshake: its tools. A host that remembers offers
writes them to the state folder, so that the next host can list the tools without starting the
extension, which its first call starts (`defer_starts`). An offer is used only if the entry of the
config and the program are the same.
"""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import NotFound
from exthost.host.control.socket_path import config_key
from exthost.host.host import Host
from exthost.process.state_dirs import offer_file
from tests.faces.cli.cli_process import run_inside
from tests.faces.gateway.gateway_process import write_config
from tests.faces.relay.relay_process import CHILD, server


def make_host(config: Path, **settings: Any) -> Host:
    host = Host.from_config(config)
    host.remember_offers(**settings)
    return host


async def offer_once(config: Path) -> list[str]:
    """Let the extensions of a config run once. Return the names of their tools."""
    async with make_host(config) as host:
        return list(host.tools)


def file_of(config: Path, extension: str = "child") -> Path:
    """Return the file with the remembered offer of an extension."""
    return Path(offer_file(os.environ, config_key(config), extension))


async def test_a_second_host_lists_the_tools_without_a_start(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"mcp_servers": server()})
    names = await offer_once(config)
    async with make_host(config, defer_starts=True) as host:
        child = host["child"]
        assert list(host.tools) == names and child.internals.is_offer_remembered
        assert str(child.state) == "admitted"
        assert (await host.call_tool("ext_child_echo", {"a": 1})).text == '{"a": 1}'
        assert str(child.state) == "ready" and not host["child"].internals.is_offer_remembered
        assert list(host.tools) == names


async def test_an_extension_that_the_config_starts_eagerly_starts_with_the_host(
    tmp_path: Path,
) -> None:
    servers = server()
    servers["child"]["start"] = "eager"
    config = write_config(tmp_path, {"mcp_servers": servers})
    await offer_once(config)
    async with make_host(config, defer_starts=True) as host:
        assert host["child"].state == "ready"


async def test_a_remembered_tool_that_no_longer_exists_is_reported(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"mcp_servers": server()})
    await offer_once(config)
    path = file_of(config)
    document = json.loads(path.read_text())
    document["offer"]["tools"].append(document["offer"]["tools"][0] | {"name": "old"})
    path.write_text(json.dumps(document))
    async with make_host(config, defer_starts=True) as host:
        assert "ext_child_old" in host.tools
        with pytest.raises(NotFound, match="does not any more") as raised:
            await host.call_tool("ext_child_old", {})
        assert raised.value.code == "X1202"  # the extension no longer has the tool
        assert "ext_child_old" not in host.tools and "ext_child_echo" in host.tools


@pytest.mark.parametrize("change", ["args", "env", "permissions", "program"])
async def test_an_offer_is_not_used_after_a_change_of_entry_or_program(
    tmp_path: Path, change: str
) -> None:
    program = tmp_path / "child.py"
    program.write_bytes(CHILD.read_bytes())
    entry: dict[str, Any] = {"command": sys.executable, "args": ["-S", "-E", str(program)]}
    config = write_config(tmp_path, {"mcp_servers": {"child": entry}})
    await offer_once(config)
    if change == "program":
        program.write_bytes(CHILD.read_bytes() + b"\n")
    else:
        changed = {"args": ["-S", str(program)], "env": {"MODE": "x"}, "permissions": {}}[change]
        write_config(tmp_path, {"mcp_servers": {"child": {**entry, change: changed}}})
    host = make_host(config, defer_starts=True)
    host.change_specs(lambda spec: spec)
    [spec] = host._known_offers.recall(host.config.specs)  # type: ignore[union-attr]
    assert spec.known_offer is None


async def test_values_of_variables_are_not_in_the_file(tmp_path: Path) -> None:
    servers = server()
    servers["child"]["env"] = {"TOKEN": "very-secret"}
    config = write_config(tmp_path, {"mcp_servers": servers})
    await offer_once(config)
    assert "very-secret" not in file_of(config).read_text()
    assert file_of(config).stat().st_mode & 0o777 == 0o600
    servers["child"]["env"] = {"TOKEN": "another"}
    write_config(tmp_path, {"mcp_servers": servers})
    async with make_host(config, defer_starts=True) as host:
        assert host["child"].state == "admitted"


@pytest.mark.parametrize("damage", ["cut", "type", "mode", "link"])
async def test_a_damaged_file_is_ignored_and_reported(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = write_config(tmp_path, {"mcp_servers": server()})
    await offer_once(config)
    path = file_of(config)
    text = path.read_text()
    if damage == "cut":
        path.write_text(text[: len(text) // 2])
    elif damage == "type":
        path.write_text(text.replace('"tools": [', '"tools": [7, '))
    elif damage == "mode":
        path.chmod(0o666)
    else:
        (tmp_path / "elsewhere").write_text(text)
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
    caplog.set_level(logging.WARNING)
    async with make_host(config, defer_starts=True) as host:
        assert host["child"].state == "ready" and "ext_child_echo" in host.tools
    assert "is ignored" in caplog.text and "child" in caplog.text
    assert not path.is_symlink() and json.loads(path.read_text())["offer"]["tools"]


async def test_without_a_writable_state_folder_the_host_works_and_remembers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "file"))
    config = write_config(tmp_path, {"mcp_servers": server()})
    assert "ext_child_echo" in await offer_once(config)
    assert "not remembered" in caplog.text


def test_exthost_tools_marks_remembered_tools_and_exthost_forget_deletes_them(
    tmp_path: Path,
) -> None:
    config = write_config(tmp_path, {"mcp_servers": server()})
    asyncio.run(offer_once(config))
    listed = json.loads(run_inside("tools", "--json", cwd=tmp_path).stdout)
    assert listed["tools"][0]["remembered"] and listed["not_asked"] == []
    assert "ext_child_echo *" in run_inside("tools", cwd=tmp_path).stdout
    assert run_inside("forget", "child", cwd=tmp_path).returncode == 0
    again = run_inside("forget", "child", "--json", cwd=tmp_path)
    assert again.returncode == 0 and json.loads(again.stdout) == {"forgotten": False}
    assert json.loads(run_inside("tools", "--json", cwd=tmp_path).stdout)["not_asked"] == ["child"]
