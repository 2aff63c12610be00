"""Finds out which sandboxes work on this machine, by running /bin/true in each.

Only a trial shows whether a sandbox works: the kernel, a sysctl, a security module or a container
may forbid user namespaces, even if all programs are installed. A success, and a refusal by the
kernel, are cached for the life of this process. A temporary failure (no file descriptors, no
memory, a timeout) is never cached. Any other failure is cached for a short time.

A trial blocks for milliseconds, and for seconds if the wrapper (the command that makes the sandbox)
hangs, so it must not run on an event loop. `strict_is_known` and `pid_namespace_is_known` return
whether there is a cached result, so that the probe would return immediately.
"""

from __future__ import annotations

import errno
import os
import re
import select
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

from exthost.errors import SpawnFailed
from exthost.model.launch_plan import LaunchPlan
from exthost.model.probe_result import ProbeResult, SandboxSupport
from exthost.process import child as child_module
from exthost.process.child import Child

# A wrapper usually takes milliseconds; one that takes this long hangs.
_PROBE_SECONDS = 5.0

# How long a failure is cached that is neither a refusal by the kernel nor temporary.
_OTHER_FAILURE_SECONDS = 60.0

# The errors of a kernel that does not allow namespaces, does not have them, or (ENOSPC) allows no
# more of them (user.max_user_namespaces).
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOSPC)

# The errors of a kernel that lacks memory, processes or file descriptors at the moment.
_SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)

# Searched before PATH, so that a PATH does not decide which program makes the sandbox.
_SYSTEM_FOLDERS = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"

_NO_BWRAP = ProbeResult(
    "bubblewrap (bwrap) is not installed",
    "install it (apt install bubblewrap, dnf install bubblewrap), or name it in EXTHOST_BWRAP",
)

# What runs a program in the Landlock sandbox.
LANDLOCK_LAUNCHER: tuple[str, ...] = (
    *(sys.executable, "-I", "-S"),
    str(Path(child_module.__file__).with_name("landlocked_program.py")),
)

# The cached results. Key: the type of sandbox, the support of this machine, perhaps a uid. Value:
# the result, and the time at which it expires (`time.monotonic`).
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
        import shutil

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
    "" if our init (`sandbox/init.c`) can make the namespace without bwrap."""
    if unsupported := _find_unsupported(support):
        return unsupported, ""
    from exthost.launch.sandbox import pid_namespace

    result = _probe(("pid", support), pid_namespace.plan_probe(support.machine))
    if result.works or result.is_temporary or _find_bwrap_problem(support):
        return result, ""
    by_bwrap = _probe(
        ("pid by bwrap", support), pid_namespace.plan_probe(support.machine, support.bwrap)
    )
    if by_bwrap.works or by_bwrap.is_temporary:
        return by_bwrap, support.bwrap
    return result, ""


def probe_strict(support: SandboxSupport, uid: int | None = None) -> ProbeResult:
    """Return whether the strict sandbox works. `uid` is the user that the extension would run as,
    if the host is root; None stands for the host's own user."""
    from exthost.launch.file_view import system_view
    from exthost.launch.sandbox import strict

    return (
        _find_unsupported(support)
        or _find_bwrap_problem(support)
        or _probe(
            ("strict", support, uid), strict.plan_probe(support, replace(system_view(), uid=uid))
        )
    )


def probe_landlock(support: SandboxSupport, uid: int | None = None) -> ProbeResult:
    """Return whether the Landlock sandbox works. `uid` is as in `probe_strict`."""
    if unsupported := _find_unsupported(support):
        return unsupported
    from exthost.launch.file_view import system_view
    from exthost.launch.sandbox import landlock

    command = landlock.plan_command(
        LANDLOCK_LAUNCHER,
        support.machine,
        replace(system_view(), uid=uid),
        network=False,
        loader_variables={},
    )
    plan = LaunchPlan(argv=("/bin/true",), cwd="/", before=command)
    return _probe(("landlock", support, uid), plan)


def landlock_is_known(support: SandboxSupport, uid: int | None = None) -> bool:
    """Return whether `probe_landlock` would return without a trial."""
    is_unsupported = _find_unsupported(support) is not None
    return is_unsupported or _get_cached(("landlock", support, uid)) is not None


def pid_namespace_is_known(support: SandboxSupport) -> bool:
    """Return whether `probe_pid_namespace` would return without a trial."""
    if _find_unsupported(support) is not None:
        return True
    result = _get_cached(("pid", support))
    if result is None:
        return False
    return (
        result.works
        or _find_bwrap_problem(support) is not None
        or _get_cached(("pid by bwrap", support)) is not None
    )


