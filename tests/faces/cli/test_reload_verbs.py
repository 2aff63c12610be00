"""A config that changes under a running host: reload, SIGHUP, add, remove; up and down."""

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
from exthost.errors import UsageError
from exthost.faces.cli import config_lock, up
from exthost.host.control.address import socket_paths
from exthost.host.control.socket_path import config_key
from exthost.host.host import Host
from exthost.process.state_dirs import log_file
from tests.extensions.harness import command as hostile_command
from tests.extensions.proc import all_pids
from tests.faces.cli.cli_process import (
    EXTHOST,
    RUN_SECONDS,
    extension,
    exthost,
    run_inside,
    run_json,
    running,
    wait_for,
    write_config,
)
from tests.faces.cli.test_through_running_host import eventually, row


def pids(folder: Path) -> dict[str, Any]:
    return {item["id"]: item["pids"] for item in run_json(folder, "status")["extensions"]}


def test_a_reload_changes_only_the_changed_entries_and_loses_no_call(tmp_path: Path) -> None:
    same, hostile = extension("same"), extension("h", *hostile_command())
    write_config(tmp_path, same, hostile, extension("gone", *hostile_command()))
    with running(tmp_path):
        before = pids(tmp_path)
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
            eventually(lambda name=name: row(tmp_path, name)["in_flight"] == 1)  # type: ignore[misc]
        changed = extension("h", *hostile_command("changed=1"))
        write_config(tmp_path, same, changed, extension("new"))
        outcome = run_json(tmp_path, "reload")
        assert outcome == {"added": ["new"], "changed": ["h"], "removed": ["gone"], "failed": []}
        after = pids(tmp_path)
        assert list(after) == ["same", "h", "new"]
        assert after["same"] == before["same"] and set(after["h"]) != set(before["h"])
        for call in calls:
            assert call.poll() is None  # the old processes still have them
        for pid in (*before["h"], *before["gone"]):
            os.kill(pid, 0)
        assert run_json(tmp_path, "reload")["changed"] == []
        for call in calls:
            call.kill()
            call.communicate(timeout=RUN_SECONDS)
        eventually(lambda: not {*before["h"], *before["gone"]} & set(all_pids()))


def test_an_unusable_config_changes_nothing(tmp_path: Path) -> None:
    config = write_config(tmp_path, extension("one"))
    with running(tmp_path):
        before = pids(tmp_path)
        config.write_text("[[extensions")
        assert run_json(tmp_path, "reload", code=3)["error"]["kind"] == "ConfigError"
        write_config(tmp_path, extension("one", "no-such-program"))
        outcome = run_json(tmp_path, "reload", code=5)
        assert (outcome["changed"], outcome["failed"][0]["code"]) == ([], "X0401")
        assert pids(tmp_path) == before
        done = exthost(tmp_path, "reload")  # tried again, and told again
        assert done.returncode == 5 and "no-such-program" in done.stderr
        assert done.stdout == "reloaded: nothing changed; kept the old one of one\n"
        for part in ("error[X0401]: one: ", "\n  help:   ", "\n  more:   exthost explain X0401\n"):
            assert part in done.stderr
        write_config(tmp_path, extension("one"))
        assert run_json(tmp_path, "reload")["changed"] == []


def test_info_shows_the_settings_in_force_and_restart_lists_those_not_yet_applied(
    tmp_path: Path,
) -> None:
    """A restart does not read the config again; a reload does."""
    write_config(tmp_path, extension("one", more='limits = { call = "10s" }\nenv = { A = "b" }'))
    with running(tmp_path):
        assert "changed" not in run_json(tmp_path, "info", "one")
        assert "not applied" not in exthost(tmp_path, "restart", "one").stderr
        more = 'limits = { call = "20s" }\nenv = { A = "c" }'
        write_config(tmp_path, extension("one", more=more))
        done = exthost(tmp_path, "restart", "one")
        assert "not applied to one yet: env, limits; `exthost reload`" in done.stderr
        known = run_json(tmp_path, "info", "one")
        assert known["limits"]["call"] == 10 and known["changed"].startswith("env, limits: ")
        assert run_json(tmp_path, "reload")["changed"] == ["one"]
        known = run_json(tmp_path, "info", "one")
        assert known["limits"]["call"] == 20 and "changed" not in known


