"""Each client has its own process of an MCP server that cannot be shared.

A client starts `exthost gateway`. All gateways of one config relay to one host process, so that a
server runs once for all clients. That is wrong for a server that keeps state for its client, such
as a browser, or that sends requests to its client (sampling: the server asks for a text of the
client's model). Such a server is not shared: because of `share = false`, because it is known, or
because it has sent such a request.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exthost.faces.gateway.client_processes import keeps_state
from exthost.model.spec import Spec
from tests.extensions.proc import is_running
from tests.faces.relay.relay_process import (
    RelayClient,
    host_pid,
    joined,
    server,
    server_pids,
    shared_config,
    wait_until,
    wait_until_gone,
)

# The capabilities of a client that can answer all requests of servers.
CAPABILITIES = {"sampling": {}, "roots": {"listChanged": True}, "elicitation": {}}
# The arguments of the tool `ask`, which sends this request to the client and returns the answer.
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}


def config_with_server(folder: Path, **settings: Any) -> Path:
    """Write a config with the server `child`, which has these settings."""
    servers = server()
    servers["child"] |= settings
    return shared_config(folder, {"mcp_servers": servers})


@pytest.mark.more
def test_each_client_has_a_process_of_a_server_that_is_not_shared(tmp_path: Path) -> None:
    config = config_with_server(tmp_path, share=False)
    with joined(config) as one:
        assert one.text("ext_child_echo", a=1) == '{"a": 1}'
        [first] = server_pids(config)
        with joined(config) as other:
            assert other.text("ext_child_echo", a=2) == '{"a": 2}'
            assert len(server_pids(config)) == 2
            [second] = [pid for pid in server_pids(config) if pid != first]
            assert one.text("ext_child_echo", a=3) == '{"a": 3}'
        wait_until_gone(second)
        assert is_running(first)
        host = host_pid(config)
    wait_until_gone(first, host)


@pytest.mark.more
def test_the_process_of_the_first_client_ends_with_it_too(tmp_path: Path) -> None:
    config = config_with_server(tmp_path, share=False)
    one = RelayClient(config)
    one.initialize()
    assert one.text("ext_child_echo", a=1) == '{"a": 1}'
    [first] = server_pids(config)
    with joined(config) as other:
        one.close()
        wait_until_gone(first)
        assert other.text("ext_child_echo", a=2) == '{"a": 2}'
        assert [tool["name"] for tool in other.ask("tools/list")["result"]["tools"]]
        assert len(server_pids(config)) == 1


@contextmanager
def joined_with_sampling(config: Path) -> Iterator[RelayClient]:
    """Yield a client, as `joined` does, that can answer requests of servers."""
    client = RelayClient(config)
    try:
        client.initialize(capabilities=CAPABILITIES)
        yield client
    finally:
        client.close()


def call_sampling_tool(client: RelayClient, word: str) -> Any:
    """Call a tool that asks for a text of the client's model. Answer with this word, and return the
    result of the tool, which contains the answer."""
    call = client.start_call("ext_child_ask", **SAMPLE)
    request = client.read_until("sampling/createMessage")
    answer = {"role": "assistant", "content": {"type": "text", "text": word}, "model": "m"}
    client.write(_reply(request["id"], answer))
    return client.reply(call)["result"]["content"][0]["text"]


def _reply(id: Any, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n"


@pytest.mark.more
def test_a_server_that_asks_its_client_has_a_process_for_each_from_then_on(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined_with_sampling(config) as one, joined_with_sampling(config) as other:
        assert one.text("ext_child_echo", a=1) == other.text("ext_child_echo", a=1)
        assert len(server_pids(config)) == 1
        assert "first" in call_sampling_tool(one, "first")
        # Both at once: each client gets the request of its own call.
        mine = one.start_call("ext_child_ask", **SAMPLE)
        request = one.read_until("sampling/createMessage")
        assert "second" in call_sampling_tool(other, "second")
        answer = {"role": "assistant", "content": {"type": "text", "text": "third"}, "model": "m"}
        one.write(_reply(request["id"], answer))
        assert "third" in one.reply(mine)["result"]["content"][0]["text"]
        assert len(server_pids(config)) == 2
        host = host_pid(config)
    wait_until_gone(host)
    with (
        joined_with_sampling(config) as one,
        joined_with_sampling(config) as other,
    ):  # a new host knows it, too
        assert one.text("ext_child_echo", a=1) == other.text("ext_child_echo", a=1)
        assert len(server_pids(config)) == 2


@pytest.mark.more
def test_a_server_with_share_true_is_shared_although_it_asks_its_clients(tmp_path: Path) -> None:
    config = config_with_server(tmp_path, share=True)
    with joined_with_sampling(config) as one, joined_with_sampling(config) as other:
        assert "first" in call_sampling_tool(one, "first")
        assert "second" in call_sampling_tool(other, "second")
        assert len(server_pids(config)) == 1


@pytest.mark.more
def test_the_next_host_can_ask_the_client_and_cancel_its_request(tmp_path: Path) -> None:
    config = config_with_server(tmp_path, share=True)
    schema = {"type": "object", "properties": {}}
    form = {
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": schema},
    }
    client = RelayClient(config)
    try:
        client.initialize(capabilities=CAPABILITIES)
        unanswered = client.start_call("ext_child_ask", **SAMPLE)
        first = client.read_until("sampling/createMessage")["id"]
        killed = host_pid(config)
        os.kill(killed, signal.SIGKILL)
        assert "X1075" in client.reply(unanswered)["error"]["message"]
        client.read_until("notifications/tools/list_changed")  # the next host is joined
        # An answer with a field that has the name of a part of requests.
        answered = client.start_call("ext_child_ask", **form)
        id = client.read_until("elicitation/create")["id"]
        client.write(_reply(first, {"role": "assistant", "model": "m", "content": {}}))  # too late
        client.write(_reply(id, {"action": "accept", "content": {"method": "GET"}}))
        assert "GET" in client.reply(answered)["result"]["content"][0]["text"]
        # The server cancels its request when the client cancels the call.
        cancelled = client.start_call("ext_child_ask", **SAMPLE)
        id = client.read_until("sampling/createMessage")["id"]
        assert id not in (first, answered)
        client.notify("notifications/cancelled", {"requestId": cancelled})
        assert client.read_until("notifications/cancelled")["params"]["requestId"] == id
    finally:
        client.close()


@pytest.mark.more
def test_an_answer_to_a_host_that_has_ended_starts_no_host(tmp_path: Path) -> None:
    config = config_with_server(tmp_path, share=True)
    client = RelayClient(config)
    try:
        client.initialize(capabilities=CAPABILITIES)
        client.start_call("ext_child_ask", **SAMPLE)
        id = client.read_until("sampling/createMessage")["id"]
        ended = host_pid(config)
        os.kill(ended, signal.SIGTERM)
        os.kill(ended, signal.SIGTERM)
        assert client.read_until("notifications/cancelled")["params"]["requestId"] == id
        wait_until_gone(ended)
        client.write(_reply(id, {"role": "assistant", "model": "m", "content": {}}))
        assert client.process.stdin is not None and client.process.stdout is not None
        client.process.stdin.close()
        # Another host would be announced by the notifications that its lists may have changed.
        assert b"list_changed" not in client.process.stdout.read()
    finally:
        client.close()


@pytest.mark.more
def test_a_host_that_is_killed_leaves_no_private_process(tmp_path: Path) -> None:
    config = config_with_server(tmp_path, share=False)
    with joined(config) as one, joined(config) as other:
        one.text("ext_child_echo", a=1)
        other.text("ext_child_echo", a=1)
        pids = server_pids(config)
        assert len(pids) == 2
        os.kill(host_pid(config), signal.SIGKILL)
        wait_until_gone(*pids)
        assert one.text("ext_child_echo", a=2) == other.text("ext_child_echo", a=2) == '{"a": 2}'
        wait_until(lambda: len(server_pids(config)) == 2, "each has a process again")


@pytest.mark.parametrize(
    ("command", "stateful"),
    [
        (("npx", "-y", "@playwright/mcp@latest"), True),
        (("npx", "-y", "@playwright/mcp"), True),
        (("uvx", "mcp-shell-server==1.0"), True),
        (("/usr/local/bin/chrome-devtools-mcp", "--headless"), True),
        (("npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv"), False),
        (("uvx", "mcp-debuggers"), False),  # not the known "mcp-debugger"
        (("python3", "server.py"), False),
    ],
)
def test_known_stateful_servers_are_recognised(command: tuple[str, ...], stateful: bool) -> None:
    assert keeps_state(Spec(id="x", argv=command)) is stateful
