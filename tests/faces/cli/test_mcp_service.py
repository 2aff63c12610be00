"""Tests of hosts that serve MCP: `gateway --own`, `run --mcp-stdio` and `run --http`.

Other verbs (`status`, `restart`, `logs`) reach such a host by its control socket, like any host.
"""

import argparse
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exthost.faces.cli.common import Args
from exthost.faces.cli.http_options import Address, read_address
from exthost.faces.cli.mcp_service import add_http_options, http_arguments
from tests.faces.cli.cli_process import (
    EXTHOST,
    RUN_SECONDS,
    extension,
    host_process,
    run_exthost,
    run_inside,
    run_json,
    wait_for,
    write_config,
)

# The first message of an MCP client.
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


def test_a_host_in_the_background_gets_every_option_of_http() -> None:
    parser = argparse.ArgumentParser()
    add_http_options(parser)
    options = ["--http", "0", "--allow-origin", "https://a.org", "--plain-names"]
    options += ["--token-file", "/t"]
    args = parser.parse_args(options, Args())
    assert http_arguments(args) == options
    assert http_arguments(parser.parse_args([], Args())) == []


@contextmanager
def stdio_host(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield a host that serves MCP on its stdin and stdout. It ends when its stdin is closed."""
    with subprocess.Popen(
        [*EXTHOST, *arguments],
        cwd=folder,
        env=os.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_for(process, "extensions ready")
            yield process
            process.communicate(timeout=RUN_SECONDS)
            assert process.returncode == 0
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.more
@pytest.mark.sampled(1 / 2)
@pytest.mark.parametrize("arguments", [["gateway", "--own"], ["run", "--mcp-stdio"]])
def test_a_host_that_serves_mcp_can_be_queried_and_controlled(
    tmp_path: Path, arguments: list[str]
) -> None:
    write_config(tmp_path, extension("one"))
    with stdio_host(tmp_path, *arguments) as host:
        status = run_json(tmp_path, "status")
        assert status["host"]["pid"] == host.pid
        [before] = status["extensions"]
        assert run_json(tmp_path, "restart", "one")["pids"] != before["pids"]
        assert "ready" in run_exthost(tmp_path, "logs", "one").stdout
        assert host.stdin is not None and host.stdout is not None
        host.stdin.write(json.dumps(INITIALIZE) + "\n")
        host.stdin.flush()
        assert json.loads(host.stdout.readline())["result"]["serverInfo"]["name"] == "exthost"
    assert run_json(tmp_path, "status", code=2)["error"]["code"] == "X1275"


@pytest.mark.more
def test_run_serves_http_and_its_control_socket(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    with host_process(tmp_path, "--http", "localhost:0", "--json") as host:
        assert host.stdout is not None
        service = json.loads(host.stdout.readline())
        assert service["url"].startswith("http://localhost:") and service["token"]
        assert run_json(tmp_path, "status")["host"]["pid"] == host.pid
        host.send_signal(signal.SIGINT)
        host.communicate(timeout=RUN_SECONDS)
        assert host.returncode == 130


@pytest.mark.more
def test_a_gateway_warns_that_it_is_separate_from_the_running_host(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    with (
        host_process(tmp_path) as host,
        subprocess.Popen(
            [*EXTHOST, "gateway", "--own"],
            cwd=tmp_path,
            env=os.environ,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as gateway,
    ):
        warning = wait_for(gateway, "warning:")
        assert f"process {host.pid}" in warning and "cannot reach this process" in warning
        wait_for(gateway, "extensions ready")
        assert run_json(tmp_path, "status")["host"]["pid"] == host.pid
        gateway.communicate(timeout=RUN_SECONDS)
        assert gateway.returncode == 0


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    write_config(tmp_path)
    result = run_inside("run", "--token-file", "t", cwd=tmp_path)
    assert result.returncode == 2 and "X1366" in result.stderr
    result = run_inside("run", "--mcp-stdio", "--json", cwd=tmp_path)
    assert result.returncode == 2 and "X1316" in result.stdout


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8765", Address("", 8765)),
        ("0", Address("", 0)),
        ("localhost:80", Address("localhost", 80)),
        ("0.0.0.0:8765", Address("0.0.0.0", 8765)),
        ("[::1]:1", Address("::1", 1)),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(text: str, address: Address) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "x", "70000", "a:b", "::1:80", "::1", "-1", "localhost:", "²"]
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as error:
        read_address(text)
    assert ("write [ADDRESS]:PORT" in str(error.value)) == text.startswith("::")
