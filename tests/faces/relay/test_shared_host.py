"""MCP clients share one host of their config: they join it, start it, and outlive it.

A client starts `exthost gateway`, which is only a relay between the client and the host. The first
relay starts the host in the background; the host ends after its last client. `joined` (in
`relay_process.py`) yields such a client. `--own` gives a client a separate host.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.extensions.proc import read_process
from tests.faces.cli.cli_process import host_process, run_inside
from tests.faces.relay.relay_process import (
    SECONDS,
    RelayClient,
    has_host,
    host_pid,
    joined,
    server,
    server_pids,
    shared_config,
    status,
    wait_until,
    wait_until_gone,
)


def test_clients_share_one_host_and_one_process_of_each_extension(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as first, joined(config) as other:
        assert first.text("ext_child_echo", a=1) == other.text("ext_child_echo", a=1) == '{"a": 1}'
        report = status(config)
        assert len(server_pids(config)) == 1
        assert report["clients"] == [
            {"name": "tester", "version": "7", "pid": client.process.pid}
            for client in (first, other)
        ]
        pids = [report["host"]["pid"], *server_pids(config)]
        shown = run_inside("status", cwd=tmp_path)
        assert f"client: tester 7, process {first.process.pid}" in shown.stdout + shown.stderr
        top = json.loads(run_inside("top", "--json", cwd=tmp_path).stdout)
        assert [client["name"] for client in top["clients"]] == ["tester", "tester"]
    wait_until_gone(*pids)  # shared_config sets gateway.linger to "0s": how long the host stays


@pytest.mark.more
def test_two_clients_that_start_at_the_same_moment_get_one_host(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with ExitStack() as stack:
        clients = [RelayClient(config) for _ in range(3)]
        for client in clients:
            stack.callback(client.close)
        for client in clients:
            client.initialize()
            assert client.text("ext_child_echo", a=1) == '{"a": 1}'
        assert len(status(config)["clients"]) == 3 and len(server_pids(config)) == 1


@pytest.mark.more
def test_a_client_uses_the_host_of_run_which_stays(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with host_process(tmp_path) as host:
        with joined(config) as client:
            assert client.text("ext_child_echo", a=1) == '{"a": 1}'
            assert [first["pid"] for first in status(config)["clients"]] == [client.process.pid]
        assert host_pid(config) == host.pid and status(config)["clients"] == []
        host.send_signal(signal.SIGTERM)
        host.communicate(timeout=SECONDS)


@pytest.mark.more
@pytest.mark.sampled
def test_a_host_that_is_killed_fails_the_calls_and_the_next_one_is_joined(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as client:
        first = host_pid(config)
        call = client.start_call("ext_child_hang")
        assert client.text("ext_child_echo", a=1) == '{"a": 1}'
        os.kill(first, signal.SIGKILL)
        error = client.reply(call)["error"]
        assert "the host ended" in error["message"] and "X1075" in error["message"]
        assert client.read_until("notifications/tools/list_changed")
        assert client.text("ext_child_echo", a=2) == '{"a": 2}'
        assert host_pid(config) != first
        assert status(config)["clients"][0]["name"] == "tester"
    answered = [message["id"] for message in client.seen if "id" in message]
    assert sorted(answered) == sorted(set(answered)), "a request was answered twice"


@pytest.mark.more
def test_a_host_that_is_ended_in_order_answers_its_calls_and_comes_back_when_needed(
    tmp_path: Path,
) -> None:
    config = shared_config(tmp_path)
    with joined(config) as client:
        first = host_pid(config)
        assert client.text("ext_child_echo", a=1) == '{"a": 1}'
        os.kill(first, signal.SIGTERM)
        wait_until_gone(first)
        assert not has_host(config)
        assert client.text("ext_child_echo", a=2) == '{"a": 2}'
        assert host_pid(config) != first


@pytest.mark.more
def test_a_client_without_a_host_joins_one_that_is_started_meanwhile(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as client:
        first = host_pid(config)
        # The host has all earlier messages of the client then: otherwise the relay would start
        # another host for them.
        assert client.text("ext_child_echo", a=1) == '{"a": 1}'
        os.kill(first, signal.SIGTERM)
        wait_until_gone(first)
        with host_process(tmp_path) as host:
            client.read_until("notifications/tools/list_changed")
            assert host_pid(config) == host.pid
            host.send_signal(signal.SIGTERM)
            host.communicate(timeout=SECONDS)


@pytest.mark.more
def test_the_log_level_and_the_subscriptions_are_sent_to_the_next_host(tmp_path: Path) -> None:
    received_file = tmp_path / "heard"
    config = shared_config(tmp_path, {"mcp_servers": server(heard=str(received_file))})
    with joined(config) as client:
        client.ask("logging/setLevel", {"level": "error"})
        uri = client.ask("resources/list")["result"]["resources"][0]["uri"]
        client.ask("resources/subscribe", {"uri": uri})
        os.kill(host_pid(config), signal.SIGKILL)
        client.read_until("notifications/tools/list_changed")
        client.ask("ping")

        def subscriptions() -> int:
            return received_file.read_text().count("resources/subscribe")

        wait_until(lambda: subscriptions() == 2, received_file.read_text())
        assert received_file.read_text().count("logging/setLevel") == 2


@pytest.mark.more
def test_a_config_that_changed_is_read_again_by_a_host_of_its_clients(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as client:
        assert client.text("ext_child_echo", a=1)
        shared_config(tmp_path, {"mcp_servers": server() | server("second")})
        with joined(config):
            client.read_until("notifications/tools/list_changed")
            assert client.text("ext_second_echo", a=2) == '{"a": 2}'


@pytest.mark.more
def test_a_config_that_changed_is_reported_for_a_host_of_run(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with host_process(tmp_path) as host:
        shared_config(tmp_path, {"mcp_servers": server() | server("second")})
        with joined(config) as client:
            stderr = client.read_stderr()
        assert "exthost reload" in stderr and f"process {host.pid}" in stderr
        host.send_signal(signal.SIGTERM)
        host.communicate(timeout=SECONDS)


# -- reasons for a host of its own -----------------------------------------------------------


@pytest.mark.more
def test_a_client_with_other_variables_gets_a_host_of_its_own(tmp_path: Path) -> None:
    servers = server()
    servers["child"]["env"] = {"TOKEN": {"from": "MY_TOKEN"}, "MODE": {"from": "MY_MODE"}}
    config = shared_config(tmp_path, {"mcp_servers": servers})
    values = {"MY_TOKEN": "one-secret", "MY_MODE": "a"}
    with joined(config, env=values) as first, joined(config, env=values) as same:
        with joined(config, env=values | {"MY_TOKEN": "two-secret"}) as other:
            assert other.text("ext_child_echo", a=1) == '{"a": 1}'
            stderr = other.read_stderr()
        assert "MY_TOKEN differs" in stderr and "its own host" in stderr and "MY_MODE" not in stderr
        assert "secret" not in stderr + first.read_stderr() + same.read_stderr()
        assert len(status(config)["clients"]) == 2


@pytest.mark.more
def test_a_client_of_another_version_gets_a_host_of_its_own(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "sitecustomize.py").write_text(
        "import exthost._version\nexthost._version.__version__ = '0.0.1'\n"
    )
    with joined(config):
        path = os.pathsep.join([str(tmp_path / "older"), *sys.path])
        with joined(config, env={"PYTHONPATH": path}) as other:
            stderr = other.read_stderr()
        assert "exthost 0.0.1" in stderr and "its own host" in stderr


def is_stopped(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.state == "T"


@pytest.mark.more
def test_a_stale_socket_is_named_and_replaced(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as client:
        pid = host_pid(config)
        os.kill(pid, signal.SIGSTOP)  # so that it does not end in order after its last client
        wait_until(lambda: is_stopped(pid), "the host has stopped")
        client.process.kill()  # first, so that it starts no other host
        client.process.wait()
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)
        with joined(config) as other:
            assert "left over from a host that has crashed" in other.read_stderr()


@pytest.mark.more
def test_without_a_state_folder_a_client_gets_a_host_of_its_own(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    home = tmp_path / "file"
    home.write_text("")
    with joined(config, env={"EXTHOST_HOME": str(home)}) as client:
        assert client.text("ext_child_echo", a=1) == '{"a": 1}'
        stderr = client.read_stderr()
    assert "the state folder cannot be written" in stderr and "its own host" in stderr


@pytest.mark.more
def test_a_host_that_belongs_to_a_single_client_is_not_joined(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config, "--own"):
        with joined(config) as other:
            stderr = other.read_stderr()
        assert "X0376" in stderr and "its own host" in stderr


def test_a_config_with_a_mistake_is_reported_as_by_run(tmp_path: Path) -> None:
    config = tmp_path / "exthost.toml"
    config.write_text("extensions = 1\n")
    result = subprocess.run(
        [sys.executable, "-m", "exthost", "gateway", "--config", str(config)],
        capture_output=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert result.returncode == 3 and b"X01" in result.stderr and result.stdout == b""


# -- the messages -------------------------------------------------------------------------------


@pytest.mark.more
def test_lines_of_any_form_get_one_answer_each(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as client:
        client.write(b"\n  \n{half")
        client.write(b' a line"\n')
        assert client.read()["error"]["code"] == -32700
        client.write(b'[{"jsonrpc":"2.0","id":"a","method":"ping"},')
        client.write(b'{"jsonrpc":"2.0","id":"b","method":"ping"}]\n')
        assert {client.read()["id"], client.read()["id"]} == {"a", "b"}
        large = "x" * 1_000_000
        assert json.loads(client.text("ext_child_echo", a=large)) == {"a": large}


@pytest.mark.more
def test_calls_in_flight_are_answered_after_the_end_of_stdin(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    client = RelayClient(config)
    client.initialize()
    ids = [client.start_call("ext_child_echo", n=number) for number in range(20)]
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert all("result" in client.reply(id) for id in ids)
    client.close()


def test_the_relay_imports_neither_mcp_nor_the_host(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from exthost.faces.cli import main\n"
        "from exthost.faces.relay import command\n"
        "command.run_relay = lambda *_: print(*sorted(sys.modules)) or 0\n"
        "import exthost.faces.relay.line_relay, exthost.faces.relay.client_lines\n"
        "main(['gateway', '--config', sys.argv[1]])\n"
    )
    config = shared_config(tmp_path)
    result = subprocess.run(
        [sys.executable, "-c", code, str(config)], capture_output=True, text=True, check=True
    )
    modules = set(result.stdout.split())
    # Each client waits for these imports.
    slow = {"mcp", "asyncio", "argparse", "json", "re", "typing", "socket", "pathlib", "subprocess"}
    assert "exthost.faces.relay.command" in modules and not modules & slow
    host_modules = {name for name in modules if name.startswith("exthost.host.")}
    assert host_modules == {
        "exthost.host.control", "exthost.host.control.socket_path",
        "exthost.host.control.peer_credentials",
    }  # fmt: skip


# -- the first list of tools
# --------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.sampled
def test_the_second_host_lists_the_tools_and_starts_no_server(tmp_path: Path) -> None:
    config = shared_config(tmp_path, {"mcp_servers": server() | server("second")})
    with joined(config) as client:
        first = client.ask("tools/list")["result"]
        pid = host_pid(config)
    wait_until_gone(pid)
    with joined(config) as client:
        assert client.ask("tools/list")["result"] == first and first["tools"]
        assert server_pids(config) == []
        assert client.text("ext_second_echo", a=1) == '{"a": 1}'
        assert len(server_pids(config)) == 1


# Blocks the import of pydantic, and so of the `mcp` package, until a file exists.
SLOW_IMPORT = """
import os, sys, time
from importlib.machinery import PathFinder, SourceFileLoader
class Loader(SourceFileLoader):
    def exec_module(self, module):
        while not os.path.exists(os.environ["IMPORT_GATE"]):
            time.sleep(0.01)
        super().exec_module(module)
