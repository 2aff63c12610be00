"""The limit of results (`limits.result = "1KB"`): a model reads a part of a long result.

The gateway (an MCP server in front of the extensions) cuts the text, and names a URI under which
the client can read the whole result as a resource, for ten minutes.
"""

import json
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

import exthost
from exthost.faces.gateway import whole_results
from exthost.faces.gateway.whole_results import PREFIX, WholeResults
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.faces.gateway.gateway_process import ERAS, ROOT, extension, open_gateway, write_config

MCP = str(ROOT / "tests" / "extensions" / "mcp_child.py")
in_both_eras = pytest.mark.parametrize("era", ERAS)


def texts(result: types.CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, types.TextContent)]


def find_uri(text: str) -> str:
    """Return the URI of the whole result, which a text that was cut contains."""
    return PREFIX + text.partition(PREFIX)[2].split()[0]


@in_both_eras
@pytest.mark.parametrize("dialect", ["mcp", "nexo"])
async def test_the_whole_result_can_be_read_as_a_resource(era: str, dialect: str) -> None:
    child = MCP if dialect == "mcp" else str(NEXO)
    entry = extension("e", dialect, "-S", "-E", child, limits={"result": "1KB"})
    async with (
        open_gateway({"extensions": [entry]}) as gateway,
        Client(gateway.server, mode=ERAS[era], cache=None) as client,
    ):
        arguments = {"text": "word " * 1000}
        result = await client.call_tool("ext_e_echo", arguments)
        assert sum(map(len, texts(result))) < 1500 and result.structured_content is None
        uri = find_uri(texts(result)[0])
        [content] = (await client.read_resource(uri)).contents
        assert isinstance(content, types.TextResourceContents)
        whole = json.loads(content.text)
        assert arguments in (whole, whole.get("structuredContent"))
        short = await client.call_tool("ext_e_echo", {"text": "short"})
        assert PREFIX not in texts(short)[0]
        with pytest.raises(MCPError):
            await client.read_resource(f"{PREFIX}other")


async def test_only_search_mode_has_a_limit_by_default() -> None:
    entry = extension("e", "nexo", "-S", "-E", str(NEXO))
    arguments = {"text": "x" * 200_000}
    for mode, is_cut in (("list", False), ("search", True)):
        async with (
            open_gateway({"extensions": [entry], "gateway": {"mode": mode}}) as gateway,
            Client(gateway.server, mode=ERAS["handshake"], cache=None) as client,
        ):
            result = await client.call_tool("ext_e_echo", arguments)
            assert (sum(map(len, texts(result))) < 101_000) is is_cut


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def test_results_are_forgotten_after_ten_minutes_and_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    kept = WholeResults(lambda: now)

    def keep(text: str) -> str:
        """Cut a result with this text to 1000 characters; return the URI of the whole."""
        return find_uri(kept.limit(text_result(text), 1000)["content"][0]["text"])

    first = keep("x" * 5000)
    now = 599.0
    assert kept.read(first) == {
        "contents": [{"uri": first, "mimeType": "text/plain", "text": "x" * 5000}]
    }
    now = 600.5
    assert kept.read(first) is None
    monkeypatch.setattr(whole_results, "_MAX_CHARS", 12_000)
    uris = [keep(letter * 5000) for letter in "abc"]  # the oldest of them does not fit
    assert [kept.read(uri) is not None for uri in uris] == [False, True, True]
    large = kept.limit(text_result("y" * 20_000), 1000)
    assert PREFIX not in large["content"][0]["text"] and "too large" in large["content"][0]["text"]
    monkeypatch.setattr(whole_results, "_MAX_RESULTS", 1)
    kept.limit(text_result("z" * 5000), 1000)
    assert [kept.read(uri) for uri in uris] == [None] * 3


def test_images_stay_and_resources_with_text_are_cut() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    resource = {"type": "resource", "resource": {"uri": "file:///x", "text": "t" * 9000}}
    result = {"content": [image, resource, {"odd": 1}], "isError": True}
    limited = WholeResults().limit(result, 1000)
    assert limited["content"][0] == image and limited["content"][2] == {"odd": 1}
    assert limited["content"][1]["type"] == "text" and limited["isError"] is True
    assert len(limited["content"][1]["text"]) <= 1000


async def test_programs_get_the_limited_text_and_the_whole_as_raw(tmp_path: Any) -> None:
    entry = extension("e", "nexo", "-S", "-E", str(NEXO), limits={"result": "1KB"})
    config = write_config(tmp_path, {"extensions": [entry]})
    arguments = {"text": "word " * 1000}
    async with (
        exthost.Host.from_config(config, control=True) as host,
        exthost.attach(config) as attached,
    ):
        for caller in (host, attached):
            result = await caller.call_tool("ext_e_echo", arguments)
            assert len(result.text) <= 1000 and result.raw == arguments and result.data is None
        response = [{"type": "tool_use", "id": "1", "name": "ext_e_echo", "input": arguments}]
        [message] = await host.run_calls(response)
        assert len(message["content"][0]["content"]) <= 1000
