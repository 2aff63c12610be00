"""Trials of the system call filter: each group of allowed calls, denied calls, unknown calls, and
calls that are filtered by their arguments.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user. Its
attacks run in a sandboxed extension, the explorer: `explore(extension, code, **facts)` returns the
variable `result` of the code.
"""

import asyncio
import json
import os
import sys
import textwrap
from typing import Any

from exthost.launch.sandbox.system_calls import DENIED, GROUPS, NETWORK, SystemCall
from tests.sandbox.confined import explore, started_explorer
from tests.sandbox.trials import trial

# Code that makes each system call in a child, with arguments that are invalid for all calls.
# `result` has the name of the error by the number of the call, or "" without an error.
TRY_CALLS = """
    import ctypes, errno, json, os
    libc = ctypes.CDLL(None, use_errno=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        outcomes = {}
        wrong = [ctypes.c_long(-1)] * 6
        for number in facts["numbers"]:
            ctypes.set_errno(0)
            got = libc.syscall(ctypes.c_long(number), *wrong)
            outcomes[number] = errno.errorcode[ctypes.get_errno()] if got == -1 else ""
        os.write(writing, json.dumps(outcomes).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        result = json.loads(pipe.read() or "{}")
    os.waitpid(child, 0)
"""

# System calls that would end, stop or fork the child, or close its pipe. All programs of these
# trials need them, so they are tested anyway.
NOT_TRIED = frozenset(
    (
        *("exit", "exit_group", "fork", "vfork", "clone", "pause", "rt_sigreturn", "sync"),
        *("restart_syscall", "set_tid_address", "close_range", "alarm", "brk"),
    )
)

# uretprobe and uprobe of x86-64: the kernel does not filter these calls, and ends a program that
# makes them.
UNFILTERED = {335, 336}


def machine() -> str:
    return os.uname().machine


def names_by_number(calls: tuple[SystemCall, ...]) -> dict[int, str]:
    names = {call.number(machine()): call.name for call in calls if call.name not in NOT_TRIED}
    return {number: name for number, name in names.items() if number is not None}


async def errors_without_sandbox(numbers: list[int]) -> dict[str, str]:
    """Return the errors of the same calls without a sandbox."""
    facts = f"facts = {{'numbers': {numbers!r}}}"
    code = "\n".join((facts, textwrap.dedent(TRY_CALLS), "print(json.dumps(result))"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-E", "-c", code, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    errors: dict[str, str] = json.loads(out)
    return errors


async def check_group(group: str) -> None:
    """Check that no call of an allowed group seems not to exist (ENOSYS) because of the sandbox."""
    names = names_by_number(GROUPS[group])
    permissions = {"network": group == NETWORK}
    async with started_explorer(permissions=permissions) as ext:
        errors_inside = await explore(ext, TRY_CALLS, numbers=sorted(names))
    errors_outside = await errors_without_sandbox(sorted(names))
    assert len(errors_inside) == len(errors_outside) == len(names) > 2, (
        errors_inside,
        errors_outside,
    )
    missing_inside_only = [
        names[int(number)]
        for number, error in errors_inside.items()
        if error == "ENOSYS" and errors_outside[number] != "ENOSYS"
    ]
    assert not missing_inside_only, missing_inside_only


@trial
async def allowed_calls_of_the_group_descriptors_exist() -> None:
    await check_group("descriptors")


@trial
async def allowed_calls_of_the_group_files_exist() -> None:
    await check_group("files")


@trial
async def allowed_calls_of_the_group_memory_exist() -> None:
    await check_group("memory")


@trial
async def allowed_calls_of_the_group_processes_exist() -> None:
    await check_group("processes")


@trial
async def allowed_calls_of_the_group_identity_exist() -> None:
    await check_group("identity")


@trial
async def allowed_calls_of_the_group_signals_exist() -> None:
    await check_group("signals")


@trial
async def allowed_calls_of_the_group_events_exist() -> None:
    await check_group("events")


@trial
async def allowed_calls_of_the_group_time_exist() -> None:
    await check_group("time")


@trial
async def allowed_calls_of_the_group_resources_exist() -> None:
    await check_group("resources")


@trial
async def allowed_calls_of_the_group_sockets_exist() -> None:
    await check_group("sockets")


@trial
async def allowed_calls_of_the_group_self_restriction_exist() -> None:
    await check_group("self-restriction")


@trial
async def allowed_calls_of_the_group_network_exist_with_network() -> None:
    await check_group(NETWORK)


@trial
async def denied_calls_are_refused() -> None:
    names = names_by_number((*DENIED, *GROUPS[NETWORK]))
    async with started_explorer() as ext:
        outcomes = await explore(ext, TRY_CALLS, numbers=sorted(names))
    assert len(outcomes) == len(names) and set(outcomes.values()) == {"EPERM"}, outcomes


@trial
async def unlisted_and_future_system_calls_do_not_exist() -> None:
    listed = {call.number(machine()) for group in (*GROUPS.values(), DENIED) for call in group}
    unlisted = [number for number in range(700) if number not in listed | UNFILTERED]
    for permissions in ({}, {"network": True}):
        settings: dict[str, Any] = {"permissions": permissions}
        async with started_explorer(**settings) as ext:
            outcomes = await explore(ext, TRY_CALLS, numbers=unlisted)
        assert len(outcomes) == len(unlisted) > 200, "the child ended early"
        assert set(outcomes.values()) == {"ENOSYS"}, outcomes


@trial
async def a_clone_makes_no_namespace_of_any_kind() -> None:
    code = """
        import ctypes, errno, os
        libc = ctypes.CDLL(None, use_errno=True)
        number = 56 if os.uname().machine == "x86_64" else 220  # of clone
        result = {}
        for flag in facts["flags"]:
            # 17 is SIGCHLD, as for a fork. In the child, the call returns 0.
            got = libc.syscall(ctypes.c_long(number), ctypes.c_long(flag | 17), 0, 0, 0, 0)
            if got == 0:
                os._exit(0)
            result[flag] = "done" if got > 0 else errno.errorcode[ctypes.get_errno()]
    """
    # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
    kinds = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
    async with started_explorer() as ext:
        outcomes = await explore(ext, code, flags=kinds)
    assert len(outcomes) == 7 and set(outcomes.values()) == {"EPERM"}, outcomes


@trial
async def a_personality_can_be_read_but_not_changed() -> None:
    code = """
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        result = [libc.personality(ctypes.c_ulong(0xffffffff)), libc.personality(0x0400000)]
        result.append(errno.errorcode[ctypes.get_errno()])
    """
    async with started_explorer() as ext:
        assert await explore(ext, code) == [0, -1, "EPERM"]


@trial
async def the_buffers_of_a_socket_keep_their_size() -> None:
    code = """
        import errno, socket
        result = []
        for option in (socket.SO_SNDBUF, 32):  # 32 is SO_SNDBUFFORCE
            one, other = socket.socketpair()
            before = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            try:
                one.setsockopt(socket.SOL_SOCKET, option, 2**24)
                result.append("set")
            except OSError as error:
                result.append(errno.errorcode[error.errno])
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            assert before == one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    """
    async with started_explorer() as ext:
        assert await explore(ext, code) == ["EPERM", "EPERM"]
