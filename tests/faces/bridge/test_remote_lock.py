"""Tests of the lock, the stored offer and the security findings of a remote MCP server.

The code of a remote server is not known, so its record in `exthost.lock` has its URL and its tools.
The offer (the tools) that a server had is stored, so that it is known before the next start.
"""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import config_from_mapping
from exthost.config.discovery.configfile import find_extensions, read_config
from exthost.config.lock_file import format_lock
from exthost.errors import Refused
from exthost.host.known_offers import KnownOffers
from exthost.host.lock_survey import compare_with_lock
from exthost.model.lock_record import LockRecord
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Spec
from tests.extensions.harness import error_of
from tests.faces.bridge.running import remote_server
from tests.faces.cli.cli_process import run_inside

URL = "https://h.example/mcp"


def remote_spec(url: str = URL, **keys: Any) -> Spec:
    """Return the spec of a remote server."""
    [spec] = config_from_mapping({"mcp_servers": {"far": {"url": url, **keys}}}).specs
    return spec


async def make_record(spec: Spec) -> LockRecord:
    """Return the record of an extension without its offer."""
    [comparison] = await compare_with_lock([spec], {}, offline=True)
    assert comparison.now is not None, comparison.error
    return comparison.now


async def test_the_record_of_a_remote_server_has_its_url_and_no_digest_of_exthost() -> None:
    record = await make_record(remote_spec(headers={"X-Team": "docs"}))
    header = ("--header", "X-Team=EXTHOST_BRIDGE_HEADER_1")
    assert (record.source, record.command) == ("http", (URL, *header))
    assert record.unknown_code == "it runs on a remote server"
    assert not (record.program or record.package or record.interpreter or record.compiled)
    assert record.variables == ("EXTHOST_BRIDGE_HEADER_1",)


@pytest.mark.parametrize(
    ("url", "recorded"),
    [
        ("https://me:hush@h/mcp", "https://{secret}@h/mcp"),
        ("https://h/mcp?key=hush&mode=x", "https://h/mcp?key={secret}&mode=x"),
        ("https://h/mcp?mode=x&api-key=hush#a", "https://h/mcp?mode=x&api-key={secret}#a"),
        ("https://h/@scope/mcp?mode=a@b", "https://h/@scope/mcp?mode=a@b"),
    ],
)
async def test_secrets_in_a_url_are_not_recorded(url: str, recorded: str) -> None:
    assert (await make_record(remote_spec(url))).command == (recorded,)


async def test_another_url_is_a_change_of_the_command() -> None:
    records = {"far": await make_record(remote_spec())}
    other = remote_spec("https://other.example/mcp")
    [same] = await compare_with_lock([remote_spec()], records, offline=True)
    [changed] = await compare_with_lock([other], records, offline=True)
    assert not same.changes and [change.key for change in changed.changes] == ["command"]


def test_the_offer_of_a_remote_server_is_known_for_its_url_only(tmp_path: Path) -> None:
    environ = {"EXTHOST_HOME": str(tmp_path)}
    KnownOffers("a.toml", environ).record(remote_spec(), Offer(tools=(Tool("add"),)))
    specs = [remote_spec(), remote_spec("https://other.example/mcp"), remote_spec(transport="sse")]
    for spec, is_known in zip(specs, [True, False, False], strict=True):
        [recalled] = KnownOffers("a.toml", environ).recall([spec])
        assert (recalled.known_offer is not None) is is_known


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ('token = "hush"', 'token = { from = "FAR_TOKEN" }'),
        ('headers = { Authorization = "hush" }', 'headers.Authorization = { from = "FAR_AUTH'),
        ('headers = { X-Api-Key = "hush" }', 'headers.X-Api-Key = { from = "FAR_X_API_KEY" }'),
        ('url = "https://h.example/mcp?key=hush"', 'url = { from = "FAR_URL" }'),
    ],
)
def test_a_secret_in_the_entry_of_a_remote_server_is_found(
    tmp_path: Path, line: str, fix: str
) -> None:
    url = "" if line.startswith("url") else f'url = "{URL}"\n'
    (tmp_path / "exthost.toml").write_text(f"[mcp_servers.far]\n{url}{line}\n")
    result = run_inside("doctor", "--security", "--json", cwd=tmp_path)
    assert "hush" not in result.stdout
    fixes = {row["kind"]: row["fix"] for row in json.loads(result.stdout)["weak"]}
    assert fix in fixes["secret"] and "permissions = {}" in fixes["sandbox"]


def test_an_entry_with_references_has_no_secret(tmp_path: Path) -> None:
    entry = f'url = "{URL}"\ntoken = {{ from = "T" }}\nheaders = {{ X-Team = "docs" }}\n'
    (tmp_path / "exthost.toml").write_text(f"[mcp_servers.far]\n{entry}")
    result = run_inside("doctor", "--security", "--json", cwd=tmp_path)
    assert "secret" not in [row["kind"] for row in json.loads(result.stdout)["weak"]]


@pytest.mark.more  # starting a bridge imports the package mcp, which takes seconds
async def test_a_locked_remote_server_runs_and_another_server_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTHOST_HOME", str(tmp_path / "state"))
    config, lock = tmp_path / "exthost.toml", tmp_path / "exthost.lock"
    with remote_server("http") as url:
        entry = (
            '[mcp_servers.far]\nlimits = { handshake = "10m", start = "10m", call = "10m" }\nurl = '
        )
        config.write_text(f'{entry}"{url}"\n')
        result = await asyncio.to_thread(run_inside, "lock", cwd=tmp_path)
        assert result.returncode == 0 and "far: locked, 4 tools" in result.stdout, result.stderr
        async with exthost.Host.from_config(config) as host:
            assert (await host.call_tool("far:add", {"a": 1, "b": 2})).data == {"result": 3}
        [comparison] = await compare_with_lock(find_extensions(read_config(config)).specs, {})
        assert comparison.now is not None
        changed_tool = replace(comparison.now.tools["add"], description="Add.")
        tools = {**comparison.now.tools, "add": changed_tool}
        lock.write_text(format_lock({"far": replace(comparison.now, tools=tools)}))
        async with exthost.Host.from_config(config) as host:
            await host["far"].start()
            assert (await error_of(host.call_tool("far:add", {"a": 1, "b": 2}))).code == "X1822"
    config.write_text(f'{entry}"https://other.example/mcp"\n')
    async with exthost.Host.from_config(config) as host:
        error = host["far"].cause
        assert isinstance(error, Refused) and error.code == "X1820" and "command" in error.message
