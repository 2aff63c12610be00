"""Builds the system call filter (seccomp) of the strict sandbox, as a BPF program.

The kernel runs the filter before each system call. The filter sees the number, the architecture and
the arguments, and returns "allow", an errno or "kill". It is a second barrier behind the
namespaces. It is the only barrier against sockets that network namespaces do not cover (AF_VSOCK
before Linux 7.0).

The filter is an allow-list (`system_calls`). A call that is in no list fails with ENOSYS, so that
programs and libraries fall back to older calls; that includes calls which future kernels add. A
call of another architecture (32-bit calls on a 64-bit kernel) kills the process. Some calls are
allowed only with certain arguments:

Without network, no socket can be created, connected or bound. `socketpair` is allowed, since event
loops need it, but only for streams and sequenced packets: datagram sockets, which SOCK_RAW creates
as well, could send to any path. A program cannot change the buffer sizes of its sockets, because no
limit counts the memory in these buffers.

With a proxy, the network namespace of a program contains only the listening socket of the proxy. A
program can make sockets of IP for streams and datagrams. It can make no Unix sockets, since those
with a path lead out of the namespace.

No call may set the set-user-ID or set-group-ID bit of a file: outside the sandbox such a file would
run with its owner's rights. No lease can be taken on a file: a process that opens the file, such as
the host, would wait for the holder of the lease. `clone` cannot make namespaces, and `personality`
cannot change anything.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise

from exthost.launch.sandbox.system_calls import DENIED, GROUPS, NETWORK, calls

# Offsets in struct seccomp_data. The filter loads the lower 32 bits of each 64-bit argument, which
# come first, since the supported machines are little-endian.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

# Opcodes of BPF.
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET = 0x15, 0x35, 0x45

# The return values of a filter: SECCOMP_RET_ALLOW, _KILL_PROCESS and _ERRNO, to which an errno is
# added.
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000
# SECCOMP_RET_USER_NOTIF: the process waits until an observer has answered.
_NOTIFY = 0x7FC00000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 2, 5, 0xF

# SOL_SOCKET; SO_SNDBUF and SO_SNDBUFFORCE. Sockets of a socketpair have only send buffers.
_SOCKET_LEVEL = 1
_BUFFER_SIZES = (7, 32)

# S_ISUID | S_ISGID; and the flags with which open takes a mode: O_CREAT | __O_TMPFILE.
_SPECIAL_MODES = 0o6000
_CREATE_FLAGS = 0o100 | 0o20000000

# F_SETLEASE and F_SETDELEG of fcntl.
_LEASES = (1024, 1040)

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
_NAMESPACES = 0x7E020000

# With this argument `personality` only returns the current value. The argument 0, which every
# program has from the start, is allowed as well.
_QUERY_PERSONALITY = 0xFFFFFFFF

# The machine's name by uname → its AUDIT_ARCH.
ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Call → the index of the mode among its arguments.
_MODES: Mapping[str, int] = {
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "mkdir": 1,
    "mkdirat": 2,
    "mknod": 1,
    "mknodat": 2,
    "creat": 1,
}
# Call → the index of the path, which is a null pointer if the call is about an open file.
_DESCRIPTOR_CALLS: Mapping[str, int] = {"utimensat": 1}
# Call → the indexes of the flags and of the mode.
_OPENS: Mapping[str, tuple[int, int]] = {"open": (1, 2), "openat": (2, 3)}


@cache  # the same few filters at every start
def program(
    machine: str,
    *,
    network: bool,
    proxied: bool = False,
    without: frozenset[str] = frozenset(),
) -> bytes:
    """Return the filter for this machine (as `uname -m` prints it), as an array of struct
    sock_filter. `network` is whether the extension may use the network, `proxied` whether only
    through a proxy. The calls named in `without` fail with EPERM; those of `_DESCRIPTOR_CALLS` only
    if they name a path. Raises KeyError for an unknown machine."""
    # The program checks the architecture, then the calls whose arguments matter, and then looks up
    # the verdict on all other calls by their number.
    architecture = ARCHITECTURES[machine]
    code = [
        _step(_LOAD, _ARCHITECTURE),
        *_unless(architecture, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    numbers = {
        call.name: number
        for group in GROUPS.values()
        for call in group
        if (number := call.number(machine)) is not None
    }
    for name, check in _checks(network, proxied).items():
        if name in numbers and name not in without:
            code += _if(numbers[name], check)
    for name, argument in _DESCRIPTOR_CALLS.items():
        if name in without and name in numbers:
            code += _if(numbers[name], _unless_pointer(argument))
    verdicts: dict[int, int] = {}
    for call in (*DENIED, *(() if network else GROUPS[NETWORK])):
        if (number := call.number(machine)) is not None:
            verdicts[number] = _ERRNO | _EPERM
    for call in calls(network=network):
        if (number := call.number(machine)) is not None:
            verdicts[number] = _ERRNO | _EPERM if call.name in without else _ALLOW
    return b"".join([*code, *_search(_verdict_ranges(verdicts))])


def with_setns(program: bytes, machine: str) -> bytes:
    """Return a filter that also allows `setns`, by which a process of a template joins the
    namespaces of a start."""
    number = next(call.number(machine) for call in DENIED if call.name == "setns")
    assert number is not None
    allow = [_step(_LOAD, _NUMBER), *_if(number, [_step(_RETURN, _ALLOW)])]
    code = [_step(_LOAD, _ARCHITECTURE), *_if(ARCHITECTURES[machine], allow)]
    return b"".join([*code, program])


def _unless_pointer(argument: int) -> list[bytes]:
    """Return the code that allows a call if this argument is a null pointer."""
    deny = _ERRNO | _EPERM
    # Both halves of the 64 bits must be 0.
    return [
        *(_step(_LOAD, _ARGUMENTS + 8 * argument), *_unless(0, deny)),
        *(_step(_LOAD, _ARGUMENTS + 8 * argument + 4), *_unless(0, deny)),
        _step(_RETURN, _ALLOW),
    ]


def observation_filter(
    architecture: int,
    observed: Iterable[int],
    with_pointer: Mapping[int, int],
    missing: Iterable[int],
) -> bytes:
    """Return a filter that sends system calls to an observer, and lets all others through.

    observed      the numbers of the calls
    with_pointer  further calls, sent only if the argument of this index is not a null pointer
    missing       calls that fail with ENOSYS"""
    code = [_step(_LOAD, _ARCHITECTURE), *_unless(architecture, _KILL), _step(_LOAD, _NUMBER)]
    for number, argument in with_pointer.items():
        lower, upper = _ARGUMENTS + 8 * argument, _ARGUMENTS + 8 * argument + 4
        notify = [_step(_RETURN, _NOTIFY)]
        check = [_step(_LOAD, lower), *_unless(0, _NOTIFY), _step(_LOAD, upper)]
        code += _if(number, [*check, *_if(0, [_step(_RETURN, _ALLOW)]), *notify])
    verdicts = dict.fromkeys(missing, _ERRNO | _ENOSYS) | dict.fromkeys(observed, _NOTIFY)
    return b"".join([*code, *_search(_verdict_ranges(verdicts, _ALLOW))])


def _verdict_ranges(
    verdicts: Mapping[int, int], default: int = _ERRNO | _ENOSYS
) -> list[tuple[int, int]]:
    """Return the ranges of call numbers that have the same verdict, in ascending order: the first
    number of each range, and its verdict. A number without a verdict gets `default`."""
    ranges = [(0, verdicts.get(0, default))]
    for previous, number in pairwise(range(max(verdicts) + 2)):
        verdict = verdicts.get(number, default)
        if verdict != verdicts.get(previous, default):
            ranges.append((number, verdict))
    return ranges


def _search(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return the code that finds the range of the loaded number by bisection, and returns its
    verdict."""
    if len(ranges) == 1:
        return [_step(_RETURN, ranges[0][1])]
    middle = len(ranges) // 2
    lower, upper = _search(ranges[:middle]), _search(ranges[middle:])
    return [_step(_JUMP_AT_LEAST, ranges[middle][0], len(lower), 0), *lower, *upper]


