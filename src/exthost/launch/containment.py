"""Adds sandbox, resource limits and cgroup to a launch plan.

An extension without a `permissions` table runs with its configured limits, and in a PID namespace
if this machine can make one; nothing else restricts it. A `permissions` table is enforced in full,
or the extension is refused. With `sandbox = "best-effort"` the extension runs without a sandbox if
this machine cannot make one; a warning and an event report that. With `sandbox = "off"` the table
is ignored.

A `View` is the part of the file system that a sandboxed extension sees. A `Ceiling` limits all its
processes together, while a resource limit applies to each of them.

Modules that only some extensions need are imported inside functions, since imports are a large part
of the start of a host.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exthost.errors import Evidence, Refused
from exthost.launch import sandbox_probe
from exthost.launch.machine_check import (
    can_enforce,
    enforced_policy,
    find_pid_namespace,
    uses_landlock,
)
from exthost.launch.sandbox import pid_namespace
from exthost.model.launch_plan import (
    NO_CEILING,
)
from exthost.model.spec import ValueReference
from exthost.process.environment import Variables
from exthost.process.init_channel import split_loader_variables
from exthost.process.procfs import send_buffer_bytes
from exthost.process.resource_limits import (
    FILES,
    NO_CORE_FILE,
    ceiling,
    lower_to,
    max_sockets,
    prlimit_command,
    resource_limits,
    with_defaults,
)

if TYPE_CHECKING:
    from exthost.launch.admission_record import Admission
    from exthost.launch.sandbox.strict import View
    from exthost.model.launch_plan import (
        Ceiling,
        Cgroup,
        ExpectedPath,
        LaunchPlan,
        ResourceLimit,
    )
    from exthost.model.spec import Limits, Permissions, Spec


# The restrictions without a sandbox; "open" means not restricted.
_OPEN = {"network": "open", "filesystem": "open", "pids": "process group", "memory": "open"}


def contain(
    spec: Spec,
    *,
    plan: LaunchPlan,
    limits: Limits,
    admission: Admission,
    environ: Mapping[str, str],
) -> tuple[LaunchPlan, Mapping[str, Any]]:
    """Return the plan with its sandbox, limits and cgroup, and how each restriction is enforced, as
    data for users. `admission` has the files that the extension sees (`admission.decide`), and
    `environ` the host's variables. Raises Refused if a restriction cannot be enforced."""
    policy, view = enforced_policy(spec), admission.view
    # With a sandbox: Landlock, or the strict one, perhaps with a proxy for its network.
    if policy is not None and view is not None and _is_sandboxed(spec, view):
        from exthost.launch.admission import check_unchanged, visible_files

        check_unchanged(spec, admission)
        if uses_landlock(spec):
            plan, enforced = _add_landlock(
                spec, plan, limits, policy, view, visible_files(admission)
            )
            return _without_core_files(spec, plan), enforced
        from exthost.launch.network_grant import plan_proxy

        network = plan_proxy(spec, environ)
        if network is not None:
            from exthost.launch.sandbox import strict

            variables = Variables({**plan.env, **strict.PROXY_VARIABLES})
            plan = replace(plan, env=variables, network=network)
        plan, enforced = _add_sandbox(plan, limits, policy, view, visible_files(admission))
        return _without_core_files(spec, plan), enforced
    # Without a sandbox: only limits. The sandbox of a WebAssembly module is its engine.
    is_module = spec.source == "wasm"
    if is_module:
        from exthost.launch import wasm

        policy = wasm.with_runner_memory(spec.permissions)
    total = ceiling(limits, policy)
    group = _plan_cgroup(total)
    plan = replace(plan, ceiling=total, group=group)
    plan, enforced = _add_limits_only(spec, plan, _possible_limits(limits, policy))
    enforced = {**enforced, **_enforced_limits(limits, total, group)}
    if is_module:
        enforced |= wasm.describe_engine(spec)
    elif spec.permissions is not None:
        requested = _describe(spec.permissions)
        enforced |= {"asked_for": requested, "sandbox": str(spec.sandbox)}
    return _without_core_files(spec, plan), enforced


