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

from exthost.errors import Evidence, Refused
from exthost.model import Ceiling, Cgroup, LaunchPlan, Limits, Permissions, ResourceLimit, Spec
from exthost.process import cgroups, probe
from exthost.process.grounds import Wish, installation, survey
from exthost.sandbox import cgroup, strict, tree
from exthost.sandbox.initcode import INIT
from exthost.sandbox.limits import ceiling, prlimit_words, resource_limits

__all__ = ["RealPaths", "check_policy", "can_enforce", "contain", "suggest_grant", "policy_of"]

# Of an extension that nobody restricted.
OPEN = {"network": "open", "filesystem": "open", "pids": "process group", "memory": "open"}

# An absolute path as programs put it into their complaints.
_PATH = re.compile(r"""(?<![\w.])/[^\s:'"`,;()\[\]<>]+""")

RealPaths = Mapping[str, str]
"""Paths of an extension → their real paths when it was admitted."""


def policy_of(spec: Spec) -> Permissions | None:
    """Return the policy to enforce on an extension; None for tier P."""
    return None if spec.sandbox == "off" else spec.permissions


def check_policy(spec: Spec) -> RealPaths:
    """Raise Refused for a policy that cannot be enforced as written; else return its real paths."""
    policy = policy_of(spec)
    if policy is None:
        return {}
    wish = Wish(
        extension=spec.id,
        argv=("/bin/true",),
        cwd=spec.cwd or str(Path.cwd()),
        granted=policy.filesystem,
    )
    survey(wish)
    can_enforce(spec)
    return {path: os.path.realpath(path) for path in _own_paths(spec)}


def can_enforce(spec: Spec) -> bool:
    """Return whether the policy can be enforced here. Raises Refused if it cannot, unless the
    config allows less."""
    tools = probe.tools()
    verdict = probe.strict_verdict(tools)
    if verdict.works:
        return True
    if spec.sandbox == "best-effort":
        return False
    raise Refused(
        "X0302",
        f"its permissions cannot be enforced: {verdict.why}",
        extension=spec.id,
        help=f'{verdict.fix}; or sandbox = "best-effort", and then nothing may hold it',
    )


def contain(
    spec: Spec,
    *,
    plan: LaunchPlan,
    limits: Limits,
    state: str,
    real_paths: RealPaths,
) -> tuple[LaunchPlan, Mapping[str, str]]:
    """Return the plan with its sandbox, limits and cgroup, and the same as data to show. `state` is
    a folder that the program may write in, "" for none."""
    policy = policy_of(spec)
    bounds = resource_limits(limits, policy)
    most = ceiling(limits, policy)
    group = _group(most)
    plan = replace(plan, ceiling=most, group=group)
    if policy is None or not can_enforce(spec):
        plan, held = _tier_p(spec, plan, bounds)
        if spec.permissions is not None:
            held = {**held, "asked_for": _asked(spec.permissions), "sandbox": str(spec.sandbox)}
    else:
        _check_unmoved(spec, real_paths)
        plan, held = _strict(spec, policy, plan, bounds, state)
    return plan, {**held, **_watched(limits, most, group)}


def _strict(
    spec: Spec, policy: Permissions, plan: LaunchPlan, bounds: tuple[ResourceLimit, ...], state: str
) -> tuple[LaunchPlan, Mapping[str, str]]:
    tools = probe.tools()
    ground = survey(
        Wish(
            extension=spec.id,
            argv=plan.argv,
            cwd=spec.cwd or str(Path.cwd()),
            folders=_folders(spec),
            granted=policy.filesystem,
            network=policy.network,
            state=state,
            env=plan.env,
        )
    )
    if not ground.open and not (verdict := probe.strict_verdict(tools, open=False)).works:
        raise Refused(
            "X0302",
            f"its permissions cannot be enforced: {verdict.why}",
            extension=spec.id,
            help=f"{verdict.fix}; or let every user reach what it runs",
        )
    wrapper = strict.wrapped(tools, ground, network=policy.network, limits=bounds)
    held = strict.held(tools, ground, network=policy.network)
    return replace(plan, wrapper=wrapper), held


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


def _folders(spec: Spec) -> tuple[str, ...]:
    """Return the folders of the extension: that of its manifest, and a configured cwd."""
    found = []
    if spec.manifest is not None and spec.manifest_file:
        found.append(str(Path(spec.manifest_file).parent))
        if spec.cwd and spec.manifest_file.startswith(f"{spec.cwd}/"):
            found.append(spec.cwd)  # the manifest lies in a folder of the extension's folder
    if spec.own_cwd and spec.cwd:
        found.append(spec.cwd)
    return tuple(found)


def _own_paths(spec: Spec) -> tuple[str, ...]:
    cwd = spec.cwd or str(Path.cwd())
    words = (os.path.join(cwd, word) for word in spec.argv)  # noqa: PTH118
    files = [path for path in words if os.path.isfile(path)]  # noqa: PTH113
    return (*_folders(spec), *files)


def _check_unmoved(spec: Spec, real_paths: RealPaths) -> None:
    """Raise Refused if a path leads elsewhere than when the extension was admitted."""
    for path, then in real_paths.items():
        now = os.path.realpath(path)
        if now != then:
            raise Refused(
                "X0384",
                f"{path} led to {then} when it was admitted, and now leads to {now}",
                extension=spec.id,
                help="if that change was yours, load the extension anew",
                evidence=Evidence(path=path),
            )
