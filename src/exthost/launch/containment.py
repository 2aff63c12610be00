"""How the processes of an extension are contained: as configured, as this machine allows.

Without a `permissions` table it is tier P: its processes end together where a PID namespace can
be had, its resources are limited, and nothing else is taken from it. A table is a policy: it is
enforced in whole, or the extension is refused. `sandbox = "best-effort"` runs it with less, which
is shown wherever extensions are listed, and "off" runs it as if there were no table.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.errors import Refused
from exthost.launch.admission import Admission, check_unchanged, policy_of
from exthost.model import Ceiling, Cgroup, LaunchPlan, Limits, Permissions, ResourceLimit, Spec
from exthost.process import cgroups, probe
from exthost.process.runtimes import installation
from exthost.sandbox import cgroup, strict, tree
from exthost.sandbox.initcode import INIT
from exthost.sandbox.limits import ceiling, prlimit_words, resource_limits

__all__ = ["contain", "suggest_grant"]

# Of an extension that nobody restricted.
OPEN = {"network": "open", "filesystem": "open", "pids": "process group", "memory": "open"}

# An absolute path as programs put it into their complaints.
_PATH = re.compile(r"""(?<![\w.])/[^\s:'"`,;()\[\]<>]+""")


def contain(
    spec: Spec, *, plan: LaunchPlan, limits: Limits, admission: Admission
) -> tuple[LaunchPlan, Mapping[str, Any]]:
    """Return the plan with its sandbox, limits and cgroup, and the same as data to show."""
    policy = policy_of(spec)
    bounds = resource_limits(limits, policy)
    most = ceiling(limits, policy)
    group = _group(most)
    plan = replace(plan, ceiling=most, group=group)
    held: Mapping[str, Any]
    if policy is None or admission.view is None:
        plan, held = _tier_p(spec, plan, bounds)
        if spec.permissions is not None:
            held = {**held, "asked_for": _asked(spec.permissions), "sandbox": str(spec.sandbox)}
    else:
        check_unchanged(spec, admission)
        tools, view = probe.tools(), admission.view
        wrapper = strict.wrapped(tools, view, network=policy.network, limits=bounds)
        plan = replace(plan, wrapper=wrapper)
        held = strict.held(tools, view, network=policy.network)
    return plan, {**held, **_watched(limits, most, group)}


def _tier_p(
    spec: Spec, plan: LaunchPlan, bounds: tuple[ResourceLimit, ...]
) -> tuple[LaunchPlan, Mapping[str, str]]:
    tools = probe.tools()
    if spec.lifetime != "plain":
        verdict, bwrap = probe.tree_verdict(tools)
        if verdict.works:
            wrapper = tree.wrapped(tools.machine, bwrap, bounds)
            return replace(plan, wrapper=wrapper), {**OPEN, "pids": tree.HELD}
        if spec.lifetime == "tree":
            raise Refused(
                "X0380",
                f"its processes cannot be held together: {verdict.why}",
                extension=spec.id,
                help=f'{verdict.fix}; lifetime = "plain" does without',
            )
    if bounds and not tools.prlimit:
        raise Refused(
            "X0385",
            "its limits on processor time, files or processes cannot be set: there is no prlimit",
            extension=spec.id,
            help="install util-linux, or take cpu, nofile, fsize and nproc out of its limits",
        )
    return replace(plan, before=prlimit_words(tools.prlimit, bounds)), OPEN


def _group(most: Ceiling) -> Cgroup | None:
    """Return a cgroup for the extension, if a limit needs one and one can be had."""
    if most == Ceiling() or (init := INIT.get(probe.tools().machine)) is None:
        return None
    return cgroup.plan(cgroups.place(), most, init)


def _watched(limits: Limits, most: Ceiling, group: Cgroup | None) -> Mapping[str, str]:
    """Return how each limit is enforced, as data to show; limits that are not set are left out."""
    files = dict(group.settings) if group is not None else {}
    told = {"memory": "open"}
    if most.memory is not None:
        told["memory"] = "cgroup" if "memory.max" in files else "watchdog"
    if most.processes is not None:
        told["processes"] = "watchdog+cgroup" if "pids.max" in files else "watchdog+rlimit"
    for name in ("cpu", "nofile", "fsize"):
        if getattr(limits, name) is not None:
            told[name] = "rlimit"
    return told


def suggest_grant(plan: LaunchPlan, said: Iterable[str]) -> str:
    """Return the grant that mends what a program wrote to stderr about a path that its sandbox
    hides, or lets it only read; "" if there is no such complaint."""
    if plan.wrapper is None or not plan.wrapper.filter:
        return ""
    lines = [*said]
    # A complaint may be broken into lines, and a warning is seldom what it ended for.
    for line, before in sorted(zip(lines, ["", *lines], strict=False), key=_is_warning):
        for found in _PATH.findall(line):
            path = os.path.normpath(str(found))
            if path.startswith(("/proc/", "/dev/", "/sys/")):
                continue
            if os.path.lexists(path) and not strict.sees(plan.wrapper, path):
                whole = installation(path, os.path.expanduser("~")) or path  # noqa: PTH111
                return f'its sandbox hides {path}: add "{whole}" to permissions.filesystem'
            if "read-only file system" in f"{before} {line}".lower():
                folder = path if os.path.isdir(path) else str(Path(path).parent)  # noqa: PTH112
                return f'it may only read {folder}: add "{folder}:rw" to permissions.filesystem'
    return ""


def _is_warning(complaint: tuple[str, str]) -> bool:
    return complaint[0].lower().startswith("warn")


def _asked(policy: Permissions) -> str:
    paths = ", ".join(policy.filesystem) or "nothing"
    return f"network {'on' if policy.network else 'off'}, filesystem {paths}"
