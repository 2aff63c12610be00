"""Cgroups (v2) for extensions: where the host may create them, what is written to their files, and
what the files report afterwards. Pure; `process.cgroups` reads and writes.

The kernel enforces the limits of a cgroup at every moment, where the watchdog only samples, and
kills all its processes in one step. But the host may only use a part of the tree that was delegated
to it. Write access is not enough: root always has it, and a user has it in everything that the
user's systemd manages, which may revert changes at any time.

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

# The controllers whose limits we set.
_CONTROLLERS = frozenset({"memory", "pids"})

# Missing if the kernel has no swap.
OPTIONAL_FILES = frozenset({"memory.swap.max"})

_DELEGATE = "run the host as the only process of a unit with Delegate=yes (docs/operate.md)"
_MOUNT = "mount cgroup v2 with the memory and pids controllers, which v1 may be holding"


class CgroupBase(NamedTuple):
    """The folder below which cgroups can be created, the controllers, and whether the host must
    move into a leaf first; or the `result` that says why none can be created."""

    base: str = ""
    controllers: frozenset[str] = frozenset()
    moves_host: bool = False
    result: ProbeResult = ProbeResult()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCgroup:
    """An existing cgroup.

    is_root       the root of the tree
    is_delegated  marked by systemd as delegated
    has_others    it contains processes that the host did not start, or cgroups that no host created
    can_kill      the kernel has cgroup.kill
    enabled       the controllers that the cgroups below it have
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
    """Return the folder of the host's cgroup and the mount point of the tree, given the content of
    /proc/self/cgroup and /proc/self/mountinfo; "" twice if there is no v2, or the host's cgroup is
    not below the mount."""
    own = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), "")
    for line in mounts.splitlines():
        words, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 ") and own:
            root, point = map(_unescaped, words.split(" ")[3:5])
            inner = "/" + own.removeprefix(root).strip("/")
            if (f"{own}/".startswith(f"{root.rstrip('/')}/")) and "/.." not in own:
                return (point + inner).rstrip("/"), point
    return "", ""


def choose_base(
    own: FoundCgroup | None, above: FoundCgroup | None, *, uid: int, systemd: bool
) -> CgroupBase:
    """Return the cgroup to create others in: the host's own, or the one above it if that was
    delegated and the host was put into a leaf of it."""
    if own is None:
        return CgroupBase(result=ProbeResult("no cgroup v2 is mounted here", _MOUNT))
    if above is not None and (above.is_delegated or _is_leaf(own.folder)):
        base = _judge(above, uid, above.has_processes and not above.is_root)
        if base.result.works:
            return base
    owned_only_here = above is not None and above.owner != uid  # somebody handed it to this user
    if systemd and not own.is_delegated and not owned_only_here:
        return _unusable(f"{own.folder} was not delegated to this host", _DELEGATE)
    base = _judge(own, uid, own.has_others and not own.is_root)
    return base._replace(moves_host=base.result.works and not own.is_root)


def _judge(found: FoundCgroup, uid: int, is_shared: bool) -> CgroupBase:
    # A controller enabled at the root is enabled for the whole machine: the host does not do that.
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
    """Return the cgroup of an extension with this ceiling; None if it would limit nothing."""
    settings: list[tuple[str, str]] = []
    if ceiling.memory is not None and "memory" in base.controllers:
        settings += [("memory.max", str(ceiling.memory)), ("memory.swap.max", "0")]
        settings += [("memory.oom.group", "1")]
    if ceiling.processes is not None and "pids" in base.controllers:
        # pids.max counts threads, which `nproc` does not. It is wider; the watchdog counts exactly.
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
    """Return why the kernel killed the processes of a cgroup, given its memory.events; "" if it did
    not."""
    words = [line.split() for line in events.splitlines()]
    happened = {word[0]: word[1] != "0" for word in words if len(word) == 2}
    if not happened.get("oom_kill"):
        return ""
    if happened.get("oom") and max_memory is not None:
        return f"it used all its memory (permissions.max_memory is {max_memory / 2**20:.0f} MiB)"
    return "this machine, or the cgroup of the host, ran out of memory"


# -- names ---------------------------------------------------------------------------------------


class Owner(NamedTuple):
    """The host that created a cgroup: its PID namespace, its pid, and its start time in the
    kernel's ticks, since a pid may be reused."""

    namespace: int
    pid: int
    started: int

    def group(self, number: int) -> str:
        """Return the name of an extension's cgroup."""
        return f"{self.leaf.removesuffix('host')}{number}"

    @property
    def leaf(self) -> str:
        """The name of the host's own leaf."""
        return f"exthost-{self.namespace}-{self.pid}-{self.started}-host"


_NAME = re.compile(r"exthost-([0-9]+)-([0-9]+)-([0-9]+)-(host|[0-9]+)")


def owner_of(name: str) -> tuple[Owner, bool] | None:
    """Return the host that created the cgroup of this name, and whether it is an extension's; None
    if no host did."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return Owner(*map(int, found.groups()[:3])), found[4] != "host"


def _is_leaf(folder: str) -> bool:
    found = owner_of(folder.rpartition("/")[2])
    return found is not None and not found[1]


def _unescaped(path: str) -> str:
    """Return a path of mountinfo, in which a space is \\040, as it is."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