class Finder:
    def find_spec(name, path=None, target=None):
        if name != "pydantic":
            return None
        spec = PathFinder.find_spec(name, path)
        spec.loader = Loader(name, spec.origin)
        return spec
sys.meta_path.insert(0, Finder)
"""


@pytest.mark.more
def test_the_second_host_lists_the_tools_before_it_has_imported_mcp(tmp_path: Path) -> None:
    config = shared_config(tmp_path, {"mcp_servers": server() | server("second")})
    with joined(config) as client:
        client.ask("tools/list")
        # On a slow machine the servers may become ready after the handshake. Then the replies to
        # the first client differ, and what a server offers is not remembered before it is ready.
        wait_until(
            lambda: all(row["state"] == "ready" for row in status(config)["extensions"]),
            "all servers are ready",
        )
        with joined(config) as second:
            first = second.ask("tools/list")["result"]
        pid = host_pid(config)
    wait_until_gone(pid)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SLOW_IMPORT)
    gate = tmp_path / "gate"
    path = os.pathsep.join((str(tmp_path / "site"), *filter(None, sys.path)))
    variables = {"PYTHONPATH": path, "IMPORT_GATE": str(gate)}
    with ExitStack() as stack:
        stack.callback(gate.touch)
        client = stack.enter_context(joined(config, env=variables))
        assert client.ask("tools/list")["result"] == first
        assert server_pids(config) == []
        assert status(config)["clients"][0]["name"] == "tester"
        call = client.start_call("ext_second_echo", a=1)
        with joined(config) as other:  # another client that comes meanwhile
            assert other.ask("tools/list")["result"] == first
            gate.touch()
            assert client.reply(call)["result"]["content"][0]["text"] == '{"a": 1}'
            assert other.text("ext_child_echo", a=2) == '{"a": 2}'
        methods = [message.get("method") for message in client.seen]
        assert "notifications/tools/list_changed" not in methods
        ids = [message["id"] for message in client.seen if "id" in message]
        assert len(ids) == len(set(ids)), "a request was answered twice"


@pytest.mark.more
def test_clients_of_one_host_can_use_different_kinds_of_tool_names(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as client, joined(config, "--plain-names") as plain:
        assert client.ask("tools/list")["result"]["tools"][0]["name"] == "ext_child_echo"
        assert plain.ask("tools/list")["result"]["tools"][0]["name"] == "echo"
        assert plain.text("echo", a=1) == client.text("ext_child_echo", a=1)
