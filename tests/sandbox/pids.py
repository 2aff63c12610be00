"""Trials of pids. Each extension has a PID namespace, but its pid differs from that of every other.
Otherwise programs that name lock files after their pid would collide in a shared folder.

A trial is a test that runs as root and as an ordinary user. The extension of most trials is the
explorer: `explore(extension, code, **facts)` runs code in it, and returns its variable `result`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import exthost
from exthost.events import Bus, LogLine, Spawned
from exthost.extension.extension import Extension
from exthost.launch import sandbox_probe
from tests.sandbox.confined import EXPLORER, explore, folder
from tests.sandbox.programs import needs
from tests.sandbox.trials import trial

PROGRAM_COUNT = 10

GET_PID = "import os; result = os.getpid()"

# Code that creates a lock file named after the pid, and fails if it exists. `facts` has the keyword
# arguments of `explore`.
LOCK = """
    import os, pathlib
    path = pathlib.Path(facts["folder"], f"lock.{os.getpid()}")
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    result = path.name
"""

# Code that starts a shell, which creates a file named after its pid, and fails if it exists (-C).
# $0 is the folder.
SHELL = """
    import subprocess
    text = 'set -C; echo > "$0/$$"; echo $$'
    result = subprocess.check_output(["sh", "-c", text, facts["folder"]], text=True).strip()
"""


@contextlib.asynccontextmanager
async def running_extensions(
    count: int, argv: list[str], bus: Bus
) -> AsyncIterator[list[Extension]]:
    """Yield this many running extensions of the same program, without permissions."""
    async with contextlib.AsyncExitStack() as stack:
        connect = (exthost.connect(argv, dialect="morphir", events=bus) for _ in range(count))
        yield [await stack.enter_async_context(item) for item in connect]


def collect_spawned_pids(bus: Bus) -> list[int]:
    """Return a list to which the pid of each started process will be added."""
    pids: list[int] = []
    bus.subscribe(Spawned, lambda event: pids.append(event.pid))
    return pids


@trial
async def programs_that_share_a_folder_have_different_pids() -> None:
    bus = Bus()
    pids_outside = collect_spawned_pids(bus)
    with folder() as shared:
        async with running_extensions(PROGRAM_COUNT, EXPLORER, bus) as extensions:
            locks = [await explore(ext, LOCK, folder=str(shared)) for ext in extensions]
            shells = [await explore(ext, SHELL, folder=str(shared)) for ext in extensions]
            assert {ext.enforced["pid"] for ext in extensions} == {"same as outside"}
    assert locks == [f"lock.{pid}" for pid in pids_outside], (
        "the pids inside and outside of the namespaces differ",
        pids_outside,
    )
    # The pids of the shells and of the programs are all different.
    assert len({*shells, *map(str, pids_outside)}) == 2 * PROGRAM_COUNT, (shells, pids_outside)


@trial
async def a_program_that_is_started_again_has_another_pid() -> None:
    async with running_extensions(2, EXPLORER, Bus()) as (first, second):
        pids = [await explore(ext, GET_PID) for ext in (first, second)]
        for _ in range(3):
            await second.restart()
            pids.append(await explore(second, GET_PID))
    assert len(set(pids)) == len(pids), pids


@trial
async def the_processes_of_a_pool_have_different_pids() -> None:
    async with exthost.connect(EXPLORER, dialect="morphir", pool={"min": 3, "max": 3}) as ext:
        slow_code = f"import time; time.sleep(0.2); {GET_PID}"

        async def pids_of_busy_processes() -> set[int]:
            return set(await asyncio.gather(*(explore(ext, slow_code) for _ in range(9))))

        pids: set[int] = set()
        # A pool starts its processes one by one. The loop ends when all three have answered; if two
        # of them had the same pid, the trial would reach its time limit.
        while len(pids) < 3:
            pids = await pids_of_busy_processes()


@trial
async def a_sandboxed_program_has_the_second_pid_of_its_namespace() -> None:
    async with exthost.connect(EXPLORER, dialect="morphir", permissions={}) as ext:
        assert ext.enforced["pid"] == "first of its namespace"
        assert await explore(ext, GET_PID) == 2  # 1 is the first process, which is of exthost
    support = sandbox_probe.find_sandbox_support()
    # Only without bubblewrap a process has the same pid inside and outside of its namespace.
    assert sandbox_probe.probe_pid_namespace(support)[0].keeps_pid
    assert not sandbox_probe.probe_strict(support).keeps_pid


# A morphir extension in Java that answers each request with an empty list.
JAVA = """
import java.util.Scanner;

public class Echo {
    public static void main(String[] words) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String id = lines.nextLine().replaceAll(".*\\"id\\": *([0-9]+).*", "$1");
            System.out.println("{\\"id\\":" + id + ",\\"result\\":[]}");
        }
    }
}
"""


async def check_answer(extension: Extension) -> None:
    assert await extension.call("echo", 1, timeout=60) == []


@trial
async def two_java_programs_do_not_share_their_performance_file() -> None:
    java = needs("java")
    bus = Bus()
    lines: list[str] = []
    bus.subscribe(LogLine, lambda event: lines.append(event.text))
    pids_outside = collect_spawned_pids(bus)
    with folder() as place:
        source = place / "Echo.java"
        source.write_text(JAVA)
        async with running_extensions(2, [java, str(source)], bus) as (first, second):
            await check_answer(first)
            await check_answer(second)
            files = [*Path("/tmp").glob("hsperfdata_*/*")]  # each JVM has one, named after its pid
            assert {int(file.name) for file in files} >= set(pids_outside), (files, pids_outside)
            await second.restart()
            await check_answer(first)
            await check_answer(second)
    # A JVM logs a warning if another one uses its file.
    assert not [line for line in lines if "hsperfdata" in line], lines
