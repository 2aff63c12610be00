"""Adds the containment to a launch plan: as configured, and as this machine allows.

Without a `permissions` table, an extension runs in a PID namespace where one can be made, with its
configured limits and no other restriction. A `permissions` table is a policy: it is enforced in
full, or the extension is refused. `sandbox = "best-effort"` runs it with less, which every listing
shows. `sandbox = "off"` runs it as if there were no table.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.errors import Refused
from exthost.launch.admission import Admission, check_unchanged, shown_files
from exthost.launch.machine_check import can_enforce, enforced_policy, has_pid_namespace
from exthost.launch_plan import Ceiling, Cgroup, ExpectedPath, LaunchPlan, ResourceLimit
from exthost.process import cgroups, sandbox_probe
from exthost.process.procfs import send_buffer_bytes
from exthost.process.runtimes import installation
from exthost.process.user_ids import counts_processes
from exthost.sandbox import cgroup, pid_namespace, strict
from exthost.sandbox.initcode import INIT
from exthost.sandbox.limits import (
    ceiling,
    max_sockets,
    prlimit_command,
    resource_limits,
    with_defaults,
)
from exthost.sandbox.strict import View
from exthost.spec import Limits, Permissions, Spec

__all__ = ["contain", "suggest_grant"]

# What is enforced without a sandbox.
_OPEN = {"network": "open", "filesystem": "open", "pids": "process group", "memory": "open"}

# Hidden folders that tools keep programs and caches in.
_HARMLESS_FOLDERS = frozenset(
    (".cache", ".local", ".npm", ".pyenv", ".nvm", ".cargo", ".rustup", ".venv", ".rbenv", ".asdf")
)

# An absolute path in an error message of a program.
_PATH = re.compile(r"""(?<![\w.])/[^\s:'"`,;()\[\]<>]+""")


def contain(
    spec: Spec, *, plan: LaunchPlan, limits: Limits, admission: Admission
) -> tuple[LaunchPlan, Mapping[str, Any]]:
    """Return the plan with its sandbox, limits and cgroup, and the same as data to show."""
    policy, view = enforced_policy(spec), admission.view
    if policy is not None and view is not None and _is_sandboxed(spec, view):
        check_unchanged(spec, admission)
        return _in_sandbox(plan, limits, policy, view, shown_files(admission))
    total = ceiling(limits, policy)
    group = _plan_cgroup(total)
    plan = replace(plan, ceiling=total, group=group)
    plan, enforced = _without_sandbox(spec, plan, resource_limits(limits, policy))
    if spec.permissions is not None:
        requested = _describe(spec.permissions)
        enforced = {**enforced, "asked_for": requested, "sandbox": str(spec.sandbox)}
    return plan, {**enforced, **_enforced_limits(limits, total, group)}


def _in_sandbox(
    plan: LaunchPlan,
    limits: Limits,
    policy: Permissions,
    view: View,
    paths: tuple[ExpectedPath, ...],
) -> tuple[LaunchPlan, Mapping[str, Any]]:
    support, max_memory = sandbox_probe.find_sandbox_support(), policy.max_memory
    complete = with_defaults(limits, max_memory)
    of_kernel, total = complete, ceiling(limits, policy)
    if limits.nproc is None and not counts_processes(view.uid):
        # The kernel would not enforce the default, or would count all processes of the host's user.
        of_kernel, total = replace(complete, nproc=None), total._replace(processes=complete.nproc)
    if max_memory is not None and not policy.network:
        total = total._replace(sockets=max_sockets(max_memory, send_buffer_bytes()))
    group = _plan_cgroup(total)
    wrapper = strict.plan_wrapper(
        support,
        view,
        network=policy.network,
        limits=resource_limits(of_kernel, policy),
        max_memory=max_memory,
    )
    wrapper = replace(wrapper, paths=paths)
    counts = {"nproc": complete.nproc, "nofile": complete.nofile, "sockets": total.sockets}
    enforced = {
        **strict.describe(support, view, network=policy.network),
        **_enforced_limits(of_kernel, total, group),
        "limits": {name: count for name, count in counts.items() if count is not None}
        | strict.private_sizes(max_memory),
    }
    return replace(plan, ceiling=total, group=group, wrapper=wrapper), enforced


def _without_sandbox(
    spec: Spec, plan: LaunchPlan, rlimits: tuple[ResourceLimit, ...]
) -> tuple[LaunchPlan, Mapping[str, str]]:
    support = sandbox_probe.find_sandbox_support()
    has_namespace, bwrap = has_pid_namespace(spec)
    if has_namespace:
        wrapper = pid_namespace.plan_wrapper(support.machine, bwrap, rlimits)
        return replace(plan, wrapper=wrapper), {**_OPEN, "pids": pid_namespace.ENFORCED}
    if rlimits and not support.prlimit:
        raise Refused(
            "X0385",
            "its limits on processor time, files or processes cannot be set: there is no prlimit",
            extension=spec.id,
            help="install util-linux, or remove cpu, nofile, fsize and nproc from its limits",
        )
    return replace(plan, before=prlimit_command(support.prlimit, rlimits)), _OPEN


def _is_sandboxed(spec: Spec, view: View) -> bool:
    return can_enforce(spec, as_host=view.uid is None)


def _plan_cgroup(total: Ceiling) -> Cgroup | None:
    """Return a cgroup for the extension, if a limit needs one and one can be created."""
    if (
        total == Ceiling()
        or (init := INIT.get(sandbox_probe.find_sandbox_support().machine)) is None
    ):
        return None
    return cgroup.plan_cgroup(cgroups.find_base(), total, init)


def _enforced_limits(limits: Limits, total: Ceiling, group: Cgroup | None) -> Mapping[str, str]:
    """Return how each configured limit is enforced, as data to show."""
    files = dict(group.settings) if group is not None else {}
    enforced = {"memory": "open"}
    if total.memory is not None:
        enforced["memory"] = "cgroup" if "memory.max" in files else "watchdog"
    if total.processes is not None:
        by_kernel = "cgroup" if "pids.max" in files else "rlimit" if limits.nproc else ""
        enforced["processes"] = f"watchdog+{by_kernel}" if by_kernel else "watchdog"
    elif limits.nproc is not None:
        enforced["processes"] = "rlimit"
    if total.cpu is not None:
        enforced["cpu"] = "watchdog+rlimit"
    for name in ("nofile", "fsize"):
        if getattr(limits, name) is not None:
            enforced[name] = "rlimit"
    return enforced


def suggest_grant(plan: LaunchPlan, stderr: Iterable[str]) -> str:
    """Return a grant that would fix an error on stderr about a path that the sandbox hides or makes
    read-only; "" if there is no such error."""
    if plan.wrapper is None or not plan.wrapper.filter:
        return ""
    lines = [*stderr]
    # A message may span two lines. A warning is seldom why the program failed, so it goes last.
    for line, before in sorted(zip(lines, ["", *lines], strict=False), key=_is_warning):
        for found in _PATH.findall(line):
            path = os.path.normpath(str(found))
            # A program may print any path: advice in our voice must not name a secret.
            if path.startswith(("/proc/", "/dev/", "/sys/")) or _is_private(path):
                continue
            if os.path.lexists(path) and not strict.can_see(plan.wrapper, path):
                whole = installation(path, os.path.expanduser("~")) or path  # noqa: PTH111
                return f'its sandbox hides {path}: add "{whole}" to permissions.filesystem'
            if "read-only file system" in f"{before} {line}".lower():
                folder = path if os.path.isdir(path) else str(Path(path).parent)  # noqa: PTH112
                return f'it may only read {folder}: add "{folder}:rw" to permissions.filesystem'
    return ""


def _is_private(path: str) -> bool:
    """Return whether a path may hold secrets: a hidden file or folder in a home folder, apart from
    caches and runtimes, or a file that only its owner can read. A file that does not exist yet is
    judged by its folder."""
    if not os.path.lexists(path):
        path = str(Path(path).parent)
    parts = Path(path).parts
    hidden = [part for part in parts if part.startswith(".")]
    if any(part not in _HARMLESS_FOLDERS for part in hidden):
        return True
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:  # not there either
        return False
    return stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077


def _is_warning(lines: tuple[str, str]) -> bool:
    return lines[0].lower().startswith("warn")


def _describe(policy: Permissions) -> str:
    paths = ", ".join(policy.filesystem) or "nothing"
    return f"network {'on' if policy.network else 'off'}, filesystem {paths}"
