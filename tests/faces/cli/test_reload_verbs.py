"""Tests of verbs that change the config of a running host, or start and end the host.

`reload`, or SIGHUP, makes the host read its config again; `add` and `remove` edit the file; `up -d`
starts a host in the background, and `down` ends it. The extension `h` (`extensions/hostile.py`) has
a tool `keep`, which does not answer by itself.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from exthost.config.discovery.configfile import read_config
from exthost.config.entry_edit import add_entry_in_toml, remove_entry_in_toml
from exthost.errors import CallTimeout, UsageError
from exthost.faces.cli import config_lock, up
from exthost.host.control.address import socket_paths
from exthost.host.control.socket_path import config_key
from exthost.host.host import Host
from exthost.process.state_dirs import log_file
from tests.extensions.harness import hostile_command as hostile_command
from tests.extensions.proc import all_pids
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
from tests.faces.cli.test_through_running_host import status_of, wait_until


def pids_by_extension(folder: Path) -> dict[str, Any]:
    return {item["id"]: item["pids"] for item in run_json(folder, "status")["extensions"]}


@pytest.mark.more
def test_a_reload_changes_only_the_changed_entries_and_loses_no_call(tmp_path: Path) -> None:
    unchanged, hostile = extension("same"), extension("h", *hostile_command())
    write_config(tmp_path, unchanged, hostile, extension("gone", *hostile_command()))
    with host_process(tmp_path):
        before = pids_by_extension(tmp_path)
        calls = [
            subprocess.Popen(
                [*EXTHOST, "call", name, "keep", "--method", f"who={name}"],
                cwd=tmp_path,
                env=os.environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for name in ("h", "gone")
        ]
        for name in ("h", "gone"):
            wait_until(lambda name=name: status_of(tmp_path, name)["in_flight"] == 1)  # type: ignore[misc]
        # An argument that the program ignores, so that the entry differs.
        changed = extension("h", *hostile_command("changed=1"))
        write_config(tmp_path, unchanged, changed, extension("new"))
        outcome = run_json(tmp_path, "reload")
        assert outcome == {"added": ["new"], "changed": ["h"], "removed": ["gone"], "failed": []}
        after = pids_by_extension(tmp_path)
        assert list(after) == ["same", "h", "new"]
        assert after["same"] == before["same"] and set(after["h"]) != set(before["h"])
        # The old processes still run, until they have answered their calls.
        for call in calls:
            assert call.poll() is None
        for pid in (*before["h"], *before["gone"]):
            os.kill(pid, 0)
        assert run_json(tmp_path, "reload")["changed"] == []
        for call in calls:
            call.kill()
            call.communicate(timeout=RUN_SECONDS)
        wait_until(lambda: not {*before["h"], *before["gone"]} & set(all_pids()))


@pytest.mark.more
def test_an_unusable_config_changes_nothing(tmp_path: Path) -> None:
    config = write_config(tmp_path, extension("one"))
    with host_process(tmp_path):
        before = pids_by_extension(tmp_path)
        config.write_text("[[extensions")
        assert run_json(tmp_path, "reload", code=3)["error"]["kind"] == "ConfigError"
        write_config(tmp_path, extension("one", "no-such-program"))
        outcome = run_json(tmp_path, "reload", code=5)
        assert (outcome["changed"], outcome["failed"][0]["code"]) == ([], "X0401")
        assert pids_by_extension(tmp_path) == before
        result = run_exthost(tmp_path, "reload")  # the start is tried again and fails again
        assert result.returncode == 5 and "no-such-program" in result.stderr
        assert result.stdout == "reloaded: the new version of one failed, and the old one is kept\n"
        for part in ("error[X0401]: one: ", "\n  help:   ", "\n  more:   exthost explain X0401\n"):
            assert part in result.stderr
        write_config(tmp_path, extension("one"))
        assert run_json(tmp_path, "reload")["changed"] == []


@pytest.mark.more
def test_status_shows_the_cause_of_the_last_failed_reload(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one", "first-missing-program"))
    with host_process(tmp_path):
        assert "first-missing-program" in run_exthost(tmp_path, "status").stdout
        write_config(tmp_path, extension("one", "second-missing-program"))
        assert run_exthost(tmp_path, "reload").returncode == 5
        status = run_exthost(tmp_path, "status").stdout
        assert "second-missing-program" in status and "first-missing-program" not in status


@pytest.mark.more
def test_info_shows_the_settings_in_force_and_restart_lists_those_not_yet_applied(
    tmp_path: Path,
) -> None:
    # A restart does not read the config again; a reload does.
    write_config(tmp_path, extension("one", more='limits = { call = "10s" }\nenv = { A = "b" }'))
    with host_process(tmp_path):
        assert "changed" not in run_json(tmp_path, "info", "one")
        assert "not applied" not in run_exthost(tmp_path, "restart", "one").stderr
        more = 'limits = { call = "20s" }\nenv = { A = "c" }'
        write_config(tmp_path, extension("one", more=more))
        result = run_exthost(tmp_path, "restart", "one")
        assert "not applied to one yet: env, limits; `exthost reload`" in result.stderr
        info = run_json(tmp_path, "info", "one")
        assert info["limits"]["call"] == 10 and info["changed"].startswith("env, limits: ")
        assert run_json(tmp_path, "reload")["changed"] == ["one"]
        info = run_json(tmp_path, "info", "one")
        assert info["limits"]["call"] == 20 and "changed" not in info


@pytest.mark.more
def test_sighup_reads_the_config_again(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    with host_process(tmp_path) as host:
        write_config(tmp_path, extension("one"), extension("two"))
        host.send_signal(signal.SIGHUP)
        assert "added two" in wait_for(host, "reloaded:")
        write_config(tmp_path, "nonsense")
        host.send_signal(signal.SIGHUP)
        assert "X01" in wait_for(host, "not reloaded")
        assert list(pids_by_extension(tmp_path)) == ["one", "two"]


def test_up_runs_a_host_in_the_background_and_down_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.faces.cli.up.free_bytes", lambda _: 0)
    dies = extension("dies", sys.executable, "-S", "-E", "-c", "raise SystemExit('no key')")
    write_config(tmp_path, extension("one"), extension("gone", "no-such-program"), dies)
    # A Python file in the working folder, which an extension could have written, is not imported.
    fake_json_module = tmp_path / "json.py"
    fake_json_module.write_text("raise SystemExit('imported from the working folder')")
    result = run_inside("up", "-d", "--json", cwd=tmp_path)
    fake_json_module.unlink()
    host = json.loads(result.stdout)
    try:
        assert run_json(tmp_path, "status")["host"]["pid"] == host["pid"]
        assert status_of(tmp_path, "one")["state"] == "ready"
        for part in ("error[X0401]: gone: ", "]: dies: ", "  stderr: no key\n", "  help:   "):
            assert part in result.stderr
        assert "; exthost down ends it\n" in result.stderr
        assert "/host.out\n" in result.stderr
        assert result.returncode == 5 and "gone, dies have failed" in result.stderr
        assert "is full: the messages of the host" in result.stderr
        second = run_exthost(tmp_path, "up", "-d")
        assert second.returncode == 2 and "X1375" in second.stderr
    finally:
        result = run_exthost(tmp_path, "down")
        # Here the host is a child of the test; after a real `up` it has no living parent.
        os.waitpid(host["pid"], 0)
    assert (result.returncode, result.stdout) == (0, f"host: process {host['pid']} ended\n")
    assert run_json(tmp_path, "down", code=2)["error"]["code"] == "X1275"
    (tmp_path / "exthost.toml").write_text("nonsense")
    assert run_exthost(tmp_path, "up", "-d").returncode == 3


@pytest.mark.more
def test_a_second_up_leaves_the_output_of_the_running_host_alone(tmp_path: Path) -> None:
    path = write_config(tmp_path, extension("one"))
    output = Path(log_file(os.environ, config_key(path), "one")).with_name("host.out")
    with host_process(tmp_path) as host:
        output.write_text("output of the running host\n")
        # Without its socket, the running host is like a host that has just started.
        [socket] = [path for path in socket_paths(path, os.environ) if path.exists()]
        socket.unlink()
        second = run_exthost(tmp_path, "up", "-d")
        assert second.returncode == 2
        assert "X1375" in second.stderr and str(host.pid) in second.stderr
        assert "host.out" not in second.stderr  # that file belongs to the running host
        assert output.read_text() == "output of the running host\n"
    write_config(tmp_path, extension("one", more="limits = { call = '1s' }"))
    failed = run_exthost(tmp_path, "up", "-d", "--web", "nonsense:1")
    assert failed.returncode == 2 and failed.stderr.endswith("/host.out\n")
    assert "X1365" in output.read_text() and output.stat().st_mode & 0o777 == 0o600
    assert not list(output.parent.glob("host.out?*"))


async def test_down_does_not_end_a_program_with_an_embedded_host(tmp_path: Path) -> None:
    import asyncio

    path = write_config(tmp_path)
    async with Host.from_config(path, control=True):
        result = await asyncio.to_thread(run_exthost, tmp_path, "down", "--json")
    assert json.loads(result.stdout)["error"]["code"] == "X1383"


def test_add_and_remove_keep_the_rest_of_the_config(tmp_path: Path) -> None:
    path = tmp_path / "exthost.toml"
    path.write_text("# ours\n[defaults]\nlimits = { call = 5 } # short\n")
    before = path.read_text()
    arguments = ("add", "a", "--dialect", "mcp", "--lazy")
    result = run_exthost(tmp_path, *arguments, "--", "server", "--flag", "x y")
    assert (result.returncode, result.stdout) == (0, "a: added to exthost.toml\n"), result.stderr
    assert path.read_text().startswith(before)
    [row] = run_json(tmp_path, "list")["extensions"]
    assert (row["id"], row["dialect"]) == ("a", "mcp")
    second = run_exthost(tmp_path, "add", "a", "--json", "--", "x")
    assert json.loads(second.stdout)["error"]["code"] == "X1312"
    assert run_exthost(tmp_path, "add", "b").returncode == 2
    assert run_exthost(tmp_path, "add", "b", "--dialect", "nonsense", "--", "x").returncode != 0
    assert run_json(tmp_path, "remove", "b", code=2)["error"]["code"] == "X1206"
    assert run_json(tmp_path, "remove", "a")["removed"] is True
    assert path.read_text().rstrip() == before.rstrip()


@pytest.mark.parametrize("name", ["servers.json", "extensions.yaml"])
def test_the_help_of_add_and_remove_fits_the_format_of_the_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    is_json = path.suffix == ".json"
    text = '{"mcpServers": {"a": {"command": "x"}}}' if is_json else "extensions: {}\n"
    path.write_text(text)
    arguments = ["add", "b", "--json", "--config", name, "--", "x"]
    error = json.loads(run_exthost(tmp_path, *arguments).stdout)["error"]
    assert error["code"] == "X1327" and "[[extensions]]" not in error["help"]
    if is_json:
        assert '"b": {"command": …, "args": […]}' in error["help"]
        error = run_json(tmp_path, "remove", "a", "--config", name, code=2)["error"]
        assert error["code"] == "X1327" and "out of the servers" in error["help"]
    assert path.read_text() == text


@pytest.mark.more
def test_add_creates_a_config_and_reload_applies_an_edited_config(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    with host_process(tmp_path):
        result = run_exthost(tmp_path, "add", "two", "--", *hostile_command())
        assert result.returncode == 0 and "exthost reload" in result.stderr
        assert run_json(tmp_path, "reload")["added"] == ["two"]
        assert run_exthost(tmp_path, "remove", "one").returncode == 0
        assert run_json(tmp_path, "reload")["removed"] == ["one"]
        result = run_exthost(tmp_path, "disable", "two")
        assert result.returncode == 0 and "exthost reload" in result.stderr
        assert run_exthost(tmp_path, "disable", "two").stderr == ""  # nothing has changed
        assert run_json(tmp_path, "reload")["removed"] == ["two"]
        result = run_exthost(tmp_path, "enable", "two")
        assert result.returncode == 0 and "exthost reload" in result.stderr
        assert run_json(tmp_path, "reload")["added"] == ["two"]
    empty_folder = tmp_path / "empty"
    empty_folder.mkdir()
    assert run_exthost(empty_folder, "add", "one", "--", "x").returncode == 0
    assert [item["id"] for item in run_json(empty_folder, "list")["extensions"]] == ["one"]


@pytest.mark.parametrize(
    ("text", "remaining"),
    [
        ('[[extensions]]\nname = "a"\n\n[[extensions]]\nname = "b" # keep\n', '"b" # keep'),
        ('extensions = [{ name = "a" }, { name = "b" }]\n', '"b"'),
        ('[mcp_servers.a]\ncommand = "x"\n[mcp_servers.b]\ncommand = "y"\n', "b"),
        ('[[process_extensions]]\nid = "a"\n[[process_extensions]]\nid = "b"\n', '"b"'),
    ],
)
def test_an_entry_is_removed_from_each_form_of_a_config(text: str, remaining: str) -> None:
    new = remove_entry_in_toml(text, "a")
    assert new is not None and remaining in new and '"a"' not in new and ".a]" not in new
    assert remove_entry_in_toml(text, "c") is None
    assert remove_entry_in_toml("[[", "a") is None


def test_an_added_entry_is_not_part_of_the_table_above_it() -> None:
    new = add_entry_in_toml("[defaults]", {"name": "a", "source": {"command": "x"}})
    assert new == '[defaults]\n\n[[extensions]]\nname = "a"\nsource = {command = "x"}\n'


@pytest.mark.parametrize("arguments", [("add", "x", "--", "true"), ("mcp", "import")])
@pytest.mark.parametrize("kind", ["binary", "folder", "pipe", "loop"])
def test_a_config_that_cannot_be_read_is_not_edited(
    kind: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "exthost.toml"
    if kind == "binary":
        file.write_bytes(b"\n\xff\xfe")
    elif kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(file)
    result = run_inside(*arguments, cwd=tmp_path)
    assert result.returncode == 3, result.stderr
    assert "error[X0101]" in result.stderr and "exthost.toml cannot be read" in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (CallTimeout("X0875", "it hangs"), CallTimeout.exit_code)],
)
def test_an_up_that_stops_waiting_reports_that_its_host_still_starts(
    tmp_path: Path, error: BaseException, code: int
) -> None:
    write_config(tmp_path)
    process = mock.Mock(pid=4711)
    process.poll.return_value = None  # it still runs
    with (
        mock.patch.object(subprocess, "Popen", return_value=process),
        mock.patch.object(up, "_wait_until_open", side_effect=error),
    ):
        result = run_exthost(tmp_path, "up", "-d")
    assert result.returncode == code
    assert "still starts in the background, process 4711; exthost down ends it" in result.stderr


def test_the_exit_code_of_up_is_that_of_a_shell_if_a_signal_killed_its_host(tmp_path: Path) -> None:
    write_config(tmp_path)
    process = mock.Mock(pid=4711, returncode=-9)
    process.poll.return_value = -9
    with mock.patch.object(subprocess, "Popen", return_value=process):
        result = run_exthost(tmp_path, "up", "-d")
        as_json = run_exthost(tmp_path, "up", "-d", "--json")
    assert result.returncode == as_json.returncode == 137
    assert "the host ended with exit code 137; its output is in " in result.stderr
    error = json.loads(as_json.stdout)["error"]
    assert error["code"] == "X1075"
    assert error["message"].startswith("the host ended with exit code 137; its output is in ")


def test_an_interrupted_up_leaves_the_output_of_another_host_alone(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    output = Path(log_file(os.environ, config_key(path), "one")).with_name("host.out")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("output of the other host\n")
    process = mock.Mock(pid=4711)
    process.poll.return_value = 2  # it has ended, because another host runs
    with (
        mock.patch.object(subprocess, "Popen", return_value=process),
        mock.patch.object(up, "lock_holder", return_value=4712),
        mock.patch.object(up, "_wait_until_open", side_effect=KeyboardInterrupt),
    ):
        result = run_exthost(tmp_path, "up", "-d")
    assert "still starts" not in result.stderr
    assert output.read_text() == "output of the other host\n"
    assert not list(output.parent.glob("host.out?*"))


def test_the_error_of_up_without_a_folder_for_its_logs_names_the_variable(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    (tmp_path / "home").touch()
    result = run_exthost(tmp_path, "up", "-d", EXTHOST_HOME=str(tmp_path / "home"))
    assert result.returncode == 4
    assert "help:   set EXTHOST_HOME to a folder of your own" in result.stderr


@pytest.mark.more
def test_concurrent_edits_of_a_config_are_all_kept(tmp_path: Path) -> None:
    write_config(tmp_path, *(extension(f"old{number}") for number in range(3)))
    commands = [["add", f"new{number}", "--", "true"] for number in range(4)]
    commands += [["disable", "old0"], ["remove", "old1"]]
    edits = [
        subprocess.Popen([*EXTHOST, *arguments], cwd=tmp_path, stdout=subprocess.DEVNULL)
        for arguments in commands
    ]
    assert [edit.wait(timeout=RUN_SECONDS) for edit in edits] == [0] * len(edits)
    specs = {spec.id: spec.enabled for spec in read_config(tmp_path / "exthost.toml").specs}
    added = {f"new{number}": True for number in range(4)}
    assert specs == {"old0": False, "old2": True, **added}


def test_the_wait_for_another_edit_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_config(tmp_path, extension("one"))
    monkeypatch.setattr(config_lock, "WAIT_SECONDS", 0.0)
    before = path.read_text()
    second = config_lock.lock_config(path)
    with config_lock.lock_config(path), pytest.raises(UsageError) as caught:
        second.__enter__()
    assert caught.value.code == "X1327" and path.read_text() == before
    with config_lock.lock_config(path):  # the lock was released
        pass


@pytest.mark.parametrize(
    ("program", "suggests_mcp"), [("python3", False), ("npx", True), ("/usr/bin/uvx", True)]
)
def test_add_reports_the_dialect_that_it_assumes(
    program: str, suggests_mcp: bool, tmp_path: Path
) -> None:
    result = run_inside("add", "one", "--", program, "my server", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "one: without --dialect it has the dialect morphir" in result.stderr
    assert f"`exthost inspect -- {program} 'my server'`" in result.stderr
    assert ("--dialect mcp" in result.stderr) is suggests_mcp
    named = run_inside("add", "two", "--dialect", "mcp", "--", program, cwd=tmp_path)
    assert named.returncode == 0 and "without --dialect" not in named.stderr


def test_add_of_a_url_says_how_a_remote_server_is_written(tmp_path: Path) -> None:
    url = "HTTPS://docs.example.org/mcp"
    result = run_inside("add", "docs", "--dialect", "mcp", "--", url, cwd=tmp_path)
    assert result.returncode == 2 and "remote server" in result.stderr
    assert f'[mcp_servers.docs] with url = "{url}"' in result.stderr
    assert not (tmp_path / "exthost.toml").exists()


@pytest.mark.parametrize("name", ["a/b", "-x", ".", "a b", "a:b"])
def test_add_refuses_a_name_that_other_verbs_read_as_something_else(
    name: str, tmp_path: Path
) -> None:
    result = run_inside("add", "--json", name, "--", "true", cwd=tmp_path)
    assert result.returncode == 2
    assert not (tmp_path / "exthost.toml").exists()
