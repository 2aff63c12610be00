"""The kernel's groups for extensions: where we may make them; making, ending, removing one.

We look once in the life of this process, when an extension first has a limit that a group could
hold; what that means is decided in `sandbox.cgroup`. Nothing is changed before the first group is
made: then the host steps aside if it must, and removes what a host that was killed left behind.

What is refused later than that is remembered, and from then on the watchdog does it alone.
"""

import errno
import itertools
import logging
import os
import threading
import time

from exthost.model import Cgroup
from exthost.process.leash import descendants
from exthost.sandbox.cgroup import OPTIONAL, Owner, Place, Sight, choose, owner_of, reason, where
from exthost.sandbox.means import Verdict

__all__ = ["Group", "make", "place"]

_log = logging.getLogger("exthost.process")

# How often we try to have stepped aside while others of ours are being started.
_STEPS = 20

# How long what is in a group may take to be gone: milliseconds, unless the machine is very busy or
# it is stuck in the kernel.
_LEAVING_SECONDS = 10.0

# The first pause before an emptied group is looked for again; each is longer, up to the last.
_FIRST_PAUSE_SECONDS = 0.002
_LAST_PAUSE_SECONDS = 0.1

# Not the group's fault, and no reason to go without for good.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

# All by our pid: a fork is another host.
_places: dict[int, Place] = {}
_settled: set[tuple[int, str]] = set()

_numbers = itertools.count(1)
_lock = threading.Lock()


def place() -> Place:
    """Where groups can be made, or why not."""
    pid = os.getpid()
    found = _places.get(pid)
    if found is None:
        found = _places[pid] = _look()
    return found


def make(plan: Cgroup) -> "Group | None":
    """The group; None if it was refused, which then goes for all that come later."""
    try:
        return Group(plan)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
        why = f"a cgroup was refused below {plan.base}: {error.strerror}"
        _places[os.getpid()] = Place(verdict=Verdict(why, "see who else writes there"))
        _log.warning("%s; memory and processes are watched instead", why)
        return None


class Group:
    """A group that is there, and empty until a program enters. `entry` is a descriptor for that,
    and for whoever takes it to close."""

    __slots__ = ("_folder", "entry", "holds_memory")

    def __init__(self, plan: Cgroup) -> None:
        _settle(plan)
        self.holds_memory = any(file == "memory.max" for file, _ in plan.settings)
        self._folder = f"{plan.base}/{_ourselves().group(next(_numbers))}"
        os.mkdir(self._folder)  # noqa: PTH102 - raises what tells
        try:
            for file, value in plan.settings:
                if file not in OPTIONAL or os.path.exists(f"{self._folder}/{file}"):  # noqa: PTH110
                    _write(f"{self._folder}/{file}", value)
            self.entry = os.open(f"{self._folder}/cgroup.procs", os.O_WRONLY)
        except OSError:
            os.rmdir(self._folder)  # noqa: PTH106
            raise

    def reason(self, most: int | None) -> str:
        """Why the kernel ended what was in it; "" if that was not the kernel."""
        try:
            return reason(_read(f"{self._folder}/memory.events"), most)
        except OSError:  # nothing is said of its memory
            return ""

    def close(self) -> None:
        """End what is left in it, and remove it."""
        _end(self._folder)


# -- looking -------------------------------------------------------------------------------------


