"""Tests of the echo extensions that the benchmarks call.

There is one in C and one in Python, for machines without a C compiler. An option chooses the
dialect (protocol): morphir without an option, `--mcp` or `--nexo`. Both must give the same answers.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import children

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
ARGUMENTS = {"text": "x"}


def send_requests(argv: tuple[str, ...], requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run an extension with these requests on its stdin; return its replies."""
    lines = "".join(json.dumps(request, separators=(",", ":")) + "\n" for request in requests)
    result = subprocess.run(
        argv, input=lines, stdout=subprocess.PIPE, text=True, timeout=120, check=True
    )
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module", params=["C", "Python"])
def child(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The command of the echo extension, in C and in Python."""
    folder: Path = tmp_path_factory.mktemp("echo")
    argv, _ = children.build(folder, compiled=request.param == "C")
    if request.param == "C" and not children.is_c(argv):
        pytest.skip("needs a C compiler")
    return argv


def test_a_morphir_child_has_a_schema_with_the_schema_option(child: tuple[str, ...]) -> None:
    requests = [
        {"id": 1, "method": "capabilities", "params": None},
        {"id": 2, "method": "echo", "params": ARGUMENTS},
    ]
    without_schema = send_requests(child, requests)
    with_schema = send_requests((*child, "--schema"), requests)
    assert "params_schema" not in without_schema[0]["result"][0]
    assert with_schema[0]["result"][0]["params_schema"]["required"] == ["text"]
    assert without_schema[1] == with_schema[1] == {"id": 2, "result": ARGUMENTS}


def test_an_mcp_child_lists_its_tool_and_echoes(child: tuple[str, ...]) -> None:
    requests: list[dict[str, Any]] = [
        INITIALIZE,
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
    initialized, tool_list, called, unknown = send_requests((*child, "--mcp"), requests)
    assert initialized["result"]["capabilities"] == {"tools": {}}
    [tool] = tool_list["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("echo", ["text"])
    assert called["result"] == {"content": [{"type": "text", "text": "x"}]}
    assert (unknown["id"], unknown["error"]["code"]) == (3, -32601)


def test_a_nexo_child_echoes_and_offers_two_hooks(
    child: tuple[str, ...],
) -> None:
    event = {"tool_name": "echo", "extension_id": "x", "arguments": ARGUMENTS}
    hook_request = {"jsonrpc": "2.0", "method": "hooks/before_tool_call", "params": event, "id": 7}
    params = {"name": "echo", "arguments": {"text": "x"}}
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": params, "id": 8}
    initialized, hook_reply, called = send_requests(
        (*child, "--nexo"), [INITIALIZE, hook_request, call]
    )
    assert initialized["result"]["hooks"] == ["before_tool_call", "after_tool_call"]
    assert initialized["result"]["tools"][0]["input_schema"]["required"] == ["text"]
    assert called["result"] == {"content": [{"type": "text", "text": "x"}]}
    assert hook_reply == {"jsonrpc": "2.0", "id": 7, "result": None}
