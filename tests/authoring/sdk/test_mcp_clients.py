"""MCP servers that are written with the SDK work with the official client, and their results fit
its types.

SAMPLE and WAITING are test programs of the SDK. In the newest revision of MCP, each request has an
envelope, `_meta`, with the version and the client. In older ones, a session begins with
`initialize`.
"""

import json
from typing import Any

import mcp
import mcp_types
import mcp_types._v2026_07_28 as stateless
import pytest

from tests.authoring.sdk.programs import LONG_SECONDS, SAMPLE, WAITING, command, running_process

PREFIX = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientCapabilities": {},
    f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
}


def exchange(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    """Send these requests to a new server, and return the replies in the same order."""
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, **request}) + "\n"
        for number, request in enumerate(requests)
    ]
    with running_process(SAMPLE, "mcp") as process:
        output, _ = process.communicate("".join(lines).encode(), timeout=LONG_SECONDS)
    replies = {
        reply["id"]: reply for line in output.splitlines() if "id" in (reply := json.loads(line))
    }
    return [replies[number] for number in range(len(requests))]


async def test_the_official_client_can_use_a_server_of_the_sdk() -> None:
    program, *args = command(SAMPLE, "mcp")
    server = mcp.StdioServerParameters(command=program, args=args)
    async with mcp.stdio_client(server) as pipes, mcp.ClientSession(*pipes) as session:
        initialize_result = await session.initialize()
        assert (
            initialize_result.server_info.name == "sample"
            and initialize_result.instructions == "Adds and counts"
        )
        tool_list = await session.list_tools()
        assert [tool.name for tool in tool_list.tools] == ["add", "work", "count"]
        result = await session.call_tool("add", {"a": 1, "b": 2})
        assert result.structured_content == {"result": 3} and not result.is_error
        error_result = await session.call_tool("add", {"a": "x", "b": 2})
        assert error_result.is_error


async def test_a_handler_can_send_a_request_to_the_client() -> None:
    async def elicit(context: Any, params: Any) -> Any:
        return mcp_types.ElicitResult(action="accept", content={"asked": params.message})

    program, *args = command(WAITING, "mcp")
    server = mcp.StdioServerParameters(command=program, args=args)
    async with (
        mcp.stdio_client(server) as pipes,
        mcp.ClientSession(*pipes, elicitation_callback=elicit) as session,
    ):
        await session.initialize()
        elicitation = {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}
        for tool in ("ask", "ask_async"):
            params = {"method": "elicitation/create", "params": elicitation}
            result = await session.call_tool(tool, params)
            assert result.structured_content == {"action": "accept", "content": {"asked": "sure?"}}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_revision_with_a_handshake_is_supported(version: str) -> None:
    [reply] = exchange({"method": "initialize", "params": {"protocolVersion": version}})
    assert reply["result"]["protocolVersion"] == version


def test_an_unknown_revision_is_answered_with_the_newest() -> None:
    [reply] = exchange({"method": "initialize", "params": {"protocolVersion": "1999-01-01"}})
    assert reply["result"]["protocolVersion"] == "2025-11-25"


def test_stateless_results_fit_the_types_of_the_revision() -> None:
    meta = {"_meta": ENVELOPE}
    call = {"name": "add", "arguments": {"a": 1, "b": 2}, **meta}
    discovered, tool_list, called, failed = exchange(
        {"method": "server/discover", "params": meta},
        {"method": "tools/list", "params": meta},
        {"method": "tools/call", "params": call},
        {"method": "tools/call", "params": {**call, "arguments": {}}},
    )
    discover_result = stateless.DiscoverResult.model_validate(discovered["result"])
    assert discover_result.supported_versions[0] == "2026-07-28"
    tools = stateless.ListToolsResult.model_validate(tool_list["result"])
    assert [tool.name for tool in tools.tools] == ["add", "work", "count"]
    result = stateless.CallToolResult.model_validate(called["result"])
    assert result.structured_content == {"result": 3} and result.result_type == "complete"
    assert stateless.CallToolResult.model_validate(failed["result"]).is_error


def test_all_requests_of_a_batch_are_answered() -> None:
    calls = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": "add", "arguments": {"a": number, "b": 1}},
        }
        for number in range(3)
    ]
    with running_process(SAMPLE, "mcp") as process:
        output, _ = process.communicate(json.dumps(calls).encode(), timeout=LONG_SECONDS)
    replies = [json.loads(line) for line in output.splitlines()]
    assert [reply["result"]["structuredContent"]["result"] for reply in replies] == [1, 2, 3]


def test_an_unknown_request_state_is_refused() -> None:
    params = {"name": "work", "arguments": {"steps": 1}, "requestState": "?", "_meta": ENVELOPE}
    [reply] = exchange({"method": "tools/call", "params": params})
    assert reply["error"]["code"] == -32602


def test_invalid_envelopes_are_refused() -> None:
    other_version = {**ENVELOPE, f"{PREFIX}protocolVersion": "2031-01-01"}
    incomplete_envelope = {f"{PREFIX}protocolVersion": "2026-07-28"}
    without_envelope, with_other_version, with_incomplete_envelope = exchange(
        {"method": "server/discover", "params": {}},
        {"method": "server/discover", "params": {"_meta": other_version}},
        {
            "method": "tools/call",
            "params": {"name": "add", "arguments": {}, "_meta": incomplete_envelope},
        },
    )
    assert without_envelope["error"]["code"] == -32601
    assert with_other_version["error"]["code"] == mcp_types.UNSUPPORTED_PROTOCOL_VERSION
    assert "2026-07-28" in with_other_version["error"]["data"]["supported"]
    assert with_incomplete_envelope["error"]["code"] == -32602
