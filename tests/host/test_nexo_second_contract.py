"""Plugins of nexo's second contract, run by a host.

nexo is one of the protocols ("dialects") that exthost speaks. Its second contract is for plugins
whose manifest says `manifest_version = 2` (`docs/dialects/nexo.md`). The plugins in
`tests/extensions/nexo_second` use no code of exthost: `tide` is written in Python and has tools, a
hook and requests to the host; `marks` is written in JavaScript and needs node.
"""

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.config import Config, config_from_mapping
from exthost.config.discovery import configfile
from exthost.dialects import find
from exthost.dialects.nexo import dialect, second_contract
from exthost.errors import CallFailed, ExtensionGone, HandshakeFailed, Refused
from exthost.events import Exited, LogLine
from exthost.host.host import Host
from tests.dialects.requirements import shows
from tests.extensions.harness import error_of, wait_until

PLUGINS = Path(__file__).parents[1] / "extensions" / "nexo_second"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


def config(root: Path = PLUGINS, *, plugin: str = "tide", **settings: Any) -> Config:
    """Return a config with one plugin of a folder; `settings` are further sections."""
    discovery = {"search_paths": [str(root)], "allowlist": [plugin]}
    return config_from_mapping({"discovery": discovery, **settings})


def copy_plugin(tmp_path: Path, name: str = "tide") -> Path:
    return Path(shutil.copytree(PLUGINS / name, tmp_path / name))


# -- calls -----------------------------------------------------------------------------------


@shows("nexo-second-07", "nexo-second-08", "nexo-second-04", "nexo-second-03")
async def test_the_tools_of_a_python_plugin_keep_their_names() -> None:
    async with Host(config()) as host:
        assert "tide_next" in host.tools and "ext_tide_tide_next" not in host.tools
        assert host.tools["tide_next"].description == "[ext:tide] The next tide"
        result = await host.call_tool("tide_next", {"port": "Brest"}, context={"agent_id": "a1"})
        # 7 is the variable TIDE_STATION, which the manifest sets.
        assert result.text == "high at Brest for a1, 7"
        assert (await host.call_tool("tide:tide_next", {"port": "Vigo"})).text.startswith("high")


@needs_node
@shows("nexo-second-08")
async def test_a_node_plugin_answers_in_any_order() -> None:
    async with Host(config(plugin="marks")) as host:
        slow = asyncio.ensure_future(host.call_tool("ext_marks_slow", {}))
        await wait_until(lambda: host["marks"].stats.in_flight == 1)
        assert (await host.call_tool("marks_count", {"text": "a!b!"})).data == 2
        assert (await slow).text == "late"


@shows("nexo-second-08")
async def test_a_result_marked_as_an_error_is_a_failed_tool() -> None:
    async with Host(config()) as host:
        error = await error_of(host.call_tool("tide_fail", {}))
        assert isinstance(error, CallFailed) and error.error_message == "no gauge"
        assert (await host.call_tool("tide_fail", {}, check=False)).is_error


@shows("nexo-second-10")
async def test_an_outbound_tool_is_called_with_another_method() -> None:
    async with Host(config()) as host:
        assert (await host.call_tool("tide_send", {"to": "Lima"})).text == "sent to Lima"
        tool = host["tide"].tools["tide_send"]
        # The manifest gives this tool 45 seconds, and its calls get this time limit.
        *_, call_seconds = host["tide"].internals.calls.factory.prepare(tool)
        assert tool.seconds == call_seconds == 45
        error = await error_of(host.call_tool("tide_send", {}))
        assert error.code == "X1301"  # the arguments do not match the schema: `to` is missing


@shows("nexo-second-09")
async def test_the_config_of_a_plugin_is_sent_after_initialize() -> None:
    overrides = {"tide": {"config": {"port": "Brest"}}}
    async with Host(config(overrides=overrides)) as host:
        assert (await host.call_tool("tide_config", {})).data == {"port": "Brest"}
    async with Host(config()) as host:  # a plugin with a schema gets an empty config
        assert (await host.call_tool("tide_config", {})).data == {}


@shows("nexo-second-11")
async def test_a_hook_of_a_plugin_blocks_a_call() -> None:
    async with Host(config()) as host:
        # The hook of `tide` accepts every port but this one.
        error = await error_of(host.call_tool("tide_next", {"port": "storm"}))
        assert isinstance(error, Refused) and "a storm" in error.message
        assert (await host.call_tool("tide_next", {"port": "Brest"})).text.startswith("high")


@shows("nexo-second-12")
async def test_requests_of_a_plugin_are_handled_by_the_program_or_refused() -> None:
    async def recall(params: Any) -> Any:
        return {"entries": [params["query"]]}

    context = {"agent_id": "a1"}
    async with Host(config(), handlers={"memory.recall": recall}) as host:
        result = await host.call_tool("tide_recall", {}, context=context)
        assert result.data == {"recalled": {"entries": ["tides"]}, "refused": None}
    async with Host(config()) as host:
        result = await host.call_tool("tide_recall", {}, context=context)
        assert result.data["refused"]["code"] == -32601  # JSON-RPC: method not found


# -- checks ----------------------------------------------------------------------------------