def _without_core_files(spec: Spec, plan: LaunchPlan) -> LaunchPlan:
    """Return the plan of a program that leaves no core file if it crashes and the config gives it a
    secret, which that file would contain."""
    if not any(isinstance(value, ValueReference) for value in spec.env.values()):
        return plan
    limits = _lower_to_host((NO_CORE_FILE,))
    if plan.wrapper is not None:
        limits = (*plan.wrapper.limits, *limits)
        return replace(plan, wrapper=replace(plan.wrapper, limits=limits))
    prlimit = sandbox_probe.find_sandbox_support().prlimit
    command = prlimit_command(prlimit, limits) if prlimit else ()
    return replace(plan, before=(*command, *plan.before))


def _add_sandbox(
    plan: LaunchPlan,
    limits: Limits,
    policy: Permissions,
    view: View,
    paths: tuple[ExpectedPath, ...],
) -> tuple[LaunchPlan, Mapping[str, Any]]:
    """Return the plan in a strict sandbox, and what is enforced. `paths` are the visible files that
    must not have been replaced when the program is executed."""
    support, max_memory = sandbox_probe.find_sandbox_support(), policy.max_memory
    complete = with_defaults(limits, max_memory)
    # `kernel_limits` apply to each process, `total` to all of them together.
    kernel_limits, total = complete, ceiling(limits, policy)
    from exthost.launch.sandbox import strict
    from exthost.process.user_ids import counts_processes

    if limits.nproc is None and not counts_processes(view.uid):
        # The kernel would not enforce the default number of processes, or would count all processes
        # of the host's user. So the watchdog or the cgroup enforces it.
        kernel_limits = replace(complete, nproc=None)
        total = total._replace(processes=complete.nproc)
    if max_memory is not None and not policy.network:
        total = total._replace(sockets=max_sockets(max_memory, send_buffer_bytes()))
    group = _plan_cgroup(total)
    wrapper = strict.plan_wrapper(
        support,
        view,
        network=bool(policy.network),
        proxied=plan.network is not None,
        limits=_possible_limits(kernel_limits, policy),
        max_memory=max_memory,
    )
    wrapper = replace(wrapper, paths=paths)
    max_files = next(limit.hard for limit in wrapper.limits if limit.resource == FILES)
    counts = {"nproc": complete.nproc, "nofile": max_files, "sockets": total.sockets}
    enforced = {
        **strict.describe(
            support,
            view,
            network=bool(policy.network),
            hosts=() if plan.network is None else plan.network.entries,
        ),
        **_enforced_limits(kernel_limits, total, group),
        "limits": {name: count for name, count in counts.items() if count is not None}
        | strict.private_sizes(view, max_memory),
    }
    return replace(plan, ceiling=total, group=group, wrapper=wrapper), enforced


def _add_landlock(
    spec: Spec,
    plan: LaunchPlan,
    limits: Limits,
    policy: Permissions,
    view: View,
    paths: tuple[ExpectedPath, ...],
) -> tuple[LaunchPlan, Mapping[str, Any]]:
    """Return the plan in a Landlock sandbox, and what is enforced. Raises Refused if code in a
    writable folder would have to be protected, which Landlock cannot do."""
    # Imported lazily: it imports ctypes, which takes as long as the start of a program.
    from exthost.launch.sandbox import landlock
    from exthost.process.landlocked_program import landlock_version

    if view.protected:
        protected = view.protected[0]
        raise Refused(
            "X1884",
            f"{protected.path} must be read-only for it ({protected.reason}), and Landlock cannot "
            "make a path read-only inside a folder that it may write",
            extension=spec.id,
            help='grant a folder without code with :rw, or use sandbox = "strict"',
            evidence=Evidence(path=protected.path, key="permissions.filesystem"),
        )
    if isinstance(policy.network, tuple):
        raise Refused(
            "X1853",
            "its permissions list hosts of the network, and only the strict sandbox has a proxy",
            extension=spec.id,
            help='use network = true or false, or sandbox = "strict"',
            evidence=Evidence(key="permissions.network"),
        )
    if spec.on_weaker == "refuse":
        raise Refused(
            "X1885",
            'sandbox = "landlock" is weaker than the strict sandbox, and on_weaker is "refuse"',
            extension=spec.id,
            help='use sandbox = "strict", or set on_weaker = "warn" for it',
        )
    support = sandbox_probe.find_sandbox_support()
    complete = with_defaults(limits, policy.max_memory)
    total = ceiling(complete, policy)
    group = _plan_cgroup(total)
    # The kernel would count all processes of the host's user, so the watchdog counts those of the
    # extension.
    rlimits = _possible_limits(replace(complete, nproc=limits.nproc), policy)
    plan, in_force = _add_limits_only(spec, replace(plan, ceiling=total, group=group), rlimits)
    env, loader_variables = split_loader_variables(plan.env)
    command = landlock.plan_command(
        sandbox_probe.LANDLOCK_LAUNCHER,
        support.machine,
        view,
        network=bool(policy.network),
        expected=paths,
        loader_variables=loader_variables,
    )
    pids = {name: value for name, value in in_force.items() if name in ("pids", "pid")}
    enforced = {
        **landlock.describe(view, landlock_version(), network=policy.network, pids=pids),
        **_enforced_limits(replace(complete, nproc=limits.nproc), total, group),
    }
    if support.uid == 0:
        enforced["uid"] = "0 without capabilities" if view.uid is None else str(view.uid)
    return replace(plan, env=env, before=(*plan.before, *command)), enforced


