"""Trials of resources: an extension that exceeds a limit is ended, the error names the limit, and
other extensions continue.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user.
`started_explorer` starts a sandboxed extension that runs the code of its calls: `explore(extension,
code, **facts)`. A limit is enforced by the kernel (an rlimit, or a cgroup), or by the watchdog, a
thread of the host that measures the processes of an extension.
"""

import asyncio
import os
import threading
import time
from typing import Any

import exthost
from exthost.errors import ExtensionGone
from exthost.events import Bus, Spawned
from exthost.process import cgroups
from exthost.process.cgroup_rules import CgroupBase
from tests.sandbox.confined import EXPLORER, explore, started_explorer
from tests.sandbox.trials import trial

MEMORY = 64 * 2**20

# Code that uses more and more memory, in this many further processes as well.
HOG = """
    import os
    for _ in range(facts["forks"]):
        if os.fork() == 0:
            break
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(4096)) * 256)
"""

# A fork bomb.
BOMB = """
    import os
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""

# Code that uses processor time without end. The kernel sends SIGXCPU at the limit.
SPIN = """
    import signal
    if facts["ignores_signal"]:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass
"""


async def check_ended(
    reason: str, code: str, facts: dict[str, Any], **settings: Any
) -> ExtensionGone:
    """Check that this code is ended with this reason, and that another extension still answers."""
    async with started_explorer() as neighbour, started_explorer(**settings) as ext:
        running_code = asyncio.ensure_future(explore(ext, code, **facts))
        answer_times = []
        while not running_code.done():
            began = time.perf_counter()
            assert await neighbour.call("echo", 1, timeout=10) == 1
            answer_times.append(time.perf_counter() - began)
            await asyncio.sleep(0.005)
        try:
            report = await running_code
        except ExtensionGone as error:
            assert reason in error.message and reason in error.evidence.exit, error
            # A generous limit, because the machine may be busy.
            answer_times.sort()
            assert answer_times[int(len(answer_times) * 0.99)] < 0.5, answer_times[-5:]
            return error
        raise AssertionError(f"it was not ended: {report}")


@trial
async def a_memory_hog_is_ended() -> None:
    settings = {"permissions": {"max_memory": MEMORY}}
    await check_ended("max_memory is 64 MiB", HOG, {"forks": 0}, **settings)


@trial
async def forked_hogs_are_ended_together() -> None:
    settings = {"permissions": {"max_memory": 2 * MEMORY}}
    gone = await check_ended("max_memory is 128 MiB", HOG, {"forks": 3}, **settings)
    assert "processes used" in gone.message


@trial
async def a_fork_bomb_is_ended() -> None:
    await check_ended("limits.nproc is 20", BOMB, {}, limits={"nproc": 20})


@trial
async def a_fork_bomb_without_permissions_is_ended_too() -> None:
    settings: dict[str, Any] = {"permissions": {}, "sandbox": "off", "limits": {"nproc": 20}}
    await check_ended("limits.nproc is 20", BOMB, {}, **settings)


@trial
async def a_spinner_is_ended() -> None:
    facts = {"ignores_signal": False}
    await check_ended("limits.cpu is 1 s", SPIN, facts, limits={"cpu": "1s"})


@trial
async def a_spinner_that_ignores_the_warning_is_ended() -> None:
    facts = {"ignores_signal": True}
    await check_ended("limits.cpu is 1 s", SPIN, facts, limits={"cpu": "1s"})


@trial
async def a_file_cannot_grow_beyond_its_limit() -> None:
    code = """
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        with open("/tmp/large", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    """
    await check_ended("limits.fsize", code, {}, limits={"fsize": "1MiB"})


@trial
async def descriptors_run_out_at_their_limit_and_only_for_their_user() -> None:
    code = """
        import errno, os
        fds = []
        try:
            while True:
                fds.append(os.open("/", os.O_RDONLY))
        except OSError as error:
            result = [errno.errorcode[error.errno], len(fds)]
        for fd in fds:
            os.close(fd)
    """
    async with started_explorer() as neighbour, started_explorer(limits={"nofile": 40}) as ext:
        assert await explore(ext, code) == ["EMFILE", 37]  # stdin, stdout and stderr were open
        assert await neighbour.call("echo", 1) == 1 == await ext.call("echo", 1)


@trial
async def a_sandboxed_extension_has_a_limit_of_processes_without_any_configuration() -> None:
    code = """
        import os, signal, time
        children, failed = [], ""
        try:
            for _ in range(1200):
                child = os.fork()
                if child == 0:
                    time.sleep(60)
                    os._exit(0)
                children.append(child)
        except OSError as error:
            failed = os.strerror(error.errno)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        result = [len(children), failed]
    """
    async with started_explorer() as ext:
        assert ext.enforced["limits"]["nproc"] == 512 and ext.enforced["limits"]["nofile"] == 1024
        limiter = ext.enforced["processes"]
        if limiter == "rlimit":
            process_count, failed = await explore(ext, code)
            assert 512 <= process_count < 1040 and failed, (process_count, failed)
            assert await ext.call("echo", 1) == 1
    if limiter != "rlimit":  # the kernel does not limit root
        assert limiter.startswith("watchdog"), limiter
        await check_ended("limits.nproc is 512", code, {})


@trial
async def limits_apply_without_a_namespace_too() -> None:
    code = "import resource; result = resource.getrlimit(resource.RLIMIT_NOFILE)"
    without_namespace = {
        "permissions": {},
        "sandbox": "off",
        "lifetime": "plain",
        "limits": {"nofile": 40},
    }
    async with started_explorer(**without_namespace) as ext:
        assert await explore(ext, code) == [40, 40]
        assert ext.enforced["nofile"] == "rlimit"


@trial
async def the_reported_limiter_of_memory_and_processes_is_the_real_one() -> None:
    base = cgroups.find_base()
    assert base.result.works == bool(base.controllers), base
    settings: dict[str, Any] = {"permissions": {"max_memory": MEMORY}, "limits": {"nproc": 20}}
    async with started_explorer(**settings) as ext:
        by_group = {name: name in base.controllers for name in ("memory", "pids")}
        assert ext.enforced["memory"] == ("cgroup" if by_group["memory"] else "watchdog")
        kernel_limiter = "cgroup" if by_group["pids"] else "rlimit"
        assert ext.enforced["processes"] == f"watchdog+{kernel_limiter}"
        watching = any(item.name == "exthost watchdog" for item in threading.enumerate())
        assert watching  # the watchdog always counts processes
        if not base.result.works:
            assert base.result.reason and base.result.fix


@trial
async def without_a_cgroup_the_watchdog_limits_memory_and_is_reported() -> None:
    before = cgroups.find_base()
    cgroups._bases[os.getpid()] = CgroupBase("/nowhere", frozenset({"memory", "pids"}))
    settings: dict[str, Any] = {"permissions": {"max_memory": MEMORY}}
    spawned: list[Spawned] = []
    bus = Bus()
    bus.subscribe(Spawned, spawned.append)
    try:
        async with exthost.connect(EXPLORER, dialect="morphir", events=bus, **settings) as ext:
            assert spawned[0].enforced["memory"] == ext.enforced["memory"] == "watchdog"
            assert "/nowhere" in cgroups.find_base().result.reason
        await check_ended("max_memory is 64 MiB", HOG, {"forks": 0}, **settings)
    finally:
        cgroups._bases[os.getpid()] = before
