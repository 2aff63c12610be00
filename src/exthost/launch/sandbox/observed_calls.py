"""The system calls that are observed to learn the permissions of a program, and the seccomp filter
that reports them to an observer.

The filter lets every call through. It sends those of the table to the observer first, which reads
their paths and addresses and lets them continue (`SECCOMP_RET_USER_NOTIF`). Two exceptions:
io_uring does not exist for the program, because its operations are not system calls, and a call of
another architecture ends the process. The strict sandbox does the same.

The filter restricts nothing else. It must not be used as a sandbox: a program can change a path in
its memory after the observer has read it.
"""

from collections.abc import Mapping

from exthost.launch.sandbox.seccomp import ARCHITECTURES, observation_filter
from exthost.launch.sandbox.system_calls import GROUPS
from exthost.model.observed_access import FileUse, ObservedCall, PathArgument


def _paths_in(*indexes: int) -> tuple[PathArgument, ...]:
    """Return the path arguments of a call that takes a folder before each path, from pairs of
    indexes: (0, 1) for openat(FOLDER, PATH, FLAGS)."""
    pairs = zip(indexes[::2], indexes[1::2], strict=True)
    return tuple(PathArgument(path, folder) for folder, path in pairs)


def _paths(*indexes: int) -> tuple[PathArgument, ...]:
    """Return the path arguments of a call that takes no folders, from their indexes: (0, 1) for
    rename(PATH, PATH)."""
    return tuple(PathArgument(index) for index in indexes)


def _calls(use: FileUse, paths: tuple[PathArgument, ...], *names: str) -> list[ObservedCall]:
    """Return calls that have the same arguments and use files in the same way."""
    return [ObservedCall(name, use, paths) for name in names]


# `flags` and `address` are the indexes of the arguments with the flags and the network address.
OBSERVED_CALLS = (
    ObservedCall("open", "open", _paths(0), flags=1),
    ObservedCall("openat", "open", _paths_in(0, 1), flags=2),
    # Its flags are the first member of the struct that this argument points to.
    ObservedCall("openat2", "open", _paths_in(0, 1), flags=2),
    *_calls("look", _paths(0), "stat", "lstat", "access", "readlink", "statfs", "chdir"),
    *_calls("look", _paths_in(0, 1), "newfstatat", "statx", "faccessat", "faccessat2"),
    *_calls("look", _paths_in(0, 1), "readlinkat"),
    *_calls("look", _paths(1), "inotify_add_watch"),
    *_calls("execute", _paths(0), "execve"),
    *_calls("execute", _paths_in(0, 1), "execveat"),
    *_calls("write", _paths(0), "truncate", "chmod", "chown", "lchown", "utime", "utimes"),
    *_calls("write", _paths_in(0, 1), "fchmodat", "fchmodat2", "fchownat", "utimensat"),
    *_calls("write", _paths_in(0, 1), "futimesat"),
    *_calls("create", _paths(0), "creat", "mkdir", "rmdir", "unlink", "mknod"),
    *_calls("create", _paths_in(0, 1), "mkdirat", "unlinkat", "mknodat"),
    *_calls("create", _paths(0, 1), "rename", "link"),
    *_calls("create", _paths_in(0, 1, 2, 3), "renameat", "renameat2", "linkat"),
    # The first argument is the text of the symlink, which need not be a path.
    *_calls("create", _paths(1), "symlink"),
    *_calls("create", _paths_in(1, 2), "symlinkat"),
    ObservedCall("connect", "connect", address=1),
    ObservedCall("bind", "bind", address=1),
    ObservedCall("sendto", "send", address=4),
)

# Calls that no group of the sandbox has, with their numbers, which are the same on each machine.
_OPENAT2 = 437
_IO_URING = (425, 426, 427)


def observed_calls(machine: str) -> Mapping[int, ObservedCall]:
    """Return the observed calls of a machine (as `uname -m` prints it) by their numbers."""
    numbers = {call.name: call.number(machine) for group in GROUPS.values() for call in group}
    numbers["openat2"] = _OPENAT2
    return {
        number: call for call in OBSERVED_CALLS if (number := numbers.get(call.name)) is not None
    }


def observer_filter(machine: str) -> bytes:
    """Return the filter for this machine, as an array of struct sock_filter. Raises KeyError for
    an unknown machine."""
    calls = observed_calls(machine)
    # Data that is sent over a connection has no address. Only the other calls of sendto matter.
    only_with_address = {
        number: call.address for number, call in calls.items() if call.use == "send"
    }
    return observation_filter(
        ARCHITECTURES[machine],
        calls.keys() - only_with_address.keys(),
        only_with_address,
        _IO_URING,
    )
