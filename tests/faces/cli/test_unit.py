"""Tests of a host as a service of systemd.

`exthost unit` prints a unit file. The running host reports its state to systemd by messages to the
socket NOTIFY_SOCKET: `READY=1`, `RELOADING=1`, `STOPPING=1`.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from exthost.faces.cli.unit import unit_text
from exthost.process.service_notify import ServiceNotifier
from tests.extensions.proc import environment_of
from tests.faces.cli.cli_process import (
    EXTHOST,
    RUN_SECONDS,
    extension,
    host_process,
    run_inside,
    run_json,
    write_config,
)


def test_a_unit_runs_the_config_by_its_whole_path_and_systemd_accepts_it(tmp_path: Path) -> None:
    folder = tmp_path / "my 100% folder"
    folder.mkdir()
    result = run_inside(
        *("unit", "--config", "a.toml", "--web", "8766", "--token-file", "t", "--run-as", "daemon"),
        *("--http", "0", "--plain-names", "--allow-origin", "https://a.org"),
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    escaped_folder = str(folder).replace("%", "%%")
    options = "--http 0 --allow-origin https://a.org --plain-names"
    command = (
        f'run --quiet --config "{escaped_folder}/a.toml" {options} '
        f'--token-file "{escaped_folder}/t" --web 8766'
    )
    assert command in result.stdout
    for line in ("Type=notify", "User=daemon", "Delegate=yes", "ExecReload=kill -HUP $MAINPID"):
        assert line in result.stdout.splitlines()
    check_unit(result.stdout, tmp_path)


# The keys of a unit that systemd has known for years, by section.
KNOWN_KEYS = {
    "Unit": {"Description", "Documentation", "After"},
    "Service": {
        *("Type", "User", "WorkingDirectory", "Environment", "ExecStart", "ExecReload"),
        *("KillMode", "TimeoutStartSec", "TimeoutStopSec", "Restart", "RestartSec", "Delegate"),
        *("OOMPolicy", "UMask"),
        *("RestrictSUIDSGID", "LockPersonality", "RestrictRealtime", "ProtectClock"),
        *("ProtectKernelLogs", "ProtectKernelModules", "ProtectHostname", "KeyringMode"),
        *("SystemCallArchitectures", "RestrictAddressFamilies", "NoNewPrivileges"),
        *("SystemCallFilter", "SystemCallErrorNumber", "CapabilityBoundingSet"),
    },
    "Install": {"WantedBy"},
}


def check_unit(text: str, folder: Path, *options: str) -> None:
    """Check the keys of a unit, and let `systemd-analyze verify` read it if that is installed."""
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif line and not line.startswith("#"):
            assert line.partition("=")[0] in KNOWN_KEYS[section], line
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    file = folder / "exthost.service"
    file.write_text(text)
    checked = subprocess.run(
        [analyze, "verify", "--man=no", *options, str(file)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert "exthost.service:" not in checked.stderr, checked.stderr
    assert "Failed to initialize" not in checked.stderr, checked.stderr


# The exposure that `systemd-analyze security` computes, from 0 (safe) to 10, and its limit. A host
# of root keeps the capabilities with which it gives each extension a user of its own.
@pytest.mark.more
@pytest.mark.parametrize(("user", "limit"), [("daemon", 5.0), ("root", 7.0)])
def test_the_exposure_of_a_unit_is_limited(user: str, limit: float, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    write_config(tmp_path)
    file = tmp_path / "exthost.service"
    file.write_text(run_inside("unit", "--run-as", user, cwd=tmp_path).stdout)
    command = [analyze, "security", "--offline=true", "--no-pager", str(file)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", result.stdout)
    assert exposure is not None, result.stdout + result.stderr
    assert float(exposure[1]) <= limit


@pytest.mark.more
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop capabilities")
def test_a_sandbox_works_with_the_capabilities_of_the_unit_of_root(tmp_path: Path) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None or shutil.which("bwrap") is None:
        pytest.skip("setpriv or bubblewrap is not installed")
    write_config(tmp_path, extension("talker", more="permissions = {}\n"))
    unit = run_inside("unit", "--run-as", "root", cwd=tmp_path).stdout
    [names] = re.findall(r"^CapabilityBoundingSet=~(.+)$", unit, re.MULTILINE)
    dropped = ",".join("-" + name.removeprefix("CAP_").lower() for name in names.split())
    command = [
        setpriv,
        "--no-new-privs",
        f"--bounding-set={dropped}",
        *EXTHOST,
        "inspect",
        "talker",
    ]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert result.returncode == 0, result.stderr


def test_a_unit_does_not_forbid_privileges_that_a_setuid_bubblewrap_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.touch(0o755)
    bwrap.chmod(0o4755)
    monkeypatch.setattr("shutil.which", lambda name: str(bwrap))
    text = unit_text(["exthost", "run"], config="/a.toml", user="daemon", path="")
    assert "bubblewrap is setuid here" in text
    for key in ("NoNewPrivileges=", "SystemCallFilter=", "RestrictSUIDSGID=", "LockPersonality="):
        assert f"\n{key}" not in text


@pytest.mark.more
@pytest.mark.parametrize("arguments", [(), ("--user",), ("--run-as", "root"), ("--web", "0")])
def test_every_kind_of_unit_is_accepted_by_systemd(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    write_config(tmp_path)
    result = run_inside("unit", *arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    check_unit(result.stdout, tmp_path, *(["--user"] if "--user" in arguments else []))


def test_a_unit_with_an_unknown_key_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ExecStrat"):
        check_unit("[Service]\nExecStrat=/bin/true\n", tmp_path)


def test_a_unit_names_a_user_only_if_it_is_not_a_user_unit(tmp_path: Path) -> None:
    write_config(tmp_path)
    result = run_inside("unit", "--user", cwd=tmp_path)
    assert "WantedBy=default.target" in result.stdout and "User=" not in result.stdout
    result = run_inside("unit", "--user", "--run-as", "daemon", cwd=tmp_path)
    assert result.returncode == 2 and "X1316" in result.stderr
    result = run_inside("unit", "--run-as", "no-such-user", cwd=tmp_path)
    assert result.returncode == 0 and "warning: there is no user no-such-user here" in result.stderr
    assert "warning" not in run_inside("unit", "--run-as", "daemon", cwd=tmp_path).stderr


def test_a_control_character_in_the_working_folder_is_refused(tmp_path: Path) -> None:
    """A newline would end the line of the unit, and begin another setting."""
    folder = tmp_path / "a\nExecStartPre=b"
    folder.mkdir()
    result = run_inside("unit", cwd=folder)
    assert result.returncode == 2 and "has a control character" in result.stderr


def test_a_missing_config_is_a_warning(tmp_path: Path) -> None:
    result = run_inside("unit", "--config", str(tmp_path / "none.toml"))
    assert result.returncode == 0 and f"there is no {tmp_path}/none.toml yet" in result.stderr


def test_a_user_without_a_name_or_a_home_has_a_unit_and_can_import_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_key_error(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", raise_key_error)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    environ = {"PATH": os.environ["PATH"]}
    assert "\nUser=12345\n" in run_inside("unit", cwd=tmp_path, env=environ).stdout
    result = run_inside("mcp", "import", cwd=tmp_path, env=environ)
    assert "Traceback" not in result.stderr, result.stderr


def test_a_unit_has_the_current_path_variable_without_relative_folders(tmp_path: Path) -> None:
    path = '/venv 50%/bin:.::bin:/opt/a$b"c\\d:/usr/bin'
    result = run_inside("unit", "--user", cwd=tmp_path, env={**os.environ, "PATH": path})
    lines = result.stdout.splitlines()
    assert r'''Environment="PATH=/venv 50%%/bin:/opt/a$b\"c\\d:/usr/bin"''' in lines
    result = run_inside("unit", "--user", cwd=tmp_path, env={**os.environ, "PATH": "."})
    assert "Environment=" not in result.stdout


def test_a_host_reports_its_state_and_hides_the_socket_from_its_children(
    tmp_path: Path,
) -> None:
    write_config(tmp_path, extension("talker"))
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(RUN_SECONDS)
        with host_process(tmp_path, NOTIFY_SOCKET=str(path)) as host:
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
def test_an_abstract_socket_address_is_supported() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        name = f"exthost-test-{os.getpid()}"
        manager.bind(f"\0{name}")
        manager.settimeout(RUN_SECONDS)
        ServiceNotifier({"NOTIFY_SOCKET": f"@{name}"}).ready("one\ntwo")
        assert manager.recv(4096) == b"READY=1\nSTATUS=one two"
