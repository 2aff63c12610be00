"""Builds the command line of the Landlock sandbox, for machines without user namespaces.

Landlock confines which files a program opens, and a seccomp filter confines its network and its
other system calls. There are no namespaces, so this sandbox is weaker than the strict one
(`strict.py`); `describe_weaknesses` says how, line by line. A script (`process.landlocked_program`)
applies both and executes the program. The module does no I/O.

Landlock only adds rights. So a path inside a writable folder cannot be protected, and an
extension for which that is necessary is refused (`containment`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exthost.launch.sandbox import seccomp
from exthost.launch.sandbox.strict import View, VisiblePath
from exthost.model.launch_plan import ExpectedPath

# The devices of every sandbox.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

# Interpreters read /proc/self.
_PROC = "/proc"

# Landlock does not confine changes of attributes, so the filter denies them. The kernel would allow
# them through any descriptor, also one that was opened only to read. Only dates can be changed
# through a descriptor, because many programs do that.
_ATTRIBUTE_CALLS = frozenset(
    (
        *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
        *("utime", "utimes", "futimesat", "utimensat"),
        *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
        *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
    )
)

# The first version of Landlock that confines signals.
_SIGNALS_VERSION = 6


def plan_command(
    launcher: Sequence[str],
    machine: str,
    view: View,
    *,
    network: bool,
    expected: Sequence[ExpectedPath] = (),
    loader_variables: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the command that is put before the program.

    launcher          the interpreter and the path of the script
    machine           the architecture, as `uname -m` prints it
    network           whether the program may use the host's network
    expected          the files that visible paths must lead to
    loader_variables  variables of the dynamic loader, which only the program gets"""
    identities = {item.path: (item.device, item.inode) for item in expected}
    rules = {
        "paths": [
            [path, access, *identities.get(path, (0, 0))] for path, access in _allowed_paths(view)
        ],
        "uid": view.uid,
        "env": dict(loader_variables),
        "filter": seccomp.program(machine, network=network, without=_ATTRIBUTE_CALLS).hex(),
    }
    return (*launcher, json.dumps(rules))


def _allowed_paths(view: View) -> Iterator[tuple[str, str]]:
    """Yield each path that the program may use, and "read" or "write"."""
    for path, access, _ in view.visible_paths:
        yield path, access
    if view.state:
        yield view.state, "write"
    yield _PROC, "read"
    for path in _DEVICES:
        yield path, "write"


def describe(view: View, version: int, *, network: bool, pids: Mapping[str, str]) -> dict[str, Any]:
    """Return what is enforced, as data for users. `version` is that of Landlock, and `pids` says
    how the processes are kept together."""
    paths = [*view.visible_paths]
    if view.state:
        paths.append(VisiblePath(view.state, "write", "state"))
    has_namespace = pids.get("pids") == "pidns"
    return {
        "network": "host's, filtered by seccomp" if network else "seccomp",
        "filesystem": "landlock",
        **pids,
        "memory": "open",
        "paths": [path._asdict() for path in paths],
        "closed": [],
        "weaker": describe_weaknesses(version, network=network, has_namespace=has_namespace),
    }


def describe_weaknesses(version: int, *, network: bool, has_namespace: bool) -> list[str]:
    """Return how this sandbox is weaker than the strict one, a line each."""
    lines = [
        "files: of any path, it can find out whether it exists, and its size, dates and mode",
        "files: there is no private /tmp; grant a folder with :rw and set TMPDIR to it",
        "files: mode and owner cannot be changed, and dates not by path, also in granted folders",
        "files: the dates of files that it can read can be changed, if its user owns them",
        "identity: the names of the host and its users are visible",
    ]
    if not has_namespace:
        lines.append("processes: other processes and their command lines are listed in /proc")
        lines.append("processes: processes can outlive a host that is killed")
    if version < _SIGNALS_VERSION:
        lines.append("processes: other processes of the same user can be sent signals")
    if network:
        lines.append("network: the host's own network, including its loopback services")
    else:
        lines.append("network: only the system call filter denies it, without a namespace")
    return lines
