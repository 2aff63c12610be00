"""The system calls that a sandboxed extension may make, by group, and their numbers.

`system_calls.toml` lists them. The groups together are about the same as systemd's group
`@system-service`: the calls that the runtimes of Python, Node, Go, Rust and Java use, and the usual
calls for files, processes and time. A call that is in no group fails with ENOSYS, as if the kernel
did not have it; so do calls that later kernels add. A call in `DENIED` fails with EPERM: programs
that try it expect this error when an ordinary user runs them.

In no group, although systemd allows them:

    memfd_create, shm*, msg*, sem*, mq_*   memory that belongs to no process, so no limit counts it
    vmsplice                               pages in a pipe belong to no process, and each can be as
                                           large as 2 MB
    io_setup, io_submit and so on          the kernel limits their requests only for the whole
                                           machine, so one extension could use up all
    io_uring_*, userfaultfd, bpf           interfaces with a long record of kernel defects
    openat2, clone3                        pass flags in a struct in memory, which a filter cannot
                                           read; libraries fall back to `openat` and `clone`
"""

from collections.abc import Mapping
from typing import NamedTuple

from exthost.model.package_tables import read_tables


class SystemCall(NamedTuple):
    """A system call and its number on each architecture; None if the architecture does not have
    this call."""

    name: str
    x86_64: int | None
    aarch64: int | None

    def number(self, machine: str) -> int | None:
        """Return the call's number on this machine; None if it has no such call."""
        return self.x86_64 if machine == "x86_64" else self.aarch64


# The group that an extension with `network = true` has in addition.
NETWORK = "network"


def _parse_calls(text: str) -> tuple[SystemCall, ...]:
    """Return the calls in a text such as "read 0 63; open 2 -": names, each with its numbers."""
    entries = (entry.split() for entry in text.split(";"))
    return tuple(SystemCall(name, *map(_parse_number, numbers)) for name, *numbers in entries)


def _parse_number(text: str) -> int | None:
    return None if text == "-" else int(text)


_TABLES = read_tables("exthost.launch.sandbox", "system_calls.toml")
GROUPS: Mapping[str, tuple[SystemCall, ...]] = {
    name: _parse_calls(text) for name, text in _TABLES["groups"].items()
}
DENIED = _parse_calls(_TABLES["denied"])


def calls(*, network: bool) -> tuple[SystemCall, ...]:
    """Return the calls that an extension may make, with or without network."""
    return tuple(
        call for name, group in GROUPS.items() if network or name != NETWORK for call in group
    )
