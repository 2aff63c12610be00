"""The rows of `exthost status`, one for each extension, keep the last error of an ended process."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from exthost.errors import Refused
from exthost.host.control.protocol import ControlRequest
from exthost.host.control.requests import RequestPerformer
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host
from tests.extensions.harness import wait_until
from tests.extensions.locked_project import Project
from tests.faces.cli.cli_process import STDERR_WRITER
from tests.host.test_host import config, entry


async def test_the_status_of_a_pool_keeps_the_error_of_an_ended_process() -> None:
    pool = {"pool": {"min": 2, "max": 2}, "lifetime": "plain"}
    host = Host.from_config(config(entry("one", str(STDERR_WRITER), **pool)))
    report = StatusReport(host)
    async with host:
        extension = host["one"]
        await wait_until(lambda: extension.stats.processes == 2)
        row = report.row(extension)
        assert row["last_error"] is None
        os.kill(row["pids"][0], signal.SIGUSR1)  # the program then exits with 3
        await wait_until(lambda: extension.stats.crashes == 1)
        last_error = report.row(extension)["last_error"]
        assert extension.state == "ready"
        process_exited = "X1001"
        assert (last_error["code"], last_error["exit"]) == (process_exited, "exited with 3")


async def test_a_restart_that_keeps_the_old_process_is_the_last_error(tmp_path: Path) -> None:
    project = Project(tmp_path)
    await project.write_lock()
    host = Host.from_config(project.config)
    report = StatusReport(host)
    requests = RequestPerformer(host, report, str(project.config))
    no_events: Any = None  # a restart sends none
    async with host:
        project.program.write_text("raise SystemExit('changed')")
        with pytest.raises(Refused):
            await requests.perform(ControlRequest("restart", "demo"), no_events)
        assert host["demo"].state == "ready"
        last_error = report.row(host["demo"])["last_error"]
        assert last_error["code"] == "X1820" and "main.py has changed" in last_error["message"]


async def test_the_last_error_has_the_last_lines_of_stderr(tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text("raise SystemExit('\\n'.join(['1', '2', '', '3', 'x' * 1000]))")
    host = Host.from_config(config(entry("one", str(program))))
    report = StatusReport(host)
    async with host:
        last_error = report.row(host["one"])["last_error"]
    # At most three lines of 300 characters each, without empty ones.
    assert last_error["stderr"] == ["2", "3", "x" * 300]
