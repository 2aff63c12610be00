"""The probe of the sandboxes: it runs a small program in each kind of sandbox on this machine, and
reports the reason and a fix if that fails.

`SandboxSupport` describes a machine: its programs, such as bubblewrap, and its architecture. A
`ProbeResult` without a reason means that the sandbox works.
"""

import os
import resource
from pathlib import Path

import pytest

from exthost.launch import sandbox_probe
from exthost.launch.sandbox import pid_namespace
from exthost.model.launch_plan import LaunchPlan
from exthost.model.probe_result import ProbeResult, SandboxSupport

THIS_MACHINE = sandbox_probe.find_sandbox_support()


def test_an_architecture_without_an_init_program_is_reported() -> None:
    other_machine = SandboxSupport(bwrap=THIS_MACHINE.bwrap, machine="riscv64")
    namespace_result, wrapper = sandbox_probe.probe_pid_namespace(other_machine)
    assert not wrapper
    for result in (namespace_result, sandbox_probe.probe_strict(other_machine)):
        assert not result.works and "riscv64" in result.reason and "x86_64" in result.fix


def test_a_pid_namespace_does_not_need_bubblewrap() -> None:
    no_wrapper = ""
    assert sandbox_probe.probe_pid_namespace(THIS_MACHINE) == (
        ProbeResult(keeps_pid=True),
        no_wrapper,
    )
    without_bwrap = SandboxSupport(bwrap="/nowhere/bwrap", machine=THIS_MACHINE.machine)
    result, _ = sandbox_probe.probe_pid_namespace(without_bwrap)
    assert result.works


def test_bubblewrap_is_used_if_only_it_can_make_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    real_run_trial = sandbox_probe._run_trial

    failure = ProbeResult("forbidden", "allow it")

    def fail_without_bubblewrap(plan: LaunchPlan) -> ProbeResult:
        assert plan.wrapper is not None
        is_bubblewrap = bool(plan.wrapper.options)  # the other wrapper needs no options
        return real_run_trial(plan) if is_bubblewrap else failure

    monkeypatch.setattr(sandbox_probe, "_run_trial", fail_without_bubblewrap)
    # Another setpriv, because the results for this machine are cached.
    with_bwrap = THIS_MACHINE._replace(setpriv="/else")
    without_bwrap = THIS_MACHINE._replace(bwrap="", setpriv="/else")
    assert sandbox_probe.probe_pid_namespace(with_bwrap) == (ProbeResult(), THIS_MACHINE.bwrap)
    assert sandbox_probe.probe_pid_namespace(without_bwrap) == (failure, "")


def test_a_missing_bubblewrap_is_reported_with_the_way_to_install_it() -> None:
    result = sandbox_probe.probe_strict(SandboxSupport(bwrap="", machine=THIS_MACHINE.machine))
    assert "not installed" in result.reason and "apt install bubblewrap" in result.fix


def write_bubblewrap(folder: Path, script: str) -> SandboxSupport:
    """Return this machine with a shell script in place of bubblewrap."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return SandboxSupport(bwrap=str(path), machine=THIS_MACHINE.machine)


def test_the_message_of_a_wrapper_that_fails_is_reported(tmp_path: Path) -> None:
    machine = write_bubblewrap(
        tmp_path, "echo 'bwrap: setting up uid map: Permission denied' >&2\nexit 1"
    )
    result = sandbox_probe.probe_strict(machine)
    assert "setting up uid map" in result.reason and "user namespaces" in result.fix


def test_a_wrapper_that_hangs_is_ended_and_counts_as_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_probe, "_PROBE_SECONDS", 0.3)
    result = sandbox_probe.probe_strict(write_bubblewrap(tmp_path, "exec sleep 30"))
    assert "had not ended" in result.reason


def test_the_variable_has_precedence_over_the_installed_bubblewrap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EXTHOST_BWRAP", "/opt/bwrap")
    support = sandbox_probe.find_sandbox_support()
    assert support.bwrap == "/opt/bwrap" and support.uid == os.geteuid()


def test_a_probe_works_in_a_program_with_thousands_of_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this machine allows fewer than 2048 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    # select() of the C library does not accept descriptors above 1023.
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        plan = pid_namespace.plan_probe(THIS_MACHINE.machine)
        assert sandbox_probe._run_trial(plan) == ProbeResult(keeps_pid=True)
    finally:
        for fd in descriptors:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