def strict_is_known(support: SandboxSupport, uid: int | None = None) -> bool:
    """Return whether `probe_strict` would return without a trial."""
    problem = _find_unsupported(support) or _find_bwrap_problem(support)
    return problem is not None or _get_cached(("strict", support, uid)) is not None


def _get_cached(key: object) -> ProbeResult | None:
    """Return the cached result; None if there is none, or if it has expired."""
    with _lock:
        result, expires = _results.get(key, (None, 0.0))
    return result if result is not None and time.monotonic() < expires else None


def _probe(key: object, plan: LaunchPlan) -> ProbeResult:
    """Return the cached result of a trial, or run the trial and cache its result."""
    result = _get_cached(key)
    if result is None:
        result = _run_trial(plan)
        if not result.is_temporary:
            is_permanent = result.works or _is_refusal(result.reason)
            expires = float("inf") if is_permanent else time.monotonic() + _OTHER_FAILURE_SECONDS
            with _lock:
                _results[key] = (result, expires)
    return result


def _find_unsupported(support: SandboxSupport) -> ProbeResult | None:
    """Return a negative result if this platform has no sandboxes at all; None if a trial
    decides."""
    if os.uname().sysname != "Linux":
        return ProbeResult(f"{os.uname().sysname} has no namespaces", "run the host on Linux")
    if not os.path.exists("/proc/self"):  # noqa: PTH110
        return ProbeResult("/proc is not mounted", "mount it: mount -t proc proc /proc")
    from exthost.launch.sandbox.initcode import INIT

    if support.machine not in INIT:
        supported = " and ".join(INIT)
        return ProbeResult(f"there is no init for {support.machine} processors", f"use {supported}")
    return None


def _find_bwrap_problem(support: SandboxSupport) -> ProbeResult | None:
    """Return a negative result if bwrap is missing or cannot be executed; None if it can."""
    if not support.bwrap:
        return _NO_BWRAP
    if not os.access(support.bwrap, os.X_OK):
        return ProbeResult(
            f"{support.bwrap} cannot be executed", "correct EXTHOST_BWRAP, or unset it"
        )
    return None


def _run_trial(plan: LaunchPlan) -> ProbeResult:
    """Start the plan, which runs /bin/true in a sandbox, and return whether it exits with 0."""
    try:
        child = Child(plan)
    except SpawnFailed as error:
        return ProbeResult(error.message, error.help, is_temporary=not error.permanent)
    except Exception as error:  # an unexpected error is a failed trial, too
        return ProbeResult(
            f"a probe could not be started: {error!r}", "report this as a bug of exthost"
        )
    try:
        child.close_stdin()
        has_ended = _wait_readable(child.exit_fd, _PROBE_SECONDS)
        stderr_line = _read_last_line(child.stderr) if has_ended else ""
        status = child.poll_exit()
        if not has_ended:
            reason = f"a probe had not ended after {_PROBE_SECONDS:g} s"
            return ProbeResult(reason, "try again", is_temporary=True)
        if status is not None and status.code == 0:
            return ProbeResult(keeps_pid=child.keeps_pid)
        reason = f"a probe failed: {stderr_line or status}"
        was_killed = status is not None and status.signal is not None
        is_temporary = _names_error(reason, _SHORTAGES) or (was_killed and not stderr_line)
        return ProbeResult(reason, _suggest_fix(stderr_line), is_temporary)
    finally:
        for _ in range(2):  # the first kill requests our init to exit, the second sends SIGKILL
            if child.poll_exit() is None:
                child.kill()
                _wait_readable(child.exit_fd, 1.0)
        child.reap()
        child.close_outputs()


def _wait_readable(fd: int, seconds: float) -> bool:
    """Wait until the descriptor can be read, and return whether it can. `select.select` would take
    no descriptor above 1023, which a host of many extensions has."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _read_last_line(fd: int) -> str:
    """Return the last line that is in a pipe now; "" if there is none."""
    os.set_blocking(fd, False)
    try:
        lines = os.read(fd, 4096).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _is_refusal(reason: str) -> bool:
    return _names_error(reason, _REFUSALS)


def _names_error(text: str, numbers: tuple[int, ...]) -> bool:
    """Return whether a message ends with the number of one of these errors, as those of our init
    do, or contains its text, as those of other programs do."""
    by_number = re.search(r"errno (\d+)$", text)
    if by_number:
        return int(by_number[1]) in numbers
    return any(os.strerror(number) in text for number in numbers)


def _suggest_fix(stderr_line: str) -> str:
    """Return what the operator can do about a failed trial, given its last line on stderr."""
    if any(phrase in stderr_line for phrase in ("ermission", "not permitted", "namespace")):
        return (
            "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "user.max_user_namespaces>0; on Ubuntu: exthost doctor --fix), or let the container "
            "have them"
        )
    return "see that message; a newer bubblewrap may help"
