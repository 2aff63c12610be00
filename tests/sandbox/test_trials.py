"""Runs every trial of `tests/sandbox` as root and as an ordinary user.

A trial is a test of a promise of SECURITY.md: an `async def` with `@trial` (`trials.py`). The
trials of a user run in one process, and each is a test here that examines its outcome. A trial is
skipped only if the platform cannot run it. A missing bubblewrap is a failure, because
`make test-more` installs it.

A sample of the trials runs once more with `start_method = "template"`, because a process that was
forked from a template must be confined like any other. EXTHOST_TEST_SAMPLE=all runs all of them.
"""

import inspect
import json
import os
import random
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.trials import SAMPLE_VARIABLE, default_seed
from tests.sandbox.trial_users import PROJECT, USERS, command, missing
from tests.sandbox.trials import NOT_HERE, TRIAL_SECONDS, all_trials

NAMES = tuple(all_trials())

# The trials that start an extension by the helpers which choose a start method.
WITH_START_METHOD = [
    name
    for name, work in all_trials().items()
    if re.search(r"\bstarted_(explorer|extension)\(", inspect.getsource(work))
]
SAMPLE_SIZE = 12

# Those of them whose program cannot be forked from a template: it has a `max_memory` or a pin, it
# is executed by another program, or its files change before it starts.
NEVER_FORKED = {
    "limits_apply_without_a_namespace_too",
    "the_reported_limiter_of_memory_and_processes_is_the_real_one",
    "shared_memory_within_the_limit_is_left_alone",
    "a_pinned_program_that_is_replaced_is_not_started_again",
    "a_pinned_program_that_is_swapped_during_its_starts_does_not_run",
    "a_pinned_program_that_is_swapped_whenever_it_is_read_does_not_run",
    "a_first_line_that_changes_after_the_admission_shows_nothing_more",
    "a_path_replaced_between_the_check_and_the_mount_is_not_shown",
}


def sample_for_templates() -> list[str]:
    seed = os.environ.get(SAMPLE_VARIABLE) or default_seed()
    if seed == "all":
        return WITH_START_METHOD
    return random.Random(seed).sample(WITH_START_METHOD, SAMPLE_SIZE)


FROM_TEMPLATE = sample_for_templates()


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
    """The errors of all trials by user."""
    return run_trials("execute", ())


@pytest.fixture(scope="module")
def template_outcomes() -> dict[str, dict[str, Any]]:
    """The errors of the sample by user, in processes of a template."""
    return run_trials("template", FROM_TEMPLATE)


def run_trials(start_method: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Run trials once, as both users at the same time, and return the errors of each trial by user.

    The key "" has the stderr of the process, and the key "started" has, for each trial, how many
    extensions were started by which start method.
    """
    running: dict[str, subprocess.Popen[str]] = {}
    errors_by_user: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(build_programs())
        for user in USERS:
            if missing(user):
                continue
            argv, variables = stack.enter_context(
                command(user, ("-m", "tests.sandbox.trials", *names))
            )
            running[user] = subprocess.Popen(
                argv,
                env={
                    **variables,
                    "EXTHOST_TEST_BINARIES": folder,
                    "EXTHOST_TEST_START_METHOD": start_method,
                },
                cwd="/" if os.geteuid() == 0 else PROJECT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        for user, process in running.items():
            out, err = process.communicate(timeout=len(NAMES) * TRIAL_SECONDS)
            lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"trial"')]
            errors = {item["trial"]: item["wrong"] for item in lines}
            started = {item["trial"]: item["started"] for item in lines}
            errors_by_user[user] = errors | {"": err, "started": started}
    return errors_by_user


@pytest.mark.more
@pytest.mark.trial
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("user", USERS)
def test_trial(user: str, name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    check_trial(user, name, outcomes)


@pytest.mark.more
@pytest.mark.trial
@pytest.mark.parametrize("name", FROM_TEMPLATE)
@pytest.mark.parametrize("user", USERS)
def test_trial_in_a_process_of_a_template(
    user: str, name: str, template_outcomes: dict[str, dict[str, Any]]
) -> None:
    check_trial(user, name, template_outcomes)
    started = template_outcomes[user]["started"][name]
    # A trial of what only a root host does starts nothing for another user.
    if name not in NEVER_FORKED and (started or user == "root"):
        assert "template" in started, started


def check_trial(user: str, name: str, outcomes: dict[str, dict[str, Any]]) -> None:
    """Fail if the trial has an error, and skip the test if this machine cannot run the trial."""
    if reason := missing(user):
        pytest.skip(reason)
    errors = outcomes[user]
    assert name in errors, f"the trials of {user} ended early: {errors['']}"
    if errors[name].startswith(NOT_HERE):
        pytest.skip(errors[name])
    assert not errors[name], errors[name]
