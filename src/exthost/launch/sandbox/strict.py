"""Builds the bubblewrap command line of the strict sandbox, for an extension with permissions.

The strict sandbox puts the extension into new namespaces of every kind, without capabilities and
behind a filter of system calls (`seccomp`). It mounts only the paths of a `View`, so all other
files of the host are invisible. The result is a `Wrapper`: the command that is executed around the
program. The module does no I/O.

The order of the arguments matters, because bubblewrap mounts in that order:

- The private /tmp comes before mounts below /tmp.
- Outer folders come before inner ones, so that an inner folder can have different access rights.
- /proc becomes read-only after it is mounted. Otherwise a program could lower its oom_score_adj, so
  that the OOM killer picks other processes.
- The root becomes read-only last, when every mount point exists.

Each path is one argument after its option, so bubblewrap cannot read a file name as an option.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from exthost.launch.sandbox import pid_namespace, seccomp
from exthost.launch.sandbox.initcode import INIT
from exthost.model.launch_plan import InaccessibleFolder, LaunchPlan, ResourceLimit, Wrapper
from exthost.model.probe_result import SandboxSupport

# If the host runs as root, the uid and gid that an extension sees as its own inside the sandbox.
# Every Linux system has a name for them (nobody).
NOBODY = 65534

# The port of the proxy inside the sandbox (`init.c`), and the variables that make programs use it.
# NO_PROXY is empty, so that nothing bypasses the proxy; some programs still connect to localhost
# directly. ALL_PROXY names an HTTP proxy, because many libraries need another package for SOCKS.
# Node uses the variables only if NODE_USE_ENV_PROXY is set.
PROXY_PORT = 3128
_PROXY_URL = f"http://127.0.0.1:{PROXY_PORT}"
PROXY_VARIABLES: Mapping[str, str] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _PROXY_URL),
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), _PROXY_URL),
    "NO_PROXY": "",
    "no_proxy": "",
    "NODE_USE_ENV_PROXY": "1",
}

# Where a private file system in memory (tmpfs) is mounted, and its size in bytes if the config sets
# no max_memory. A tmpfs without a size may take half of the machine's memory.
_PRIVATE_MOUNTS = {"/tmp": 256 * 2**20, "/dev/shm": 64 * 2**20}

# The size of each further private folder. The packages of a usual server take a third of it.
_PRIVATE_FOLDER_BYTES = 512 * 2**20

# The options of bubblewrap that make a path of the host visible: each is followed by the path on
# the host and the path in the sandbox.
_MOUNT_OPTIONS = frozenset({"--ro-bind", "--bind", "--bind-try"})

# Files of /proc that root may write even without capabilities.
_PROC_READ_ONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


class VisiblePath(NamedTuple):
    """A path of the host that is mounted in the sandbox.

    path    an absolute path without symbolic links
    access  whether the extension may write there
    source  a label that says why the path is visible: "system", "granted", "package" and so on;
            users see it in listings
    """

    path: str
    access: Literal["read", "write"]
    source: str


class ProtectedPath(NamedTuple):
    """A path in a granted folder that is mounted over itself, so that the extension can neither
    write nor replace it.

    path    an absolute path without symbolic links
    access  "read" for the protected path; "write" for a folder above it, which stays writable but,
            as a mount point, cannot be renamed
    reason  why the path is protected, such as "code of tool: virtual environment"; users see it in
            listings
    """

    path: str
    access: Literal["read", "write"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The part of the host's file system that a sandboxed extension sees.

    visible_paths  the paths that are mounted; each exists
    links          symbolic links that lead to these paths, and are created in the sandbox as well:
                   (path, target)
    cwd            the working folder; it is created empty if it is not visible
    state          the extension's state folder, which it may write; "" for none; it need not exist
                   yet
    uid            the user that a root host runs the extension as; None for the host's own user
    private_folders  further folders that are private file systems in memory, as /tmp is: caches of
                   programs that download packages; a visible path may lie in one
    protected      the code in folders that were granted with `:rw`; it cannot be written
    inaccessible_folders  the folders that this user cannot enter, with the visible paths in them
    """

    visible_paths: tuple[VisiblePath, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    private_folders: tuple[str, ...] = ()
    cwd: str = "/"
    state: str = ""
    uid: int | None = None
    protected: tuple[ProtectedPath, ...] = ()
    inaccessible_folders: tuple[InaccessibleFolder, ...] = ()

    @property
    def writable(self) -> tuple[str, ...]:
        """The paths that were granted with `:rw`."""
        return tuple(path for path, access, _ in self.visible_paths if access == "write")


def plan_wrapper(
    support: SandboxSupport,
    view: View,
    *,
    network: bool,
    proxied: bool = False,
    limits: tuple[ResourceLimit, ...] = (),
    max_memory: int | None = None,
) -> Wrapper:
    """Return the wrapper for a program with this view. `network` is whether it may use the host's
    network, `proxied` whether only through a proxy. `limits` are applied to each process.
    `max_memory` is the size of each private file system, in bytes; None for the default sizes."""
    sizes = private_sizes(view, max_memory)
    return Wrapper(
        options=tuple(_options(support, view, network and not proxied, sizes)),
        init=INIT[support.machine],
        limits=limits,
        filter=seccomp.program(support.machine, network=network, proxied=proxied),
        private_mounts=tuple(sizes),
        protected=tuple(item.path for item in view.protected if item.access == "read"),
        inaccessible_folders=view.inaccessible_folders,
        uid=view.uid,
    )


def private_sizes(view: View, max_memory: int | None) -> dict[str, int]:
    """Return where a private file system is mounted, and the size of each in bytes."""
    sizes = _PRIVATE_MOUNTS | dict.fromkeys(view.private_folders, _PRIVATE_FOLDER_BYTES)
    return {path: max_memory or size for path, size in sizes.items()}


def describe(
    support: SandboxSupport, view: View, *, network: bool, hosts: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return what is enforced, as data for users. `hosts` are those that it reaches through a
    proxy. `paths` lists every visible path, and `closed` the protected paths."""
    if hosts:
        network_text = "netns+seccomp+proxy"
    elif network:
        network_text = "host's, filtered by seccomp"
    else:
        network_text = "netns+seccomp"
    enforced: dict[str, Any] = {
        "network": network_text,
        **({"hosts": list(hosts)} if hosts else {}),
        "filesystem": "mountns",
        **pid_namespace.describe(keeps_pid=False),  # bubblewrap makes the namespace
        # The sandbox itself does not limit memory. The caller replaces this value if a cgroup or
        # the watchdog does.
        "memory": "open",
    }
    if support.uid == 0:
        enforced["uid"] = "0 without capabilities" if view.uid is None else str(view.uid)
    state = [VisiblePath(view.state, "write", "state")] if view.state else []
    protected = [
        {"path": path, "reason": reason}
        for path, access, reason in view.protected
        if access == "read"
    ]
    paths = [visible._asdict() for visible in (*view.visible_paths, *state)]
    return enforced | {"paths": paths, "closed": protected}


def can_see(wrapper: Wrapper, path: str) -> bool:
    """Return whether a path of the host is visible to a program in this wrapper: it is mounted, or
    lies in a folder that is, or is a symlink that was created. Symlinks are not followed."""
    args = wrapper.options
    # A mount or a link is three arguments: the option, a path on the host or the target of the
    # link, and the path in the sandbox.
    created = list(zip(args, args[2:], strict=False))
    if any(option == "--symlink" and path == target for option, target in created):
        return True
    return any(
        path == target or _is_inside(path, target)
        for option, target in created
        if option in _MOUNT_OPTIONS
    )


def hide_folders(wrapper: Wrapper, folders: Iterable[str]) -> Wrapper:
    """Return the wrapper of a sandbox in which these folders are empty."""
    options: list[str] = []
    for folder in folders:
        if can_see(wrapper, folder):
            options += ("--size", "4096", "--perms", "0555", "--tmpfs", folder)
            options += ("--remount-ro", folder)
    return _add_mounts(wrapper, options)


def with_folder(wrapper: Wrapper, folder: str, inaccessible: str = "") -> Wrapper:
    """Return the wrapper of a sandbox that has one more folder, read-only. `inaccessible` is the
    outermost folder above it that the user of the extension cannot enter; "" if there is none."""
    if inaccessible:
        visible = {outer.path: outer.visible_paths for outer in wrapper.inaccessible_folders}
        visible[inaccessible] = (*visible.get(inaccessible, ()), folder)
        wrapper = replace(
            wrapper,
            inaccessible_folders=tuple(InaccessibleFolder(*item) for item in visible.items()),
        )
    return _add_mounts(wrapper, ("--ro-bind", folder, folder))


def _add_mounts(wrapper: Wrapper, mounts: Iterable[str]) -> Wrapper:
    options = wrapper.options
    position = options.index("--remount-ro")  # no folder can be created afterwards
    return replace(wrapper, options=(*options[:position], *mounts, *options[position:]))


def plan_template(wrapper: Wrapper, machine: str) -> Wrapper:
    """Return the wrapper of a template. Its processes must be able to join the namespaces of a
    start, so the kernel allows user namespaces below that of the template. The filter allows none:
    it denies all calls that make one."""
    options = tuple(option for option in wrapper.options if option != "--disable-userns")
    return replace(wrapper, options=options, filter=seccomp.with_setns(wrapper.filter, machine))


def change_user(wrapper: Wrapper) -> tuple[str, ...]:
    """Return the command that changes the user before bubblewrap is executed; () for none."""
    # The options are that command, the path of bubblewrap, --unshare-all, and others.
    return wrapper.options[: wrapper.options.index("--unshare-all") - 1]


def list_private_mounts(wrapper: Wrapper) -> bytes:
    """Return the private file systems, and what is in them, as `make_private` of init.c reads it.
    Everything else in the sandbox of a start is as in that of its template.

    The result is a list of texts, each with a zero byte at its end: "tOPTIONS" and a path for a
    private file system, "bPATH" for a mount in one, "lTARGET" and a path for a symlink, and "dPATH"
    for a folder.
    """
    private: list[str] = []
    trees: list[str] = []
    entries: list[str] = []
    size, mode = "", ""
    options = iter(wrapper.options)
    for option in options:
        match option:
            case "--size":
                size = next(options)
            case "--perms":
                mode = next(options)
            case "--tmpfs":
                private.append(next(options))
                entries += (f"tsize={size},mode={mode}", private[-1])
            case "--bind" | "--ro-bind" | "--bind-try" | "--ro-bind-try":
                next(options)
                path = next(options)
                # A mount includes what is mounted in it.
                if _is_below(path, private) and not _is_below(path, trees):
                    trees.append(path)
                    entries.append(f"b{path}")
            case "--symlink":
                target, path = next(options), next(options)
                if _is_below(path, private) and not _is_below(path, trees):
                    entries += (f"l{target}", path)
            case "--dir":
                path = next(options)
                if _is_below(path, private) and not _is_below(path, trees):
                    entries.append(f"d{path}")
    return b"".join(entry.encode("utf-8", "surrogateescape") + b"\0" for entry in entries)


def mounted_paths(wrapper: Wrapper) -> list[str]:
    """Return the paths of the host that are mounted."""
    return [path for option, path in pairwise(wrapper.options) if option in _MOUNT_OPTIONS]


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or _is_inside(path, folder) for folder in folders)


def working_folder(wrapper: Wrapper) -> str:
    """Return the folder in which a program in this wrapper starts; "" if it is not known."""
    options = iter(wrapper.options)
    return next((next(options, "") for option in options if option == "--chdir"), "")


def plan_probe(support: SandboxSupport, view: View) -> LaunchPlan:
    """Return a plan that runs /bin/true in a strict sandbox, to find out whether it works."""
    wrapper = plan_wrapper(support, view, network=False)
    return LaunchPlan(argv=("/bin/true",), cwd="/", wrapper=wrapper)


def _options(
    support: SandboxSupport, view: View, network: bool, sizes: Mapping[str, int]
) -> Iterator[str]:
    """Yield the program that makes the sandbox, and its arguments. `sizes`: see `private_sizes`."""
    if view.uid is not None:
        change_user = (f"--reuid={view.uid}", f"--regid={view.uid}", "--clear-groups")
        yield from (support.setpriv, *change_user, "--")
    yield support.bwrap
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
    # Not --die-with-parent: it would kill the sandbox when the thread that started it ends, and
    # that thread may end before the host. Instead, the first process in the sandbox is our init
    # (`init.c`). The host holds one end of a pipe to it, the control pipe. The kernel closes that
    # end when the host dies, and then init exits and every process in the sandbox is killed.
    yield from ("--as-pid-1", "--new-session")
    if view.uid is not None:
        yield from ("--uid", str(NOBODY), "--gid", str(NOBODY))
    if network:
        yield "--share-net"
    yield from ("--dev", "/dev")
    for path, size in sizes.items():
        mode = "1777" if path in _PRIVATE_MOUNTS else "0700"
        yield from ("--size", str(size), "--perms", mode, "--tmpfs", path)
    yield from ("--proc", "/proc")
    if support.uid == 0 and view.uid is None:  # the extension runs as root
        for path in _PROC_READ_ONLY:
            yield from ("--ro-bind-try", path, path)
    # The number of slashes is the depth: outer folders come first. A protected path replaces the
    # visible path that is the same.
    mounts = {path: access for path, access, _ in (*view.visible_paths, *view.protected)}
    for path, access in sorted(mounts.items(), key=lambda item: (item[0].count("/"), item[0])):
        yield from ("--bind" if access == "write" else "--ro-bind", path, path)
    if view.state:
        # bubblewrap ignores a state folder that does not exist: the host may be unable to create
        # it, and the extension starts without it.
        yield from ("--bind-try", view.state, view.state)
    paths = [visible.path for visible in view.visible_paths]
    for link, target in view.links:
        # A mounted folder already contains the links inside it.
        if not any(_is_inside(link, path) for path in paths):
            yield from ("--symlink", target, link)
    if not any(_is_inside(view.cwd, path) or view.cwd == path for path in paths):
        yield from ("--dir", view.cwd)
    for path in ("/dev", "/proc", "/"):
        yield from ("--remount-ro", path)
    yield from ("--chdir", view.cwd)


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
