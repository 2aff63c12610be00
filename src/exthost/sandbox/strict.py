"""The plan for the strict tier: namespaces of every kind, an allow-list of mounts, no capability,
a filter of system calls. What the extension may see is handed in as a `View`; this turns it into
words. Pure.

The order of the words matters. The private /tmp comes before what is shown below it; what is
shown goes from the outer folder to the inner, so that an inner one may have other rights; /proc's
own dangers are covered after /proc is there; the root is sealed last. Each path is one word after
its option, and nothing that a name could hold is read as an option there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from exthost.model import LaunchPlan, ResourceLimit, Wrapper
from exthost.sandbox import seccomp
from exthost.sandbox.initcode import INIT
from exthost.sandbox.means import Tools

__all__ = ["NOBODY", "ShownPath", "View", "held", "probe", "sees", "wrapped"]

# Who an extension is inside, where a root host runs it as a user of its own: a user with a name.
NOBODY = 65534

_SHOWING = frozenset({"--ro-bind", "--bind", "--bind-try"})

# What root could still do with files of /proc that ask for no capability, only for the uid.
_PROC_READ_ONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


class ShownPath(NamedTuple):
    """A real path that an extension is shown, and why: `source` is who or what named it."""

    path: str
    access: Literal["read", "write"]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What an extension may see: real paths that exist. `links` are symbolic links on the way to
    them (where, target); `cwd` is its working folder, shown or not; `state` is a folder that it is
    given to write in, which need not be there yet. `uid` is the user that a root host runs it as;
    None if it stays the host's user."""

    shown: tuple[ShownPath, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    state: str = ""
    uid: int | None = None

    @property
    def writable(self) -> tuple[str, ...]:
        """The granted paths that may be written."""
        return tuple(one.path for one in self.shown if one.access == "write")


def wrapped(
    tools: Tools, view: View, *, network: bool, limits: tuple[ResourceLimit, ...] = ()
) -> Wrapper:
    """The wrapper for a program with this view."""
    return Wrapper(
        options=tuple(_options(tools, view, network)),
        init=INIT[tools.machine],
        limits=limits,
        filter=seccomp.program(tools.machine, network=network),
    )


def held(tools: Tools, view: View, *, network: bool) -> dict[str, Any]:
    """What holds it then, as data; `paths` is everything that it is shown of the file system."""
    told: dict[str, Any] = {
        "network": "host's, filtered by seccomp" if network else "netns+seccomp",
        "filesystem": "mountns",
        "pids": "pidns",
        "memory": "open",
    }
    if tools.uid == 0:
        told["uid"] = "0 without capabilities" if view.uid is None else str(view.uid)
    shown = [*view.shown, *([ShownPath(view.state, "write", "state")] if view.state else ())]
    return told | {"paths": [one._asdict() for one in shown]}


def sees(wrapper: Wrapper, path: str) -> bool:
    """Whether a program in this wrapper can see this path, as far as that was granted."""
    words = wrapper.options
    shown = [to for option, to in zip(words, words[2:], strict=False) if option in _SHOWING]
    return any(path == one or _below(path, one) for one in shown)


def probe(tools: Tools, view: View) -> LaunchPlan:
    """A program that ends at once, held in the same way."""
    wrapper = wrapped(tools, view, network=False)
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=wrapper)


def _options(tools: Tools, view: View, network: bool) -> Iterator[str]:
    if view.uid is not None:
        drop = (f"--reuid={view.uid}", f"--regid={view.uid}", "--clear-groups")
        yield from (tools.setpriv, *drop, "--")
    yield tools.bwrap
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
    yield from ("--as-pid-1", "--die-with-parent", "--new-session")
    if view.uid is not None:
        yield from ("--uid", str(NOBODY), "--gid", str(NOBODY))
    if network:
        yield "--share-net"
    yield from ("--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc")
    if tools.uid == 0 and view.uid is None:
        for path in _PROC_READ_ONLY:
            yield from ("--ro-bind-try", path, path)
    for one in sorted(view.shown, key=lambda one: (one.path.count("/"), one.path)):
        yield from ("--bind" if one.access == "write" else "--ro-bind", one.path, one.path)
    if view.state:
        yield from ("--bind-try", view.state, view.state)
    paths = [one.path for one in view.shown]
    for where, target in view.links:
        if not any(_below(where, path) for path in paths):
            yield from ("--symlink", target, where)
    if not any(_below(view.cwd, path) or view.cwd == path for path in paths):
        yield from ("--dir", view.cwd)
    yield from ("--remount-ro", "/", "--chdir", view.cwd)


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
