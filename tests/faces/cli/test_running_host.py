"""Tests of `exthost run`, and of the verbs that query or control the running host.

They reach the host by its control socket. PATIENT is a host that waits ten minutes for an extension
to end, so that it stays in the state "stopping" until the test ends it.
"""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exthost.faces.cli.running_host import show_event
from exthost.faces.cli.status import HEADER, row_cells
from exthost.host.control.address import socket_paths
from exthost.host.control.protocol import REQUEST_BYTES
from exthost.host.control.server import MAX_CLIENTS
from tests.extensions.harness import hostile_command as hostile_command
from tests.faces.cli.cli_process import (
    PATIENT,
    RUN_SECONDS,
    extension,
    host_process,
    run_exthost,
    run_json,
    run_process,
    shared_host,
    wait_for,
    write_config,
)


@pytest.mark.parametrize(
    ("progress", "total", "text"),
    [
        (1234567, 12345678, "1234567 of 12345678"),
        (0.25, None, "0.25"),
        (10**400, -(10**400), "more than 1e308 of less than -1e308"),
    ],
)
def test_progress_in_the_running_host_is_shown_with_all_digits(
    capsys: pytest.CaptureFixture[str], progress: float, total: float | None, text: str
) -> None:
    event = {"kind": "progress", "extension": "a", "method": "run", "message": "now"}
    show_event({**event, "progress": progress, "total": total})
    assert capsys.readouterr().err == f"[a] run: {text} now\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a config of three extensions, without a host."""
    return write_three_extensions(tmp_path)


