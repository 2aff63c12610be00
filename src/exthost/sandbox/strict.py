"""The plan for the strict tier: namespaces of every kind, an allow-list of mounts, no capability,
a filter of system calls. What the extension may see is handed in as a `Ground`; this turns it into
words. Pure.

The order of the words matters. The private /tmp comes before what is shown below it; what is
shown goes from the outer folder to the inner, so that an inner one may have other rights; /proc's
own dangers are covered after /proc is there; the root is sealed last. Each path is one word after
its option, and nothing that a name could hold is read as an option there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from exthost.model import LaunchPlan, ResourceLimit, Wrapper
from exthost.sandbox import seccomp
from exthost.sandbox.initcode import INIT
from exthost.sandbox.means import Tools

__all__ = ["Ground", "NOBODY", "held", "probe", "sees", "wrapped"]

# Who a root host's extensions are, where they can be.
NOBODY = 65534

_SHOWING = frozenset({"--ro-bind", "--bind", "--bind-try"})

# What root could still do with files of /proc that ask for no capability, only for the uid.
_PROC_READ_ONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What an extension may see: real paths that exist. `links` are symbolic links on the way to
    them (where, target); `cwd` is its working folder, shown or not; `state` is a folder that it is
    given to write in, which need not be there yet. `open` tells whether another uid could use all
    of it."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    state: str = ""
    open: bool = False


def drops_uid(tools: Tools, ground: Ground) -> bool:
    """Whether root becomes somebody else first: where the program can be reached then."""
    return tools.uid == 0 and bool(tools.setpriv) and ground.open


def wrapped(
    tools: Tools, ground: Ground, *, network: bool, limits: tuple[ResourceLimit, ...] = ()
) -> Wrapper:
    """The wrapper for a program on this ground."""
    return Wrapper(
        options=tuple(_options(tools, ground, network)),
        init=INIT[tools.machine],
        limits=limits,
        filter=seccomp.program(tools.machine, network=network),
    )


def held(tools: Tools, ground: Ground, *, network: bool) -> dict[str, str]:
    """What holds it then, as data."""
    told = {
        "network": "host's, filtered by seccomp" if network else "netns+seccomp",
        "filesystem": "mountns",
        "pids": "pidns",
        "memory": "open",
    }
    if tools.uid == 0:
        told["uid"] = str(NOBODY) if drops_uid(tools, ground) else "0 without capabilities"
    return told


def sees(wrapper: Wrapper, path: str) -> bool:
    """Whether a program in this wrapper can see this path, as far as that was granted."""
    words = wrapper.options
    shown = [to for option, to in zip(words, words[2:], strict=False) if option in _SHOWING]
    return any(path == one or _below(path, one) for one in shown)


def probe(tools: Tools, ground: Ground) -> LaunchPlan:
    """A program that ends at once, held in the same way."""
    wrapper = wrapped(tools, ground, network=False)
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=wrapper)


def _options(tools: Tools, ground: Ground, network: bool) -> Iterator[str]:
    dropped = drops_uid(tools, ground)
    if dropped:
        yield from (tools.setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
    yield tools.bwrap
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
    yield from ("--as-pid-1", "--die-with-parent", "--new-session")
    if network:
        yield "--share-net"
    yield from ("--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc")
    if tools.uid == 0 and not dropped:
        for path in _PROC_READ_ONLY:
            yield from ("--ro-bind-try", path, path)
    shown = dict.fromkeys(ground.read, "--ro-bind") | dict.fromkeys(ground.write, "--bind")
    for path in sorted(shown, key=lambda path: (path.count("/"), path)):
        yield from (shown[path], path, path)
    if ground.state:
        yield from ("--bind-try", ground.state, ground.state)
    for where, target in ground.links:
        if not any(_below(where, path) for path in shown):
            yield from ("--symlink", target, where)
    if not any(_below(ground.cwd, path) or ground.cwd == path for path in shown):
        yield from ("--dir", ground.cwd)
    yield from ("--remount-ro", "/", "--chdir", ground.cwd)


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
