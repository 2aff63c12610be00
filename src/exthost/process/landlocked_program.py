"""Runs a program under Landlock and a seccomp filter, without namespaces.

    python -I -S landlocked_program.py RULES PROGRAM [ARGUMENT]...

`launch.sandbox.landlock` builds the command line; RULES is JSON. Landlock is a feature of Linux by
which a process confines itself, and the program that it executes, to certain files. This file is
executed as a script and imports only the standard library. It gives up its user and its
capabilities, applies the rules to itself, and executes the program. If one step fails, the program
is not executed.

The variables of the dynamic loader are in RULES and not in the environment of this script, which
is not confined yet: they could name a library of the extension.
"""

import ctypes
import json
import os
import stat
import struct
import sys
from typing import Any, NoReturn

# The numbers of the system calls are the same on each machine, except that of seccomp.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SECCOMP = {"x86_64": 317, "aarch64": 277}
# The flag with which _CREATE_RULESET returns the version, and the kind of a rule about a path.
_QUERY_VERSION = 1
_PATH_BENEATH = 1
# The operation of seccomp(2) that applies a filter.
_SET_MODE_FILTER = 1

# The first version that confines truncate(2) (Linux 6.2).
_OLDEST_VERSION = 3

# Rights to files and folders (linux/landlock.h).
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _DEVICE_IOCTL = 1 << 14, 1 << 15
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
# All rights of a version: the third added `truncate`, and the fifth `ioctl` of devices.
_ALL_RIGHTS = {3: (1 << 15) - 1, 5: (1 << 16) - 1}
_SCOPES_VERSION = 6
_SCOPES = 0b11  # abstract Unix sockets, and signals

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_IOCTL

# Constants of prctl(2) and capset(2).
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR = 38, 24, 47, 4
_CAPABILITIES_VERSION = 0x20080522
_LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def landlock_version() -> int:
    """Return the version of Landlock in this kernel; 0 if it has none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _QUERY_VERSION)))


def main(rules: dict[str, Any], argv: list[str]) -> None:
    """Apply the rules, and execute the program."""
    version = landlock_version()
    if version < _OLDEST_VERSION:
        _fail(f"the kernel has version {version} of Landlock, and {_OLDEST_VERSION} is needed")
    ruleset = _make_ruleset(version, rules["paths"])
    environment = {**os.environ, **rules["env"]}
    code = bytes.fromhex(rules["filter"])
    _drop_rights(rules["uid"])
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        _fail_call("no_new_privs")
    if _libc.syscall(_RESTRICT_SELF, ruleset, 0):
        _fail_call("landlock_restrict_self")
    program = _Program(len(code) // 8, code)
    if _libc.syscall(_SECCOMP[os.uname().machine], _SET_MODE_FILTER, 0, ctypes.byref(program)):
        _fail_call("seccomp")
    try:
        os.execve(argv[0], argv, environment)
    except OSError as error:
        _fail(f"{argv[0]}: {error.strerror}", 127)


def _make_ruleset(version: int, paths: list[list[Any]]) -> int:
    """Return a ruleset that allows these paths: each is its path, "read" or "write", and the
    device and inode that it must have, or 0 and 0."""
    # The rights that the ruleset is about: what no rule allows is denied.
    handled = _ALL_RIGHTS[5 if version >= 5 else 3]
    scopes = _SCOPES if version >= _SCOPES_VERSION else 0
    attributes = struct.pack("=QQQ", handled, 0, scopes)
    size = len(attributes) if version >= _SCOPES_VERSION else 8  # older kernels: the first number
    ruleset = int(_libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    if ruleset < 0:
        _fail_call("landlock_create_ruleset")
    os.set_inheritable(ruleset, False)
    for path, access, device, inode in paths:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            if inode:
                _fail(f"{path} has been replaced")
            continue
        status = os.fstat(fd)
        if inode and (status.st_dev, status.st_ino) != (device, inode):
            _fail(f"{path} has been replaced")
        rights = handled & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE)
        if access == "read":
            rights = _READ
        if not stat.S_ISDIR(status.st_mode):
            rights &= _FILE_RIGHTS
        rule = struct.pack("=Qi", rights, fd)
        if _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0):
            _fail_call(f"landlock_add_rule for {path}")
        os.close(fd)
    return ruleset


def _drop_rights(uid: int | None) -> None:
    """Become this user, unless it is None, and give up all capabilities."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # without effect for ordinary users
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR, 0, 0, 0)
    header, none = struct.pack("=Ii", _CAPABILITIES_VERSION, 0), bytes(24)
    if _libc.capset(header, none):
        _fail_call("capset")


def _fail_call(call: str) -> NoReturn:
    """End this process because a system call has failed."""
    _fail(f"{call}: {os.strerror(ctypes.get_errno())}")


def _fail(reason: str, code: int = 125) -> NoReturn:
    sys.stderr.write(f"the Landlock sandbox could not be set up: {reason}\n")
    sys.exit(code)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
