"""`exthost run` and those who talk to it: status, start, stop, restart, list, one host a config."""

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

from exthost.faces.cli.status import HEADER, row_cells
from exthost.host.control.address import socket_paths
from exthost.host.control.protocol import REQUEST_BYTES
from exthost.host.control.server import MAX_CLIENTS
from tests.extensions.harness import command as hostile_command
from tests.faces.cli.cli_process import (
    PATIENT,
    RUN_SECONDS,
    extension,
    exthost,
    run_json,
    run_process,
    running,
    shared_host,
    wait_for,
    write_config,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return configured(tmp_path)


class Shared(NamedTuple):
    """A host that serves all tests that let "one" be, and the folder of its config."""

    folder: Path
    host: "subprocess.Popen[str]"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = configured(tmp_path_factory.mktemp("shared"))
    with shared_host(folder) as host:
        yield Shared(folder, host)


def configured(folder: Path) -> Path:
    write_config(folder, extension("one"), extension("two"), extension("gone", "no-such-program"))
    return folder


def row(folder: Path, name: str) -> dict[str, Any]:
    [one] = run_json(folder, "status", name)["extensions"]
    assert isinstance(one, dict)
    return one


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ({"calls": 3, "failed": 2}, "3, 2 failed"),
        ({"calls": 3, "failed": 0}, "3"),
    ],
)
def test_status_shows_how_many_calls_failed(counts: dict[str, int], shown: str) -> None:
    row: dict[str, Any] = {
        "id": "one", "dialect": "mcp", "state": "ready", "health": "running", "processes": [],
        "uptime": 1.0, "restarts": 0, "last_error": None, **counts,
    }  # fmt: skip
    assert row_cells(row, now=0.0)[7] == shown


def test_status_shows_the_state_of_each_extension(shared: Shared) -> None:
    folder, host = shared
    told_ = run_json(folder, "status")
    done = exthost(folder, "status")
    assert told_["host"]["pid"] == host.pid
    assert told_["host"]["config"] == str(folder / "exthost.toml")
    one, two, gone = told_["extensions"]
    assert (one["id"], one["state"], one["health"]) == ("one", "ready", "running")
    assert len(one["pids"]) == 1 and one["pids"] != two["pids"] and one["uptime"] > 0
    assert (one["restarts"], one["calls"], one["last_error"]) == (0, 0, None)
    assert (gone["state"], gone["pids"]) == ("failed", [])
    assert gone["last_error"]["code"] == "X0401"
    header, *lines = done.stdout.splitlines()
    assert tuple(re.split(" {2,}", header)) == HEADER
    assert [line.split()[0] for line in lines] == ["one", "two", "gone"]
    assert "there is no program 'no-such-program'" in lines[2]
    assert f"process {host.pid}" in done.stderr


def test_stop_start_and_restart_act_by_their_names(folder: Path) -> None:
    with running(folder):
        first = row(folder, "one")["pids"]
        stopped = run_json(folder, "stop", "one")
        assert (stopped["state"], stopped["pids"]) == ("stopped", [])
        assert not Path(f"/proc/{first[0]}").exists()
        assert run_json(folder, "stop", "one")["state"] == "stopped"  # it is already
        error = run_json(folder, "call", "one", "echo", "--method", code=7)["error"]
        assert error["code"] == "X1006" and "`exthost start one`" in error["help"]
        started = run_json(folder, "start", "one")
        assert started["state"] == "ready" and started["pids"] != first
        assert run_json(folder, "start", "one")["pids"] == started["pids"]  # it runs already
        again = exthost(folder, "restart", "one")
        assert again.returncode == 0 and again.stdout.startswith("one: ready, process ")
        assert again.stdout.count("process") == 1, "the old one is not the one asked for"
        assert row(folder, "one")["pids"] not in (first, started["pids"])
        assert row(folder, "two")["restarts"] == 0


