"""Every trial of SECURITY.md about lifetime, sandbox and resources, as root and as an ordinary
user, each counted in the summary of the run. A trial is skipped only where the platform cannot
run it; a missing bubblewrap is a failure, since `make test-more` installs it."""

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.trial_users import PROJECT, USERS, command, missing
from tests.sandbox.trials import NOT_HERE, TRIAL_SECONDS, all_trials

NAMES = tuple(all_trials())


@contextmanager
def built() -> Iterator[str]:
    """A folder of programs that take a compiler, or an install, which only some users have."""
    with tempfile.TemporaryDirectory(prefix="exthost-built-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        for compiler, words in (
            ("go", ("build", "-o", f"{name}/go", str(PROJECT / "tests/sandbox/busy.go"))),
            ("rustc", ("-o", f"{name}/rust", str(PROJECT / "tests/sandbox/busy.rs"))),
        ):
            if (found := shutil.which(compiler)) is not None:
                subprocess.run([found, *words], check=True, timeout=300, capture_output=True)
        for program in ("uv", "uvx"):
            if (found := shutil.which(program, path=sysconfig.get_path("scripts"))) is not None:
                shutil.copy(found, name)
        if (found := shutil.which("pyenv")) is not None:
            for part in ("libexec", "pyenv.d"):
                source = Path(os.path.realpath(found)).parent.parent / part
                shutil.copytree(source, Path(name, "pyenv", part), symlinks=True)
        yield name


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """All trials of everybody, run once, everybody at the same time."""
    running: dict[str, subprocess.Popen[str]] = {}
    behaviour: dict[str, dict[str, Any]] = {}
    with ExitStack() as until_all_are_done:
        folder = until_all_are_done.enter_context(built())
        for user in USERS:
            if missing(user):
                continue
            words, variables = until_all_are_done.enter_context(
                command(user, ("-m", "tests.sandbox.trials"))
            )
            running[user] = subprocess.Popen(
                words,
                env={**variables, "EXTHOST_TEST_BINARIES": folder},
                cwd="/" if os.geteuid() == 0 else PROJECT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        for user, process in running.items():
            out, err = process.communicate(timeout=len(NAMES) * TRIAL_SECONDS)
            lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"trial"')]
            behaviour[user] = {item["trial"]: item["wrong"] for item in lines} | {"": err}
    return behaviour


@pytest.mark.more
@pytest.mark.trial
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("user", USERS)
def test_trial(user: str, name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    if why := missing(user):
        pytest.skip(why)
    report = outcomes[user]
    assert name in report, f"the trials of {user} ended early: {report['']}"
    if report[name].startswith(NOT_HERE):
        pytest.skip(report[name])
    assert not report[name], report[name]
