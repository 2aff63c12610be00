"""Tests of the gateway in search mode (`gateway.mode = "search"`), for configs with many tools.

The gateway, an MCP server in front of extensions, then lists only two tools: `search_tools` finds
tools of extensions, and `call_tool` calls one of them, the inner tool. Rules, hooks, checks and the
audit must see the call as one of the inner tool.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from exthost.events import Bus, CallEnded, RuleApplied
from exthost.faces.gateway.tool_list import ToolList
from exthost.host.model_api.registered_tools import RegisteredTools
from exthost.model.offer import RegisteredTool
from tests.extensions.harness import wait_until
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.six_dialects import TOOLS, document
from tests.extensions.synaps_tree import write_plugin
from tests.faces.gateway.gateway_process import (
    ERAS,
    ROOT,
    extension,
    open_gateway,
    stdio_client,
    write_config,
)
from tests.faces.gateway.test_gateway import ChangeHandler, tool_changes

SEARCH = {"gateway": {"mode": "search"}}
in_both_eras = pytest.mark.parametrize("era", ERAS)


def agent(behaviour: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the entry of a nexo extension with tools such as `echo`, `env` and `die`."""
    return extension("agent", "nexo", "-S", "-E", str(NEXO), json.dumps(behaviour or {}), **more)


def client_of(gateway: Any, era: str = "handshake") -> Client:
    return Client(gateway.server, mode=ERAS[era], cache=None)


def text(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


async def search(client: Client, query: str, **more: Any) -> list[str]:
    """Call `search_tools`; return the names that it finds."""
    result = await client.call_tool("search_tools", {"query": query, **more})
    assert not result.is_error and result.structured_content is not None
    return [tool["name"] for tool in result.structured_content["tools"]]


@pytest.mark.more
@in_both_eras
async def test_a_real_client_finds_and_calls_a_tool_of_every_dialect(
    tmp_path: Path, era: str
) -> None:
    config = write_config(
        tmp_path,
        document(tmp_path) | SEARCH | {"gateway": {"mode": "search", "first_list": "100s"}},
    )
    async with stdio_client(config, era) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["search_tools", "call_tool"]
        for tool in TOOLS.values():
            name = f"ext_{tool.extension}_{tool.name}"
            assert name in await search(client, f"{tool.extension} {tool.name}")
            arguments = {"name": name, "arguments": tool.arguments}
            result = await client.call_tool("call_tool", arguments)
            assert tool.shown in text(result) and not result.is_error


@in_both_eras
async def test_a_call_is_judged_as_the_inner_tool(era: str) -> None:
    rules = [
        {"tools": "*call_tool*", "do": "deny"},
        {"tools": "ext_agent_env", "when": {"client": "*"}, "do": "deny", "reason": "not env"},
        {"tools": "ext_agent_echo", "do": "allow"},
    ]
    applied: list[RuleApplied] = []
    async with (
        open_gateway(
            {"extensions": [agent(tools={"deny": ["die"]})], "rules": rules, **SEARCH}
        ) as gateway,
        client_of(gateway, era) as client,
    ):
        gateway.host.events.subscribe(RuleApplied, applied.append)
        await search(client, "env")
        denied = await client.call_tool("call_tool", {"name": "ext_agent_env"})
        assert denied.is_error and "not env" in text(denied)
        echoed = {"name": "ext_agent_echo", "arguments": {"a": 1}}
        assert json.loads(text(await client.call_tool("call_tool", echoed))) == {"a": 1}
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool("call_tool", {"name": "ext_agent_die", "arguments": {}})
    assert [(item.tool_name, item.outcome) for item in applied] == [
        ("ext_agent_env", "denied"),
        ("ext_agent_echo", "allowed"),
    ]
    assert applied[0].client, "the name of the client"


@in_both_eras
async def test_guards_audit_and_events_see_the_inner_tool(era: str, tmp_path: Path) -> None:
    stop = {"hooks": {"before_tool_call": {"action": "block", "reason": "guarded"}}}
    hooks = [{"hook": "before_tool_call", "tool": "ext_agent_env"}]
    write_plugin(tmp_path / "plugins" / "guard", stop, hooks=hooks)
    sections = {
        "discovery": {"search_paths": [str(tmp_path / "plugins")]},
        "audit": {"path": str(tmp_path / "audit.jsonl")},
    }
    ended: list[CallEnded] = []
    async with (
        open_gateway({"extensions": [agent()], **SEARCH, **sections}) as gateway,
        client_of(gateway, era) as client,
    ):
        gateway.host.events.subscribe(CallEnded, ended.append)
        blocked = await client.call_tool("call_tool", {"name": "ext_agent_env"})
        assert blocked.is_error and "guarded" in text(blocked)
        echoed = {"name": "ext_agent_echo", "arguments": {"a": 1}}
        assert not (await client.call_tool("call_tool", echoed)).is_error
    assert [item.method for item in ended if item.extension == "agent"] == ["echo"]
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line["method"] for line in lines if line["extension"] == "agent"] == ["echo"]


