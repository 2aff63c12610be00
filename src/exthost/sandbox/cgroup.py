"""Decides where the host may create cgroups (v2) for extensions, and what their files contain.

The module is pure; `process.cgroups` reads and writes the files.

A cgroup is better than the watchdog: the kernel enforces its limits at every moment, where the
watchdog only samples, and kills all its processes in one step. But the host may only use a part of
the cgroup tree that was delegated to it. Write access is not enough: root always has it, and a user
has it in everything that the user's systemd manages, and systemd may revert changes at any time.

A cgroup with controllers enabled for its children must not contain processes itself. So a host that
is alone in its cgroup moves into a leaf beside those of its extensions. If other processes are in
the cgroup, the host does not change it.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from exthost.launch_plan import Ceiling, Cgroup
from exthost.sandbox.limits import max_threads
from exthost.sandbox.probe_result import ProbeResult

__all__ = [
    "OPTIONAL_FILES",
    "CgroupBase",
    "FoundCgroup",
    "Owner",
    "choose_base",
    "locate",
    "oom_reason",
    "owner_of",
    "plan_cgroup",
]

# The controllers whose limits the host sets.
_CONTROLLERS = frozenset({"memory", "pids"})

# Files that do not exist in every cgroup: this one is missing if the kernel has no swap.
OPTIONAL_FILES = frozenset({"memory.swap.max"})

_DELEGATE = "run the host as the only process of a unit with Delegate=yes (docs/operate.md)"
_MOUNT = "mount cgroup v2 with the memory and pids controllers, which v1 may be holding"


class CgroupBase(NamedTuple):
    """Where cgroups can be created.

    base         the folder below which they can be created; "" if they cannot
    controllers  those of `memory` and `pids` that can be used there
    moves_host   whether the host must first move into a leaf, a cgroup below `base`
    result       why no cgroup can be created; `result.works` if one can
    """

    base: str = ""
    controllers: frozenset[str] = frozenset()
    moves_host: bool = False
    result: ProbeResult = ProbeResult()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCgroup:
    """An existing cgroup.

    folder         its path in the file system
    owner          the uid that owns the folder
    is_root        it is the root of the tree
    is_delegated   systemd has marked it as delegated
    has_processes  it contains processes itself, not only in cgroups below it
    has_others     it contains processes that the host did not start, or cgroups that no host
                   created
    can_kill       the kernel has cgroup.kill
    controllers    the controllers that could be enabled for the cgroups below it
    enabled        the controllers that are enabled for the cgroups below it
    """

    folder: str
    owner: int
    is_writable: bool = True
    is_root: bool = False
    is_delegated: bool = False
    has_processes: bool = False
    has_others: bool = False
    can_kill: bool = True
    controllers: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()


def locate(groups: str, mounts: str) -> tuple[str, str]:
    """Return the folder of the host's cgroup and the mount point of the tree. `groups` is the
    content of /proc/self/cgroup, `mounts` that of /proc/self/mountinfo. Both results are "" if
    there is no cgroup v2, or if the host's cgroup is not below the mount."""
    host_group = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), "")
    for line in mounts.splitlines():
        fields, _, type_fields = line.partition(" - ")
        if type_fields.startswith("cgroup2 ") and host_group:
            root, point = map(_unescape, fields.split(" ")[3:5])
            relative = "/" + host_group.removeprefix(root).strip("/")
            is_below = f"{host_group}/".startswith(f"{root.rstrip('/')}/")
            if is_below and "/.." not in host_group:
                return (point + relative).rstrip("/"), point
    return "", ""


def choose_base(
    own: FoundCgroup | None, above: FoundCgroup | None, *, uid: int, systemd: bool
) -> CgroupBase:
    """Return the cgroup in which the host creates others: the host's own one or, if that is only a
    leaf of a delegated cgroup, the one above it.

    `own` is the host's cgroup, None if there is no cgroup v2; `above` is the one above it, None for
    none. `uid` is the host's user. `systemd`: systemd manages the tree.
    """
    if own is None:
        return CgroupBase(result=ProbeResult("no cgroup v2 is mounted here", _MOUNT))
    if above is not None and (above.is_delegated or _is_leaf(own.folder)):
        base = _check_usable(above, uid, above.has_processes and not above.is_root)
        if base.result.works:
            return base
    # If this user owns this cgroup but not the one above, somebody delegated it by a chown.
    was_given_to_user = above is not None and above.owner != uid
    if systemd and not own.is_delegated and not was_given_to_user:
        return _unusable(f"{own.folder} was not delegated to this host", _DELEGATE)
    base = _check_usable(own, uid, own.has_others and not own.is_root)
    return base._replace(moves_host=base.result.works and not own.is_root)