def _look() -> Place:
    uid = os.geteuid()
    own = above = None
    try:
        folder, point = where(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo"))
        if folder:
            own = _see(folder)
            above = _see(os.path.dirname(folder)) if folder != point else None  # noqa: PTH120
    except OSError:  # no such files: no Linux, or no right to look
        pass
    systemd = os.path.isdir("/run/systemd/system")  # noqa: PTH112
    return choose(own, above, uid=uid, systemd=systemd)


def _see(folder: str) -> Sight:
    top = not os.path.exists(f"{folder}/cgroup.events")  # noqa: PTH110
    inside = _pids(folder)
    return Sight(
        folder=folder,
        owner=os.stat(folder).st_uid,  # noqa: PTH116
        writable=all(
            os.access(f"{folder}/{one}", os.W_OK)
            for one in (".", "cgroup.procs", "cgroup.subtree_control")
        ),
        top=top,
        marked=any(_mark(folder, name) == b"1" for name in ("user.delegate", "trusted.delegate")),
        occupied=bool(inside),
        strangers=not top and (bool(_strangers(inside)) or _foreign(folder)),
        kills=top or os.path.exists(f"{folder}/cgroup.kill"),  # noqa: PTH110
        controllers=frozenset(_read(f"{folder}/cgroup.controllers").split()),
        enabled=frozenset(_read(f"{folder}/cgroup.subtree_control").split()),
    )


def _pids(folder: str) -> list[int]:
    return [int(word) for word in _read(f"{folder}/cgroup.procs").split()]


def _strangers(pids: list[int]) -> set[int]:
    """Those that we did not start; 0 is one that we cannot even see."""
    left = set(pids).difference(descendants(os.getpid()))
    return {pid for pid in left if pid == 0 or os.path.exists(f"/proc/{pid}")}  # noqa: PTH110


def _foreign(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return any(one.is_dir() and owner_of(one.name) is None for one in entries)


def _mark(folder: str, name: str) -> bytes:
    try:
        return os.getxattr(folder, name)
    except OSError:
        return b""


# -- the first time ------------------------------------------------------------------------------


def _settle(plan: Cgroup) -> None:
    """Make the base fit for groups, once."""
    key = (os.getpid(), plan.base)
    with _lock:
        if key in _settled:
            return
        _enable(plan)
        _sweep(plan.base)
        _settled.add(key)


def _enable(plan: Cgroup) -> None:
    """Let groups below have the controllers. Whoever is in the base is in the way of that."""
    control = f"{plan.base}/cgroup.subtree_control"
    lacking = set(plan.controllers).difference(_read(control).split())
    words = " ".join(f"+{one}" for one in sorted(lacking))
    for _ in range(_STEPS):
        if plan.aside:
            _step_aside(plan.base)
        try:
            if words:
                _write(control, words)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or not plan.aside:
                raise
    raise OSError(errno.EBUSY, "others keep coming into it")


def _step_aside(base: str) -> None:
    """Into a leaf, with all that we started: nobody else may be here."""
    pids = _pids(base)
    if _strangers(pids):
        raise OSError(errno.EBUSY, "others came into it")
    leaf = f"{base}/{_ourselves().leaf}"
    os.makedirs(leaf, exist_ok=True)  # noqa: PTH103
    for pid in pids:
        try:
            _write(f"{leaf}/cgroup.procs", str(pid))
        except ProcessLookupError:
            pass  # it has ended


def _sweep(base: str) -> None:
    """End and remove what hosts left here that are no more. Of their leaves only those that are
    empty, or soon will be: whatever else they started may live on. A namespace that lost its host
    ends by itself, and takes a moment for it."""
    with os.scandir(base) as entries:
        ours = [(one.path, owner_of(one.name)) for one in entries if one.is_dir()]
    for path, found in ours:
        if found is not None and _is_dead(found[0]):
            if found[1]:
                _end(path)
            elif not _remove(path):
                _remove_later(path, at_any_rate=False)


def _is_dead(owner: Owner) -> bool:
    """Whether the host is gone that made this; of another namespace nobody can tell."""
    if owner.namespace != _ourselves().namespace:
        return False
    try:
        return _started(owner.pid) != owner.started
    except OSError:
        return True


# -- files ---------------------------------------------------------------------------------------


def _ourselves() -> Owner:
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    return Owner(namespace, os.getpid(), _started(os.getpid()))


def _started(pid: int) -> int:
    # The second word is a name in brackets, which may hold spaces and brackets.
    return int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])


def _end(folder: str) -> None:
    """Kill all that is in a group, and remove it, though not before those are gone: that is waited
    for elsewhere, and is nobody's case whose program was in a namespace."""
    try:
        _write(f"{folder}/cgroup.kill", "1")
    except OSError:
        pass  # it is gone
    if not _remove(folder):
        _remove_later(folder, at_any_rate=True)


def _remove_later(folder: str, *, at_any_rate: bool) -> None:
    """Remove a group when it is empty. At any rate: even if this program ends before that."""
    try:
        threading.Thread(
            target=_remove_soon, args=(folder,), name="exthost cgroup", daemon=not at_any_rate
        ).start()
    except RuntimeError:
        pass  # no room for a thread: the next host removes it


def _remove_soon(folder: str) -> None:
    until, pause = time.monotonic() + _LEAVING_SECONDS, _FIRST_PAUSE_SECONDS
    while not _remove(folder) and time.monotonic() < until:
        time.sleep(pause)
        pause = min(pause * 2, _LAST_PAUSE_SECONDS)


def _remove(folder: str) -> bool:
    """Remove a group; False if it is not empty."""
    try:
        os.rmdir(folder)  # noqa: PTH106
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "wb", buffering=0) as file:  # noqa: PTH123 - one write, and its error
        file.write(text.encode())