@in_both_eras
async def test_schema_checks_and_pins_are_those_of_the_inner_tool(era: str) -> None:
    command = ("-S", "-E", str(ROOT / "tests" / "extensions" / "mcp_child.py"))
    document = {"extensions": [extension("server", "mcp", *command)], **SEARCH}
    async with open_gateway(document) as gateway, client_of(gateway, era) as client:
        arguments = {"name": "ext_server_typed", "arguments": {"as": {"sum": "three"}}}
        wrong = await client.call_tool("call_tool", arguments)
        assert wrong.is_error and "X0661" in str(wrong.meta)
        digest = gateway.host["server"].digests["tools"]
    pinned = {"extensions": [extension("server", "mcp", *command, sha256={"tools": digest})]}
    async with open_gateway(pinned | SEARCH) as gateway, client_of(gateway, era) as client:
        change = {"name": "ext_server_change", "arguments": {"add": ["evil"]}}
        await client.call_tool("call_tool", change)
        await wait_until(lambda: gateway.host["server"].state == "refused")
        for name in ("ext_server_evil", "ext_server_echo"):
            refused = await client.call_tool("call_tool", {"name": name, "arguments": {}})
            assert refused.is_error and "X0387" in text(refused)


# An MCP server with a tool that has annotations and a required argument.
ANNOTATED = """
import json, sys
tool = {"name": "wipe", "description": "Wipe a disk", "annotations": {"destructiveHint": True}}
tool["inputSchema"] = {"type": "object", "required": ["disk"]}
server_info = {"name": "disks", "version": "1"}
initialize_result = {
    "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server_info,
}
for line in sys.stdin:
    request = json.loads(line)
    answers = {"initialize": initialize_result, "tools/list": {"tools": [tool]}}
    reply = {"jsonrpc": "2.0", "id": request.get("id"), "result": answers.get(request["method"])}
    if reply["result"] is None:
        del reply["result"]
        reply["error"] = {"code": -32601, "message": "no such method"}
    if "id" in request:
        print(json.dumps(reply), flush=True)
"""


@in_both_eras
async def test_a_search_shows_the_annotations_of_a_tool_and_its_schema_is_checked(era: str) -> None:
    disks = extension("disks", "mcp", "-S", "-E", "-c", ANNOTATED)
    async with (
        open_gateway({"extensions": [disks], **SEARCH}) as gateway,
        client_of(gateway, era) as client,
    ):
        result = await client.call_tool("search_tools", {"query": "wipe a disk"})
        assert result.structured_content is not None
        [tool] = result.structured_content["tools"]
        assert tool["annotations"] == {"destructiveHint": True}
        assert tool["inputSchema"]["required"] == ["disk"]
        wrong = await client.call_tool("call_tool", {"name": "ext_disks_wipe", "arguments": {}})
        assert wrong.is_error and "disk" in text(wrong)
        assert gateway.host["disks"].stats.calls == 0


