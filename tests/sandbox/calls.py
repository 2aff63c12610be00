"""Sandbox trials: which system calls there are. Each group of allowed calls has a trial of its own,
and so has what is denied, what is absent, and what is judged by its arguments."""

import asyncio
import json
import os
import sys
import textwrap
from typing import Any

from exthost.launch.sandbox.system_calls import DENIED, GROUPS, NETWORK, SystemCall
from tests.sandbox.confined import explore, exploring
from tests.sandbox.trials import trial

# In a child, each call with arguments that are wrong for any call. `result` has the name of the
# error by the number of the call; "" if there was none.
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

# Calls that end, stop or split whoever makes them, and those that close the pipe for the outcome.
# Without them no program of these trials would run at all.
NOT_TRIED = frozenset(
    (
        *("exit", "exit_group", "fork", "vfork", "clone", "pause", "rt_sigreturn", "sync"),
        *("restart_syscall", "set_tid_address", "close_range", "alarm", "brk"),
    )
)

# uretprobe and uprobe of x86-64: the kernel asks no filter about them. It ends a program that makes
# them itself.
UNFILTERED = {335, 336}


def machine() -> str:
    return os.uname().machine


def numbers(calls: tuple[SystemCall, ...]) -> dict[int, str]:
    found = {call.number(machine()): call.name for call in calls if call.name not in NOT_TRIED}
    return {number: name for number, name in found.items() if number is not None}


async def outside(tried: list[int]) -> dict[str, str]:
    """What the same calls come to without a sandbox."""
    facts = f"facts = {{'numbers': {tried!r}}}"
    code = "\n".join((facts, textwrap.dedent(TRY_CALLS), "print(json.dumps(result))"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-E", "-c", code, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    found: dict[str, str] = json.loads(out)
    return found


async def exist_as_outside(group: str) -> None:
    named = numbers(GROUPS[group])
    permissions = {"network": group == NETWORK}
    async with exploring(permissions=permissions) as ext:
        inside = await explore(ext, TRY_CALLS, numbers=sorted(named))
    usual = await outside(sorted(named))
    assert len(inside) == len(usual) == len(named) > 2, (inside, usual)
    lost = {
        named[int(number)]: outcome
        for number, outcome in inside.items()
        if outcome == "ENOSYS" != usual[number]
    }
    assert not lost, lost


@trial
async def allowed_calls_of_the_group_descriptors_exist() -> None:
    await exist_as_outside("descriptors")


@trial
async def allowed_calls_of_the_group_files_exist() -> None:
    await exist_as_outside("files")


@trial
async def allowed_calls_of_the_group_memory_exist() -> None:
    await exist_as_outside("memory")


@trial
async def allowed_calls_of_the_group_processes_exist() -> None:
    await exist_as_outside("processes")


@trial
async def allowed_calls_of_the_group_identity_exist() -> None:
    await exist_as_outside("identity")


@trial
async def allowed_calls_of_the_group_signals_exist() -> None:
    await exist_as_outside("signals")


@trial
async def allowed_calls_of_the_group_events_exist() -> None:
    await exist_as_outside("events")


@trial
async def allowed_calls_of_the_group_time_exist() -> None:
    await exist_as_outside("time")


@trial
async def allowed_calls_of_the_group_resources_exist() -> None:
    await exist_as_outside("resources")


@trial
async def allowed_calls_of_the_group_sockets_exist() -> None:
    await exist_as_outside("sockets")


@trial
async def allowed_calls_of_the_group_self_restriction_exist() -> None:
    await exist_as_outside("self-restriction")


@trial
async def allowed_calls_of_the_group_network_exist_with_network() -> None:
    await exist_as_outside(NETWORK)


@trial
async def denied_calls_are_refused() -> None:
    named = numbers((*DENIED, *GROUPS[NETWORK]))
    async with exploring() as ext:
        tried = await explore(ext, TRY_CALLS, numbers=sorted(named))
    assert len(tried) == len(named) and set(tried.values()) == {"EPERM"}, tried


@trial
async def calls_that_no_group_lists_do_not_exist_and_later_ones_neither() -> None:
    listed = {call.number(machine()) for group in (*GROUPS.values(), DENIED) for call in group}
    others = [number for number in range(700) if number not in listed | UNFILTERED]
    for permissions in ({}, {"network": True}):
        settings: dict[str, Any] = {"permissions": permissions}
        async with exploring(**settings) as ext:
            tried = await explore(ext, TRY_CALLS, numbers=others)
        assert len(tried) == len(others) > 200, "it ended"
        assert set(tried.values()) == {"ENOSYS"}, tried


@trial
async def a_clone_makes_no_namespace_of_any_kind() -> None:
    code = """
        import ctypes, errno, os
        libc = ctypes.CDLL(None, use_errno=True)
        number = 56 if os.uname().machine == "x86_64" else 220
        result = {}
        for flag in facts["flags"]:
            got = libc.syscall(ctypes.c_long(number), ctypes.c_long(flag | 17), 0, 0, 0, 0)
            if got == 0:
                os._exit(0)
            result[flag] = "done" if got > 0 else errno.errorcode[ctypes.get_errno()]
    """
    kinds = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
    async with exploring() as ext:
        tried = await explore(ext, code, flags=kinds)
    assert len(tried) == 7 and set(tried.values()) == {"EPERM"}, tried


@trial
async def a_personality_can_be_read_but_not_changed() -> None:
    code = """
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        result = [libc.personality(ctypes.c_ulong(0xffffffff)), libc.personality(0x0400000)]
        result.append(errno.errorcode[ctypes.get_errno()])
    """
    async with exploring() as ext:
        assert await explore(ext, code) == [0, -1, "EPERM"]


@trial
async def the_buffers_of_a_socket_keep_their_size() -> None:
    code = """
        import errno, socket
        result = []
        for option in (socket.SO_SNDBUF, 32):
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
    async with exploring() as ext:
        assert await explore(ext, code) == ["EPERM", "EPERM"]