def test_a_failed_start_is_reported_as_if_it_were_started_here(shared: Shared) -> None:
    folder = shared.folder
    assert run_json(folder, "start", "gone", code=5)["error"]["code"] == "X0401"
    assert run_json(folder, "restart", "gone", code=5)["error"]["kind"] == "SpawnFailed"
    error = run_json(folder, "restart", "tow", code=2)["error"]
    assert (error["code"], error["help"]) == ("X1205", "did you mean 'two'?")


def test_a_crash_is_remembered_when_the_extension_runs_again(tmp_path: Path) -> None:
    restart = 'restart = { strategy = "immediate", max_retries = 3 }'
    write_config(tmp_path, extension("one", more=restart))
    with running(tmp_path):
        first = row(tmp_path, "one")["pids"]
        os.kill(first[0], signal.SIGUSR1)
        deadline = time.monotonic() + RUN_SECONDS
        while (now := row(tmp_path, "one"))["restarts"] == 0 or now["state"] != "ready":
            assert time.monotonic() < deadline, now
            time.sleep(0.05)
    assert (now["crashes"], now["restarts"], now["health"]) == (1, 1, "degraded")
    assert now["last_error"]["exit"] == "exited with 3"


@pytest.mark.parametrize("words", [["status"], ["stop", "one"], ["start", "one"], ["restart", "x"]])
def test_without_a_host_each_verb_names_the_next_step(folder: Path, words: list[str]) -> None:
    error = run_json(folder, *words, code=2)["error"]
    assert error["code"] == "X1275" and "exthost run" in error["help"]


def test_a_second_host_of_the_same_config_is_refused_and_starts_nothing(shared: Shared) -> None:
    folder, host = shared
    before = run_json(folder, "status")["extensions"]
    link = folder / "link.toml"
    link.symlink_to(folder / "exthost.toml")
    for words in (["run"], ["run", "--config", str(link)]):
        done = run_process(*words, "--json", cwd=folder)
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["code"]) == (2, "X1375")
        assert str(host.pid) in error["message"]
    after = run_json(folder, "status")["extensions"]
    assert [item["pids"] for item in before] == [item["pids"] for item in after]


@pytest.mark.more
def test_a_second_host_is_refused_before_it_opens_or_announces_a_service(shared: Shared) -> None:
    folder, host = shared
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        for words in (["--web", "0"], ["--http", "0"], ["--web", port], ["--http", port]):
            for verb in ("run", "up"):
                done = run_process(verb, *words, cwd=folder)
                assert done.returncode == 2 and done.stdout == ""
                headline = done.stderr.splitlines()[0]
                assert headline.startswith("error[X1375]: ") and str(host.pid) in headline


def test_a_host_whose_socket_was_deleted_is_named_by_its_pid(folder: Path) -> None:
    with running(folder) as host:
        paths = socket_paths(folder / "exthost.toml", os.environ)
        [path] = [path for path in paths if path.exists()]
        path.unlink()
        for verb in ("status", "down", "reload"):
            error = run_json(folder, verb, code=2)["error"]
            assert error["code"] == "X1277" and f"kill -TERM {host.pid}" in error["help"]
        done = exthost(folder, "call", "one", "echo", "a=1")
        assert str(host.pid) in done.stderr and "a new process is started" in done.stderr


def test_the_socket_left_by_a_killed_host_is_replaced(folder: Path) -> None:
    with running(folder) as host:
        assert run_json(folder, "status")["host"]["pid"] == host.pid
        host.kill()
        host.wait(timeout=RUN_SECONDS)
    [path] = [path for path in socket_paths(folder / "exthost.toml", os.environ) if path.exists()]
    assert run_json(folder, "status", code=2)["error"]["code"] == "X1275"
    with running(folder) as host:
        assert run_json(folder, "status")["host"]["pid"] == host.pid
    assert not path.exists() and not path.with_suffix(".lock").exists()


