"""The launch plan for an extension with permissions: every kind of namespace, an allow-list of
mounts, no capabilities, a filter of system calls. Turns a `View` into arguments of bubblewrap.
Pure.

The order of the arguments matters. The private /tmp comes before mounts below it. Outer folders
come before inner ones, so that an inner one may have other rights. /proc is read-only: a program
could make the kernel spare it, and end others, when memory runs out. The root comes last. Each path
is one argument after its option, so no file name can be read as an option.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from exthost.launch_plan import LaunchPlan, ResourceLimit, Wrapper
from exthost.sandbox import seccomp
from exthost.sandbox.initcode import INIT
from exthost.sandbox.probe_result import Tools

__all__ = [
    "GUARDED_FILE",
    "GUARDED_FOLDER",
    "NOBODY",
    "ShownPath",
    "View",
    "can_see",
    "describe",
    "plan_probe",
    "plan_wrapper",
    "private_sizes",
]

# The user that an extension of a root host sees itself as: every system has a name for it.
NOBODY = 65534

# Private file systems in memory, and their sizes if there is no max_memory. Without a size, each
# could take half of the machine's memory.
_PRIVATE_MOUNTS = {"/tmp": 256 * 2**20, "/dev/shm": 64 * 2**20}

_MOUNT_OPTIONS = frozenset({"--ro-bind", "--bind", "--bind-try"})

# Sources of mounts that protect the host's config below a granted folder: no process in the sandbox
# can write to a read-only mount, or rename what something is mounted on.
GUARDED_FILE, GUARDED_FOLDER = "config", "folder of the config"

# Files of /proc that user 0 may write without any capability.
_PROC_READ_ONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


class ShownPath(NamedTuple):
    """A real path that an extension is shown. `source` says who or what named it."""

    path: str
    access: Literal["read", "write"]
    source: str

    @property
    def is_guard(self) -> bool:
        """Whether it is mounted only to keep the extension from replacing the host's config."""
        return self.source in (GUARDED_FILE, GUARDED_FOLDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The part of the file system that an extension is shown: real paths that exist.

    links  symbolic links that lead to them: (path, target)
    cwd    the working folder, shown or not
    state  a folder that the extension may write; it need not exist yet
    uid    the user that a root host runs the extension as; None for the host's own user
    """

    shown: tuple[ShownPath, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    state: str = ""
    uid: int | None = None

    @property
    def writable(self) -> tuple[str, ...]:
        """The paths that were granted with `:rw`."""
        return tuple(
            shown.path for shown in self.shown if shown.access == "write" and not shown.is_guard
        )


def plan_wrapper(
    tools: Tools,
    view: View,
    *,
    network: bool,
    limits: tuple[ResourceLimit, ...] = (),
    max_memory: int | None = None,
) -> Wrapper:
    """Return the wrapper for a program with this view. `max_memory` is the size of each of its
    private file systems."""
    sizes = private_sizes(max_memory)
    return Wrapper(
        options=tuple(_options(tools, view, network, sizes)),
        init=INIT[tools.machine],
        limits=limits,
        filter=seccomp.program(tools.machine, network=network),
        private_mounts=tuple(sizes),
    )


def private_sizes(max_memory: int | None) -> dict[str, int]:
    """Return the private file systems and how many bytes each can hold."""
    return {path: max_memory or size for path, size in _PRIVATE_MOUNTS.items()}


def describe(tools: Tools, view: View, *, network: bool) -> dict[str, Any]:
    """Return what is enforced, as data. `paths` lists everything that the extension is shown."""
    enforced: dict[str, Any] = {
        "network": "host's, filtered by seccomp" if network else "netns+seccomp",
        "filesystem": "mountns",
        "pids": "pidns",
        "memory": "open",
    }
    if tools.uid == 0:
        enforced["uid"] = "0 without capabilities" if view.uid is None else str(view.uid)
    shown = [*view.shown, *([ShownPath(view.state, "write", "state")] if view.state else ())]
    return enforced | {"paths": [item._asdict() for item in shown]}


def can_see(wrapper: Wrapper, path: str) -> bool:
    """Return whether a program in this wrapper is shown this path."""
    words = wrapper.options
    mounted = [to for option, to in zip(words, words[2:], strict=False) if option in _MOUNT_OPTIONS]
    return any(path == mount or _is_inside(path, mount) for mount in mounted)


def plan_probe(tools: Tools, view: View) -> LaunchPlan:
    """Return a plan that runs /bin/true in such a sandbox."""
    wrapper = plan_wrapper(tools, view, network=False)
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=wrapper)


def _options(tools: Tools, view: View, network: bool, sizes: Mapping[str, int]) -> Iterator[str]:
    if view.uid is not None:
        drop = (f"--reuid={view.uid}", f"--regid={view.uid}", "--clear-groups")
        yield from (tools.setpriv, *drop, "--")
    yield tools.bwrap
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
    # Not --die-with-parent: the kernel means the thread that started it, which may end before the
    # host. Our init exits when the control pipe is closed.
    yield from ("--as-pid-1", "--new-session")
    if view.uid is not None:
        yield from ("--uid", str(NOBODY), "--gid", str(NOBODY))
    if network:
        yield "--share-net"
    yield from ("--dev", "/dev")
    for path, size in sizes.items():
        yield from ("--size", str(size), "--perms", "1777", "--tmpfs", path)
    yield from ("--proc", "/proc")
    if tools.uid == 0 and view.uid is None:
        for path in _PROC_READ_ONLY:
            yield from ("--ro-bind-try", path, path)
    for shown in sorted(view.shown, key=lambda shown: (shown.path.count("/"), shown.path)):
        yield from ("--bind" if shown.access == "write" else "--ro-bind", shown.path, shown.path)
    if view.state:
        yield from ("--bind-try", view.state, view.state)
    paths = [shown.path for shown in view.shown]
    for link, target in view.links:
        if not any(_is_inside(link, path) for path in paths):
            yield from ("--symlink", target, link)
    if not any(_is_inside(view.cwd, path) or view.cwd == path for path in paths):
        yield from ("--dir", view.cwd)
    for path in ("/dev", "/proc", "/"):
        yield from ("--remount-ro", path)
    yield from ("--chdir", view.cwd)


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
