"""No client of a shared host harms another client or the host.

A client starts `exthost gateway`, a relay between its stdin and stdout and the host, which serves
all clients of a config and runs each MCP server once.
"""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.faces.relay.relay_process import (
    SECONDS,
    RelayClient,
    host_pid,
    joined,
    server_pids,
    shared_config,
    status,
    wait_until,
    wait_until_gone,
)

# More than the flood of a client can put into all buffers between it and the host.
FLOOD_BYTES = 256 * 2**20


def resident_kib(pid: int) -> int:
    """Return the memory of a process in KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0])


def count_clients(config: Path) -> int:
    return len(status(config)["clients"])


@pytest.mark.more
def test_the_requests_of_a_client_that_never_reads_are_read_no_further(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as good:
        assert good.text("ext_child_echo", a=1)
        bad = RelayClient(config)
        bad.initialize()
        before = resident_kib(host_pid(config))
        assert bad.process.stdin is not None
        os.set_blocking(bad.process.stdin.fileno(), False)
        call = {"name": "ext_child_echo", "arguments": {"a": "x" * 2000}}
        line = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call})
        data = (line + "\n").encode() * 20
        written_bytes, stuck_since = 0, time.monotonic()
        # Until nothing more can be written for a second: every buffer on the way is full.
        while time.monotonic() - stuck_since < 1:
            try:
                written_bytes += os.write(bad.process.stdin.fileno(), data)
                stuck_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
            assert written_bytes < FLOOD_BYTES, "the client can write without limit"
        assert good.text("ext_child_echo", a=2) == '{"a": 2}'
        assert resident_kib(host_pid(config)) - before < 64 * 1024
        assert resident_kib(bad.process.pid) < 64 * 1024
        bad.process.kill()
        bad.close()
        wait_until(lambda: count_clients(config) == 1, "the killed client is gone")
        assert good.text("ext_child_echo", a=3) == '{"a": 3}'


@pytest.mark.more
def test_a_client_that_ends_in_the_middle_of_a_call_or_a_line_leaves_nothing(
    tmp_path: Path,
) -> None:
    config = shared_config(tmp_path)
    with joined(config) as good:
        for is_killed in (True, False):
            bad = RelayClient(config)
            bad.initialize()
            bad.start_call("ext_child_hang")
            bad.write(b'{"jsonrpc": "2.0", "id": 9, "method": "tools/')
            wait_until(lambda: status(config)["extensions"][0]["in_flight"] == 1, "a call began")
            assert bad.process.stdin is not None and bad.process.stdout is not None
            if is_killed:
                bad.process.kill()
            else:  # as when the client itself is killed: both pipes are closed
                bad.process.stdin.close()
                bad.process.stdout.close()
            bad.process.wait(SECONDS)
            wait_until(lambda: count_clients(config) == 1, "the client is gone")
            wait_until(lambda: status(config)["extensions"][0]["in_flight"] == 0, "its call ended")
            bad.close()
        assert good.text("ext_child_echo", a=1) == '{"a": 1}'


@pytest.mark.more
def test_clients_that_come_and_go_leave_nothing(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as good:
        assert good.text("ext_child_echo", a=1)
        host = host_pid(config)
        descriptors = len(list(Path(f"/proc/{host}/fd").iterdir()))
        for number in range(10):
            client = RelayClient(config)
            if number % 2:
                client.initialize()
                assert client.text("ext_child_echo", n=number) == json.dumps({"n": number})
            if number % 3:
                client.process.kill()
            client.close()
        wait_until(lambda: count_clients(config) == 1, "the clients are gone")
        wait_until(
            lambda: len(list(Path(f"/proc/{host}/fd").iterdir())) <= descriptors,
            "the host has closed their descriptors",
        )
        assert len(server_pids(config)) == 1 and host_pid(config) == host


@pytest.mark.more
def test_a_server_that_is_killed_fails_its_calls_and_comes_back(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as one, joined(config) as other:
        calls = [client.start_call("ext_child_hang") for client in (one, other)]
        wait_until(lambda: status(config)["extensions"][0]["in_flight"] == 2, "both are called")
        [pid] = server_pids(config)
        os.kill(pid, signal.SIGKILL)
        for client, call in zip((one, other), calls, strict=True):
            assert client.reply(call)["result"]["isError"]
        assert one.text("ext_child_echo", a=1) == other.text("ext_child_echo", a=1)


@pytest.mark.more
def test_a_host_killed_at_any_moment_answers_each_call_once(tmp_path: Path) -> None:
    config = shared_config(tmp_path)
    with joined(config) as client:
        text = "x" * 20_000  # longer than a pipe takes at once: the host dies inside lines
        for round in range(4):
            ids = [client.start_call("ext_child_echo", a=text) for _ in range(20 + round)]
            pid = host_pid(config)
            client.reply(ids[round])  # in the midst of the replies
            os.kill(pid, signal.SIGKILL)
            for id in ids:
                reply = client.reply(id)
                if "error" in reply:
                    assert "the host ended" in reply["error"]["message"]
                else:
                    assert json.loads(reply["result"]["content"][0]["text"]) == {"a": text}
            wait_until_gone(pid)
            # A process that the host was about to execute can keep its socket open for a moment.
            # A call that is sent meanwhile is answered with the same error.
            reply = client.call("ext_child_echo", a=round)
            if "error" in reply:
                assert "the host ended" in reply["error"]["message"]
                reply = client.call("ext_child_echo", a=round)
            assert reply["result"]["content"][0]["text"] == json.dumps({"a": round})
    answers = Counter(message["id"] for message in client.seen if "method" not in message)
    assert set(answers.values()) == {1}
