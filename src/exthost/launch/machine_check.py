"""Finds out whether this machine can contain an extension as configured, off the event loop.

A trial of a sandbox blocks (`process.sandbox_probe`). On an event loop, `is_known` says whether the
answer is there without one; if not, `find_out` runs in a thread before the start. What is weaker
than usual or than configured is never silent: it is refused, or `weaker` says what and why.
"""

import asyncio

from exthost.errors import Refused, SpawnFailed
from exthost.launch.own_user import user_of
from exthost.process import sandbox_probe
from exthost.sandbox.probe_result import ProbeResult, SandboxSupport
from exthost.spec import Permissions, Spec

__all__ = [
    "can_enforce",
    "probe_machine",
    "has_pid_namespace",
    "is_machine_probed",
    "enforced_policy",
    "describe_weaknesses",
]


def enforced_policy(spec: Spec) -> Permissions | None:
    """Return the policy to enforce on an extension; None if there is none."""
    return None if spec.sandbox == "off" else spec.permissions


def is_machine_probed(spec: Spec) -> bool:
    """Return whether everything about this machine is known that a start depends on."""
    support = sandbox_probe.find_sandbox_support()
    users = _users(support) if enforced_policy(spec) is not None else set()
    if not all(sandbox_probe.strict_is_known(support, uid) for uid in users):
        return False
    return spec.lifetime == "plain" or sandbox_probe.pid_namespace_is_known(support)


def probe_machine(spec: Spec) -> None:
    """Run the trials that a start depends on. Raises SpawnFailed for a failure of the moment.
    Blocks: call it in a thread."""
    support = sandbox_probe.find_sandbox_support()
    if enforced_policy(spec) is not None:
        for uid in _users(support):
            _raise_momentary(spec, sandbox_probe.probe_strict(support, uid))
    if spec.lifetime != "plain":
        _raise_momentary(spec, sandbox_probe.probe_pid_namespace(support)[0])


def can_enforce(spec: Spec, *, as_host: bool = False) -> bool:
    """Return whether the policy can be enforced here. `as_host`: as the host's own user. Raises
    Refused if it cannot, unless the config allows less. What is not known counts as possible: a
    start then runs the sandbox, or fails."""
    support = sandbox_probe.find_sandbox_support()
    uid = None if as_host else user_of("", support)
    if not sandbox_probe.strict_is_known(support, uid) and _is_on_loop():
        return True
    result = sandbox_probe.probe_strict(support, uid)
    if result.works or result.is_temporary:
        return True
    if spec.sandbox == "best-effort" and spec.on_weaker != "refuse":
        return False
    hint = "let every user reach its program" if as_host else _BEST_EFFORT
    raise Refused(
        "X0302",
        f"its permissions cannot be enforced: {result.reason}",
        extension=spec.id,
        help=f"{result.fix}; or {hint}",
    )


_BEST_EFFORT = 'sandbox = "best-effort", which may run it without a sandbox'


def has_pid_namespace(spec: Spec) -> tuple[bool, str]:
    """Return whether a PID namespace can be made for an extension, and the bwrap that makes it.
    Raises Refused if the config insists on one."""
    if spec.lifetime == "plain":
        return False, ""
    result, bwrap = sandbox_probe.probe_pid_namespace(sandbox_probe.find_sandbox_support())
    if result.works:
        return True, bwrap
    _raise_momentary(spec, result)
    if spec.lifetime == "tree" or spec.on_weaker == "refuse":
        raise Refused(
            "X0380",
            f"its processes cannot be kept in one namespace: {result.reason}",
            extension=spec.id,
            help=f'{result.fix}; lifetime = "plain" does without',
        )
    return False, ""


def describe_weaknesses(spec: Spec, pids: str, is_sandboxed: bool) -> list[tuple[str, str]]:
    """Return what is weaker than usual or than configured, "sandbox" or "lifetime", each with the
    reason. `pids` is what is enforced of the lifetime."""
    found = []
    support = sandbox_probe.find_sandbox_support()
    if enforced_policy(spec) is not None and not is_sandboxed:
        reason = sandbox_probe.probe_strict(support, user_of("", support)).reason
        found.append(("sandbox", f"its permissions are not enforced: {reason}"))
    if spec.lifetime is None and pids == "process group":
        reason = sandbox_probe.probe_pid_namespace(support)[0].reason
        found.append(("lifetime", f"its processes can outlive a killed host: {reason}"))
    return found


def _users(support: SandboxSupport) -> set[int | None]:
    """Return the users that a sandboxed extension may run as: the host's own, which is None, and
    any other that root can become."""
    return {None, user_of("", support)}


def _raise_momentary(spec: Spec, result: ProbeResult) -> None:
    if result.is_temporary:
        raise SpawnFailed(
            "X0405",
            f"its sandbox could not be tried: {result.reason}",
            permanent=False,
            extension=spec.id,
            help=result.fix,
        )


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
