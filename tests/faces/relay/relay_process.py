"""Helpers that run relays: `RelayClient` is an MCP client that starts `exthost gateway`.

That process relays the client's messages to the host of its config, which it starts if none runs
and which serves all clients of the config. Relays and hosts are real processes, and end with the
test.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exthost.errors import ExthostError
from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest
from tests.extensions.proc import is_running
from tests.faces.gateway.gateway_process import ROOT, environment, write_config

# Generous, because the machine may be busy: a host takes seconds to import then.
SECONDS = 120.0
CHILD = ROOT / "tests" / "extensions" / "mcp_child.py"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tester", "version": "7"},
}


def server(name: str = "child", **behaviour: Any) -> dict[str, Any]:
    """Return the table `mcp_servers` with mcp_child.py, with this behaviour, under this name."""
    args = ["-S", "-E", str(CHILD), json.dumps(behaviour)]
    return {name: {"command": sys.executable, "args": args}}


def shared_config(folder: Path, document: Mapping[str, Any] | None = None, **gateway: str) -> Path:
    """Write a config whose background host ends with its last client."""
    settings = {"linger": "0s", **gateway}
    return write_config(folder, {"gateway": settings, **(document or {"mcp_servers": server()})})


class RelayClient:
    """An MCP client of the handshake era that speaks with `exthost gateway`, line by line."""

    def __init__(self, config: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        self.stderr = config.parent / f"stderr-{time.monotonic_ns()}"
        with self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "exthost", "gateway", "--config", str(config), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**environment(), **(env or {})},
                bufsize=0,
            )
        self._partial = b""
        self.seen: list[Any] = []  # all messages so far
        self._id = 0

    def close(self) -> None:
        """Close stdin, and wait until the relay has ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            code = self.process.wait(SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
        assert code in (0, -9), self.read_stderr()

    def read_stderr(self) -> str:
        """Return what the relay wrote to stderr."""
        return self.stderr.read_text("utf-8", "replace")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def notify(self, method: str, params: Any = None) -> None:
        self.write(_line(method=method, **({} if params is None else {"params": params})))

    def request(self, method: str, params: Any = None) -> int:
        """Send a request, and return its id."""
        self._id += 1
        params = {} if params is None else {"params": params}
        self.write(_line(id=self._id, method=method, **params))
        return self._id

    def read(self) -> Any:
        """Return the next message. Fails at the end, and if none comes in time."""
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        deadline = time.monotonic() + SECONDS
        while b"\n" not in self._partial:
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no message arrived: {self.read_stderr()}"
            data = os.read(fd, 65536)
            assert data, f"the relay closed stdout: {self.read_stderr()}"
            self._partial += data
        line, _, self._partial = self._partial.partition(b"\n")
        self.seen.append(json.loads(line))
        return self.seen[-1]

    def reply(self, id: int) -> Any:
        """Return the reply to this request. Other messages stay in `seen`."""
        for message in self.seen:
            if message.get("id") == id and "method" not in message:
                return message
        while True:
            message = self.read()
            if message.get("id") == id and "method" not in message:
                return message

    def read_until(self, method: str) -> Any:
        """Return the next message of this method."""
        while True:
            message = self.read()
            if message.get("method") == method:
                return message

    def ask(self, method: str, params: Any = None) -> Any:
        return self.reply(self.request(method, params))

    def initialize(self, **changes: Any) -> Any:
        result = self.ask("initialize", INITIALIZE | changes)
        self.notify("notifications/initialized")
        return result["result"]

    def start_call(self, tool: str, **arguments: Any) -> int:
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.reply(self.start_call(tool, **arguments))

    def text(self, tool: str, **arguments: Any) -> Any:
        """Return the text of a result."""
        reply = self.call(tool, **arguments)
        assert "result" in reply, reply
        return reply["result"]["content"][0]["text"]


def _line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@contextmanager
def joined(config: Path, *words: str, **more: Any) -> Iterator[RelayClient]:
    """Yield a client that has made its handshake; close it at the end of the block."""
    client = RelayClient(config, *words, **more)
    try:
        client.initialize()
        yield client
    finally:
        client.close()


def status(config: Path) -> dict[str, Any]:
    """Return the status of the running host."""
    report: dict[str, Any] = ask(str(config), ControlRequest("status"), timeout=SECONDS)
    return report


def host_pid(config: Path) -> int:
    return int(status(config)["host"]["pid"])


def server_pids(config: Path) -> list[int]:
    return [pid for row in status(config)["extensions"] for pid in row["pids"]]


def wait_until(condition: Any, what: str) -> None:
    """Wait until the function returns true; `what` names it in the error."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.02)


def wait_until_gone(*pids: int) -> None:
    wait_until(lambda: not any(map(is_running, pids)), f"the processes {pids} have ended")


def has_host(config: Path) -> bool:
    try:
        status(config)
    except ExthostError:
        return False
    return True
