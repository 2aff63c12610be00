"""Tests of the limits of memory and processes by the kernel. They run in a virtual machine.

An extension with such a limit is in a cgroup of its own: a group of processes that the kernel
limits as a whole. `machine.py` starts the virtual machine and reads the output.

They run as root in the root cgroup, as root in a cgroup that is marked as delegated, as systemd
does it, and as an ordinary user in a cgroup that is delegated to this user.
"""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from exthost.errors import ExtensionGone
from exthost.launch.sandbox.strict import NOBODY
from exthost.model.launch_plan import Ceiling
from exthost.process import cgroups
from exthost.process.cgroup_rules import plan_cgroup
from tests.cgroup.delegation import delegated, run_in
from tests.cgroup.host import uid_inside
from tests.sandbox.confined import explore, started_explorer
from tests.sandbox.resources import BOMB, HOG
from tests.sandbox.trials import run

# Each user for whom a cgroup is delegated, and its name in the output.
USERS = (("root", "root in a group"), ("user", "user"))
# The limit of memory in most tests.
MEMORY = 64 * 2**20

# The machine is emulated, and the first run reads all files through a slow pipe.
USER_SECONDS = 400
GONE_SECONDS = 20.0


def extension_cgroups() -> list[Path]:
    """Return the cgroups of extensions that exist now."""
    base = Path(cgroups.find_base().folder)
    return [path for path in base.glob("exthost-*") if not path.name.endswith("-host")]


async def call_until_ended(code: str, facts: dict[str, int], **settings: object) -> str:
    """Run code in an extension that is ended because of it; return the message of the error."""
    async with started_explorer(**settings) as ext:
        try:
            report = await explore(ext, code, **facts)
        except ExtensionGone as error:
            return f"{error.message} {error.evidence.exit}"
    raise AssertionError(f"it was not ended: {report}")


async def memory_is_capped_by_the_kernel_and_the_limit_is_named() -> None:
    settings = {"permissions": {"max_memory": MEMORY}}
    async with started_explorer(**settings) as ext:
        assert ext.enforced["memory"] == "cgroup", ext.enforced
        (group,) = extension_cgroups()
        report = {
            name: (group / name).read_text().strip() for name in ("memory.max", "cgroup.procs")
        }
        assert report["memory.max"] == str(MEMORY) and len(report["cgroup.procs"].split()) == 1
        assert (group / "memory.oom.group").read_text().strip() == "1"
        peak = 0
        allocating = asyncio.ensure_future(explore(ext, HOG, forks=0))
        while not allocating.done() and (group / "memory.peak").exists():
            try:
                peak = max(peak, int((group / "memory.peak").read_text()))
            except OSError:
                break
            await asyncio.sleep(0.01)
        try:
            await allocating
        except ExtensionGone as error:
            assert "used all its memory (permissions.max_memory is 64 MiB)" in error.message, error
            assert "SIGKILL" in error.evidence.exit, error.evidence.exit
        else:
            raise AssertionError("it was not ended")
        assert 0 < peak <= MEMORY, peak
    assert not extension_cgroups()


async def hogs_that_fork_are_ended_together() -> None:
    settings = {"permissions": {"max_memory": 2 * MEMORY}}
    assert "max_memory is 128 MiB" in await call_until_ended(HOG, {"forks": 3}, **settings)
    assert not extension_cgroups()


async def files_that_it_reads_do_not_count_against_it() -> None:
    code = """
        result = 0
        with open(facts["path"], "rb") as file:
            while part := file.read(65536):
                result += len(part)
    """
    path = shutil.which("qemu-system-x86_64")  # a large file
    max_memory = 14 * 2**20  # a little more than this extension needs, and less than the file has
    async with started_explorer(
        permissions={"max_memory": max_memory}, limits={"call": 120}
    ) as ext:
        assert await explore(ext, code, path=path) > max_memory


async def a_fork_bomb_is_ended_and_its_limit_named() -> None:
    report = await call_until_ended(BOMB, {}, limits={"nproc": 20})
    assert "limits.nproc is 20" in report, report
    assert not extension_cgroups()


