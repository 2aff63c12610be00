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


def _at(*indexes: int) -> tuple[PathArgument, ...]:
    """Return the paths of a call that takes a folder before each path, from pairs of indexes."""
    return tuple(PathArgument(indexes[i + 1], indexes[i]) for i in range(0, len(indexes), 2))


def _plain(*indexes: int) -> tuple[PathArgument, ...]:
    """Return the paths of a call that takes no folder before a path, from their indexes."""
    return tuple(PathArgument(index) for index in indexes)


def _calls_of(use: FileUse, paths: tuple[PathArgument, ...], *names: str) -> list[ObservedCall]:
    return [ObservedCall(name, use, paths) for name in names]


OBSERVED_CALLS = (
    ObservedCall("open", "open", _plain(0), flags=1),
    ObservedCall("openat", "open", _at(0, 1), flags=2),
    # Its flags are the first member of the struct that this argument points to.
    ObservedCall("openat2", "open", _at(0, 1), flags=2),
    *_calls_of("look", _plain(0), "stat", "lstat", "access", "readlink", "statfs", "chdir"),
    *_calls_of("look", _at(0, 1), "newfstatat", "statx", "faccessat", "faccessat2", "readlinkat"),
    *_calls_of("look", _plain(1), "inotify_add_watch"),
    *_calls_of("execute", _plain(0), "execve"),
    *_calls_of("execute", _at(0, 1), "execveat"),
    *_calls_of("write", _plain(0), "truncate", "chmod", "chown", "lchown", "utime", "utimes"),
    *_calls_of("write", _at(0, 1), "fchmodat", "fchmodat2", "fchownat", "utimensat", "futimesat"),
    *_calls_of("create", _plain(0), "creat", "mkdir", "rmdir", "unlink", "mknod"),
    *_calls_of("create", _at(0, 1), "mkdirat", "unlinkat", "mknodat"),
    *_calls_of("create", _plain(0, 1), "rename", "link"),
    *_calls_of("create", _at(0, 1, 2, 3), "renameat", "renameat2", "linkat"),
    *_calls_of("create", _plain(1), "symlink"),
    *_calls_of("create", _at(1, 2), "symlinkat"),
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
    only_with_address = {
        number: call.address for number, call in calls.items() if call.use == "send"
    }
    return observation_filter(
        ARCHITECTURES[machine],
        calls.keys() - only_with_address.keys(),
        only_with_address,
        _IO_URING,
    )
