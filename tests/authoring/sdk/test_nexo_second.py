"""An extension that is written with the SDK, in the second version of the protocol of nexo.

nexo calls a version of its protocol a contract. In the second one, names of tools begin with the
id of the extension (`tides_port`), an extension has a manifest, and hooks can stop an action of the
host.
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from exthost_sdk.endpoints import nexo_second

from exthost.config import Config, config_from_mapping
from exthost.dialects.meanings import Progress
from exthost.errors import CallFailed
from exthost.host.host import Host
from exthost.sdk import Block, Context, Extension, HookEvent, ToolError, testing
from tests.authoring.sdk.programs import LONG_SECONDS, SAMPLE
from tests.extensions.harness import error_of


def write_sample_with_manifest(folder: Path) -> Config:
    """Write the sample program and its manifest into a folder, and return a config that finds
    it."""
    command = [sys.executable, str(SAMPLE), "--print-manifest"]
    result = subprocess.run(command, capture_output=True, check=True, timeout=LONG_SECONDS)
    (folder / "sample").mkdir()
    (folder / "sample" / "plugin.toml").write_bytes(result.stdout)
    (folder / "sample" / SAMPLE.name).write_bytes(SAMPLE.read_bytes())
    overrides = {"sample": {"env": {"PYTHONPATH": ":".join(filter(None, sys.path))}}}
    discovery = {"search_paths": [str(folder)]}
    return config_from_mapping({"discovery": discovery, "overrides": overrides})


async def test_the_program_prints_its_manifest_and_runs_with_it(tmp_path: Path) -> None:
    config = await asyncio.to_thread(write_sample_with_manifest, tmp_path)
    async with Host(config) as host:
        assert [*host.tools] == ["sample_add", "sample_work", "sample_count"]
        assert (await host.call_tool("sample_add", {"a": 1, "b": 2})).data == 3
        assert (await host.call_tool("sample_count", {"to": 3})).data == [1, 2, 3]
        progress_events: list[Progress] = []
        await host.call_tool("sample_work", {"steps": 1}, on_progress=progress_events.append)
        assert [progress.message for progress in progress_events] == ["step 1"]
        assert host["sample"].stats.crashes == 0


async def test_config_and_context_reach_handlers_and_their_errors_reach_the_host() -> None:
    ext = Extension("tides", version="2.0.0")

    @ext.tool
    def port(ctx: Context) -> list[Any]:
        """The port, and who calls."""
        return [ctx.config, ctx.meta["agent_id"]]

    @ext.tool
    def fail(how: str) -> None:
        """Fail."""
        raise ToolError("no gauge", code=-33404) if how == "unavailable" else ValueError(how)

    @ext.hook("before_tool_call")
    def block_in_a_storm(event: HookEvent) -> Block | None:
        return Block("a storm") if "storm" in str(event.arguments) else None

    settings: Any = {"options": {"contract": 2}, "config": {"name": "Brest"}}
    async with testing.connect(ext, dialect="nexo", **settings) as client:
        result = await client.call_tool("tides_port", context={"agent_id": "a1"})
        assert result.data == [{"name": "Brest"}, "a1"]
        # The codes of the contract: an error of the tool's choice, any other exception, invalid
        # arguments, and an unknown tool.
        for how, code in (("unavailable", -33404), ("odd", -33403)):
            error = await error_of(client.call_tool("tides_fail", {"how": how}))
            assert isinstance(error, CallFailed) and error.error_code == code
        error = await error_of(client.call("tool.invoke", {"tool_name": "tides_fail", "args": {}}))
        assert isinstance(error, CallFailed) and error.error_code == -33402
        error = await error_of(client.call("tool.invoke", {"tool_name": "fail"}))
        assert isinstance(error, CallFailed) and error.error_code == -33401
        answer = await client.run_hook("before_tool_call", {"arguments": {"a": "storm"}})
        assert answer.abort and answer.reason == "a storm"
        assert not (await client.run_hook("before_tool_call", {"arguments": {}})).abort


@pytest.mark.parametrize(
    ("name", "id"), [("text-tools", "text_tools"), ("Text", "text"), ("9lives", "p9lives")]
)
def test_an_id_has_the_characters_of_the_contract(name: str, id: str) -> None:
    assert nexo_second.plugin_id(name) == id
    assert nexo_second.tool_name(id, "go") == f"{id}_go"
    assert nexo_second.tool_name(id, f"{id}_go") == f"{id}_go"
    assert nexo_second.tool_name(id, f"ext_{id}_go") == f"ext_{id}_go"
