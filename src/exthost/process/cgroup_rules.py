"""Decides where the host may create cgroups (v2) for extensions, and what their files contain.

The module does no I/O; `process.cgroups` reads and writes the files.

A cgroup is better than the watchdog (a thread of the host that samples memory use): the kernel
enforces the limits of a cgroup at every moment, and kills all its processes in one step. But the
host may only use a part of the cgroup tree that was delegated to it. Write access is not enough:
root has it everywhere, and a user has it in everything that the user's systemd manages. There,
systemd may revert the host's changes at any time.

The host creates the cgroups of its extensions below one cgroup, the base. To limit them, the base
must enable controllers (memory, pids) for the cgroups below it. The kernel allows that only while
the base itself contains no processes (except in the root of the tree). So if the base contains only
the host and processes that the host started, the host moves them all into one more cgroup below the
base, the leaf. If the base contains other processes, the host does not use it.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from exthost.model.launch_plan import Ceiling, Cgroup
from exthost.model.probe_result import ProbeResult
from exthost.process.resource_limits import max_threads

# The controllers whose limits the host sets.
_CONTROLLERS = frozenset({"memory", "pids"})

# Files that do not exist in every cgroup: this one is missing if the kernel has no swap.
OPTIONAL_FILES = frozenset({"memory.swap.max"})

# What the operator can do if no cgroup is usable.
_DELEGATE = "run the host as the only process of a unit with Delegate=yes (docs/operate.md)"
_MOUNT = (
    "mount cgroup v2 with the memory and pids controllers (a controller that cgroup v1 uses is not "
    "available in v2)"
)


class CgroupBase(NamedTuple):
    """The cgroup below which the host can create cgroups, or the reason why it cannot.

    folder       its path in the file system; "" if the host cannot create cgroups
    controllers  which of the controllers `memory` and `pids` can be used there
    moves_host   whether the host must first move into a leaf, a cgroup below `folder`
    result       why the host cannot create cgroups; `result.works` is true if it can
    """

    folder: str = ""
    controllers: frozenset[str] = frozenset()
    moves_host: bool = False
    result: ProbeResult = ProbeResult()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCgroup:
    """An existing cgroup.

    folder               its path in the file system
    owner_uid            the user id that owns the folder
    is_writable          the host has write access to the folder and its control files
    is_root              it is the root of the tree
    is_delegated         systemd has marked it as delegated
    has_processes        it contains processes itself, not only in cgroups below it
    has_foreign_members  it contains processes that the host did not start, or cgroups that no host
                         created
    can_kill             the kernel has cgroup.kill
    controllers          the controllers that could be enabled for the cgroups below it
    enabled              the controllers that are enabled for the cgroups below it
    """

    folder: str
    owner_uid: int
    is_writable: bool = True
    is_root: bool = False
    is_delegated: bool = False
    has_processes: bool = False
    has_foreign_members: bool = False
    can_kill: bool = True
    controllers: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()


def locate(groups: str, mounts: str) -> tuple[str, str]:
    """Return the folder of the host's cgroup and the mount point of the tree. `groups` is the
    content of /proc/self/cgroup, and `mounts` is the content of /proc/self/mountinfo. Both results
    are "" if there is no cgroup v2, or if the host's cgroup is not in a mounted part of the
    tree."""
    # The line of cgroup v2 is "0::PATH".
    host_group = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), "")
    for line in mounts.splitlines():
        # MOUNT-ID PARENT-ID DEVICE ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS
        fields, _, type_fields = line.partition(" - ")
        if type_fields.startswith("cgroup2 ") and host_group:
            # `root` is the cgroup that is mounted at `point`, with the cgroups below it.
            root, point = map(_unescape, fields.split(" ")[3:5])
            relative = "/" + host_group.removeprefix(root).strip("/")
            is_below = f"{host_group}/".startswith(f"{root.rstrip('/')}/")
            # The kernel writes "/.." for a cgroup outside the host's cgroup namespace.
            if is_below and "/.." not in host_group:
                return (point + relative).rstrip("/"), point
    return "", ""


def choose_base(
    host_cgroup: FoundCgroup | None, parent: FoundCgroup | None, *, uid: int, has_systemd: bool
) -> CgroupBase:
    """Return the base: the cgroup that the host is in, or the cgroup above it (the parent).

    The parent is preferred in two cases: it was delegated (systemd can start a service in a cgroup
    below the delegated one, with DelegateSubgroup=), or the host is in a leaf, because another host
    started it there.

    `host_cgroup` is the cgroup that the host is in, None if there is no cgroup v2. `parent` is
    None if `host_cgroup` is at the mount point. `uid` is the user that the host runs as.
    `has_systemd` is whether systemd manages the tree.
    """
    if host_cgroup is None:
        return CgroupBase(result=ProbeResult("no cgroup v2 is mounted here", _MOUNT))
    if parent is not None and (parent.is_delegated or _is_leaf(host_cgroup.folder)):
        # The host does not move processes out of the parent, so the parent must be empty, unless it
        # is the root, in which the kernel allows processes.
        base = _check_usable(parent, uid, parent.has_processes and not parent.is_root)
        if base.result.works:
            return base
    # The parent belongs to another user. If `host_cgroup` belongs to this user, which
    # `_check_usable` checks, an administrator has delegated it by chown.
    is_owned_apart_from_parent = parent is not None and parent.owner_uid != uid
    if has_systemd and not host_cgroup.is_delegated and not is_owned_apart_from_parent:
        return _unusable(f"{host_cgroup.folder} was not delegated to this host", _DELEGATE)
    # The host and the processes that it started are in this cgroup and can move into a leaf, so
    # only foreign processes and cgroups make it unusable.
    is_shared = host_cgroup.has_foreign_members and not host_cgroup.is_root
    base = _check_usable(host_cgroup, uid, is_shared)
    return base._replace(moves_host=base.result.works and not host_cgroup.is_root)


def _check_usable(found: FoundCgroup, uid: int, is_shared: bool) -> CgroupBase:
    """Return the cgroup as a base, or the reason why it cannot be one. `is_shared` is whether it
    contains processes that the host does not move out of it."""
    # The host enables no controller at the root, because that affects the whole machine. There, it
    # uses only controllers that are enabled already.
    controllers = _CONTROLLERS & (found.enabled if found.is_root else found.controllers)
    if found.owner_uid != uid or not found.is_writable:
        return _unusable(f"this host cannot write in {found.folder}", _DELEGATE)
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
    """Return the cgroup for an extension; None if it would limit nothing. `ceiling` has the limits
    over all processes of the extension together. `init` is the executable code (ELF) of the small
    program that enters the cgroup and then executes the extension."""
    settings: list[tuple[str, str]] = []
    if ceiling.memory is not None and "memory" in base.controllers:
        settings += [("memory.max", str(ceiling.memory)), ("memory.swap.max", "0")]
        # The OOM killer kills all processes of the cgroup, not only the largest.
        settings += [("memory.oom.group", "1")]
    if ceiling.processes is not None and "pids" in base.controllers:
        # pids.max counts threads, while limits.nproc counts processes. So pids.max is set to a
        # higher number, and the watchdog enforces the exact number of processes.
        settings += [("pids.max", str(max_threads(ceiling.processes)))]
    if not settings:
        return None
    return Cgroup(
        base=base.folder,
        settings=tuple(settings),
        controllers=tuple(sorted(base.controllers)),
        moves_host=base.moves_host,
        init=init,
    )


def oom_reason(events: str, max_memory: int | None) -> str:
    """Return why the OOM killer killed the processes of a cgroup; "" if it did not. `events` is the
    content of the cgroup's file memory.events, `max_memory` its limit in bytes (None for none)."""
    lines = [line.split() for line in events.splitlines()]
    happened = {fields[0]: fields[1] != "0" for fields in lines if len(fields) == 2}
    if not happened.get("oom_kill"):
        return ""
    # "oom" counts the times that the cgroup reached its own limit. "oom_kill" counts all processes
    # that were killed, also for a lack of memory outside the cgroup.
    if happened.get("oom") and max_memory is not None:
        return f"it used all its memory (permissions.max_memory is {max_memory / 2**20:.0f} MiB)"
    return "this machine, or the cgroup of the host, ran out of memory"