def test_the_socket_is_its_users_alone(shared: Shared) -> None:
    path = socket_paths(shared.folder / "exthost.toml", os.environ)[0]
    assert path.parent == Path(os.environ["XDG_RUNTIME_DIR"], "exthost")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_machine_without_a_folder_of_ours_still_runs_a_host(folder: Path) -> None:
    nowhere = {"EXTHOST_HOME": "/proc/nowhere", "XDG_RUNTIME_DIR": ""}
    with running(folder, **nowhere) as host:
        done = exthost(folder, "status", **nowhere)
        assert done.returncode == 0 and "ready" in done.stdout
        host.send_signal(signal.SIGINT)
        _, talk = host.communicate(timeout=RUN_SECONDS)
    assert host.returncode == 130 and "one: stopped" in talk


def test_list_shows_the_states_of_a_running_host(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.faces.cli.extension_summary._ASK_SECONDS", RUN_SECONDS)

    def states() -> dict[str, str]:
        return {item["id"]: item["state"] for item in run_json(folder, "list")["extensions"]}

    assert states() == {"one": "admitted", "two": "admitted", "gone": "admitted"}
    with running(folder):
        run_json(folder, "stop", "two")
        assert states() == {"one": "ready", "two": "stopped", "gone": "failed"}
        assert "gone: there is no program" in exthost(folder, "list").stderr
        assert run_json(folder, "info", "two")["state"] == "stopped"
        gone = run_json(folder, "info", "gone")
        assert gone["state"] == "failed" and "there is no program" in gone["reason"]
        findings = run_json(folder, "doctor", code=5)["findings"]
        assert any(item["message"].startswith("the running host has it as") for item in findings)
    assert states() == {"one": "admitted", "two": "admitted", "gone": "admitted"}


def test_a_client_that_hangs_or_floods_does_not_affect_others(shared: Shared) -> None:
    folder = shared.folder
    with crowd(folder, 8) as (flooding, endless, *_):
        flooding.setblocking(False)
        with pytest.raises(BlockingIOError):  # and never reads an answer
            while True:
                flooding.send(b'{"verb": "status"}\n' * 1000)
        with suppress(BrokenPipeError, ConnectionResetError):
            endless.sendall(b"x" * (REQUEST_BYTES + 100_000))  # is told so, and let go
        assert b"X1376" in endless.recv(4096)
        assert endless.recv(1) == b""
        assert row(folder, "one")["state"] == "ready"
        assert run_json(folder, "restart", "two")["state"] == "ready"
    wait_for_room(folder)


def test_too_many_clients_are_refused_with_the_reason_and_leave_room_when_they_go(
    shared: Shared,
) -> None:
    folder = shared.folder
    with crowd(folder, MAX_CLIENTS) as clients:
        for client in clients:
            client.sendall(b'{"verb": "hello", "params": {"stay": true}}\n')
            assert b"pid" in client.recv(4096)
        assert run_json(folder, "status", code=2)["error"]["code"] == "X1377"
    wait_for_room(folder)
    assert row(folder, "one")["state"] == "ready"


def test_silent_clients_do_not_keep_others_out(shared: Shared) -> None:
    folder = shared.folder
    with crowd(folder, MAX_CLIENTS + 20) as clients:
        assert row(folder, "one")["state"] == "ready"
        assert clients[0].recv(1) == b""  # the oldest has gone


@contextmanager
def crowd(folder: Path, count: int) -> Iterator[list[socket.socket]]:
    """So many clients of a host, connected."""
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


def wait_for_room(folder: Path) -> None:
    """Until the host has noticed that a crowd is gone."""
    deadline = time.monotonic() + RUN_SECONDS
    while exthost(folder, "status").returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.more
def test_a_host_that_does_not_answer_is_not_waited_for_in_vain(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, host = shared
    host.send_signal(signal.SIGSTOP)
    try:
        error = run_json(folder, "status", "--timeout", "300ms", code=6)["error"]
        assert error["code"] == "X0875" and "within 0.3 s" in error["message"]
        assert run_json(folder, "list")["extensions"][0]["state"] == "admitted"
        assert run_json(folder, "info", "one")["state"] == "admitted"
        for words in (["list"], ["info", "one"], ["doctor"]):
            stderr = exthost(folder, *words).stderr
            note = f"shown without the running host: the host, process {host.pid}, did not"
            assert note in stderr and f"kill -CONT {host.pid}" in stderr
    finally:
        host.send_signal(signal.SIGCONT)
    monkeypatch.setattr("exthost.faces.cli.extension_summary._ASK_SECONDS", RUN_SECONDS)
    assert "without the running host" not in exthost(folder, "list").stderr


@pytest.mark.parametrize(
    "words",
    [
        ["restart", "one", "--timeout", "300ms"],
        ["call", "one", "echo", "--method", "--timeout", "300ms"],
        ["down", "--timeout", "300ms"],
        ["up", "-d"],
        ["trace"],
        ["top"],
    ],
    ids=lambda words: words[0],
)
def test_a_host_that_hangs_is_named_and_was_asked_for_nothing(
    shared: Shared, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, host = shared
    if "--timeout" not in words:
        monkeypatch.setattr("exthost.host.control.client.HELLO_SECONDS", 0.3)
    host.send_signal(signal.SIGSTOP)
    try:
        error = run_json(folder, *words, code=6)["error"]
    finally:
        host.send_signal(signal.SIGCONT)
    assert error["code"] == "X0875"
    assert error["message"] == f"the host, process {host.pid}, did not answer within 0.3 s"
    assert "stopped or hung, and has taken up nothing" in error["help"]
    assert f"kill -CONT {host.pid}" in error["help"] and "--timeout" not in error["help"]


def test_a_slow_host_finishes_the_requests_it_accepted(tmp_path: Path) -> None:
    write_config(tmp_path, extension("s", *hostile_command("stubborn")))
    with running(tmp_path, program=PATIENT) as host:
        error = run_json(tmp_path, "stop", "s", "--timeout", "3s", code=6)["error"]
        assert error["code"] == "X0875" and f"process {host.pid}" in error["message"]
        assert error["help"].startswith("it continues with the request")
        assert row(tmp_path, "s")["state"] != "ready"
        host.send_signal(signal.SIGTERM)
        wait_for(host, "stopping")
        host.send_signal(signal.SIGTERM)
        host.communicate(timeout=RUN_SECONDS)


def test_a_host_that_drains_starts_nothing_any_more(tmp_path: Path) -> None:
    write_config(tmp_path, extension("s", *hostile_command("stubborn")))
    with running(tmp_path, program=PATIENT) as host:
        host.send_signal(signal.SIGTERM)
        wait_for(host, "stopping")
        assert run_json(tmp_path, "restart", "s", code=2)["error"]["code"] == "X1378"
        status = run_json(tmp_path, "status")
        assert status["host"]["ending"] is True
        assert status["extensions"][0]["state"] == "draining"
        host.send_signal(signal.SIGTERM)
        host.communicate(timeout=RUN_SECONDS)
        assert host.returncode == 0


def test_json_shows_every_event_as_a_line(folder: Path) -> None:
    with running(folder, "--json") as host:
        run_json(folder, "stop", "one")
        host.send_signal(signal.SIGINT)
        out, _ = host.communicate(timeout=RUN_SECONDS)
        assert host.returncode == 130
    events = [json.loads(line) for line in out.splitlines()]
    kinds = {event["event"] for event in events}
    assert {"StateChanged", "Spawned", "Exited", "LogLine"} <= kinds
    messages = [event["text"] for event in events if event["event"] == "LogLine"]
    assert "goodbye" in messages
    moves = [event["after"] for event in events if event["event"] == "StateChanged"]
    assert moves.count("stopped") == 2 and all(event["time"] > 1e9 for event in events)
