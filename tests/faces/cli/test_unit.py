"""The systemd unit, and what a host tells its service manager."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from exthost.process.service_notify import ServiceNotifier
from tests.extensions.proc import environment_of
from tests.faces.cli.cli_process import (
    RUN_SECONDS,
    extension,
    run_inside,
    run_json,
    running,
    write_config,
)


def test_a_unit_runs_the_config_by_its_whole_path_and_systemd_accepts_it(tmp_path: Path) -> None:
    folder = tmp_path / "my 100% folder"
    folder.mkdir()
    done = run_inside(
        *("unit", "--config", "a.toml", "--web", "8766", "--token-file", "t", "--run-as", "daemon"),
        *("--http", "0", "--plain-names", "--allow-origin", "https://a.org"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    shown = str(folder).replace("%", "%%")
    options = "--http 0 --allow-origin https://a.org --plain-names"
    command = f'run --quiet --config "{shown}/a.toml" {options} --token-file "{shown}/t" --web 8766'
    assert command in done.stdout
    for line in ("Type=notify", "User=daemon", "Delegate=yes", "ExecReload=kill -HUP $MAINPID"):
        assert line in done.stdout.splitlines()
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        file = tmp_path / "exthost.service"
        file.write_text(done.stdout)
        checked = subprocess.run(
            [analyze, "verify", "--man=no", str(file)],
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert "exthost.service:" not in checked.stderr, checked.stderr


def test_a_units_user_is_its_own_or_is_named(tmp_path: Path) -> None:
    write_config(tmp_path)
    done = run_inside("unit", "--user", cwd=tmp_path)
    assert "WantedBy=default.target" in done.stdout and "User=" not in done.stdout
    done = run_inside("unit", "--user", "--run-as", "daemon", cwd=tmp_path)
    assert done.returncode == 2 and "X1316" in done.stderr
    done = run_inside("unit", "--run-as", "no-such-user", cwd=tmp_path)
    assert done.returncode == 0 and "warning: there is no user no-such-user here" in done.stderr
    assert "warning" not in run_inside("unit", "--run-as", "daemon", cwd=tmp_path).stderr


def test_a_config_that_is_not_there_is_warned_of(tmp_path: Path) -> None:
    done = run_inside("unit", "--config", str(tmp_path / "none.toml"))
    assert done.returncode == 0 and f"there is no {tmp_path}/none.toml yet" in done.stderr


def test_a_user_without_a_name_or_a_home_has_a_unit_and_can_import_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def have_no_user(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", have_no_user)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    environ = {"PATH": os.environ["PATH"]}
    assert "\nUser=12345\n" in run_inside("unit", cwd=tmp_path, env=environ).stdout
    done = run_inside("mcp", "import", cwd=tmp_path, env=environ)
    assert "Traceback" not in done.stderr, done.stderr


def test_a_unit_has_the_path_of_now_without_relative_folders(tmp_path: Path) -> None:
    path = '/venv 50%/bin:.::bin:/opt/a$b"c\\d:/usr/bin'
    done = run_inside("unit", "--user", cwd=tmp_path, env={**os.environ, "PATH": path})
    lines = done.stdout.splitlines()
    assert r'''Environment="PATH=/venv 50%%/bin:/opt/a$b\"c\\d:/usr/bin"''' in lines
    done = run_inside("unit", "--user", cwd=tmp_path, env={**os.environ, "PATH": "."})
    assert "Environment=" not in done.stdout


def test_a_host_reports_when_it_is_ready_reloads_and_stops_and_its_children_cannot(
    tmp_path: Path,
) -> None:
    write_config(tmp_path, extension("talker"))
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(RUN_SECONDS)
        with running(tmp_path, NOTIFY_SOCKET=str(path)) as host:
            assert manager.recv(4096).startswith(b"READY=1\nSTATUS=1 of 1 extensions ready")
            (row,) = run_json(tmp_path, "status")["extensions"]
            assert b"NOTIFY_SOCKET" not in environment_of(row["pids"][0])
            host.send_signal(signal.SIGHUP)
            assert manager.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert manager.recv(4096) == b"READY=1\nSTATUS=reloaded: nothing changed"
            host.send_signal(signal.SIGTERM)
            assert manager.recv(4096) == b"STOPPING=1"


def test_a_missing_or_dead_manager_is_not_an_error(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": str(tmp_path / "none")}, {"NOTIFY_SOCKET": "\0"}):
        notifier = ServiceNotifier(environ)
        assert environ == {}
        notifier.ready("fine")
        notifier.stopping()


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX") or os.uname().sysname != "Linux", reason="Linux")
def test_an_abstract_address_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = f"exthost-test-{os.getpid()}"
        manager.bind(f"\0{name}")
        manager.settimeout(RUN_SECONDS)
        ServiceNotifier({"NOTIFY_SOCKET": f"@{name}"}).ready("one\ntwo")
        assert manager.recv(4096) == b"READY=1\nSTATUS=one two"