def _checks(network: bool, proxied: bool) -> dict[str, list[bytes]]:
    """Return the code for each call whose arguments are checked. The code always ends with a
    return instruction."""
    checks = {
        "socketpair": _socketpair(network and not proxied),
        "clone": _unless_set(0, _NAMESPACES),
        "personality": _personality(),
        "fcntl": _fcntl(),
    }
    if network:
        checks["socket"] = _proxied_socket() if proxied else _socket()
    else:
        checks["setsockopt"] = _setsockopt()
    for name, mode in _MODES.items():
        checks[name] = _unless_set(mode, _SPECIAL_MODES)
    for name, (flags, mode) in _OPENS.items():
        # The mode counts only with one of the flags. With one, the jump skips the "allow".
        load_flags = [_step(_LOAD, _ARGUMENTS + 8 * flags), _step(_JUMP_SET, _CREATE_FLAGS, 1, 0)]
        checks[name] = [*load_flags, _step(_RETURN, _ALLOW), *_unless_set(mode, _SPECIAL_MODES)]
    return checks


def _unless_set(argument: int, bits: int) -> list[bytes]:
    """Return the code that allows a call unless its argument has one of these bits."""
    return [
        _step(_LOAD, _ARGUMENTS + 8 * argument),
        _step(_JUMP_SET, bits, 0, 1),
        _step(_RETURN, _ERRNO | _EPERM),
        _step(_RETURN, _ALLOW),
    ]