def _check_usable(found: FoundCgroup, uid: int, is_shared: bool) -> CgroupBase:
    """Return the cgroup as a base, or the reason why it cannot be one. `is_shared`: it contains
    processes of others."""
    # To enable a controller at the root changes the whole machine, and the host does not do that.
    controllers = _CONTROLLERS & (found.enabled if found.is_root else found.controllers)
    if found.owner != uid or not found.is_writable:
        return _unusable(f"this host may not write in {found.folder}", _DELEGATE)
    if not controllers:
        return _unusable(f"{found.folder} has neither the memory nor the pids controller", _MOUNT)
    if not found.can_kill:
        return _unusable("the kernel cannot kill a cgroup as a whole", "use Linux 5.14 or later")
    if is_shared:
        return _unusable(f"{found.folder} contains other processes, too", _DELEGATE)
    return CgroupBase(found.folder, controllers)


def _unusable(reason: str, fix: str) -> CgroupBase:
    return CgroupBase(result=ProbeResult(reason, fix))


def plan_cgroup(base: CgroupBase, ceiling: Ceiling, init: bytes) -> Cgroup | None:
    """Return the cgroup for an extension with these limits; None if it would limit nothing. `init`
    is the code of the program that enters the cgroup."""
    settings: list[tuple[str, str]] = []
    if ceiling.memory is not None and "memory" in base.controllers:
        settings += [("memory.max", str(ceiling.memory)), ("memory.swap.max", "0")]
        settings += [("memory.oom.group", "1")]
    if ceiling.processes is not None and "pids" in base.controllers:
        # pids.max counts threads, while limits.nproc counts processes. So pids.max is wider, and
        # the watchdog enforces the exact number.
        settings += [("pids.max", str(max_threads(ceiling.processes)))]
    if not settings:
        return None
    return Cgroup(
        base=base.base,
        settings=tuple(settings),
        controllers=tuple(sorted(base.controllers)),
        moves_host=base.moves_host,
        init=init,
    )


def oom_reason(events: str, max_memory: int | None) -> str:
    """Return why the OOM killer killed the processes of a cgroup; "" if it did not. `events` is the
    content of its file memory.events."""
    lines = [line.split() for line in events.splitlines()]
    happened = {fields[0]: fields[1] != "0" for fields in lines if len(fields) == 2}
    if not happened.get("oom_kill"):
        return ""
    if happened.get("oom") and max_memory is not None:
        return f"it used all its memory (permissions.max_memory is {max_memory / 2**20:.0f} MiB)"
    return "this machine, or the cgroup of the host, ran out of memory"


# -- names ---------------------------------------------------------------------------------------


class Owner(NamedTuple):
    """The host that created a cgroup, as the name of the cgroup identifies it: its PID namespace,
    its pid, and its start time in clock ticks, since a pid may be reused."""

    namespace: int
    pid: int
    started: int

    def group(self, number: int) -> str:
        """Return the name of an extension's cgroup."""
        return f"{self.leaf.removesuffix('host')}{number}"

    @property
    def leaf(self) -> str:
        """The name of the cgroup that the host itself moves into."""
        return f"exthost-{self.namespace}-{self.pid}-{self.started}-host"


_NAME = re.compile(r"exthost-([0-9]+)-([0-9]+)-([0-9]+)-(host|[0-9]+)")


def owner_of(name: str) -> tuple[Owner, bool] | None:
    """Return the host that created the cgroup of this name, and whether it belongs to an extension
    (and not to the host itself); None if no host created it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return Owner(*map(int, match.groups()[:3])), match[4] != "host"


def _is_leaf(folder: str) -> bool:
    """Return whether this is the cgroup that a host moved into."""
    owner = owner_of(folder.rpartition("/")[2])
    return owner is not None and not owner[1]


def _unescape(path: str) -> str:
    """Return a path from mountinfo without escapes; there a space is written as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
