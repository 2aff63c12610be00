"""Tests of MCP servers on the command line and in a host: detection, inspection, calls, configs.

Most of them run `mcp_child.py`, an MCP server that follows the commands of a test; `command(…)`
returns its command line.
"""

import json
import sys
from pathlib import Path
from typing import Any

import exthost
from exthost.config import config_from_mapping
from exthost.errors import Refused
from tests.dialects.requirements import shows
from tests.dialects.test_mcp import command, read_text_block
from tests.extensions.harness import error_of, wait_until
from tests.extensions.nexo_tree import write_plugin
from tests.faces.cli.cli_process import run_inside as run

EXAMPLES = Path(__file__).parents[3] / "examples"

# A server that answers the first request (`server/discover`) with an error and 150 lines on stderr,
# and whose tool fails.
WORDY_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"error": {"code": -32602, "message": "what?"}}
    if message["method"] == "server/discover":
        sys.stderr.write("".join(f"invalid field {n}\\n" for n in range(150)))
        sys.stderr.flush()
    elif message["method"] == "initialize":
        reply = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "wordy", "version": "1"}}}
    elif message["method"] == "tools/list":
        reply = {"result": {"tools": [{"name": "fail", "inputSchema": {"type": "object"}}]}}
    elif message["method"] == "tools/call":
        content = [{"type": "text", "text": "no luck"}]
        reply = {"result": {"content": content, "isError": True}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"""


@shows("mcp-real-03")
def test_the_dialect_of_a_command_is_detected_and_each_attempt_is_reported() -> None:
    weather = EXAMPLES / "nexo" / "extensions" / "weather" / "weather.py"
    result = run("inspect", "--json", "--", sys.executable, "-S", "-E", str(weather))
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["dialect"] == "nexo"
    tried = {item["dialect"]: item["answer"] for item in report["tried"]}
    assert next(iter(tried)) == "mcp" and "has no protocolVersion" in tried["mcp"]
    assert "morphir" in tried and "nexo" not in tried


@shows("mcp-real-03")
def test_an_mcp_server_is_detected_by_the_first_attempt() -> None:
    result = run("inspect", "--", *command({"era": "stateless"}))
    assert result.returncode == 0, result.stderr
    assert "dialect: mcp (detected" in result.stderr and "tried" not in result.stderr
    assert "era: stateless" in result.stderr and "echo" in result.stdout
    result = run("tools", "--start", "--json", "--", *command({}))
    assert "typed" in {tool["tool"] for tool in json.loads(result.stdout)["tools"]}


def test_the_capabilities_of_a_server_are_shown_as_json() -> None:
    result = run("inspect", "--dialect", "mcp", "--", *command({"era": "handshake"}))
    assert result.returncode == 0, result.stderr
    assert 'tools={"listChanged": true}' in result.stderr and "{'" not in result.stderr


@shows("mcp-progress-01")
def test_progress_goes_to_stderr_and_the_result_to_stdout() -> None:
    arguments = ("call", "steps", "times=2", "seconds=0", "--dialect", "mcp", "--", *command({}))
    result = run(*arguments)
    assert result.returncode == 0 and json.loads(result.stdout)["content"][0]["text"] == "done"
    assert "steps: 1 of 2 step 1" in result.stderr and "steps: 2 of 2 step 2" in result.stderr


def test_a_result_with_is_error_exits_with_1() -> None:
    arguments = ("--args", '{"isError": true}', "--dialect", "mcp")
    result = run("call", "typed", *arguments, "--", *command({}))
    assert result.returncode == 1 and json.loads(result.stdout)["isError"] is True
    assert "error[X0702]: " in result.stderr and "typed failed: typed" in result.stderr
    assert "help: " in result.stderr
    text = run("call", "typed", "--text", *arguments, "--", *command({}))
    assert (text.returncode, text.stdout) == (1, "typed\n")
    assert "error[X0702]: " in text.stderr
    quiet = run("call", "typed", "--json", *arguments, "--", *command({}))
    assert quiet.returncode == 1 and json.loads(quiet.stdout)["isError"] is True
    assert "error[" not in quiet.stderr


def test_the_error_of_a_result_comes_after_the_output_of_the_server_without_repeating_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "wordy.py").write_text(WORDY_SERVER)
    program = (sys.executable, "-S", "-E", str(tmp_path / "wordy.py"))
    result = run("call", "fail", "--dialect", "mcp", "--", *program)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    error = lines.index("error[X0702]: wordy: fail failed: no luck")
    assert lines[:error] == [f"[wordy] invalid field {n}" for n in range(150)]
    assert not any("invalid field" in line for line in lines[error:])
    config = tmp_path / "exthost.toml"
    args = json.dumps(list(program[1:]))
    config.write_text(f"[mcp_servers.wordy]\ncommand = {json.dumps(program[0])}\nargs = {args}\n")
    result = run("call", "ext_wordy_fail", "--config", str(config))
    assert result.returncode == 1
    assert not any(
        line.startswith("[") for line in result.stderr.partition("error[X0702]")[2].splitlines()
    )


@shows("mcp-config-01", "mcp-config-03")
async def test_servers_of_config_and_manifest_run_in_one_registry(tmp_path: Path) -> None:
    program, *args = command({})
    servers = {
        "near": {"command": program, "args": args},
        "far": {"url": "https://example.org/mcp", "transport": "pigeon"},
    }
    manifest_servers: dict[str, Any] = {"mcpServers": {"files": {"command": program, "args": args}}}
    write_plugin(tmp_path / "a", "a", tools=["lookup"])
    (tmp_path / "a" / ".mcp.json").write_text(json.dumps(manifest_servers))
    config = {"discovery": {"search_paths": [str(tmp_path)]}, "mcp_servers": servers}
    async with exthost.Host(config_from_mapping(config)) as host:
        assert list(host) == ["near", "far", "a", "a.files"]
        assert read_text_block(await host.call_tool("ext_near_echo", {"a": 1})) == {"a": 1}
        assert read_text_block(await host.call_tool("ext_a_files_echo", {"b": 2})) == {"b": 2}
        assert host["a.files"].state == "ready" and host["a.files"].dialect.name == "mcp"
        error = await error_of(host["far"].start())
        assert isinstance(error, Refused) and "'pigeon' is not supported" in error.message
        before = len(host.tools)
        await host.call_tool("ext_near_change", {"add": ["more"]})
        await wait_until(lambda: "ext_near_more" in host.tools)
        assert len(host.tools) == before + 1
