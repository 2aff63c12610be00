"""What can hold an extension here, found out by really holding a child that ends at once.

Nothing less tells: user namespaces may be forbidden by the kernel, by a sysctl, by a security
module or by the container around us, and the programs may be there all the same. Each way is tried
once in the life of this process, when it is first needed; a child that hangs is ended and counts
as a failure.
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
from exthost.sandbox import strict, tree
from exthost.sandbox.initcode import INIT
from exthost.sandbox.means import Tools, Verdict

__all__ = ["strict_verdict", "tools", "tree_verdict"]

# A wrapper that has not ended by then hangs; it takes milliseconds.
_PROBE_SECONDS = 5.0

# Before PATH: what holds others should not be whatever a PATH happens to name first.
_SYSTEM_FOLDERS = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"

_NO_BWRAP = Verdict(
    "bubblewrap (bwrap) is not installed",
    "install it (apt install bubblewrap, dnf install bubblewrap), or name it in EXTHOST_BWRAP",
)


def tools() -> Tools:
    """The programs there are right now, by the variables of this process."""
    return _tools(os.environ.get("EXTHOST_BWRAP", ""), os.environ.get("PATH", ""), os.geteuid())


@cache
def _tools(bwrap: str, path: str, uid: int) -> Tools:
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
def tree_verdict(tools: Tools) -> tuple[Verdict, str]:
    """Whether a PID namespace can be had, and by which bwrap, if not without."""
    verdict = _unfit(tools) or _tried(tree.probe(tools.machine))
    if verdict.works or _unfit(tools) or _unequipped(tools):
        return verdict, ""
    works = _tried(tree.probe(tools.machine, tools.bwrap)).works
    return (Verdict(), tools.bwrap) if works else (verdict, "")


@cache
def strict_verdict(tools: Tools, uid: int | None = None) -> Verdict:
    """Whether the strict tier can be had: as the host's own user, or as another for root."""
    return (
        _unfit(tools)
        or _unequipped(tools)
        or _tried(strict.probe(tools, replace(system_view(), uid=uid)))
    )


def _unfit(tools: Tools) -> Verdict | None:
    """Why there is no need to try."""
    if platform.system() != "Linux":
        return Verdict(f"{platform.system()} has no namespaces", "run the host on Linux")
    if tools.machine not in INIT:
        known = " and ".join(INIT)
        return Verdict(f"there is no init for {tools.machine} processors", f"use {known}")
    return None


def _unequipped(tools: Tools) -> Verdict | None:
    if not tools.bwrap:
        return _NO_BWRAP
    if not os.access(tools.bwrap, os.X_OK):
        return Verdict(f"{tools.bwrap} cannot be executed", "correct EXTHOST_BWRAP, or unset it")
    return None


def _tried(plan: LaunchPlan) -> Verdict:
    try:
        child = Child(plan)
    except SpawnFailed as error:
        return Verdict(error.message, error.help)
    except Exception as error:  # whatever it is, nothing was held: no verdict means no
        return Verdict(f"a probe could not be started: {error!r}", "report this as a bug here")
    try:
        child.close_stdin()
        ended, _, _ = select.select([child.exit_fd], [], [], _PROBE_SECONDS)
        said = _last_line(child.stderr) if ended else ""
        status = child.see_exit()
        if not ended:
            return Verdict(f"a probe had not ended after {_PROBE_SECONDS:g} s", "try again")
        if status is not None and status.code == 0:
            return Verdict()
        return Verdict(f"a probe failed: {said or status}", _advice(said))
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


def _advice(said: str) -> str:
    if "ermission" in said or "not permitted" in said or "namespace" in said:
        return (
            "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces>0), or let "
            "the container have them"
        )
    return "see what it says; a newer bubblewrap may help"
