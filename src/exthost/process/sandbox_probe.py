"""Finds out which sandboxes work on this machine, by running /bin/true in each.

Only a trial shows whether one works: the kernel, a sysctl, a security module or a container may
forbid user namespaces, even if all programs are installed. A success, and a refusal by the kernel,
are kept for the life of this process. A temporary failure (no descriptors, no memory, no time) is
never kept. Any other failure is kept for a short time.

A trial blocks for milliseconds, and for seconds if the wrapper hangs. So it does not run on an
event loop: `strict_is_known` and `pid_namespace_is_known` say whether there is a result already.
"""

import errno
import os
import re
import select
import shutil
import threading
import time
from dataclasses import replace
from functools import cache

from exthost.errors import SpawnFailed
from exthost.launch_plan import LaunchPlan
from exthost.process.child import Child
from exthost.process.file_view import system_view
from exthost.sandbox import pid_namespace, strict
from exthost.sandbox.initcode import INIT
from exthost.sandbox.probe_result import ProbeResult, SandboxSupport

__all__ = [
    "find_sandbox_support",
    "pid_namespace_is_known",
    "strict_is_known",
    "probe_pid_namespace",
    "probe_strict",
]

# A wrapper usually takes milliseconds; one that takes this long hangs.
_PROBE_SECONDS = 5.0

# How long any other failure is kept: neither a refusal by the kernel nor a temporary one.
_OTHER_FAILURE_SECONDS = 60.0

# What the kernel answers if it does not allow namespaces, does not have them, or (ENOSPC) allows no
# more of them: user.max_user_namespaces.
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOSPC)

# What the kernel answers if it is short of something.
_SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)

# Searched before PATH: a PATH should not decide which program makes the sandbox.
_SYSTEM_FOLDERS = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"

_NO_BWRAP = ProbeResult(
    "bubblewrap (bwrap) is not installed",
    "install it (apt install bubblewrap, dnf install bubblewrap), or name it in EXTHOST_BWRAP",
)

# Key: the kind of sandbox, what this machine has for it, perhaps a uid. Value: the result, and when
# it expires (`time.monotonic`).
_results: dict[object, tuple[ProbeResult, float]] = {}
_lock = threading.Lock()


def find_sandbox_support() -> SandboxSupport:
    """Return what this machine has for building sandboxes. The variables EXTHOST_BWRAP and PATH of
    this process are used to find the programs."""
    path = os.environ.get("PATH", "")
    return _find_sandbox_support(os.environ.get("EXTHOST_BWRAP", ""), path, os.geteuid())


@cache
def _find_sandbox_support(bwrap: str, path: str, uid: int) -> SandboxSupport:
    def find(name: str) -> str:
        return shutil.which(name, path=_SYSTEM_FOLDERS) or shutil.which(name, path=path) or ""

    return SandboxSupport(
        bwrap=bwrap or find("bwrap"),
        setpriv=find("setpriv"),
        prlimit=find("prlimit"),
        machine=os.uname().machine,
        uid=uid,
    )


def probe_pid_namespace(support: SandboxSupport) -> tuple[ProbeResult, str]:
    """Return whether a PID namespace can be made, and the path of bwrap if that is needed for it;
    "" if our init (`sandbox/init.c`) makes one by itself."""
    if unsupported := _unsupported(support):
        return unsupported, ""
    result = _probe(("pid", support), pid_namespace.plan_probe(support.machine))
    if result.works or result.is_temporary or _lacks_bwrap(support):
        return result, ""
    by_bwrap = _probe(
        ("pid by bwrap", support), pid_namespace.plan_probe(support.machine, support.bwrap)
    )
    if by_bwrap.works or by_bwrap.is_temporary:
        return by_bwrap, support.bwrap
    return result, ""


def probe_strict(support: SandboxSupport, uid: int | None = None) -> ProbeResult:
    """Return whether the strict sandbox works. `uid` is the user to run as, if the host is root;
    None is the host's own user."""
    return (
        _unsupported(support)
        or _lacks_bwrap(support)
        or _probe(
            ("strict", support, uid), strict.plan_probe(support, replace(system_view(), uid=uid))
        )
    )