class Shared(NamedTuple):
    """A host for all tests that do not stop the extension "one", and the folder of its config."""

    folder: Path
    host: "subprocess.Popen[str]"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A running host with three extensions, one of which has failed."""
    folder = write_three_extensions(tmp_path_factory.mktemp("shared"))
    with shared_host(folder) as host:
        yield Shared(folder, host)


def write_three_extensions(folder: Path) -> Path:
    """Write a config of two extensions that run and one whose program is missing."""
    write_config(folder, extension("one"), extension("two"), extension("gone", "no-such-program"))
    return folder


def status_of(folder: Path, name: str) -> dict[str, Any]:
    """Return what `exthost status` reports about one extension."""
    [status] = run_json(folder, "status", name)["extensions"]
    assert isinstance(status, dict)
    return status


@pytest.mark.parametrize(
    ("counts", "cell"),
    [
        ({"calls": 3, "failed": 2}, "3, 2 failed"),
        ({"calls": 3, "failed": 0}, "3"),
    ],
)
def test_status_shows_how_many_calls_failed(counts: dict[str, int], cell: str) -> None:
    row: dict[str, Any] = {
        "id": "one", "dialect": "mcp", "state": "ready", "health": "running", "processes": [],
        "uptime": 1.0, "restarts": 0, "last_error": None, **counts,
    }  # fmt: skip
    assert row_cells(row, now=0.0)[HEADER.index("CALLS")] == cell


def test_status_shows_the_state_of_each_extension(shared: Shared) -> None:
    folder, host = shared
    status = run_json(folder, "status")
    result = run_exthost(folder, "status")
    assert status["host"]["pid"] == host.pid
    assert status["host"]["config"] == str(folder / "exthost.toml")
    one, two, failed = status["extensions"]
    assert (one["id"], one["state"], one["health"]) == ("one", "ready", "running")
    assert len(one["pids"]) == 1 and one["pids"] != two["pids"] and one["uptime"] > 0
    assert (one["restarts"], one["calls"], one["last_error"]) == (0, 0, None)
    assert (failed["state"], failed["pids"]) == ("failed", [])
    assert failed["last_error"]["code"] == "X0401"
    header, *lines = result.stdout.splitlines()
    assert tuple(re.split(" {2,}", header)) == HEADER
    assert [line.split()[0] for line in lines] == ["one", "two", "gone"]
    assert "there is no program 'no-such-program'" in lines[2]
    assert f"process {host.pid}" in result.stderr


def test_stop_start_and_restart_change_the_process_of_one_extension(folder: Path) -> None:
    with host_process(folder):
        first = status_of(folder, "one")["pids"]
        stopped = run_json(folder, "stop", "one")
        assert (stopped["state"], stopped["pids"]) == ("stopped", [])
        assert not Path(f"/proc/{first[0]}").exists()
        assert run_json(folder, "stop", "one")["state"] == "stopped"  # it has stopped already
        error = run_json(folder, "call", "one", "echo", "--method", code=7)["error"]
        assert error["code"] == "X1006" and "`exthost start one`" in error["help"]
        started = run_json(folder, "start", "one")
        assert started["state"] == "ready" and started["pids"] != first
        assert run_json(folder, "start", "one")["pids"] == started["pids"]  # it runs already
        result = run_exthost(folder, "restart", "one")
        assert result.returncode == 0 and result.stdout.startswith("one: ready, process ")
        assert result.stdout.count("process") == 1, "only the new process is shown"
        assert status_of(folder, "one")["pids"] not in (first, started["pids"])
        assert status_of(folder, "two")["restarts"] == 0


def test_a_failed_start_in_the_running_host_is_reported_by_start_and_restart(
    shared: Shared,
) -> None:
    folder = shared.folder
    assert run_json(folder, "start", "gone", code=5)["error"]["code"] == "X0401"
    assert run_json(folder, "restart", "gone", code=5)["error"]["kind"] == "SpawnFailed"
    error = run_json(folder, "restart", "tow", code=2)["error"]
    assert (error["code"], error["help"]) == ("X1205", "did you mean 'two'?")


def test_status_shows_a_crash_after_the_restart(tmp_path: Path) -> None:
    restart = 'restart = { strategy = "immediate", max_retries = 3 }'
    write_config(tmp_path, extension("one", more=restart))
    with host_process(tmp_path):
        first = status_of(tmp_path, "one")["pids"]
        os.kill(first[0], signal.SIGUSR1)
        deadline = time.monotonic() + RUN_SECONDS
        # Without a name, `status` succeeds in every state.
        while (status := run_json(tmp_path, "status")["extensions"][0])["restarts"] == 0 or (
            status["state"] != "ready"
        ):
            assert time.monotonic() < deadline, status
            time.sleep(0.05)
    assert (status["crashes"], status["restarts"], status["health"]) == (1, 1, "degraded")
    assert status["last_error"]["exit"] == "exited with 3"


@pytest.mark.parametrize(
    "arguments", [["status"], ["stop", "one"], ["start", "one"], ["restart", "x"]]
)
def test_without_a_host_each_verb_names_the_next_step(folder: Path, arguments: list[str]) -> None:
    error = run_json(folder, *arguments, code=2)["error"]
    assert error["code"] == "X1275" and "exthost run" in error["help"]


@pytest.mark.more
def test_a_second_host_of_the_same_config_is_refused_and_starts_nothing(shared: Shared) -> None:
    folder, host = shared
    before = run_json(folder, "status")["extensions"]
    link = folder / "link.toml"
    link.symlink_to(folder / "exthost.toml")
    for arguments in (["run"], ["run", "--config", str(link)]):
        result = run_process(*arguments, "--json", cwd=folder)
        error = json.loads(result.stdout)["error"]
        assert (result.returncode, error["code"]) == (2, "X1375")
        assert str(host.pid) in error["message"]
    after = run_json(folder, "status")["extensions"]
    assert [item["pids"] for item in before] == [item["pids"] for item in after]


@pytest.mark.more
def test_a_second_host_is_refused_before_it_opens_or_announces_a_service(shared: Shared) -> None:
    folder, host = shared
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        for arguments in (["--web", "0"], ["--http", "0"], ["--web", port], ["--http", port]):
            for verb in ("run", "up"):
                result = run_process(verb, *arguments, cwd=folder)
                assert result.returncode == 2 and result.stdout == ""
                headline = result.stderr.splitlines()[0]
                assert headline.startswith("error[X1375]: ") and str(host.pid) in headline


def test_a_host_whose_socket_was_deleted_is_named_by_its_pid(folder: Path) -> None:
    with host_process(folder) as host:
        paths = socket_paths(folder / "exthost.toml", os.environ)
        [path] = [path for path in paths if path.exists()]
        path.unlink()
        for verb in ("status", "down", "reload"):
            error = run_json(folder, verb, code=2)["error"]
            assert error["code"] == "X1277" and f"kill -TERM {host.pid}" in error["help"]
        result = run_exthost(folder, "call", "one", "echo", "a=1")
        assert str(host.pid) in result.stderr and "a new process is started" in result.stderr


@pytest.mark.more
def test_the_socket_left_by_a_killed_host_is_replaced(folder: Path) -> None:
    with host_process(folder) as host:
        assert run_json(folder, "status")["host"]["pid"] == host.pid
        host.kill()
        host.wait(timeout=RUN_SECONDS)
    [path] = [path for path in socket_paths(folder / "exthost.toml", os.environ) if path.exists()]
    assert run_json(folder, "status", code=2)["error"]["code"] == "X1275"
    with host_process(folder) as host:
        assert run_json(folder, "status")["host"]["pid"] == host.pid
    assert not path.exists() and not path.with_suffix(".lock").exists()


def test_only_the_user_can_use_the_control_socket(shared: Shared) -> None:
    path = socket_paths(shared.folder / "exthost.toml", os.environ)[0]
    assert path.parent == Path(os.environ["XDG_RUNTIME_DIR"], "exthost")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_host_runs_though_its_state_folder_cannot_be_created(folder: Path) -> None:
    nowhere = {"EXTHOST_HOME": "/proc/nowhere", "XDG_RUNTIME_DIR": ""}
    with host_process(folder, **nowhere) as host:
        result = run_exthost(folder, "status", **nowhere)
        assert result.returncode == 0 and "ready" in result.stdout
        host.send_signal(signal.SIGINT)
        _, stderr = host.communicate(timeout=RUN_SECONDS)
    assert host.returncode == 130 and "one: stopped" in stderr


def test_list_shows_the_states_of_a_running_host(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.faces.cli.extension_summary._ASK_SECONDS", RUN_SECONDS)

    def states() -> dict[str, str]:
        return {item["id"]: item["state"] for item in run_json(folder, "list")["extensions"]}

    assert states() == {"one": "admitted", "two": "admitted", "gone": "admitted"}
    with host_process(folder):
        run_json(folder, "stop", "two")
        assert states() == {"one": "ready", "two": "stopped", "gone": "failed"}
        assert "gone: there is no program" in run_exthost(folder, "list").stderr
        assert run_json(folder, "info", "two")["state"] == "stopped"
        info = run_json(folder, "info", "gone")
        assert info["state"] == "failed" and "there is no program" in info["reason"]
        findings = run_json(folder, "doctor", code=5)["findings"]
        assert any(item["message"].startswith("the running host has it as") for item in findings)
    assert states() == {"one": "admitted", "two": "admitted", "gone": "admitted"}


def test_a_client_that_hangs_or_floods_does_not_affect_others(shared: Shared) -> None:
    folder = shared.folder
    with connected_clients(folder, 8) as (flooding, endless, *_):
        flooding.setblocking(False)
        with pytest.raises(BlockingIOError):  # this client never reads an answer
            while True:
                flooding.send(b'{"verb": "status"}\n' * 1000)
        with suppress(BrokenPipeError, ConnectionResetError):
            endless.sendall(b"x" * (REQUEST_BYTES + 100_000))  # gets an error and is disconnected
        assert b"X1376" in endless.recv(4096)
        assert endless.recv(1) == b""
        assert status_of(folder, "one")["state"] == "ready"
        assert run_json(folder, "restart", "two")["state"] == "ready"
    wait_until_accepted(folder)


def test_too_many_clients_are_refused_with_the_reason_and_leave_room_when_they_go(
    shared: Shared,
) -> None:
    folder = shared.folder
    with connected_clients(folder, MAX_CLIENTS) as clients:
        for client in clients:
            client.sendall(b'{"verb": "hello", "params": {"stay": true}}\n')
            assert b"pid" in client.recv(4096)
        assert run_json(folder, "status", code=2)["error"]["code"] == "X1377"
    wait_until_accepted(folder)
    assert status_of(folder, "one")["state"] == "ready"


def test_silent_clients_do_not_keep_others_out(shared: Shared) -> None:
    folder = shared.folder
    with connected_clients(folder, MAX_CLIENTS + 20) as clients:
        assert status_of(folder, "one")["state"] == "ready"
        assert clients[0].recv(1) == b""  # the oldest client was disconnected


@contextmanager
def connected_clients(folder: Path, count: int) -> Iterator[list[socket.socket]]:
    """Yield this many sockets that are connected to the host."""
    path = str(socket_paths(folder / "exthost.toml", os.environ)[0])
    clients = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    try:
        for client in clients:
            client.settimeout(RUN_SECONDS)
            client.connect(path)
        yield clients
    finally:
        for client in clients:
            client.close()


def wait_until_accepted(folder: Path) -> None:
    """Wait until the host accepts clients again: it has noticed that others have disconnected."""
    deadline = time.monotonic() + RUN_SECONDS
    while run_exthost(folder, "status").returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.more
def test_the_wait_for_a_host_that_does_not_answer_is_bounded(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, host = shared
    host.send_signal(signal.SIGSTOP)
    try:
        error = run_json(folder, "status", "--timeout", "300ms", code=6)["error"]
        assert error["code"] == "X0875" and "within 0.3 s" in error["message"]
        assert run_json(folder, "list")["extensions"][0]["state"] == "admitted"
        assert run_json(folder, "info", "one")["state"] == "admitted"
        for arguments in (["list"], ["info", "one"], ["doctor"]):
            stderr = run_exthost(folder, *arguments).stderr
            note = f"shown without the running host: the host, process {host.pid}, did not"
            assert note in stderr and f"kill -CONT {host.pid}" in stderr
    finally:
        host.send_signal(signal.SIGCONT)
    monkeypatch.setattr("exthost.faces.cli.extension_summary._ASK_SECONDS", RUN_SECONDS)
    assert "without the running host" not in run_exthost(folder, "list").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["restart", "one", "--timeout", "300ms"],
        ["call", "one", "echo", "--method", "--timeout", "300ms"],
        ["down", "--timeout", "300ms"],
        ["up", "-d"],
        ["trace"],
        ["top"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_error_for_a_host_that_hangs_names_it_and_says_that_nothing_was_done(
    shared: Shared, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, host = shared
    if "--timeout" not in arguments:
        monkeypatch.setattr("exthost.host.control.client.HELLO_SECONDS", 0.3)
    host.send_signal(signal.SIGSTOP)
    try:
        error = run_json(folder, *arguments, code=6)["error"]
    finally:
        host.send_signal(signal.SIGCONT)
    assert error["code"] == "X0875"
    assert error["message"] == f"the host, process {host.pid}, did not answer within 0.3 s"
    assert "stopped or hung, and has taken up nothing" in error["help"]
    assert f"kill -CONT {host.pid}" in error["help"] and "--timeout" not in error["help"]


@pytest.mark.more
def test_a_slow_host_finishes_the_requests_it_accepted(tmp_path: Path) -> None:
    write_config(tmp_path, extension("s", *hostile_command("stubborn")))
    with host_process(tmp_path, program=PATIENT) as host:
        error = run_json(tmp_path, "stop", "s", "--timeout", "3s", code=6)["error"]
        assert error["code"] == "X0875" and f"process {host.pid}" in error["message"]
        assert error["help"].startswith("it continues with the request")
        assert status_of(tmp_path, "s")["state"] != "ready"
        host.send_signal(signal.SIGTERM)
        wait_for(host, "stopping")
        host.send_signal(signal.SIGTERM)
        host.communicate(timeout=RUN_SECONDS)


@pytest.mark.more
def test_a_host_that_is_stopping_starts_nothing(tmp_path: Path) -> None:
    write_config(tmp_path, extension("s", *hostile_command("stubborn")))
    with host_process(tmp_path, program=PATIENT) as host:
        host.send_signal(signal.SIGTERM)
        wait_for(host, "stopping")
        assert run_json(tmp_path, "restart", "s", code=2)["error"]["code"] == "X1378"
        status = run_json(tmp_path, "status")
        assert status["host"]["ending"] is True
        assert status["extensions"][0]["state"] == "draining"
        host.send_signal(signal.SIGTERM)
        host.communicate(timeout=RUN_SECONDS)
        assert host.returncode == 0


@pytest.mark.more
def test_json_shows_every_event_as_a_line(folder: Path) -> None:
    with host_process(folder, "--json") as host:
        run_json(folder, "stop", "one")
        host.send_signal(signal.SIGINT)
        out, _ = host.communicate(timeout=RUN_SECONDS)
        assert host.returncode == 130
    events = [json.loads(line) for line in out.splitlines()]
    event_kinds = {event["event"] for event in events}
    assert {"StateChanged", "Spawned", "Exited", "LogLine"} <= event_kinds
    messages = [event["text"] for event in events if event["event"] == "LogLine"]
    assert "goodbye" in messages
    states = [event["after"] for event in events if event["event"] == "StateChanged"]
    assert states.count("stopped") == 2 and all(event["time"] > 1e9 for event in events)
