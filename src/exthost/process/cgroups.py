"""Creates and removes cgroups for extensions, and kills the processes in them.

In a cgroup, a feature of Linux, the kernel limits the memory and the number of all processes of an
extension together. Without one, the watchdog samples them (`watchdog`).

The host looks for a base, a cgroup below which it can create others, when an extension first has a
limit that a cgroup can enforce. `process.cgroup_rules` decides which cgroup is usable. Nothing is
changed before the first cgroup is created. At that point the host moves itself into a cgroup below
the base (the leaf) if it must, and removes the cgroups of earlier hosts that were killed.

If a cgroup cannot be created later, none is tried again, and the watchdog alone enforces the limits
from then on.
"""

import errno
import itertools
import logging
import os
import threading
import time

from exthost.model.launch_plan import Cgroup
from exthost.model.probe_result import ProbeResult
from exthost.process import cgroup_rules
from exthost.process.procfs import descendants

_log = logging.getLogger("exthost.process")

# How often moving the host is tried: processes that it starts meanwhile may enter the base.
_MOVE_ATTEMPTS = 20

# How long the removal of a cgroup is tried. Killed processes leave it within milliseconds, unless
# the machine is very busy or a process is stuck in the kernel.
_REMOVE_SECONDS = 10.0

# The pause between two attempts to remove a cgroup grows from the first to the last.
_FIRST_PAUSE_SECONDS = 0.002
_LAST_PAUSE_SECONDS = 0.1

# Temporary errors: after them, creating the next cgroup is tried again.
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

# The base by the host's pid, and the pairs of pid and base that `_prepare` has prepared. The pid is
# in the keys since a forked copy of this process is another host.
_bases: dict[int, cgroup_rules.CgroupBase] = {}
_prepared: set[tuple[int, str]] = set()

_numbers = itertools.count(1)
_lock = threading.Lock()


def find_base() -> cgroup_rules.CgroupBase:
    """Return where cgroups can be created, or why they cannot."""
    pid = os.getpid()
    base = _bases.get(pid)
    if base is None:
        base = _bases[pid] = _find_base()
    return base


def create(plan: Cgroup) -> "Group | None":
    """Create a cgroup. Return None if the system refuses; no further cgroup is tried after that.
    Raises OSError if only file descriptors or memory are lacking."""
    try:
        return Group(plan)
    except OSError as error:
        if error.errno in _OUT_OF_RESOURCES:
            raise
        reason = f"a cgroup could not be created below {plan.base}: {error.strerror}"
        fix = "see which other program writes there"
        _bases[os.getpid()] = cgroup_rules.CgroupBase(result=ProbeResult(reason, fix))
        _log.warning("%s; the watchdog limits memory and processes instead", reason)
        return None


class Group:
    """A new cgroup, empty until a program enters it.

    entry          a file descriptor of its file cgroup.procs, which the caller closes
    limits_memory  whether it limits memory
    """

    __slots__ = ("_folder", "entry", "limits_memory")

    def __init__(self, plan: Cgroup) -> None:
        _prepare(plan)
        self.limits_memory = any(file == "memory.max" for file, _ in plan.settings)
        self._folder = f"{plan.base}/{_this_host().extension_cgroup_name(next(_numbers))}"
        os.mkdir(self._folder)  # noqa: PTH102
        try:
            for file, value in plan.settings:
                path = f"{self._folder}/{file}"
                if file not in cgroup_rules.OPTIONAL_FILES or os.path.exists(path):  # noqa: PTH110
                    _write(path, value)
            self.entry = os.open(f"{self._folder}/cgroup.procs", os.O_WRONLY)
        except OSError:
            os.rmdir(self._folder)  # noqa: PTH106
            raise

    def oom_reason(self, max_memory: int | None) -> str:
        """Return a description of the limit if the OOM killer ended processes of this cgroup; "" if
        it did not. `max_memory` is the limit in bytes, None for none."""
        try:
            return cgroup_rules.oom_reason(_read(f"{self._folder}/memory.events"), max_memory)
        except OSError:  # there is no memory controller
            return ""

    def close(self) -> None:
        """Kill the remaining processes, and remove the cgroup."""
        _kill_and_remove(self._folder)


# -- finding a base ------------------------------------------------------------------------------


def _find_base() -> cgroup_rules.CgroupBase:
    """Look for the base among the host's cgroup and its parent."""
    uid = os.geteuid()
    host_cgroup = parent = None
    try:
        folder, point = cgroup_rules.locate(
            _read("/proc/self/cgroup"), _read("/proc/self/mountinfo")
        )
        if folder:
            host_cgroup = _inspect(folder)
            parent = _inspect(os.path.dirname(folder)) if folder != point else None  # noqa: PTH120
    except OSError:  # not on Linux, or not readable
        pass
    has_systemd = os.path.isdir("/run/systemd/system")  # noqa: PTH112
    return cgroup_rules.choose_base(host_cgroup, parent, uid=uid, has_systemd=has_systemd)


def _inspect(folder: str) -> cgroup_rules.FoundCgroup:
    """Return what decides whether a cgroup is usable. Raises OSError."""
    is_root = not os.path.exists(f"{folder}/cgroup.events")  # noqa: PTH110
    pids = _read_pids(folder)
    return cgroup_rules.FoundCgroup(
        folder=folder,
        owner_uid=os.stat(folder).st_uid,  # noqa: PTH116
        is_writable=all(
            os.access(f"{folder}/{name}", os.W_OK)
            for name in (".", "cgroup.procs", "cgroup.subtree_control")
        ),
        is_root=is_root,
        is_delegated=any(
            _read_attribute(folder, name) == b"1" for name in ("user.delegate", "trusted.delegate")
        ),
        has_processes=bool(pids),
        has_foreign_members=not is_root
        and (bool(_foreign_pids(pids)) or _has_foreign_cgroups(folder)),
        can_kill=is_root or os.path.exists(f"{folder}/cgroup.kill"),  # noqa: PTH110
        controllers=frozenset(_read(f"{folder}/cgroup.controllers").split()),
        enabled=frozenset(_read(f"{folder}/cgroup.subtree_control").split()),
    )


