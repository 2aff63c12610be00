"""Runs every trial of `tests/sandbox` as root and as an ordinary user. The summary of the test run
counts them. A trial is skipped only if the platform cannot run it. A missing bubblewrap is a
failure, because `make test-more` installs it."""

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
def build_programs() -> Iterator[str]:
    """Yield a folder with compiled and installed programs, which not every user could make."""
    with tempfile.TemporaryDirectory(prefix="exthost-built-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        for compiler, arguments in (
            ("go", ("build", "-o", f"{name}/go", str(PROJECT / "tests/sandbox/busy.go"))),
            ("rustc", ("-o", f"{name}/rust", str(PROJECT / "tests/sandbox/busy.rs"))),
        ):
            if (program_path := shutil.which(compiler)) is not None:
                subprocess.run(
                    [program_path, *arguments], check=True, timeout=300, capture_output=True
                )
        for program in ("uv", "uvx"):
            if (
                program_path := shutil.which(program, path=sysconfig.get_path("scripts"))
            ) is not None:
                shutil.copy(program_path, name)
        if (program_path := shutil.which("pyenv")) is not None:
            for part in ("libexec", "pyenv.d"):
                source = Path(os.path.realpath(program_path)).parent.parent / part
                shutil.copytree(source, Path(name, "pyenv", part), symlinks=True)
        yield name


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """Run all trials once, as both users at the same time, and return the errors by user."""
    running: dict[str, subprocess.Popen[str]] = {}
    errors_by_user: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(build_programs())
        for user in USERS:
            if missing(user):
                continue
            argv, variables = stack.enter_context(command(user, ("-m", "tests.sandbox.trials")))
            running[user] = subprocess.Popen(
                argv,
                env={**variables, "EXTHOST_TEST_BINARIES": folder},
                cwd="/" if os.geteuid() == 0 else PROJECT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        for user, process in running.items():
            out, err = process.communicate(timeout=len(NAMES) * TRIAL_SECONDS)
            lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"trial"')]
            errors_by_user[user] = {item["trial"]: item["wrong"] for item in lines} | {"": err}
    return errors_by_user


@pytest.mark.more
@pytest.mark.trial
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("user", USERS)
def test_trial(user: str, name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    if reason := missing(user):
        pytest.skip(reason)
    errors = outcomes[user]
    assert name in errors, f"the trials of {user} ended early: {errors['']}"
    if errors[name].startswith(NOT_HERE):
        pytest.skip(errors[name])
    assert not errors[name], errors[name]