def _personality() -> list[bytes]:
    """Return the code that allows only arguments that change nothing."""
    allow = [_step(_RETURN, _ALLOW)]
    return [
        _step(_LOAD, _ARGUMENTS),
        *_if(0, allow),
        *_if(_QUERY_PERSONALITY, allow),
        _step(_RETURN, _ERRNO | _EPERM),
    ]


def _fcntl() -> list[bytes]:
    """Return the code that denies leases."""
    deny = [_step(_RETURN, _ERRNO | _EPERM)]
    leases = [step for command in _LEASES for step in _if(command, deny)]
    return [_step(_LOAD, _ARGUMENTS + 8), *leases, _step(_RETURN, _ALLOW)]


def _setsockopt() -> list[bytes]:
    """Return the code that denies changes of the size of a send buffer."""
    deny = [_step(_RETURN, _ERRNO | _EPERM)]
    sizes = [step for option in _BUFFER_SIZES for step in _if(option, deny)]
    return [
        _step(_LOAD, _ARGUMENTS + 8),
        *_unless(_SOCKET_LEVEL, _ALLOW),
        _step(_LOAD, _ARGUMENTS + 16),
        *sizes,
        _step(_RETURN, _ALLOW),
    ]


def _socket() -> list[bytes]:
    """Return the code for `socket` with network: only these families are allowed."""
    allow = [_step(_RETURN, _ALLOW)]
    return [
        _step(_LOAD, _ARGUMENTS),
        *_if(_AF_UNIX, allow),
        *_if(_AF_INET, allow),
        *_if(_AF_INET6, allow),
        *_if(_AF_NETLINK, [_step(_LOAD, _ARGUMENTS + 16), *_if(_NETLINK_ROUTE, allow)]),
        _step(_RETURN, _ERRNO | _EAFNOSUPPORT),
    ]


def _proxied_socket() -> list[bytes]:
    """Return the code for `socket` with a proxy: streams and datagrams of IP, and the socket by
    which programs list network interfaces."""
    allow = [_step(_RETURN, _ALLOW)]
    masked = [_step(_LOAD, _ARGUMENTS + 8), _step(_AND, _SOCK_TYPE_MASK)]
    kinds = [*masked, *_if(_SOCK_STREAM, allow), *_if(_SOCK_DGRAM, allow)]
    return [
        _step(_LOAD, _ARGUMENTS),
        *_if(_AF_INET, [*kinds, _step(_RETURN, _ERRNO | _EPERM)]),
        *_if(_AF_INET6, [*kinds, _step(_RETURN, _ERRNO | _EPERM)]),
        *_if(_AF_NETLINK, [_step(_LOAD, _ARGUMENTS + 16), *_if(_NETLINK_ROUTE, allow)]),
        _step(_RETURN, _ERRNO | _EAFNOSUPPORT),
    ]


def _socketpair(network: bool) -> list[bytes]:
    """Return the code that allows only AF_UNIX and, without network, only connected types."""
    check = [_step(_LOAD, _ARGUMENTS), *_unless(_AF_UNIX, _ERRNO | _EAFNOSUPPORT)]
    if not network:
        masked = [_step(_LOAD, _ARGUMENTS + 8), _step(_AND, _SOCK_TYPE_MASK)]
        allow = [_step(_RETURN, _ALLOW)]
        check += [*masked, *_if(_SOCK_STREAM, allow), *_if(_SOCK_SEQPACKET, allow)]
        return [*check, _step(_RETURN, _ERRNO | _EPERM)]
    return [*check, _step(_RETURN, _ALLOW)]


def _if(value: int, then: list[bytes]) -> list[bytes]:
    """Return the code that runs `then` if the loaded number is this value."""
    return [_step(_JUMP_EQUAL, value, 0, len(then)), *then]


def _unless(value: int, verdict: int) -> list[bytes]:
    """Return the code that returns `verdict` unless the loaded number is this value."""
    return [_step(_JUMP_EQUAL, value, 1, 0), _step(_RETURN, verdict)]


def _step(code: int, value: int, skip_if_true: int = 0, skip_if_false: int = 0) -> bytes:
    """Return one instruction (struct sock_filter). `skip_if_true` and `skip_if_false` are the
    numbers of instructions that a jump skips."""
    return struct.pack("=HBBI", code, skip_if_true, skip_if_false, value)
