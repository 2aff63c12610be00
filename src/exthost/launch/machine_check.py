"""Finds out whether this machine can enforce the sandbox that an extension is configured for.

The only way to find out is a trial: to run a process in the sandbox (`sandbox_probe`), which blocks
until the process has ended. So code on an event loop first calls `is_machine_probed`. If that
returns False, the code runs `probe_machine` in a thread before the start.

A restriction that this machine cannot enforce is never dropped silently. Either the extension is
refused, or `describe_weaknesses` names the restriction and the reason.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from exthost.errors import Refused, SpawnFailed
from exthost.launch import bridge, sandbox_probe

if TYPE_CHECKING:
    from exthost.model.probe_result import ProbeResult, SandboxSupport
    from exthost.model.spec import Permissions, Spec


def enforced_policy(spec: Spec) -> Permissions | None:
    """Return the permissions to enforce on an extension; None if the config has no permissions for
    it, or turns the sandbox off. The engine of a WebAssembly module cannot be turned off. A remote
    server whose permissions name no network can still connect to the host of its URL, if the config
    contains the URL."""
    policy = None if spec.sandbox == "off" and spec.source != "wasm" else spec.permissions
    if policy is not None and not policy.network and (host := bridge.server_host(spec)):
        return replace(policy, network=(host,))
    return policy


def uses_landlock(spec: Spec) -> bool:
    """Return whether the config chose the Landlock sandbox for an extension with permissions."""
    return spec.sandbox == "landlock" and spec.permissions is not None and spec.source != "wasm"


def _is_known(spec: Spec, support: SandboxSupport, uid: int | None) -> bool:
    """Return whether the result of the trial of the sandbox is cached."""
    if uses_landlock(spec):
        return sandbox_probe.landlock_is_known(support, uid)
    return sandbox_probe.strict_is_known(support, uid)


def _probe(spec: Spec, support: SandboxSupport, uid: int | None) -> ProbeResult:
    """Return the result of the trial of the sandbox as this user, and run the trial if it is not
    cached."""
    if uses_landlock(spec):
        return sandbox_probe.probe_landlock(support, uid)
    return sandbox_probe.probe_strict(support, uid)


def is_machine_probed(spec: Spec) -> bool:
    """Return whether the results of all trials that a start depends on are cached."""
    support = sandbox_probe.find_sandbox_support()
    users = _users(support) if enforced_policy(spec) is not None else set()
    if not all(_is_known(spec, support, uid) for uid in users):
        return False
    return spec.lifetime == "plain" or sandbox_probe.pid_namespace_is_known(support)


def probe_machine(spec: Spec) -> None:
    """Run the trials that a start depends on. Raises SpawnFailed for a temporary failure. Blocks:
    call it in a thread."""
    support = sandbox_probe.find_sandbox_support()
    if enforced_policy(spec) is not None:
        for uid in _users(support):
            _raise_if_temporary(spec, _probe(spec, support, uid))
    if spec.lifetime != "plain":
        _raise_if_temporary(spec, sandbox_probe.probe_pid_namespace(support)[0])


def can_enforce(spec: Spec, *, as_host: bool = False) -> bool:
    """Return whether this machine can enforce the permissions of an extension. Raises Refused if it
    cannot, unless the config allows to run the extension without a sandbox.

    `as_host` is whether the extension would run as the host's own user; otherwise it runs as a
    separate user if the host can change to one. Return True also if there is no result: on an event
    loop the trial is not run, because it blocks, and a trial may fail temporarily. The start then
    uses the sandbox or fails; it never runs the extension without a sandbox.
    """
    support = sandbox_probe.find_sandbox_support()
    from exthost.launch.extension_user import probe_user_id

    uid = None if as_host else probe_user_id(support)
    if not _is_known(spec, support, uid) and _is_on_loop():
        return True
    result = _probe(spec, support, uid)
    if result.works or result.is_temporary:
        return True
    if spec.sandbox == "best-effort" and spec.on_weaker != "refuse":
        return False
    hint = "let every user reach its program" if as_host else _OTHER_SANDBOX
    if uses_landlock(spec):
        hint = "leave its permissions out, which runs it without a sandbox"
    raise Refused(
        "X0302",
        f"its permissions cannot be enforced: {result.reason}",
        extension=spec.id,
        help=f"{result.fix}; or {hint}",
    )


_OTHER_SANDBOX = (
    'sandbox = "landlock", which is weaker; or sandbox = "best-effort", which may run it without a '
    "sandbox"
)


def find_pid_namespace(spec: Spec) -> tuple[ProbeResult | None, str]:
    """Return the result of the probe if a PID namespace can be made for an extension, else None;
    and the path of bwrap if only bwrap can make it, else "". Raises Refused if it cannot be made
    and the config requires it."""
    if spec.lifetime == "plain":
        return None, ""
    result, bwrap = sandbox_probe.probe_pid_namespace(sandbox_probe.find_sandbox_support())
    if result.works:
        return result, bwrap
    _raise_if_temporary(spec, result)
    if spec.lifetime == "tree" or spec.on_weaker == "refuse":
        raise Refused(
            "X0380",
            f"its processes cannot be kept in one namespace: {result.reason}",
            extension=spec.id,
            help=f'{result.fix}; or set lifetime = "plain", which needs no namespace',
        )
    return None, ""


def describe_weaknesses(spec: Spec, pids: str, is_sandboxed: bool) -> list[tuple[str, str]]:
    """Return which restrictions are weaker than usual or than configured ("sandbox" or "lifetime"),
    each with the reason. `pids` is the value of `enforced["pids"]`: how the processes of the
    extension are kept together."""
    weaknesses = []
    support = sandbox_probe.find_sandbox_support()
    if enforced_policy(spec) is not None and not is_sandboxed:
        from exthost.launch.extension_user import probe_user_id

        reason = _probe(spec, support, probe_user_id(support)).reason
        weaknesses.append(("sandbox", f"its permissions are not enforced: {reason}"))
    if uses_landlock(spec) and is_sandboxed:
        weaknesses.append(("sandbox", "Landlock is weaker than namespaces: see exthost inspect"))
    if spec.lifetime is None and pids == "process group":
        reason = sandbox_probe.probe_pid_namespace(support)[0].reason
        weaknesses.append(("lifetime", f"its processes can outlive a killed host: {reason}"))
    return weaknesses


def _users(support: SandboxSupport) -> set[int | None]:
    """Return the users for whom the sandbox is tried: None, which is the host's own user, and, if
    the host is root, a user that no extension has. The sandbox is assumed to work for the user of
    every extension if it works for that one."""
    from exthost.launch.extension_user import probe_user_id

    return {None, probe_user_id(support)}


def _raise_if_temporary(spec: Spec, result: ProbeResult) -> None:
    """Raise SpawnFailed if a trial has failed for a temporary reason, such as a lack of memory."""
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
