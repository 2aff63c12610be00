"""A cgroup (v2) of its own for an extension: whether we may make one here, what is written to which
of its files, what those tell afterwards. Pure; `process.cgroups` looks and writes.

The kernel holds a group to what a watchdog can only sum up from time to time, and ends all of it in
one step. But the tree of groups is somebody's: the only part that is ours is one that was delegated
to us. Being able to write there is not enough, since root always can, and a user can in all that
its own systemd manages, which changes a group back at its leisure.

A group whose processes are to be divided among groups below it must hold none itself. So a host
that is the only one in its group steps aside, into a leaf beside those of its extensions; where it
is not alone, the group is left as it is.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from exthost.model import Ceiling, Cgroup
from exthost.sandbox.limits import tasks
from exthost.sandbox.means import Verdict

__all__ = ["OPTIONAL", "Owner", "Place", "Sight", "choose", "owner_of", "plan", "reason", "where"]

# What can be limited by a group, and what is by us.
_CONTROLLERS = frozenset({"memory", "pids"})

# Not there where the kernel has no swap.
OPTIONAL = frozenset({"memory.swap.max"})

_DELEGATE = "run the host as the only process of a unit with Delegate=yes (docs/operate.md)"
_MOUNT = "mount cgroup v2 with the memory and pids controllers, which v1 may be holding"


class Place(NamedTuple):
    """Where groups can be made, with which controllers, and whether the host has to step `aside`
    for that; or the `verdict` why not."""

    base: str = ""
    controllers: frozenset[str] = frozenset()
    aside: bool = False
    verdict: Verdict = Verdict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A group as it was found. `top` is the kernel's own, above all others; `marked` as delegated
    by systemd; `strangers` are processes in it that are not ours, or groups below that we did not
    make; `enabled` are the controllers that groups below it have."""

    folder: str
    owner: int
    writable: bool = True
    top: bool = False
    marked: bool = False
    occupied: bool = False
    strangers: bool = False
    kills: bool = True
    controllers: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()


def where(groups: str, mounts: str) -> tuple[str, str]:
    """The folder of our group and the one that its tree is mounted at, from /proc/self/cgroup and
    /proc/self/mountinfo; "" twice if there is no v2, or our group is not in sight."""
    own = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), "")
    for line in mounts.splitlines():
        words, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 ") and own:
            root, point = map(_unescaped, words.split(" ")[3:5])
            inner = "/" + own.removeprefix(root).strip("/")
            if (f"{own}/".startswith(f"{root.rstrip('/')}/")) and "/.." not in own:
                return (point + inner).rstrip("/"), point
    return "", ""


def choose(own: Sight | None, above: Sight | None, *, uid: int, systemd: bool) -> Place:
    """The group to make others in: our own, or the one above where that was delegated and we were
    put into a leaf of it."""
    if own is None:
        return Place(verdict=Verdict("no cgroup v2 is mounted here", _MOUNT))
    if above is not None and (above.marked or _is_leaf(own.folder)):
        found = _judged(above, uid, above.occupied and not above.top)
        if found.verdict.works:
            return found
    bounded = above is not None and above.owner != uid  # whoever made it made it over to us
    if systemd and not own.marked and not bounded:
        return _not(f"{own.folder} was not delegated to this host", _DELEGATE)
    found = _judged(own, uid, own.strangers and not own.top)
    return found._replace(aside=found.verdict.works and not own.top)


def _judged(sight: Sight, uid: int, crowded: bool) -> Place:
    # At the top a controller would be switched on for the whole machine: that is for others to do.
    controllers = _CONTROLLERS & (sight.enabled if sight.top else sight.controllers)
    if sight.owner != uid or not sight.writable:
        return _not(f"{sight.folder} is not this host's to write in", _DELEGATE)
    if not controllers:
        return _not(f"{sight.folder} has neither the memory nor the pids controller", _MOUNT)
    if not sight.kills:
        return _not("the kernel cannot end a cgroup as a whole", "use Linux 5.14 or later")
    if crowded:
        return _not(f"others are in {sight.folder}, too", _DELEGATE)
    return Place(sight.folder, controllers)


def _not(why: str, fix: str) -> Place:
    return Place(verdict=Verdict(why, fix))


def plan(place: Place, most: Ceiling, init: bytes) -> Cgroup | None:
    """The group of an extension with this ceiling; None where it would hold nothing."""
    settings: list[tuple[str, str]] = []
    if most.memory is not None and "memory" in place.controllers:
        settings += [("memory.max", str(most.memory)), ("memory.swap.max", "0")]
        settings += [("memory.oom.group", "1")]
    if most.processes is not None and "pids" in place.controllers:
        # It counts threads, which `nproc` does not: the brake, and the watchdog has the word.
        settings += [("pids.max", str(tasks(most.processes)))]
    if not settings:
        return None
    return Cgroup(
        base=place.base,
        settings=tuple(settings),
        controllers=tuple(sorted(place.controllers)),
        aside=place.aside,
        init=init,
    )


def reason(events: str, most: int | None) -> str:
    """Why the kernel ended all that was in a group, from its memory.events; "" if it did not."""
    words = [line.split() for line in events.splitlines()]
    told = {word[0]: word[1] != "0" for word in words if len(word) == 2}
    if not told.get("oom_kill"):
        return ""
    if told.get("oom") and most is not None:
        return f"it took all its memory (permissions.max_memory is {most / 2**20:.0f} MB)"
    return "this machine, or the group that the host is in, had no memory left"


# -- names ---------------------------------------------------------------------------------------


class Owner(NamedTuple):
    """The host that made a group: its pid, the namespace that this is a pid of, and when it was
    started, in the kernel's ticks. Others may have that pid later."""

    namespace: int
    pid: int
    started: int

    def group(self, number: int) -> str:
        """The name of an extension's group."""
        return f"{self.leaf.removesuffix('host')}{number}"

    @property
    def leaf(self) -> str:
        """The name of the host's own."""
        return f"exthost-{self.namespace}-{self.pid}-{self.started}-host"


_NAME = re.compile(r"exthost-([0-9]+)-([0-9]+)-([0-9]+)-(host|[0-9]+)")


def owner_of(name: str) -> tuple[Owner, bool] | None:
    """Whose group this is, and whether it is an extension's; None if it is none of ours."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return Owner(*map(int, found.groups()[:3])), found[4] != "host"


def _is_leaf(folder: str) -> bool:
    found = owner_of(folder.rpartition("/")[2])
    return found is not None and not found[1]


def _unescaped(path: str) -> str:
    """As mountinfo has it, where a space is \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