@shows("nexo-second-13", "nexo-second-06")
async def test_features_that_this_host_does_not_offer_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (warning,) = configfile.find_extensions(config()).diagnostics
    assert warning.message == (
        "this host does not offer these parts of nexo's second contract: "
        "extends.channels, capabilities.broker"
    )
    async with Host(config()) as host:
        assert "tide_never_offered" not in host.tools
        assert any("tide_never_offered" in text for text in host["tide"].offer.warnings)
        assert sum(host["tide"].stats.dropped.values()) >= 2  # a line of text, and a broker message
        assert any("this host has no broker" in reason for reason in host["tide"].stats.dropped)
    assert "no-such-tide-gauge" in caplog.text  # a missing program is only a warning


@shows("nexo-second-05")
async def test_a_plugin_that_reports_another_id_fails_the_handshake(tmp_path: Path) -> None:
    folder = copy_plugin(tmp_path)
    manifest = folder / "nexo-plugin.toml"
    # The names of tools begin with the id, so they are renamed as well.
    manifest.write_text(
        manifest.read_text().replace('id = "tide"', 'id = "ebb"').replace("tide_", "ebb_")
    )
    async with Host(config(tmp_path, plugin="ebb")) as host:
        error = await error_of(host["ebb"].start())
        # X0532: the reply to `initialize` breaks a rule of the contract
        assert isinstance(error, HandshakeFailed) and error.code == "X0532"
        assert "it calls itself 'tide', and its manifest 'ebb'" in error.message
        assert "second contract" in error.help


@needs_node
@shows("nexo-second-02")
async def test_connect_detects_the_second_contract() -> None:
    command = ["node", str(PLUGINS / "marks" / "marks.mjs")]
    async with exthost.connect(command, dialect="nexo") as ext:
        assert ext.dialect is second_contract.DIALECT
        assert (await ext.call_tool("marks_count", {"text": "!"})).data == 1
    async with exthost.connect(command) as ext:
        assert (await ext.call_tool("marks_count", {"text": "!"})).data == 1


@needs_node
@shows("nexo-second-02")
async def test_the_error_for_a_config_entry_without_a_manifest_names_its_contract() -> None:
    source = {"type": "process", "command": "node", "args": [str(PLUGINS / "marks" / "marks.mjs")]}
    entry = {"name": "m", "dialect": "nexo", "source": source}
    async with Host(config_from_mapping({"extensions": [entry]})) as host:
        error = await error_of(host["m"].start())
        # X0531: the extension speaks the second contract, and was started in the first
        assert error.code == "X0531" and "contract = 2" in error.help
    entry["options"] = {"contract": 2}
    async with Host(config_from_mapping({"extensions": [entry]})) as host:
        # The names of its tools do not begin with its id in this host, so they get a prefix.
        assert list(host.tools) == ["ext_m_marks_count", "ext_m_ext_marks_slow"]
        assert (await host.call_tool("marks_count", {"text": "!!"})).data == 2


def test_the_contract_follows_the_manifest() -> None:
    for name in ("tide", "marks"):
        (spec,) = find_specs(name)
        assert find.find_dialect_of(spec) is second_contract.DIALECT
    assert find.find_dialect("nexo") is dialect.DIALECT


def find_specs(name: str) -> Any:
    return configfile.find_extensions(config(plugin=name)).specs


@shows("nexo-second-15")
def test_environment_variables_set_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXO_PLUGIN_INIT_TIMEOUT_MS", "1500")
    monkeypatch.setenv("NEXO_PLUGIN_TOOL_TIMEOUT_MS", "700")
    (spec,) = find_specs("tide")
    assert (spec.limits.handshake, spec.limits.call) == (1.5, 0.7)
    monkeypatch.setenv("NEXO_PLUGIN_INIT_TIMEOUT_MS", "soon")
    overrides = {"tide": {"limits": {"call": "9s"}}}
    (spec,) = configfile.find_extensions(config(overrides=overrides)).specs
    assert (spec.limits.handshake, spec.limits.call) == (None, 9)


# -- exits and restarts -----------------------------------------------------------------------


@shows("nexo-second-14")
async def test_exit_0_is_not_a_crash_and_the_next_call_starts_the_plugin() -> None:
    async with Host(config()) as host:
        assert isinstance(await error_of(host.call_tool("tide_exit", {"status": 0})), ExtensionGone)
        ext = host["tide"]
        assert (ext.state, ext.stats.crashes, ext.health) == ("admitted", 0, "idle")
        assert (await host.call_tool("tide_next", {"port": "Brest"})).text.startswith("high")


@shows("nexo-second-14")
async def test_a_crash_is_not_followed_by_a_restart() -> None:
    async with Host(config()) as host:
        assert isinstance(await error_of(host.call_tool("tide_exit", {"status": 3})), ExtensionGone)
        assert host["tide"].state == "failed" and host["tide"].stats.crashes == 1


@needs_node
@shows("nexo-second-14")
async def test_a_manifest_may_ask_for_restarts() -> None:
    async with Host(config(plugin="marks")) as host:
        await error_of(host.call_tool("marks_count", {"crash": True}))
        assert host["marks"].state == "backoff"
        assert (await host.call_tool("marks_count", {"text": "!"})).data == 1
        (spec,) = find_specs("marks")
        assert (spec.restart.max_retries, spec.restart.initial_delay) == (2, 0.1)


@shows("nexo-second-14")
async def test_a_plugin_is_ended_by_a_shutdown_request(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[LogLine] = []
    exits: list[Exited] = []
    caplog.set_level(logging.DEBUG, "exthost")
    async with Host(config()) as host:
        host.events.subscribe(LogLine, lines.append)
        host.events.subscribe(Exited, exits.append)
    assert any(line.text.startswith("shutdown: ") for line in lines)
    assert [event.status for event in exits] == ["exited with 0"]
