"""Tests of verbs with several names or --all: restart, stop, start, status and logs."""

import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import UsageError
from exthost.faces.cli import control_verbs
from exthost.faces.cli.common import Args
from tests.faces.cli.cli_process import (
    RUN_SECONDS,
    extension,
    run_exthost,
    run_json,
    shared_host,
    write_config,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running host with three extensions, one of which has failed."""
    folder = tmp_path_factory.mktemp("many")
    write_config(folder, extension("one"), extension("two"), extension("bad", "no-such-program"))
    with shared_host(folder):
        yield folder


def test_restart_takes_several_names_and_reports_each(folder: Path) -> None:
    before = {row["id"]: row["pids"] for row in run_json(folder, "status")["extensions"]}
    result = run_exthost(folder, "restart", "one", "two", "bad")
    assert result.returncode == 5, "the exit code of the one that failed"
    assert re.fullmatch(r"one: ready, process \d+\ntwo: ready, process \d+\n", result.stdout)
    assert "there is no program 'no-such-program'" in result.stderr
    after = {row["id"]: row["pids"] for row in run_json(folder, "status")["extensions"]}
    assert before["one"] != after["one"] and before["two"] != after["two"]


def test_all_stands_for_every_extension(folder: Path) -> None:
    rows = run_json(folder, "stop", "--all")
    assert {row["id"]: row["state"] for row in rows if "id" in row}["one"] == "stopped"
    assert run_exthost(folder, "status", "one").returncode == 7
    assert run_json(folder, "start", "one")["state"] == "ready", "one name gives one object"
    assert run_exthost(folder, "start", "two").returncode == 0


@pytest.mark.parametrize(
    ("names", "code"), [(["one"], 0), (["bad"], 5), (["one", "bad"], 5), (["--all"], 0), ([], 0)]
)
def test_the_exit_code_of_status_is_by_the_state_of_the_names(
    folder: Path, names: list[str], code: int
) -> None:
    result = run_exthost(folder, "status", *names)
    assert result.returncode == code
    expected = {name for name in names if name != "--all"} or {"one", "two", "bad"}
    assert {line.split()[0] for line in result.stdout.splitlines()[1:]} == expected


def test_a_name_is_required_and_excludes_all(folder: Path) -> None:
    missing = run_exthost(folder, "restart")
    assert missing.returncode == 2 and "exthost restart --all" in missing.stderr
    both = run_exthost(folder, "stop", "one", "--all")
    assert both.returncode == 2 and "exclude each other" in both.stderr
    unknown = run_exthost(folder, "status", "one", "tow")
    assert unknown.returncode == 2 and "did you mean 'two'?" in unknown.stderr


def test_logs_without_a_name_are_those_of_all_in_order(folder: Path) -> None:
    lines = run_exthost(folder, "logs").stdout.splitlines()
    assert {line.partition(":")[0] for line in lines} == {"one", "two", "bad"}
    times = [line.split(" ")[1] for line in lines]
    assert times == sorted(times)
    rows = run_exthost(folder, "logs", "--json", "-n", "1").stdout
    assert '"extension"' in rows and rows.count("\n") == 1


def test_logs_are_filtered_by_time_level_and_text(folder: Path) -> None:
    warnings = run_exthost(folder, "logs", "--level", "warning").stdout.splitlines()
    assert warnings and all(" warning " in line for line in warnings)
    assert "there is no program 'no-such-program'" in warnings[0], "the log names the cause"
    assert run_exthost(folder, "logs", "--since", "2999-01-01").stdout == ""
    assert run_exthost(folder, "logs", "--since", "1h").stdout
    lines = run_exthost(folder, "logs", "bad", "one", "--grep", "NO-SUCH").stdout.splitlines()
    assert lines and all(line.startswith("bad: ") for line in lines)
    for option, value in (("--since", "soon"), ("--grep", "("), ("--level", "loud")):
        assert run_exthost(folder, "logs", option, value).returncode == 2


@pytest.mark.more
def test_a_full_disk_is_reported_by_logs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exthost.faces.cli.logs.free_bytes", lambda _: 0)
    result = run_exthost(folder, "logs", "one", "-n", "1")
    assert "is full: newer lines are lost" in result.stderr


def test_ctrl_c_does_not_wait_for_the_answer_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    def hang(*_: Any, **__: Any) -> Any:
        signal.pthread_kill(main_thread, signal.SIGINT)
        ended.wait(RUN_SECONDS)
        raise UsageError("X1316", "the test has ended")

    monkeypatch.setattr(control_verbs, "ask", hang)
    args = Args(names=["one"], all=False, timeout=None, config=None, json=False)
    try:
        with pytest.raises(KeyboardInterrupt):
            control_verbs.run_control_verb(args, "restart")
        assert not ended.is_set()
    finally:
        ended.set()


def test_an_error_of_one_request_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("broken")

    monkeypatch.setattr(control_verbs, "ask", fail)
    args = Args(names=["one", "two"], all=False, timeout=None, config=None, json=False)
    with pytest.raises(OSError, match="broken"):
        control_verbs.run_control_verb(args, "stop")