def test_sighup_reads_the_config_again(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    with running(tmp_path) as host:
        write_config(tmp_path, extension("one"), extension("two"))
        host.send_signal(signal.SIGHUP)
        assert "added two" in wait_for(host, "reloaded:")
        write_config(tmp_path, "nonsense")
        host.send_signal(signal.SIGHUP)
        assert "X01" in wait_for(host, "not reloaded")
        assert list(pids(tmp_path)) == ["one", "two"]


def test_up_runs_a_host_in_the_background_and_down_ends_it(tmp_path: Path) -> None:
    dies = extension("dies", sys.executable, "-S", "-E", "-c", "raise SystemExit('no key')")
    write_config(tmp_path, extension("one"), extension("gone", "no-such-program"), dies)
    # A file that an extension may have put into the folder is not imported.
    planted = tmp_path / "json.py"
    planted.write_text("raise SystemExit('imported from the working folder')")
    up = run_inside("up", "-d", "--json", cwd=tmp_path)
    planted.unlink()
    host = json.loads(up.stdout)
    try:
        assert run_json(tmp_path, "status")["host"]["pid"] == host["pid"]
        assert row(tmp_path, "one")["state"] == "ready"
        for part in ("error[X0401]: gone: ", "]: dies: ", "  stderr: no key\n", "  help:   "):
            assert part in up.stderr
        assert "; exthost down ends it\n" in up.stderr and up.stderr.endswith("/host.out\n")
        second = exthost(tmp_path, "up", "-d")
        assert second.returncode == 2 and "X1375" in second.stderr
    finally:
        done = exthost(tmp_path, "down")
        os.waitpid(host["pid"], 0)  # in a test it is our child; in a shell it is nobody's
    assert (done.returncode, done.stdout) == (0, f"host: process {host['pid']} ended\n")
    assert run_json(tmp_path, "down", code=2)["error"]["code"] == "X1275"
    (tmp_path / "exthost.toml").write_text("nonsense")
    assert exthost(tmp_path, "up", "-d").returncode == 3


def test_a_second_up_leaves_the_output_of_the_running_host_alone(tmp_path: Path) -> None:
    path = write_config(tmp_path, extension("one"))
    output = Path(log_file(os.environ, config_key(path), "one")).with_name("host.out")
    with running(tmp_path) as host:
        output.write_text("said by the running host\n")
        # Two that start at the same moment find no socket yet. This one finds none, either.
        [socket] = [path for path in socket_paths(path, os.environ) if path.exists()]
        socket.unlink()
        second = exthost(tmp_path, "up", "-d")
        assert second.returncode == 2
        assert "X1375" in second.stderr and str(host.pid) in second.stderr
        assert "host.out" not in second.stderr  # that is of another host
        assert output.read_text() == "said by the running host\n"
    write_config(tmp_path, extension("one", more="limits = { call = '1s' }"))
    taken = exthost(tmp_path, "up", "-d", "--web", "nonsense:1")
    assert taken.returncode == 2 and taken.stderr.endswith("/host.out\n")
    assert "X1365" in output.read_text() and output.stat().st_mode & 0o777 == 0o600
    assert not list(output.parent.glob("host.out?*"))


async def test_down_does_not_end_a_program(tmp_path: Path) -> None:
    import asyncio

    path = write_config(tmp_path)
    async with Host.from_config(path, control=True):
        done = await asyncio.to_thread(exthost, tmp_path, "down", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "X1383"


def test_add_and_remove_keep_everything_else(tmp_path: Path) -> None:
    path = tmp_path / "exthost.toml"
    path.write_text("# ours\n[defaults]\nlimits = { call = 5 } # short\n")
    before = path.read_text()
    words = ("add", "a", "--dialect", "mcp", "--lazy")
    done = exthost(tmp_path, *words, "--", "server", "--flag", "x y")
    assert (done.returncode, done.stdout) == (0, "a: added to exthost.toml\n"), done.stderr
    assert path.read_text().startswith(before)
    [listed] = run_json(tmp_path, "list")["extensions"]
    assert (listed["id"], listed["dialect"]) == ("a", "mcp")
    again = exthost(tmp_path, "add", "a", "--json", "--", "x")
    assert json.loads(again.stdout)["error"]["code"] == "X1312"
    assert exthost(tmp_path, "add", "b").returncode == 2
    assert exthost(tmp_path, "add", "b", "--dialect", "nonsense", "--", "x").returncode != 0
    assert run_json(tmp_path, "remove", "b", code=2)["error"]["code"] == "X1206"
    assert run_json(tmp_path, "remove", "a")["removed"] is True
    assert path.read_text().rstrip() == before.rstrip()


@pytest.mark.parametrize("name", ["servers.json", "extensions.yaml"])
def test_the_advice_of_add_and_remove_fits_the_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    is_json = path.suffix == ".json"
    text = '{"mcpServers": {"a": {"command": "x"}}}' if is_json else "extensions: {}\n"
    path.write_text(text)
    words = ["add", "b", "--json", "--config", name, "--", "x"]
    error = json.loads(exthost(tmp_path, *words).stdout)["error"]
    assert error["code"] == "X1327" and "[[extensions]]" not in error["help"]
    if is_json:
        assert '"b": {"command": …, "args": […]}' in error["help"]
        error = run_json(tmp_path, "remove", "a", "--config", name, code=2)["error"]
        assert error["code"] == "X1327" and "out of the servers" in error["help"]
    assert path.read_text() == text


def test_add_makes_a_config_and_a_running_host_takes_it_up(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    with running(tmp_path):
        done = exthost(tmp_path, "add", "two", "--", *hostile_command())
        assert done.returncode == 0 and "exthost reload" in done.stderr
        assert run_json(tmp_path, "reload")["added"] == ["two"]
        assert exthost(tmp_path, "remove", "one").returncode == 0
        assert run_json(tmp_path, "reload")["removed"] == ["one"]
        done = exthost(tmp_path, "disable", "two")
        assert done.returncode == 0 and "exthost reload" in done.stderr
        assert exthost(tmp_path, "disable", "two").stderr == ""  # nothing has changed
        assert run_json(tmp_path, "reload")["removed"] == ["two"]
        done = exthost(tmp_path, "enable", "two")
        assert done.returncode == 0 and "exthost reload" in done.stderr
        assert run_json(tmp_path, "reload")["added"] == ["two"]
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert exthost(fresh, "add", "one", "--", "x").returncode == 0
    assert [item["id"] for item in run_json(fresh, "list")["extensions"]] == ["one"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('[[extensions]]\nname = "a"\n\n[[extensions]]\nname = "b" # keep\n', '"b" # keep'),
        ('extensions = [{ name = "a" }, { name = "b" }]\n', '"b"'),
        ('[mcp_servers.a]\ncommand = "x"\n[mcp_servers.b]\ncommand = "y"\n', "b"),
        ('[[process_extensions]]\nid = "a"\n[[process_extensions]]\nid = "b"\n', '"b"'),
    ],
)
def test_an_entry_is_removed_wherever_it_is(text: str, left: str) -> None:
    new = remove_entry_in_toml(text, "a")
    assert new is not None and left in new and '"a"' not in new and ".a]" not in new
    assert remove_entry_in_toml(text, "c") is None
    assert remove_entry_in_toml("[[", "a") is None


def test_an_added_entry_is_part_of_no_table_above() -> None:
    new = add_entry_in_toml("[defaults]", {"name": "a", "source": {"command": "x"}})
    assert new == '[defaults]\n\n[[extensions]]\nname = "a"\nsource = {command = "x"}\n'


@pytest.mark.parametrize("words", [("add", "x", "--", "true"), ("mcp", "import")])
@pytest.mark.parametrize("kind", ["binary", "folder", "pipe", "loop"])
def test_a_config_that_cannot_be_read_is_not_edited(
    kind: str, words: tuple[str, ...], tmp_path: Path
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
    done = run_inside(*words, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "error[X0101]" in done.stderr and "exthost.toml cannot be read" in done.stderr


def test_an_interrupted_up_says_that_its_host_goes_on(tmp_path: Path) -> None:
    write_config(tmp_path)
    with (
        mock.patch.object(subprocess, "Popen", return_value=mock.Mock(pid=4711)),
        mock.patch.object(up, "_wait_until_open", side_effect=KeyboardInterrupt),
    ):
        done = exthost(tmp_path, "up", "-d")
    assert done.returncode == 130
    assert "still starts in the background, process 4711; exthost down ends it" in done.stderr


def test_up_without_a_folder_for_its_logs_says_which_variable_helps(tmp_path: Path) -> None:
    write_config(tmp_path, extension("one"))
    (tmp_path / "home").touch()
    done = exthost(tmp_path, "up", "-d", EXTHOST_HOME=str(tmp_path / "home"))
    assert done.returncode == 4
    assert "help:   set EXTHOST_HOME to a folder of your own" in done.stderr


def test_edits_at_the_same_moment_are_all_kept(tmp_path: Path) -> None:
    write_config(tmp_path, *(extension(f"old{number}") for number in range(3)))
    commands = [["add", f"new{number}", "--", "true"] for number in range(4)]
    commands += [["disable", "old0"], ["remove", "old1"]]
    edits = [
        subprocess.Popen([*EXTHOST, *words], cwd=tmp_path, stdout=subprocess.DEVNULL)
        for words in commands
    ]
    assert [edit.wait(timeout=RUN_SECONDS) for edit in edits] == [0] * len(edits)
    specs = {spec.id: spec.enabled for spec in read_config(tmp_path / "exthost.toml").specs}
    new = {f"new{number}": True for number in range(4)}
    assert specs == {"old0": False, "old2": True, **new}


def test_an_edit_does_not_wait_for_ever_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_config(tmp_path, extension("one"))
    monkeypatch.setattr(config_lock, "WAIT_SECONDS", 0.0)
    before = path.read_text()
    second = config_lock.lock_config(path)
    with config_lock.lock_config(path), pytest.raises(UsageError) as caught:
        second.__enter__()
    assert caught.value.code == "X1327" and path.read_text() == before
    with config_lock.lock_config(path):  # it was given back
        pass