def _add_limits_only(
    spec: Spec, plan: LaunchPlan, rlimits: tuple[ResourceLimit, ...]
) -> tuple[LaunchPlan, Mapping[str, str]]:
    """Return the plan with resource limits and, if one can be made, a PID namespace, and what is
    enforced. Without a namespace, prlimit(1) sets the resource limits."""
    support = sandbox_probe.find_sandbox_support()
    namespace, bwrap = find_pid_namespace(spec)
    if namespace is not None:
        wrapper = pid_namespace.plan_wrapper(support.machine, bwrap, rlimits)
        in_force = pid_namespace.describe(keeps_pid=namespace.keeps_pid)
        return replace(plan, wrapper=wrapper), {**_OPEN, **in_force}
    if rlimits and not support.prlimit:
        raise Refused(
            "X0385",
            "its limits on processor time, files or processes cannot be set: there is no prlimit",
            extension=spec.id,
            help="install util-linux, or remove cpu, nofile, fsize and nproc from its limits",
        )
    return replace(plan, before=prlimit_command(support.prlimit, rlimits)), _OPEN


def _possible_limits(limits: Limits, policy: Permissions | None) -> tuple[ResourceLimit, ...]:
    """Return the resource limits for each process, none above the limits of the host itself."""
    return _lower_to_host(resource_limits(limits, policy))


def _lower_to_host(rlimits: tuple[ResourceLimit, ...]) -> tuple[ResourceLimit, ...]:
    return lower_to(rlimits, lambda number: resource.getrlimit(number)[1])


def _is_sandboxed(spec: Spec, view: View) -> bool:
    """Return whether this machine can enforce the permissions for the user that the extension runs
    as. Raises Refused if it cannot, and the extension must not run without that."""
    return can_enforce(spec, as_host=view.uid is None)


def _plan_cgroup(total: Ceiling) -> Cgroup | None:
    """Return a cgroup for the extension, if a limit needs one and one can be created."""
    if total == NO_CEILING:
        return None
    from exthost.launch.sandbox.initcode import INIT
    from exthost.process import cgroup_rules, cgroups

    init = INIT.get(sandbox_probe.find_sandbox_support().machine)
    if init is None:
        return None
    return cgroup_rules.plan_cgroup(cgroups.find_base(), total, init)


def _enforced_limits(limits: Limits, total: Ceiling, group: Cgroup | None) -> Mapping[str, str]:
    """Return how each configured limit is enforced, as data for users. `limits` apply to each
    process, `total` to all processes together."""
    cgroup_files = dict(group.settings) if group is not None else {}
    enforced = {"memory": "open"}
    if total.memory is not None:
        enforced["memory"] = "cgroup" if "memory.max" in cgroup_files else "watchdog"
    if total.processes is not None:
        # The kernel has a higher limit than the watchdog, which counts exactly.
        if "pids.max" in cgroup_files:
            enforced["processes"] = "watchdog+cgroup"
        elif limits.nproc:
            enforced["processes"] = "watchdog+rlimit"
        else:
            enforced["processes"] = "watchdog"
    elif limits.nproc is not None:
        enforced["processes"] = "rlimit"
    if total.cpu is not None:
        enforced["cpu"] = "watchdog+rlimit"
    for name in ("nofile", "fsize"):
        if getattr(limits, name) is not None:
            enforced[name] = "rlimit"
    return enforced


def _describe(policy: Permissions) -> str:
    """Return permissions that are not enforced, as words for users."""
    paths = ", ".join(policy.filesystem) or "nothing"
    from exthost.launch.network_grant import describe_network

    return f"network {describe_network(policy.network)}, filesystem {paths}"
