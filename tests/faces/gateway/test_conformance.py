"""The gateway passes the official conformance suite, with servers that pass it without the gateway.

The suite uses HTTP. So the relay of a client on stdio is tested as the only server of a second
gateway, which serves HTTP. The results must be those of the first gateway.

The test needs the programs that `make node` installs: the suite, a Node for it, and the everything
server of the Go SDK. `conformance_expected_failures.txt` lists the scenarios that fail; new lines
must not be added.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.faces.gateway.gateway_process import http_client, http_gateway, tools_of, write_config
from tests.faces.gateway.token_proxy import token_proxy
from tests.faces.relay.relay_process import shared_config, status

TOOLS = Path(os.environ.get("EXTHOST_TEST_TOOLS", sys.prefix))
SUITE = TOOLS / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
NODE = TOOLS / "node/node_modules/node/bin/node"
SERVER = TOOLS / "go/everything-server"
EXPECTED = Path(__file__).with_name("conformance_expected_failures.txt")
TASK_SERVER = Path(__file__).parents[2] / "extensions/mcp_task_server.py"
SUITE_SECONDS = 150

# By revision: the era in which the server is used, and the number of scenarios.
REVISIONS = {"2025-11-25": ("handshake", 33), "2026-07-28": ("stateless", 50)}


def expected_failures(revision: str) -> set[str]:
    """Return the names of the scenarios of this revision that are known to fail."""
    lines = [line.split() for line in EXPECTED.read_text().splitlines()]
    return {arguments[1] for arguments in lines if arguments and arguments[0] == revision}


def write_relay_config(folder: Path, inner: Path, era: str) -> Path:
    """Write a config whose only server is a relay to the host of the config `inner`; return its
    path."""
    # The variables by which the test finds the host that the relay starts.
    names = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "EXTHOST_HOME", "HOME")
    relay = {
        "command": sys.executable,
        "args": ["-m", "exthost", "gateway", "--config", str(inner), "--plain-names"],
        "env": {name: os.environ[name] for name in names if name in os.environ},
        "options": {"era": era},
    }
    folder.mkdir()
    return write_config(folder, {"mcp_servers": {"relay": relay}})


@pytest.mark.more
@pytest.mark.parametrize("through", ["http", "relay"])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_gateway_passes_the_official_conformance_suite(
    revision: str, through: str, tmp_path: Path
) -> None:
    missing = [str(tool) for tool in (SUITE, NODE, SERVER) if not tool.exists()]
    if missing:
        pytest.skip(f"not installed, `make node` installs them: {', '.join(missing)}")
    era, total = REVISIONS[revision]
    server = {"command": str(SERVER), "options": {"era": era}}
    # The server of the Go SDK has no tasks.
    task_server = {"command": sys.executable, "args": ["-S", "-E", str(TASK_SERVER)]}
    document = {"mcp_servers": {"everything": server, "tasks": task_server}}
    if through == "relay":
        inner = shared_config(tmp_path, document)
        config = write_relay_config(tmp_path / "outer", inner, era)
    else:
        config = write_config(tmp_path, document)
    with http_gateway(config, "--plain-names", plain=True) as running:
        assert running.token is not None
        async with http_client(running, era) as client:  # wait until all tools are listed
            await tools_of(client, "test_simple_text")
        async with token_proxy(running.url, running.token) as url:
            output = await run_suite(url, revision, tmp_path)
        if through == "relay":
            clients = await asyncio.to_thread(status, inner)
            assert [client["name"] for client in clients["clients"]] == ["exthost"]
    summary = output[output.rindex("=== SUMMARY") :].partition("Not scored")[0]
    results = dict(re.findall(r"^[✓✗] ([\w-]+): (.*)$", summary, re.MULTILINE))
    failed = set(re.findall(r"^✗ ([\w-]+):", summary, re.MULTILINE))
    expected = expected_failures(revision)
    assert len(results) == total, summary
    assert failed <= expected, {name: results[name] for name in failed - expected}
    newly_passed = expected - failed
    assert not newly_passed, f"remove from {EXPECTED.name}: {sorted(newly_passed)}"


async def run_suite(url: str, revision: str, folder: Path) -> str:
    """Run the conformance suite against a URL; return its output."""
    process = await asyncio.create_subprocess_exec(
        *(str(NODE), str(SUITE), "server", "--url", url),
        *("--requirements", revision, "-o", str(folder / "results")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SUITE_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return output.decode()
