"""Finds out which sandboxes work on this machine, by running /bin/true in each.

Only a trial tells: the kernel, a sysctl, a security module or a container may forbid user
namespaces, even if all programs are installed. Each kind is tried once in the life of this process,
when it is first needed. A child that hangs is killed and counts as a failure.
"""

import os
import platform
import select
import shutil
from dataclasses import replace
from functools import cache

from exthost.errors import SpawnFailed
from exthost.model import LaunchPlan
from exthost.process.child import Child
from exthost.process.view import system_view
from exthost.sandbox import pid_namespace, strict
from exthost.sandbox.initcode import INIT
from exthost.sandbox.probe_result import ProbeResult, Tools

__all__ = ["find_tools", "probe_pid_namespace", "probe_strict"]

# A wrapper usually takes milliseconds; one that takes this long hangs.
_PROBE_SECONDS = 5.0

# Searched before PATH: a PATH should not decide which program makes the sandbox.
_SYSTEM_FOLDERS = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"

_NO_BWRAP = ProbeResult(
    "bubblewrap (bwrap) is not installed",
    "install it (apt install bubblewrap, dnf install bubblewrap), or name it in EXTHOST_BWRAP",
)


def find_tools() -> Tools:
    """Return the programs for sandboxes, found by the variables of this process."""
    path = os.environ.get("PATH", "")
    return _find_tools(os.environ.get("EXTHOST_BWRAP", ""), path, os.geteuid())


@cache
def _find_tools(bwrap: str, path: str, uid: int) -> Tools:
    def find(name: str) -> str:
        return shutil.which(name, path=_SYSTEM_FOLDERS) or shutil.which(name, path=path) or ""

    return Tools(
        bwrap=bwrap or find("bwrap"),
        setpriv=find("setpriv"),
        prlimit=find("prlimit"),
        machine=platform.machine(),
        uid=uid,
    )


@cache
def probe_pid_namespace(tools: Tools) -> tuple[ProbeResult, str]:
    """Return whether a PID namespace can be made, and the bwrap that makes it; "" if our init
    does."""
    result = _unsupported(tools) or _try(pid_namespace.plan_probe(tools.machine))
    if result.works or _unsupported(tools) or _lacks_bwrap(tools):
        return result, ""
    works = _try(pid_namespace.plan_probe(tools.machine, tools.bwrap)).works
    return (ProbeResult(), tools.bwrap) if works else (result, "")


@cache
def probe_strict(tools: Tools, uid: int | None = None) -> ProbeResult:
    """Return whether the strict sandbox works: as the host's user, or for root as user `uid`."""
    return (
        _unsupported(tools)
        or _lacks_bwrap(tools)
        or _try(strict.plan_probe(tools, replace(system_view(), uid=uid)))
    )


def _unsupported(tools: Tools) -> ProbeResult | None:
    """Return why a trial is useless on this platform; None if it is not."""
    if platform.system() != "Linux":
        return ProbeResult(f"{platform.system()} has no namespaces", "run the host on Linux")
    if tools.machine not in INIT:
        known = " and ".join(INIT)
        return ProbeResult(f"there is no init for {tools.machine} processors", f"use {known}")
    return None


def _lacks_bwrap(tools: Tools) -> ProbeResult | None:
    if not tools.bwrap:
        return _NO_BWRAP
    if not os.access(tools.bwrap, os.X_OK):
        return ProbeResult(
            f"{tools.bwrap} cannot be executed", "correct EXTHOST_BWRAP, or unset it"
        )
    return None


def _try(plan: LaunchPlan) -> ProbeResult:
    try:
        child = Child(plan)
    except SpawnFailed as error:
        return ProbeResult(error.message, error.help)
    except Exception as error:  # an unexpected error counts as a failure, too
        return ProbeResult(f"a probe could not be started: {error!r}", "report this as a bug here")
    try:
        child.close_stdin()
        ended, _, _ = select.select([child.exit_fd], [], [], _PROBE_SECONDS)
        complaint = _last_line(child.stderr) if ended else ""
        status = child.see_exit()
        if not ended:
            return ProbeResult(f"a probe had not ended after {_PROBE_SECONDS:g} s", "try again")
        if status is not None and status.code == 0:
            return ProbeResult()
        return ProbeResult(f"a probe failed: {complaint or status}", _advice(complaint))
    finally:
        for _ in range(2):
            if child.see_exit() is None:
                child.kill()
                select.select([child.exit_fd], [], [], 1.0)
        child.reap()
        child.close_outputs()


def _last_line(fd: int) -> str:
    os.set_blocking(fd, False)
    try:
        lines = os.read(fd, 4096).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _advice(complaint: str) -> str:
    if any(word in complaint for word in ("ermission", "not permitted", "namespace")):
        return (
            "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces>0), or let "
            "the container have them"
        )
    return "see that message; a newer bubblewrap may help"
