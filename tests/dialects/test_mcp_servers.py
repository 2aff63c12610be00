"""MCP servers of other projects from PyPI and npm work with this host.

The MCP of 2026-07-28 is stateless: the host sends `server/discover` first, and each request has the
version in its `_meta`. In earlier versions, a session begins with `initialize`. `@shows` names the
requirements (`requirements.toml` of the dialect mcp) that a test shows.

The Python servers are in the test group. `make node` installs the servers from npm, if npm and its
registry are available. Otherwise their tests are skipped.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.events import Bus, OfferChanged, Progressed
from tests.dialects.requirements import shows
from tests.extensions.harness import wait_until
from tests.faces.cli.cli_process import run_inside as run

BIN = Path(sys.executable).parent
SDK_SERVER = Path(__file__).parents[1] / "extensions" / "mcp_sdk_server.py"
EVERYTHING = Path(sys.prefix, "node", "node_modules", ".bin", "mcp-server-everything")
from_npm = pytest.mark.skipif(
    not EVERYTHING.exists(), reason="no server from npm: `make node` installs it where npm is"
)


def server(name: str, *args: str, **settings: Any) -> Any:
    return exthost.connect([str(BIN / name), *args], dialect="mcp", name=name, **settings)


@pytest.mark.more
@shows("mcp-real-01", "mcp-era-02")
async def test_mcp_server_time_is_stateless_on_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the server may need a long time to start.
    monkeypatch.setattr("exthost.dialects.mcp.handshake.DISCOVERY_SECONDS", 100.0)
    log_file = tmp_path / "heard"
    shell = f'tee "{log_file}" | "{BIN}/mcp-server-time" --local-timezone UTC'
    async with exthost.connect(["sh", "-c", shell], dialect="mcp", name="time") as ext:
        result = await ext.call_tool("get_current_time", {"timezone": "UTC"})
        assert result.data["timezone"] == "UTC"
        await ext.call("tools/list", {})
        unknown_timezone = {"timezone": "Mars/Olympus"}
        error_result = await ext.call_tool("get_current_time", unknown_timezone, check=False)
        assert error_result.is_error is True
    lines = [json.loads(line) for line in log_file.read_text().splitlines()]
    assert [item["method"] for item in lines] == [
        *("server/discover", "tools/list", "tools/call", "tools/list", "tools/call")
    ]
    for item in lines:
        meta = item["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "exthost"


@pytest.mark.more
@shows("mcp-real-01")
async def test_mcp_server_git_shows_the_state_of_a_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)  # noqa: ASYNC221 - 5 ms
    (tmp_path / "new.txt").write_text("new")
    async with server("mcp-server-git", "--repository", str(tmp_path)) as ext:
        result = await ext.call_tool("git_status", {"repo_path": str(tmp_path)})
    assert "new.txt" in result.text


async def confirm(params: Any) -> Any:
    assert params["message"] == "sure?"
    return {"action": "accept", "content": {"yes": True}}


@pytest.mark.more
@shows("mcp-real-01", "mcp-era-04", "mcp-era-05", "mcp-progress-01", "mcp-tools-05")
async def test_a_server_of_the_official_sdk_works_in_the_stateless_era(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # This limit applies only if the host would try the other era next.
    monkeypatch.setattr("exthost.dialects.mcp.handshake.DISCOVERY_SECONDS", 0.01)
    bus = Bus()
    progress: list[Progressed] = []
    changes: list[OfferChanged] = []
    bus.subscribe(Progressed, progress.append)
    bus.subscribe(OfferChanged, changes.append)
    command = [sys.executable, str(SDK_SERVER)]
    handlers = {"elicitation/create": confirm}
    async with exthost.connect(
        command, dialect="mcp", handlers=handlers, events=bus, options={"era": "stateless"}
    ) as ext:
        assert (ext.offer.name, ext.offer.version) == ("sdk-demo", "4.2")
        assert ext.offer.extra["era"] == "stateless"
        added = await ext.call_tool("add", {"a": 1, "b": 2})
        assert added.data == {"result": 3}
        await ext.call_tool("work", {"steps": 3})
        assert [(update.progress, update.message) for update in progress] == [
            (1, "step 1"),
            (2, "step 2"),
            (3, "step 3"),
        ]
        confirmed = await ext.call_tool("confirm")
        assert confirmed.text == "sure: True"
        await ext.call_tool("grow", {"name": "grown"})
        await wait_until(lambda: "grown" in ext.tools)
        assert changes[-1].added == ("grown",)
        assert (await ext.resources.read("demo://greeting"))["contents"][0]["text"] == "hello"
        prompt = await ext.prompts.get("ask", {"topic": "this"})
        assert "What is this?" in json.dumps(prompt)


@pytest.mark.more
@from_npm
@shows("mcp-real-02", "mcp-ask-01", "mcp-resources-01", "mcp-prompts-02")
async def test_server_everything_from_npm_works() -> None:
    async def elicit(params: Any) -> Any:
        return {"action": "decline"}

    async def roots(params: Any) -> Any:
        return {"roots": [{"uri": "file:///somewhere", "name": "here"}]}

    bus = Bus()
    progress: list[Progressed] = []
    bus.subscribe(Progressed, progress.append)
    handlers = {"elicitation/create": elicit, "roots/list": roots}
    command = [str(EVERYTHING)]
    async with exthost.connect(command, dialect="mcp", handlers=handlers, events=bus) as ext:
        assert ext.offer.extra["protocol"] == "2025-11-25"
        assert (await ext.call_tool("echo", {"message": "hi"})).text == "Echo: hi"
        weather = await ext.call_tool("get-structured-content", {"location": "Chicago"})
        assert "temperature" in weather.data
        image = await ext.call_tool("get-tiny-image")
        assert {block.type for block in image.content} == {"text", "image"}
        arguments = {"duration": 0.2, "steps": 2}
        await ext.call_tool("trigger-long-running-operation", arguments)
        assert [update.progress for update in progress] == [1, 2]
        # Listed when the server has requested the roots.
        await wait_until(lambda: "get-roots-list" in ext.tools)
        assert "somewhere" in (await ext.call_tool("get-roots-list")).text
        declined = await ext.call_tool("trigger-elicitation-request")
        assert "decline" in json.dumps(declined.raw)
        assert len(await ext.resources.list()) > 3 and await ext.resources.templates()
        assert (await ext.prompts.get("simple-prompt"))["messages"]
        ref = {"type": "ref/prompt", "name": "completable-prompt"}
        completion = await ext.completion.complete(ref, {"name": "department", "value": "E"})
        assert completion["completion"]["values"] == ["Engineering"]
        await ext.logging.set_level("debug")
        assert await ext.check_health() == {}


@pytest.mark.more
@shows("mcp-real-01", "mcp-real-02", "mcp-config-02")
def test_the_command_line_works_with_a_file_of_mcp_servers(tmp_path: Path) -> None:
    servers: dict[str, Any] = {
        "time": {"command": str(BIN / "mcp-server-time"), "autoApprove": ["*"]},
        "far": {"type": "pigeon", "url": "https://example.org/mcp"},
        "off": {"command": "no-such-program", "disabled": True},
    }
    if EVERYTHING.exists():
        servers["all"] = {"command": str(EVERYTHING), "args": ["stdio"]}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers, "theme": "dark"}))
    result = run("tools", "--config", str(config), "--start", "--json")
    assert result.returncode == 0, result.stderr
    names = {tool["name"] for tool in json.loads(result.stdout)["tools"]}
    assert "ext_time_get_current_time" in names
    assert not EVERYTHING.exists() or "ext_all_get-sum" in names
    assert "time.autoApprove" in result.stderr and "'pigeon' is not supported" in result.stderr
    call_result = run("call", "time", "get_current_time", "timezone=UTC", "--config", str(config))
    assert call_result.returncode == 0 and json.loads(call_result.stdout)["isError"] is False
