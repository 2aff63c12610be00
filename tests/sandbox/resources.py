"""Trials of limits on resources: memory, processes, processor time, files and descriptors.

An extension that exceeds a limit is ended, or its system call fails. The error names the limit, and
other extensions continue. A limit is enforced by the kernel (a resource limit of each process, or a
cgroup), or by the watchdog, a thread of the host that measures the processes of an extension.

A trial is a test of a promise of SECURITY.md, which runs as root and as an ordinary user.
`started_explorer` starts a sandboxed extension that runs the code of its calls: `explore(extension,
code, **facts)` gives the code the dict `facts`, and returns what the code stores in `result`.
"""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import exthost
from exthost.errors import ExtensionGone
from exthost.events import Bus, Spawned
from exthost.process import cgroups
from exthost.process.cgroup_rules import CgroupBase, locate
from exthost.process.resource_limits import max_threads
from tests.extensions.harness import pid_of, wait_until
from tests.extensions.proc import outside
from tests.sandbox.confined import EXPLORER, explore, started_explorer
from tests.sandbox.trials import trial

MEMORY = 64 * 2**20

# The limit of processes of a sandboxed extension whose config sets none.
DEFAULT_PROCESSES = 512

# How long an extension may take to answer while another one exceeds a limit. On a busy machine an
# answer can take seconds.
ANSWER_SECONDS = 50.0

# Code that uses more and more memory, 1 MiB at a time, in this process and in `forks` others. The
# content is random, so that no memory can be shared.
HOG = """
    import os
    for _ in range(facts["forks"]):
        if os.fork() == 0:
            break
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(4096)) * 256)
"""

# A fork bomb. If it is not ended, it stops at a few thousand processes, which end after ten
# seconds.
BOMB = """
    import mmap, os, time
    ends_at, first_pid = time.monotonic() + 10, os.getpid()
    count = memoryview(mmap.mmap(-1, 4)).cast("I")  # shared by all processes
    while time.monotonic() < ends_at:
        if count[0] > 1000:
            time.sleep(0.1)
            continue
        try:
            if os.fork():
                count[0] += 1
        except OSError:
            pass
    if os.getpid() != first_pid:
        os._exit(0)
    result = f"it has started {count[0]} processes"
"""

# Code that uses processor time without end. At the limit, the kernel sends SIGXCPU, which ends a
# process that does not handle it.
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
    """Check that an extension with these settings is ended for this reason when it runs this code,
    and that another extension answers meanwhile and afterwards."""
    async with started_explorer() as neighbour, started_explorer(**settings) as ext:
        running_code = asyncio.ensure_future(explore(ext, code, **facts))
        while not running_code.done():
            assert await neighbour.call("echo", 1, timeout=ANSWER_SECONDS) == 1
            await asyncio.sleep(0.005)
        try:
            report = await running_code
        except ExtensionGone as error:
            assert reason in error.message and reason in error.evidence.exit, error
            assert await neighbour.call("echo", 2, timeout=ANSWER_SECONDS) == 2
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
    # The file is in the private /tmp of the sandbox. The signal of this limit ends a process, but
    # Python ignores it at its start.
    code = """
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        with open("/tmp/large", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    """
    await check_ended("limits.fsize", code, {}, limits={"fsize": "1MiB"})


@trial
async def descriptors_run_out_at_the_limit_of_each_extension() -> None:
    # Opens descriptors until that fails, and keeps them open until `close_all`.
    open_all = """
        import errno, os
        fds = []
        try:
            while True:
                fds.append(os.open("/", os.O_RDONLY))
        except OSError as error:
            result = [errno.errorcode[error.errno], len(fds)]
    """
    close_all = """
        for fd in fds:
            os.close(fd)
    """
    async with (
        started_explorer(limits={"nofile": 60}) as neighbour,
        started_explorer(limits={"nofile": 40}) as ext,
    ):
        # Each has stdin, stdout and stderr besides.
        assert await explore(ext, open_all) == ["EMFILE", 37]
        assert await explore(neighbour, open_all) == ["EMFILE", 57]
        await explore(ext, close_all)
        assert await explore(ext, open_all) == ["EMFILE", 37]


