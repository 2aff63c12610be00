"""Twenty MCP servers and several clients of one shared host: one process of each server, and little
memory for each further client."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faces.gateway.gateway_process import ROOT
from tests.faces.relay.relay_process import (
    host_pid,
    joined,
    server_pids,
    shared_config,
    wait_until_gone,
)

TOOLS = Path(os.environ.get("EXTHOST_TEST_TOOLS", sys.prefix))
FASTMCP = TOOLS / "fastmcp/bin/python"
FASTMCP_SERVER = ROOT / "tests" / "faces" / "gateway" / "fastmcp_server.py"
SERVERS = [f"s{number}" for number in range(20)]
MIB = 2**20
# A server of FastMCP imports for seconds, and twenty start at once.
START = "600s"


@pytest.mark.more
@pytest.mark.skipif(not FASTMCP.exists(), reason="`make fastmcp` installs FastMCP")
def test_three_clients_of_twenty_fastmcp_servers_have_twenty_processes(tmp_path: Path) -> None:
    entry = {
        "command": str(FASTMCP),
        "args": [str(FASTMCP_SERVER)],
        "limits": {"start": START, "handshake": START},
    }
    servers = dict.fromkeys(SERVERS, entry)
    config = shared_config(tmp_path, {"mcp_servers": servers}, first_list=START)
    with ExitStack() as stack:
        clients = [stack.enter_context(joined(config)) for _ in range(3)]
        lists = [client.ask("tools/list")["result"]["tools"] for client in clients]
        assert lists[0] == lists[1] == lists[2]
        names = {tool["name"] for tool in lists[0]}
        assert {f"ext_{name}_add" for name in SERVERS} <= names
        assert len(server_pids(config)) == len(SERVERS)
        for number, name in enumerate(SERVERS):
            client = clients[number % len(clients)]
            assert client.text(f"ext_{name}_add", a=number, b=1) == str(number + 1)
        pids = server_pids(config)
        assert len(pids) == len(SERVERS)
        pids.append(host_pid(config))
    wait_until_gone(*pids)
    with joined(config) as client:  # the list comes from the replies that were stored
        assert client.ask("tools/list")["result"]["tools"] == lists[0]
        assert server_pids(config) == []


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_tenth_client_needs_little_memory(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with ExitStack() as stack:

        def join() -> int:
            client = stack.enter_context(joined(config))
            assert client.ask("tools/list")["result"]["tools"]
            assert client.text("ext_child_echo", a=1) == '{"a": 1}'
            return client.process.pid

        for _ in range(9):
            join()
        host = host_pid(config)
        before = own_memory(host)
        relay = join()
        assert own_memory(host) - before <= 2 * MIB
        assert own_memory(relay) <= 15 * MIB


def own_memory(pid: int) -> int:
    """Return the memory in bytes that a process shares with no file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has ended")