def pid_namespace_is_known(support: SandboxSupport) -> bool:
    """Return whether `probe_pid_namespace` would return without a trial."""
    if _unsupported(support) is not None:
        return True
    result = _cached(("pid", support))
    if result is None:
        return False
    return (
        result.works
        or _lacks_bwrap(support) is not None
        or _cached(("pid by bwrap", support)) is not None
    )


def strict_is_known(support: SandboxSupport, uid: int | None = None) -> bool:
    """Return whether `probe_strict` would return without a trial."""
    lacking = _unsupported(support) or _lacks_bwrap(support)
    return lacking is not None or _cached(("strict", support, uid)) is not None


def _cached(key: object) -> ProbeResult | None:
    with _lock:
        result, expires = _results.get(key, (None, 0.0))
    return result if result is not None and time.monotonic() < expires else None


def _probe(key: object, plan: LaunchPlan) -> ProbeResult:
    result = _cached(key)
    if result is None:
        result = _try(plan)
        if not result.is_temporary:
            lasts = result.works or _is_refusal(result.reason)
            expires = float("inf") if lasts else time.monotonic() + _OTHER_FAILURE_SECONDS
            with _lock:
                _results[key] = (result, expires)
    return result


def _unsupported(support: SandboxSupport) -> ProbeResult | None:
    """Return the result if this platform cannot have sandboxes at all; None if a trial decides."""
    if os.uname().sysname != "Linux":
        return ProbeResult(f"{os.uname().sysname} has no namespaces", "run the host on Linux")
    if support.machine not in INIT:
        known = " and ".join(INIT)
        return ProbeResult(f"there is no init for {support.machine} processors", f"use {known}")
    return None


def _lacks_bwrap(support: SandboxSupport) -> ProbeResult | None:
    if not support.bwrap:
        return _NO_BWRAP
    if not os.access(support.bwrap, os.X_OK):
        return ProbeResult(
            f"{support.bwrap} cannot be executed", "correct EXTHOST_BWRAP, or unset it"
        )
    return None


def _try(plan: LaunchPlan) -> ProbeResult:
    try:
        child = Child(plan)
    except SpawnFailed as error:
        return ProbeResult(error.message, error.help, is_temporary=not error.permanent)
    except Exception as error:  # an unexpected error counts as a failure, too
        return ProbeResult(
            f"a probe could not be started: {error!r}", "report this as a bug of exthost"
        )
    try:
        child.close_stdin()
        ended, _, _ = select.select([child.exit_fd], [], [], _PROBE_SECONDS)
        complaint = _last_line(child.stderr) if ended else ""
        status = child.see_exit()
        if not ended:
            reason = f"a probe had not ended after {_PROBE_SECONDS:g} s"
            return ProbeResult(reason, "try again", is_temporary=True)
        if status is not None and status.code == 0:
            return ProbeResult()
        reason = f"a probe failed: {complaint or status}"
        was_killed = status is not None and status.signal is not None
        is_temporary = _names_error(reason, _SHORTAGES) or (was_killed and not complaint)
        return ProbeResult(reason, _advice(complaint), is_temporary)
    finally:
        for _ in range(2):  # the first kill asks the init of a namespace to exit
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


def _is_refusal(reason: str) -> bool:
    return _names_error(reason, _REFUSALS)


def _names_error(text: str, numbers: tuple[int, ...]) -> bool:
    """Return whether a message names one of these errors, as our init or the C library does."""
    by_number = re.search(r"errno (\d+)$", text)
    if by_number:
        return int(by_number[1]) in numbers
    return any(os.strerror(number) in text for number in numbers)


def _advice(complaint: str) -> str:
    if any(word in complaint for word in ("ermission", "not permitted", "namespace")):
        return (
            "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces>0), or let "
            "the container have them"
        )
    return "see that message; a newer bubblewrap may help"