@trial
async def a_sandboxed_extension_has_a_limit_of_processes_without_any_configuration() -> None:
    # Forks more often than any limiter allows. `keeps_children` is for the watchdog, which needs
    # time to count them.
    code = """
        import os, signal, time
        children, failed = [], ""
        try:
            for _ in range(facts["forks"]):
                child = os.fork()
                if child == 0:
                    time.sleep(60)
                    os._exit(0)
                children.append(child)
        except OSError as error:
            failed = os.strerror(error.errno)
        if facts["keeps_children"]:
            time.sleep(60)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        result = [len(children), failed]
    """
    # The kernel counts threads, so its limit is higher.
    kernel_limit = max_threads(DEFAULT_PROCESSES)
    facts = {"forks": kernel_limit + 100}
    async with started_explorer() as ext:
        assert ext.enforced["limits"]["nproc"] == DEFAULT_PROCESSES
        assert ext.enforced["limits"]["nofile"] == 1024
        limiter = ext.enforced["processes"]
        if limiter == "rlimit":
            process_count, failed = await explore(ext, code, **facts, keeps_children=False)
            assert DEFAULT_PROCESSES <= process_count < kernel_limit, process_count
            assert failed and await ext.call("echo", 1) == 1
    # The kernel does not limit an extension that runs as root. Before Linux 5.14 it counts all
    # processes of the user.
    if limiter != "rlimit":
        assert limiter.startswith("watchdog"), limiter
        reason = f"limits.nproc is {DEFAULT_PROCESSES}"
        await check_ended(reason, code, {**facts, "keeps_children": True})


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
        # The soft limit and the hard one, which the extension cannot raise.
        assert await explore(ext, code) == [40, 40]
        assert ext.enforced["nofile"] == "rlimit"


def has_watchdog() -> bool:
    return any(thread.name == "exthost watchdog" for thread in threading.enumerate())


def cgroup_limits(pid: int) -> dict[str, str]:
    """Return the limits of the cgroup of a process, by the names of their files."""
    text = Path(f"/proc/{pid}/cgroup").read_text()
    folder, _ = locate(text, Path("/proc/self/mountinfo").read_text())
    files = [Path(folder, name) for name in ("memory.max", "pids.max")] if folder else []
    return {file.name: file.read_text().strip() for file in files if file.exists()}


@trial
async def the_reported_limiter_of_memory_and_processes_is_the_real_one() -> None:
    base = cgroups.find_base()
    # Either the host can create cgroups, or it says why not.
    if base.result.works:
        assert base.controllers
    else:
        assert not base.controllers and base.result.reason and base.result.fix
    processes = 20
    settings: dict[str, Any] = {
        "permissions": {"max_memory": MEMORY},
        "limits": {"nproc": processes},
    }
    await wait_until(lambda: not has_watchdog())  # of the last trial
    async with started_explorer(**settings) as ext:
        code = (
            "import os, resource; result = [os.getpid(), resource.getrlimit(resource.RLIMIT_NPROC)]"
        )
        pid_inside, rlimit = await explore(ext, code)
        limits = cgroup_limits(outside(pid_inside, pid_of(ext)))
        if "memory" in base.controllers:
            assert ext.enforced["memory"] == "cgroup" and limits["memory.max"] == str(MEMORY)
        else:
            assert ext.enforced["memory"] == "watchdog"
        if "pids" in base.controllers:
            assert ext.enforced["processes"] == "watchdog+cgroup"
            assert limits["pids.max"] == str(max_threads(processes))
        else:
            assert ext.enforced["processes"] == "watchdog+rlimit"
            assert rlimit == [max_threads(processes)] * 2
        assert has_watchdog()  # it counts processes in any case
    await wait_until(lambda: not has_watchdog())


@trial
async def without_a_cgroup_the_watchdog_limits_memory_and_is_reported() -> None:
    original_base = cgroups.find_base()
    # The host expects that it can create cgroups in this folder, and fails.
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
        cgroups._bases[os.getpid()] = original_base