def _read_pids(folder: str) -> list[int]:
    return [int(pid) for pid in _read(f"{folder}/cgroup.procs").split()]


def _foreign_pids(pids: list[int]) -> set[int]:
    """Return those of the processes that this host did not start. The pid 0 stands for a process in
    another PID namespace."""
    foreign = set(pids).difference(descendants(os.getpid()))
    # A process that has ended since the list was read is not counted.
    return {pid for pid in foreign if pid == 0 or os.path.exists(f"/proc/{pid}")}  # noqa: PTH110


def _has_foreign_cgroups(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return any(
            entry.is_dir() and cgroup_rules.parse_cgroup_name(entry.name) is None
            for entry in entries
        )


def _read_attribute(folder: str, name: str) -> bytes:
    try:
        return os.getxattr(folder, name)
    except OSError:
        return b""


# -- preparing the base --------------------------------------------------------------------------


def _prepare(plan: Cgroup) -> None:
    """Prepare the base for the first cgroup; later calls do nothing."""
    key = (os.getpid(), plan.base)
    with _lock:
        if key in _prepared:
            return
        _enable_controllers(plan)
        _remove_leftovers(plan.base)
        _prepared.add(key)


def _enable_controllers(plan: Cgroup) -> None:
    """Enable the controllers for cgroups below the base. The kernel allows that only if the base
    itself contains no processes."""
    control = f"{plan.base}/cgroup.subtree_control"
    lacking = set(plan.controllers).difference(_read(control).split())
    changes = " ".join(f"+{controller}" for controller in sorted(lacking))
    for _ in range(_MOVE_ATTEMPTS):
        if plan.moves_host:
            _move_host(plan.base)
        try:
            if changes:
                _write(control, changes)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or not plan.moves_host:
                raise
    raise OSError(errno.EBUSY, "processes keep entering it")


def _move_host(base: str) -> None:
    """Move the host and all its processes into a leaf. Raises OSError if the base contains
    processes that the host did not start."""
    pids = _read_pids(base)
    if _foreign_pids(pids):
        raise OSError(errno.EBUSY, "other processes entered it")
    leaf = f"{base}/{_this_host().host_cgroup_name}"
    os.makedirs(leaf, exist_ok=True)  # noqa: PTH103
    for pid in pids:
        try:
            _write(f"{leaf}/cgroup.procs", str(pid))
        except ProcessLookupError:
            pass  # it has ended


def _remove_leftovers(base: str) -> None:
    """Kill and remove the cgroups of hosts that have ended. The leaf that such a host moved into is
    removed only when it is empty, because other processes that the host started may still run in
    it. (The namespaces of its extensions end by themselves a moment after the host.)"""
    with os.scandir(base) as entries:
        cgroups = [
            (entry.path, cgroup_rules.parse_cgroup_name(entry.name))
            for entry in entries
            if entry.is_dir()
        ]
    for path, name_parts in cgroups:
        if name_parts is None:  # not made by a host
            continue
        owner, is_of_extension = name_parts
        if _has_ended(owner):
            if is_of_extension:
                _kill_and_remove(path)
            elif not _remove(path):
                _remove_later(path, blocks_exit=False)


def _has_ended(owner: cgroup_rules.HostIdentity) -> bool:
    """Return whether the host that owns a cgroup has ended. A host in another PID namespace cannot
    be seen, so the result for it is False."""
    if owner.namespace != _this_host().namespace:
        return False
    try:
        return _read_start_time(owner.pid) != owner.started
    except OSError:
        return True


# -- files ---------------------------------------------------------------------------------------


def _this_host() -> cgroup_rules.HostIdentity:
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    return cgroup_rules.HostIdentity(namespace, os.getpid(), _read_start_time(os.getpid()))


def _read_start_time(pid: int) -> int:
    # In clock ticks since boot. The second field of the file is a name in brackets, which may
    # contain spaces and brackets.
    return int(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])


def _kill_and_remove(folder: str) -> None:
    """Kill all processes in a cgroup, and remove it. If some have not exited yet, a thread removes
    it later. (The processes of a namespace that has ended have all exited.)"""
    try:
        _write(f"{folder}/cgroup.kill", "1")
    except OSError:
        pass  # the cgroup is gone
    if not _remove(folder):
        _remove_later(folder, blocks_exit=True)


def _remove_later(folder: str, *, blocks_exit: bool) -> None:
    """Remove a cgroup in a thread when it is empty. With `blocks_exit` the interpreter waits for
    that before it exits."""
    try:
        threading.Thread(
            target=_remove_when_empty, args=(folder,), name="exthost cgroup", daemon=not blocks_exit
        ).start()
    except RuntimeError:
        pass  # no thread can be started: the next host removes the cgroup


def _remove_when_empty(folder: str) -> None:
    deadline, pause = time.monotonic() + _REMOVE_SECONDS, _FIRST_PAUSE_SECONDS
    while not _remove(folder) and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 2, _LAST_PAUSE_SECONDS)


def _remove(folder: str) -> bool:
    """Remove a cgroup. Return False if it is not empty, True also if it cannot be removed at
    all."""
    try:
        os.rmdir(folder)  # noqa: PTH106
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        return file.read()


def _write(path: str, text: str) -> None:
    # Unbuffered, since the kernel must get the whole text in one write.
    with open(path, "wb", buffering=0) as file:  # noqa: PTH123
        file.write(text.encode())
