"""What can hold an extension here: found out by trying, and told with the way to mend it."""

import os
import resource
from pathlib import Path

import pytest

from exthost.launch import sandbox_probe
from exthost.launch.sandbox import pid_namespace
from exthost.model.launch_plan import LaunchPlan
from exthost.model.probe_result import ProbeResult, SandboxSupport

HERE = sandbox_probe.find_sandbox_support()


def test_a_machine_without_our_init_is_reported() -> None:
    there = SandboxSupport(bwrap=HERE.bwrap, machine="riscv64")
    tree, by = sandbox_probe.probe_pid_namespace(there)
    assert not by
    for report in (tree, sandbox_probe.probe_strict(there)):
        assert not report.works and "riscv64" in report.reason and "x86_64" in report.fix


def test_a_pid_namespace_does_not_take_the_program_of_another() -> None:
    assert sandbox_probe.probe_pid_namespace(HERE) == (ProbeResult(keeps_pid=True), "")
    assert sandbox_probe.probe_pid_namespace(
        SandboxSupport(bwrap="/nowhere/bwrap", machine=HERE.machine)
    )[0].works


def test_where_only_bubblewrap_may_make_namespaces_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    really = sandbox_probe._run_trial

    def tried(plan: LaunchPlan) -> ProbeResult:
        assert plan.wrapper is not None
        return really(plan) if plan.wrapper.options else ProbeResult("forbidden", "allow it")

    monkeypatch.setattr(sandbox_probe, "_run_trial", tried)
    # Others than those whose verdicts are kept.
    here, unequipped = HERE._replace(setpriv="/else"), HERE._replace(bwrap="", setpriv="/else")
    assert sandbox_probe.probe_pid_namespace(here) == (ProbeResult(), HERE.bwrap)
    assert sandbox_probe.probe_pid_namespace(unequipped) == (
        ProbeResult("forbidden", "allow it"),
        "",
    )


def test_a_missing_bubblewrap_is_reported_with_the_way_to_install_it() -> None:
    report = sandbox_probe.probe_strict(SandboxSupport(bwrap="", machine=HERE.machine))
    assert "not installed" in report.reason and "apt install bubblewrap" in report.fix


def test_a_wrapper_that_cannot_make_a_namespace_is_reported_in_its_own_words(
    tmp_path: Path,
) -> None:
    script = tmp_path / "bwrap"
    script.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    report = sandbox_probe.probe_strict(SandboxSupport(bwrap=str(script), machine=HERE.machine))
    assert "setting up uid map" in report.reason and "user namespaces" in report.fix


def test_a_wrapper_that_hangs_is_ended_and_counts_as_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_probe, "_PROBE_SECONDS", 0.3)
    script = tmp_path / "bwrap"
    script.write_text("#!/bin/sh\nexec sleep 30\n")
    script.chmod(0o755)
    report = sandbox_probe.probe_strict(SandboxSupport(bwrap=str(script), machine=HERE.machine))
    assert "had not ended" in report.reason


def test_the_variable_goes_before_the_setting_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EXTHOST_BWRAP", "/opt/bwrap")
    assert (
        sandbox_probe.find_sandbox_support().bwrap == "/opt/bwrap"
        and sandbox_probe.find_sandbox_support().uid == os.geteuid()
    )


def test_a_trial_works_in_a_program_with_thousands_of_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this machine allows fewer than 2048 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    # select() of the C library takes no descriptor above 1023.
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        plan = pid_namespace.plan_probe(HERE.machine)
        assert sandbox_probe._run_trial(plan) == ProbeResult(keeps_pid=True)
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