async def threads_run_out_for_the_extension_alone_even_for_root() -> None:
    code = """
        import threading
        stop, count = threading.Event(), 0
        try:
            while count < 500:
                threading.Thread(target=stop.wait, daemon=True).start()
                count += 1
        except RuntimeError:
            pass
        stop.set()
        result = count
    """
    async with started_explorer(limits={"nproc": 20}) as ext, started_explorer() as neighbour:
        assert ext.enforced["processes"] == "watchdog+cgroup", ext.enforced
        (group,) = extension_cgroups()
        # The kernel counts threads, and limits.nproc processes, so the kernel's limit is higher.
        assert (group / "pids.max").read_text().strip() == "56"
        count = await explore(ext, code)
        assert 20 < count < 56, count
        assert await neighbour.call("echo", 1) == 1 == await ext.call("echo", 1)


async def a_daemon_without_a_namespace_is_gone_with_its_extension() -> None:
    code = """
        import subprocess, sys
        command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        result = subprocess.Popen(command, start_new_session=True, **quiet).pid
    """
    without_sandbox = {
        "permissions": {},
        "sandbox": "off",
        "lifetime": "plain",
        "limits": {"nproc": 20},
    }
    async with started_explorer(**without_sandbox) as ext:
        assert ext.enforced["pids"] == "process group"
        pid = await explore(ext, code)
        (group,) = extension_cgroups()
        assert str(pid) in (group / "cgroup.procs").read_text().split()
    deadline = time.monotonic() + GONE_SECONDS
    while is_alive(pid) or extension_cgroups():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def a_killed_hosts_group_is_removed_by_the_next_one() -> None:
    async with started_explorer(permissions={"max_memory": MEMORY}):
        pass  # this host has removed groups of dead hosts
    # The name of a cgroup has the pid of its host and the time when that was started. This host
    # was not started at the time 1, so the cgroup belongs to one that has ended.
    dead_group = Path(
        cgroups.find_base().folder,
        cgroups._this_host()._replace(started=1).extension_cgroup_name(7),
    )
    dead_group.mkdir()
    arguments = ("-m", "tests.cgroup.inside", "next")
    other_host = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    assert await other_host.wait() == 0
    assert not dead_group.exists() and not extension_cgroups(), extension_cgroups()


async def a_process_that_becomes_nobody_first_enters_too() -> None:
    group = plan_cgroup(cgroups.find_base(), Ceiling(MEMORY, 20), b"")
    assert group is not None
    if os.geteuid() == 0:
        assert uid_inside(group) == NOBODY
    assert not extension_cgroups()


TRIALS: tuple[Callable[[], Awaitable[None]], ...] = (
    memory_is_capped_by_the_kernel_and_the_limit_is_named,
    hogs_that_fork_are_ended_together,
    files_that_it_reads_do_not_count_against_it,
    a_fork_bomb_is_ended_and_its_limit_named,
    threads_run_out_for_the_extension_alone_even_for_root,
    a_daemon_without_a_namespace_is_gone_with_its_extension,
    a_process_that_becomes_nobody_first_enters_too,
    a_killed_hosts_group_is_removed_by_the_next_one,
)


async def start_one_extension() -> None:
    async with started_explorer(permissions={"max_memory": MEMORY}) as ext:
        assert ext.enforced["memory"] == "cgroup", cgroups.find_base()


def run_all(who: str) -> None:
    """Run all trials as this user; print a line of JSON for each."""
    for trial in TRIALS:
        began = time.monotonic()
        error = asyncio.run(run(trial))
        seconds = round(time.monotonic() - began, 1)
        row = {"who": who, "trial": trial.__name__, "wrong": error, "seconds": seconds}
        print(json.dumps(row), flush=True)


def main(arguments: list[str]) -> None:
    if arguments == ["next"]:
        asyncio.run(start_one_extension())
        return
    if arguments:
        run_all(arguments[0])
        return
    run_all("root at the top")
    # From here on it looks as if systemd runs: a cgroup must be delegated to be used.
    Path("/run/systemd/system").mkdir(parents=True)
    for user, who in USERS:
        with delegated(user) as group:
            result = run_in(group, user, ("-m", "tests.cgroup.inside", who), USER_SECONDS)
            print(result.stdout, flush=True)
    print(f"all {len(TRIALS) * (1 + len(USERS))} trials were run", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
