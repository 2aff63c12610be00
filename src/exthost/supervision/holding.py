"""How an extension is held: by what was written for it, and by what works on this machine.

Without a `permissions` table it is tier P: its processes held together where a PID namespace can
be had, its resources limited, and nothing else taken from it. A table that is there is a policy,
and is enforced in whole or the extension is refused; only `sandbox = "best-effort"` runs it with
less, which is told wherever extensions are listed, and "off" runs it as if there were no table.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from exthost.errors import Evidence, Refused
from exthost.model import Limits, Permissions, ResourceLimit, Spec, Wrapper
from exthost.process import probe
from exthost.process.grounds import Wish, survey
from exthost.sandbox import strict, tree

__all__ = ["Landmarks", "check", "enforceable", "hold", "resource_limits"]

# Of an extension that nobody restricted.
OPEN = {"network": "open", "filesystem": "open", "pids": "process group", "memory": "open"}

# Numbers of the kernel's, the same wherever our init runs.
_CPU, _FSIZE, _DATA, _NPROC, _NOFILE = 0, 1, 2, 6, 7

# Between the signal that a program may handle and the one that it may not.
_CPU_GRACE_SECONDS = 1

Landmarks = Mapping[str, str]
"""Paths of an extension → where they really led when it was admitted."""


def policy_of(spec: Spec) -> Permissions | None:
    """The policy that is to be enforced on it; None for tier P."""
    return None if spec.sandbox == "off" else spec.permissions


def check(spec: Spec) -> Landmarks:
    """Raise Refused for what cannot be held as it was written; else note where its paths lead."""
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
    enforceable(spec)
    return {path: os.path.realpath(path) for path in _own(spec)}


def enforceable(spec: Spec) -> bool:
    """Whether its policy can be enforced here; raises Refused unless less was agreed to."""
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


def hold(
    spec: Spec,
    *,
    program: str,
    env: Mapping[str, str],
    limits: Limits,
    state: str,
    landmarks: Landmarks,
) -> tuple[Wrapper | None, Mapping[str, str]]:
    """What is wrapped around it, and what holds it then, as data."""
    policy = policy_of(spec)
    bounds = resource_limits(limits, policy)
    if policy is None or not enforceable(spec):
        wrapper, held = _tier_p(spec, bounds)
        if spec.permissions is not None:
            held = {**held, "asked_for": _asked(spec.permissions), "sandbox": str(spec.sandbox)}
        return wrapper, held
    _unmoved(spec, landmarks)
    tools = probe.tools()
    cwd = spec.cwd or str(Path.cwd())
    ground = survey(
        Wish(
            extension=spec.id,
            argv=(program, *spec.argv[1:]),
            cwd=cwd,
            folders=_folders(spec),
            granted=policy.filesystem,
            network=policy.network,
            state=state,
            env=env,
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
    return wrapper, strict.held(tools, ground, network=policy.network)


def _tier_p(
    spec: Spec, bounds: tuple[ResourceLimit, ...]
) -> tuple[Wrapper | None, Mapping[str, str]]:
    if spec.lifetime == "plain":
        return None, OPEN
    tools = probe.tools()
    verdict = probe.tree_verdict(tools)
    if verdict.works:
        return tree.wrapped(tools, bounds), {**OPEN, "pids": tree.HELD}
    if spec.lifetime == "tree":
        raise Refused(
            "X0380",
            f"its processes cannot be held together: {verdict.why}",
            extension=spec.id,
            help=f'{verdict.fix}; lifetime = "plain" does without',
        )
    return None, OPEN


def resource_limits(limits: Limits, policy: Permissions | None) -> tuple[ResourceLimit, ...]:
    """What the kernel is told to hold each process to."""
    found = []
    if limits.cpu is not None:
        seconds = max(1, round(limits.cpu))
        found.append(ResourceLimit(_CPU, seconds, seconds + _CPU_GRACE_SECONDS))
    for resource, most in (
        (_FSIZE, limits.fsize),
        (_DATA, policy.max_memory if policy is not None else None),
        (_NPROC, limits.nproc),
        (_NOFILE, limits.nofile),
    ):
        if most is not None:
            found.append(ResourceLimit(resource, most, most))
    return tuple(found)


def _asked(policy: Permissions) -> str:
    paths = ", ".join(policy.filesystem) or "nothing"
    return f"network {'on' if policy.network else 'off'}, filesystem {paths}"


def _folders(spec: Spec) -> tuple[str, ...]:
    """The folders that are its own: its manifest's, or a cwd that somebody set for it."""
    found = []
    if spec.manifest is not None and spec.origin:
        found.append(str(Path(spec.origin).parent))
    if spec.own_cwd and spec.cwd:
        found.append(spec.cwd)
    return tuple(found)


def _own(spec: Spec) -> tuple[str, ...]:
    cwd = spec.cwd or str(Path.cwd())
    words = (os.path.join(cwd, word) for word in spec.argv)  # noqa: PTH118
    files = [path for path in words if os.path.isfile(path)]  # noqa: PTH113
    return (*_folders(spec), *files)


def _unmoved(spec: Spec, landmarks: Landmarks) -> None:
    """Nothing of it may lead elsewhere than when it was admitted."""
    for path, then in landmarks.items():
        now = os.path.realpath(path)
        if now != then:
            raise Refused(
                "X0384",
                f"{path} led to {then} when it was admitted, and now leads to {now}",
                extension=spec.id,
                help="if that change was yours, load the extension anew",
                evidence=Evidence(path=path),
            )
