"""What is decided about a sandboxed extension when it is admitted, and reused at every start.

The view is computed here, once, from what the operator wrote and what lies on disk at that moment.
A running extension may be able to change files that later starts look at; it cannot change what was
decided before it ran.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from exthost.errors import Evidence, Refused
from exthost.model import LaunchPlan, Permissions, Spec
from exthost.process import probe
from exthost.process.view import ViewRequest, compute_view, system_view
from exthost.sandbox.strict import NOBODY, View

__all__ = ["Admission", "NOT_SANDBOXED", "can_enforce", "check_unmoved", "decide", "policy_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What every start of an extension uses. `view` is None if nothing is hidden from it;
    `real_paths` are its own paths, each with its real path."""

    view: View | None = None
    real_paths: tuple[tuple[str, str], ...] = ()


NOT_SANDBOXED = Admission()


def policy_of(spec: Spec) -> Permissions | None:
    """Return the policy to enforce on an extension; None for tier P."""
    return None if spec.sandbox == "off" else spec.permissions


def can_enforce(spec: Spec) -> bool:
    """Return whether the policy can be enforced here. Raises Refused if it cannot, unless the
    config allows less."""
    tools = probe.tools()
    verdict = probe.strict_verdict(tools, NOBODY if tools.uid == 0 and tools.setpriv else None)
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


def decide(spec: Spec, plan: LaunchPlan, state: str, host: Mapping[str, str]) -> Admission:
    """Decide what an extension is shown. `plan` is its program, arguments and variables, `state` a
    folder that it may write in, "" for none; `host` are the variables of the host. Raises Refused
    for a policy that cannot be enforced as written."""
    policy = policy_of(spec)
    if policy is None:
        return NOT_SANDBOXED
    request = ViewRequest(
        extension=spec.id,
        argv=plan.argv,
        command=spec.argv[0],
        cwd=spec.cwd or str(Path.cwd()),
        folders=_folders(spec),
        granted=policy.filesystem,
        network=policy.network,
        state=state,
        env=plan.env,
        host=host,
        package=spec.package,
    )
    view = compute_view(request)
    if not can_enforce(spec):
        return NOT_SANDBOXED
    view = replace(view, uid=_choose_uid(view))
    tools = probe.tools()
    if view.uid is None and not (verdict := probe.strict_verdict(tools)).works:
        raise Refused(
            "X0302",
            f"its permissions cannot be enforced: {verdict.why}",
            extension=spec.id,
            help=f"{verdict.fix}; or let every user reach what it runs",
        )
    system = {one.path for one in system_view(network=True).shown}
    shown = (one.path for one in view.shown if one.path not in system)
    paths = dict.fromkeys((*_own_paths(spec, plan), *shown))
    return Admission(view=view, real_paths=tuple((one, os.path.realpath(one)) for one in paths))


def check_unmoved(spec: Spec, admission: Admission) -> None:
    """Raise Refused if a path leads elsewhere than when the extension was admitted."""
    for path, then in admission.real_paths:
        now = os.path.realpath(path)
        if now != then:
            raise Refused(
                "X0384",
                f"{path} led to {then} when it was admitted, and now leads to {now}",
                extension=spec.id,
                help="if that change was yours, load the extension anew",
                evidence=Evidence(path=path),
            )


def _folders(spec: Spec) -> tuple[str, ...]:
    """Return the folders that the operator named for it: that of a manifest, a configured cwd."""
    found = []
    if spec.package is None and spec.manifest is not None and spec.manifest_file:
        found.append(str(Path(spec.manifest_file).parent))
    is_packages = spec.package is not None and spec.cwd == spec.package.cwd
    if spec.own_cwd and spec.cwd and not is_packages:
        found.append(spec.cwd)
    return tuple(found)


def _own_paths(spec: Spec, plan: LaunchPlan) -> tuple[str, ...]:
    cwd = spec.cwd or str(Path.cwd())
    words = (os.path.join(cwd, word) for word in plan.argv)  # noqa: PTH118
    files = [path for path in words if os.path.isfile(path)]  # noqa: PTH113
    return (*_folders(spec), *files)


def _choose_uid(view: View) -> int | None:
    """Return the user that a root host runs it as: nobody, where nobody can reach all of it."""
    tools = probe.tools()
    system = {one.path for one in system_view(network=True).shown}
    own = [one.path for one in view.shown if one.path not in system]
    writable = (*view.writable, *([view.state] if view.state else ()))
    is_open = all(map(_open_to_all, own)) and all(map(_writable_to_all, writable))
    return NOBODY if tools.uid == 0 and tools.setpriv and is_open else None


def _open_to_all(path: str) -> bool:
    """Whether somebody who owns nothing here could reach and read it."""
    try:
        for above in Path(path).parents:
            if not above.stat().st_mode & stat.S_IXOTH:
                return False
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    return mode & wanted == wanted


def _writable_to_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IWOTH)  # noqa: PTH116
    except OSError:
        return False
