"""The echo child in C and its Python twin answer alike, in each of their modes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import children

HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
ARGUMENTS = {"text": "x"}


def replies(argv: tuple[str, ...], requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(request, separators=(",", ":")) + "\n" for request in requests)
    ended = subprocess.run(
        argv, input=lines, stdout=subprocess.PIPE, text=True, timeout=120, check=True
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module", params=["C", "Python"])
def child(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("echo")
    argv, _ = children.build(folder, compiled=request.param == "C")
    if request.param == "C" and not children.is_c(argv):
        pytest.skip("needs a C compiler")
    return argv


def test_a_morphir_child_has_a_schema_when_it_is_asked_for(child: tuple[str, ...]) -> None:
    requests = [
        {"id": 1, "method": "capabilities", "params": None},
        {"id": 2, "method": "echo", "params": ARGUMENTS},
    ]
    plain, checked = (replies((*child, *mode), requests) for mode in ((), ("--schema",)))
    assert "params_schema" not in plain[0]["result"][0]
    assert checked[0]["result"][0]["params_schema"]["required"] == ["text"]
    assert plain[1] == checked[1] == {"id": 2, "result": ARGUMENTS}


def test_an_mcp_child_greets_lists_its_tool_and_echoes(child: tuple[str, ...]) -> None:
    requests: list[dict[str, Any]] = [
        HELLO,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": ARGUMENTS},
        },
        {"jsonrpc": "2.0", "id": 3, "method": "resources/list", "params": {}},
    ]
    hello, listed, called, unknown = replies((*child, "--mcp"), requests)
    assert hello["result"]["capabilities"] == {"tools": {}}
    [tool] = listed["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("echo", ["text"])
    assert called["result"] == {"content": [{"type": "text", "text": "x"}]}
    assert (unknown["id"], unknown["error"]["code"]) == (3, -32601)


def test_a_nexo_child_echoes_offers_two_hooks_and_has_nothing_to_say(
    child: tuple[str, ...],
) -> None:
    event = {"tool_name": "echo", "extension_id": "x", "arguments": ARGUMENTS}
    asked = {"jsonrpc": "2.0", "method": "hooks/before_tool_call", "params": event, "id": 7}
    params = {"name": "echo", "arguments": {"text": "x"}}
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": params, "id": 8}
    hello, answer, called = replies((*child, "--nexo"), [HELLO, asked, call])
    assert hello["result"]["hooks"] == ["before_tool_call", "after_tool_call"]
    assert hello["result"]["tools"][0]["input_schema"]["required"] == ["text"]
    assert called["result"] == {"content": [{"type": "text", "text": "x"}]}
    assert answer == {"jsonrpc": "2.0", "id": 7, "result": None}
