"""A tool that the config hides exists nowhere; a renamed one is called under its new name.

    tools = { allow = ["get_*"], deny = ["d*"], rename = { echo = "chosen" } }

The operator writes this in the entry of an extension. The tests check every way to list and call
tools: Python, `attach` (the control socket), the command line and the gateway (an MCP server with
the tools of all extensions).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

import exthost
from exthost.errors import NotFound
from tests.extensions.harness import error_of
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.nexo_tree import write_plugin as nexo_plugin
from tests.extensions.six_dialects import TOOLS, document
from tests.faces.cli.cli_process import run_inside
from tests.faces.gateway.gateway_process import extension, open_gateway, write_config

# For each dialect, a setting that hides all tools but one, which it renames.
RENAMED = {
    dialect: {"tools": {"allow": [tool.name], "rename": {tool.name: "chosen"}}}
    for dialect, tool in TOOLS.items()
}


async def test_each_dialect_calls_a_renamed_tool_by_its_own_name_and_hides_the_others(
    tmp_path: Path,
) -> None:
    config = write_config(tmp_path, document(tmp_path, **RENAMED))
    async with (
        exthost.Host.from_config(config, control=True) as host,
        exthost.attach(config) as attached,
    ):
        expected = {f"ext_{tool.extension}_chosen" for tool in TOOLS.values()}
        assert set(host.tools) == set(attached.tools) == expected
        for tool in TOOLS.values():
            name = f"ext_{tool.extension}_chosen"
            assert tool.shown in (await host.call_tool(name, tool.arguments)).text
            assert tool.shown in (await attached.call_tool(name, tool.arguments)).text
            assert list(host[tool.extension].tools) == ["chosen"]
            old_name = f"ext_{tool.extension}_{tool.name}"
            for call in (
                host.call_tool(old_name, tool.arguments),
                host.call_tool(f"{tool.extension}:{tool.name}", tool.arguments),
                host[tool.extension].call_tool(tool.name, tool.arguments),
                attached.call_tool(old_name, {}),
            ):
                assert isinstance(await error_of(call), NotFound)


def agent(**settings: Any) -> dict[str, Any]:
    """Return the config entry of an extension with the tools `echo`, `env`, `die` and others."""
    return extension("agent", "nexo", "-S", "-E", str(NEXO), **settings)


FITS_NO_TOOL = "X1840"  # the code of the warning about a pattern


def test_exthost_tools_lists_hidden_tools_with_their_reasons_only_with_all(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"extensions": [agent(tools={"deny": ["d*"]})]})
    shown = run_inside("tools", "--start", "--json", "--config", config)
    assert "ext_agent_die" not in shown.stdout and "hidden" not in json.loads(shown.stdout)
    with_hidden = run_inside("tools", "--start", "--all", "--json", "--config", config)
    [hidden] = json.loads(with_hidden.stdout)["hidden"]
    assert (hidden["tool"], hidden["extension"]) == ("die", "agent")
    assert hidden["reason"] == "tools.deny has 'd*'"
    table = run_inside("tools", "--start", "--all", "--config", config)
    assert "tools.deny has 'd*'" in table.stdout and table.returncode == 0


async def test_a_denied_tool_does_not_exist_for_models_and_clients_of_the_gateway() -> None:
    denied = "ext_agent_die"
    document = {"extensions": [agent(tools={"deny": ["die"]})]}
    async with (
        open_gateway(document) as gateway,
        Client(gateway.server, mode="legacy", cache=None) as client,
    ):
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert "ext_agent_echo" in listed and denied not in listed
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool(denied, {})
        tools = gateway.host.tools
        for form in (tools.as_openai(), tools.as_anthropic(), tools.as_mcp(), tools.search("die")):
            assert denied not in json.dumps(form, default=str)
        use = {"type": "tool_use", "id": "1", "name": denied, "input": {}}
        [answer] = await gateway.host.run_calls([use])
        assert answer["content"][0]["is_error"] and "no tool" in str(answer)
        assert gateway.host["agent"].stats.crashes == 0


def test_a_denied_tool_cannot_be_called_from_the_command_line(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"extensions": [agent(tools={"deny": ["d*"]})]})
    for arguments in (["ext_agent_die"], ["agent", "die"]):
        run = run_inside("call", *arguments, "code=3", "--config", config)
        assert run.returncode == 2 and "die" in run.stderr


def test_doctor_warns_about_a_pattern_that_fits_no_tool(tmp_path: Path) -> None:
    tools = {"deny": ["nothing_*"], "allow": ["echo"]}
    config = write_config(tmp_path, {"extensions": [agent(tools=tools)]})
    run = run_inside("doctor", "--runtime", "--json", "--config", config)
    findings = json.loads(run.stdout)["findings"]
    assert [item["message"] for item in findings if item["code"] == FITS_NO_TOOL] == [
        "tools.deny has 'nothing_*', which fits none of its tools"
    ]


@pytest.mark.parametrize("verb", ["validate", "doctor"])
def test_tools_of_a_manifest_are_compared_without_a_start(tmp_path: Path, verb: str) -> None:
    nexo_plugin(tmp_path / "found" / "clerk", "clerk", tools=["echo"])
    document = {
        "discovery": {"search_paths": [str(tmp_path / "found")]},
        "overrides": {"clerk": {"tools": {"allow": ["nothing_*"]}}},
    }
    run = run_inside(verb, "--json", "--config", write_config(tmp_path, document))
    assert "nothing_*" in run.stdout and FITS_NO_TOOL in run.stdout
    assert run.returncode == 0


async def test_a_reload_applies_a_changed_choice(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"extensions": [agent()]})
    async with exthost.Host.from_config(config) as host:
        assert "ext_agent_env" in host.tools
        write_config(tmp_path, {"extensions": [agent(tools={"deny": ["env"]})]})
        await host.reload()
        assert "ext_agent_env" not in host.tools and "ext_agent_echo" in host.tools
