"""The filter of system calls for the strict sandbox: the denied calls, and a small assembler. Pure.

The kernel runs the filter on each system call. It sees the number, the architecture and the
arguments, and returns "allow" or an errno. It is a second barrier behind the namespaces. It is the
only one against sockets that network namespaces do not cover (AF_VSOCK before Linux 7.0) and
against kernel interfaces that no extension needs (io_uring, bpf).

The filter lists what is denied, not what is allowed: extensions are programs in any language, and a
list of all calls that runtimes use would soon be incomplete. A call of another architecture (32-bit
calls on a 64-bit kernel) kills the process.

Without network, no socket can be created, connected or bound. `socketpair` is allowed, since event
loops need it, but only for streams and sequenced packets: datagram sockets, which SOCK_RAW creates
as well, could send to any path.

No call may set the set-user-ID or set-group-ID bit of a file: outside the sandbox such a file would
run with its owner's rights. `openat2` takes its mode from memory, which a filter cannot read. It
fails with ENOSYS, and libraries fall back to `openat`.

Memory files, System V shared memory and message queues fail with ENOSYS as well: they are memory
that belongs to no process, so no limit would count it.
"""

import struct
from collections.abc import Mapping

__all__ = ["ARCHITECTURES", "program"]

# Offsets in struct seccomp_data. The filter needs the lower word of each 64-bit argument, which
# comes first on these machines.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET = 0x15, 0x35, 0x45

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 5, 0xF

# S_ISUID | S_ISGID; and the flags with which open takes a mode: O_CREAT | __O_TMPFILE.
_SPECIAL_MODES = 0o6000
_CREATES = 0o100 | 0o20000000

# Numbers from here on belong to x32, a second set of calls on x86-64.
_X32 = 0x40000000

# The machine's name by uname → its AUDIT_ARCH.
ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Call → its number on x86_64 and on aarch64; None if the machine lacks it.
_NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "unshare": (272, 97),
    "chroot": (161, 51),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "open_by_handle_at": (304, 265),
    "iopl": (172, None),
    "ioperm": (173, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "fanotify_init": (300, 262),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "openat2": (437, 437),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "creat": (85, None),
    "open": (2, None),
    "openat": (257, 56),
}

# These fail with ENOSYS: programs that can use them check for that error and fall back.
_ABSENT = frozenset(
    (
        *("io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf", "openat2"),
        *("memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "msgget"),
    )
)
_SOCKET_CALLS = frozenset({"connect", "bind", "listen", "accept", "accept4"})

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
# Call → the indexes of the flags and of the mode.
_OPENS: Mapping[str, tuple[int, int]] = {"open": (1, 2), "openat": (2, 3)}
_WITH_ARGUMENTS = frozenset({"socket", "socketpair", *_MODES, *_OPENS})


def program(machine: str, *, network: bool) -> bytes:
    """Return the filter for this machine, as the kernel takes it. Raises KeyError for an unknown
    machine."""
    column = list(ARCHITECTURES).index(machine) if machine in ARCHITECTURES else None
    if column is None:
        raise KeyError(machine)
    code = [
        _step(_LOAD, _ARCHITECTURE),
        *_unless(ARCHITECTURES[machine], _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        code += [_step(_JUMP_AT_LEAST, _X32, 0, 1), _step(_RETURN, _ERRNO | _ENOSYS)]
    for name, numbers in _NUMBERS.items():
        number = numbers[column]
        if number is None or name in _WITH_ARGUMENTS or (network and name in _SOCKET_CALLS):
            continue
        answer = _ENOSYS if name in _ABSENT else _EPERM
        code += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | answer)]
    for name, check in _checks(network).items():
        number = _NUMBERS[name][column]
        if number is not None:
            code += [_step(_JUMP_EQUAL, number, 0, len(check)), *check]
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _checks(network: bool) -> dict[str, list[bytes]]:
    """Return the code for each call that is judged by its arguments; each part returns."""
    checks = {"socket": _socket(network), "socketpair": _socketpair(network)}
    for name, mode in _MODES.items():
        checks[name] = _mode(mode)
    for name, (flags, mode) in _OPENS.items():
        creates = [_step(_LOAD, _ARGUMENTS + 8 * flags), _step(_JUMP_SET, _CREATES, 1, 0)]
        checks[name] = [*creates, _step(_RETURN, _ALLOW), *_mode(mode)]
    return checks


def _mode(argument: int) -> list[bytes]:
    return [
        _step(_LOAD, _ARGUMENTS + 8 * argument),
        _step(_JUMP_SET, _SPECIAL_MODES, 0, 1),
        _step(_RETURN, _ERRNO | _EPERM),
        _step(_RETURN, _ALLOW),
    ]


def _socket(network: bool) -> list[bytes]:
    """Return the code for `socket`; it always returns."""
    if not network:
        return [_step(_RETURN, _ERRNO | _EPERM)]
    allow = [_step(_RETURN, _ALLOW)]
    return [
        _step(_LOAD, _ARGUMENTS),
        *_if(_AF_UNIX, allow),
        *_if(_AF_INET, allow),
        *_if(_AF_INET6, allow),
        *_if(_AF_NETLINK, [_step(_LOAD, _ARGUMENTS + 16), *_if(_NETLINK_ROUTE, allow)]),
        _step(_RETURN, _ERRNO | _EAFNOSUPPORT),
    ]


def _socketpair(network: bool) -> list[bytes]:
    check = [_step(_LOAD, _ARGUMENTS), *_unless(_AF_UNIX, _ERRNO | _EAFNOSUPPORT)]
    if not network:
        masked = [_step(_LOAD, _ARGUMENTS + 8), _step(_AND, _SOCK_TYPE_MASK)]
        allow = [_step(_RETURN, _ALLOW)]
        check += [*masked, *_if(_SOCK_STREAM, allow), *_if(_SOCK_SEQPACKET, allow)]
        return [*check, _step(_RETURN, _ERRNO | _EPERM)]
    return [*check, _step(_RETURN, _ALLOW)]


def _if(value: int, then: list[bytes]) -> list[bytes]:
    return [_step(_JUMP_EQUAL, value, 0, len(then)), *then]


def _unless(value: int, answer: int) -> list[bytes]:
    return [_step(_JUMP_EQUAL, value, 1, 0), _step(_RETURN, answer)]


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    """Return one instruction: struct sock_filter."""
    return struct.pack("=HBBI", code, when_true, when_false, value)