async def test_a_tool_called_call_tool_is_called_by_its_registered_name() -> None:
    behaviour = {"offer": {"tools": ["call_tool", "search_tools", "echo"]}}
    async with (
        open_gateway({"extensions": [agent(behaviour)], **SEARCH}, plain_names=True) as gateway,
        client_of(gateway) as client,
    ):
        assert await search(client, "call tool")
        for name in ("call_tool", "search_tools"):
            with pytest.raises(MCPError, match="does not call"):
                await client.call_tool("call_tool", {"name": name, "arguments": {"name": "x"}})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_tools", {}),
        ("search_tools", {"query": 3}),
        ("search_tools", {"query": "a", "limit": 0}),
        ("call_tool", {}),
        ("call_tool", {"name": "x", "arguments": [1]}),
    ],
)
async def test_wrong_arguments_are_errors(name: str, arguments: Any) -> None:
    async with (
        open_gateway({"extensions": [agent()], **SEARCH}) as gateway,
        client_of(gateway) as client,
    ):
        with pytest.raises(MCPError):
            await client.call_tool(name, arguments)


async def test_the_instructions_have_one_line_for_each_extension(tmp_path: Path) -> None:
    gateway_config = {"mode": "search", "first_list": "100s"}
    async with open_gateway(document(tmp_path) | {"gateway": gateway_config}) as gateway:
        await gateway.tools.wait_for_first_list()
        lines = (gateway.instructions or "").splitlines()
    assert len(lines) == 1 + len(TOOLS)
    assert [line.split()[1] for line in lines[1:]] == [
        "text",
        "agent",
        "ci",
        "plugin",
        "server",
        "wire",
    ]


async def test_a_search_returns_annotations_and_schemas_and_few_tools() -> None:
    async with (
        open_gateway({"extensions": [agent()], **SEARCH}) as gateway,
        client_of(gateway) as client,
    ):
        result = await client.call_tool("search_tools", {"query": "agent", "limit": 2})
        assert result.structured_content is not None
        tools = result.structured_content["tools"]
        assert len(tools) == 2 and all("inputSchema" in tool for tool in tools)
        assert json.loads(text(result)) == tools
        nothing = await client.call_tool("search_tools", {"query": "zzz"})
        assert nothing.structured_content == {"tools": []} and "no tool" in text(nothing)


@in_both_eras
async def test_a_client_is_notified_of_changes_of_the_inner_tools(era: str) -> None:
    handler = ChangeHandler()
    async with (
        open_gateway({"extensions": [agent()], **SEARCH}) as gateway,
        Client(gateway.server, mode=ERAS[era], cache=None, message_handler=handler) as client,
        tool_changes(client, era, handler) as next_change,
    ):
        assert await search(client, "echo")
        await gateway.host.unload("agent")
        await next_change()
        assert await search(client, "echo") == []
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["search_tools", "call_tool"]


async def test_a_tool_that_is_not_offered_takes_no_place_of_another() -> None:
    class Stub:
        """A host with a tool that only a task can call, and one that fits the words less."""

        events = Bus()
        tools = RegisteredTools(
            {
                f"ext_a_{name}": RegisteredTool(
                    name=f"ext_a_{name}", tool=name, extension="a", description=text, extra=extra
                )
                for name, text, extra in (
                    ("forecast", "weather forecast", {"execution": {"taskSupport": "required"}}),
                    ("maps", "maps of the weather in all countries", {}),
                )
            }
        )

        def __getitem__(self, _: str) -> Any:
            return SimpleNamespace(dialect=SimpleNamespace(name="mcp"))

    host: Any = Stub()
    tools = ToolList(host)
    assert list(host.tools.search("weather forecast", 1)) == ["ext_a_forecast"]
    found = tools.search_tools("weather forecast", 1, "2025-11-25")
    assert [tool["name"] for tool in found] == ["ext_a_maps"]