# -- names ---------------------------------------------------------------------------------------


class HostIdentity(NamedTuple):
    """Identifies the host that created a cgroup; it is part of the cgroup's name.

    namespace  the inode number of the host's PID namespace
    pid        the host's process id
    started    the host's start time in clock ticks, since a pid may be reused
    """

    namespace: int
    pid: int
    started: int

    def extension_cgroup_name(self, number: int) -> str:
        """Return the name of an extension's cgroup. The host numbers its cgroups consecutively."""
        return f"exthost-{self.namespace}-{self.pid}-{self.started}-{number}"

    @property
    def host_cgroup_name(self) -> str:
        """The name of the leaf, the cgroup that the host itself moves into."""
        return f"exthost-{self.namespace}-{self.pid}-{self.started}-host"


_NAME = re.compile(r"exthost-([0-9]+)-([0-9]+)-([0-9]+)-(host|[0-9]+)")


def parse_cgroup_name(name: str) -> tuple[HostIdentity, bool] | None:
    """Return the host that created the cgroup of this name, and whether the cgroup is that of an
    extension (True) or the host's leaf (False); None if no host created it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return HostIdentity(*map(int, match.groups()[:3])), match[4] != "host"


def _is_leaf(folder: str) -> bool:
    """Return whether this is the leaf that a host moved into."""
    creator = parse_cgroup_name(folder.rpartition("/")[2])
    return creator is not None and not creator[1]


def _unescape(path: str) -> str:
    """Return a path from mountinfo without its escapes: a space is written as \\040 there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
