"""Pid trials: programs that share folders have different pids, though each has a PID namespace."""

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

PROGRAMS = 10

MINE = "import os; result = os.getpid()"

# What each program does with its pid: a lock file, which fails if another program has it.
LOCK = """
    import os, pathlib
    name = pathlib.Path(facts["folder"], f"lock.{os.getpid()}")
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    result = name.name
"""

# A shell that the program starts writes a file that is named after its own pid.
SHELL = """
    import subprocess
    text = 'set -C; echo > "$0/$$"; echo $$'
    result = subprocess.check_output(["sh", "-c", text, facts["folder"]], text=True).strip()
"""


@contextlib.asynccontextmanager
async def running(count: int, words: list[str], bus: Bus) -> AsyncIterator[list[Extension]]:
    """Yield this many extensions of the same program, without a sandbox, that run at once."""
    async with contextlib.AsyncExitStack() as all_of_them:
        connect = (exthost.connect(words, dialect="morphir", events=bus) for _ in range(count))
        yield [await all_of_them.enter_async_context(item) for item in connect]


def spawned_pids(bus: Bus) -> list[int]:
    """Return a list to which the pid of each process is added that is started."""
    pids: list[int] = []
    bus.subscribe(Spawned, lambda event: pids.append(event.pid))
    return pids


@trial
async def programs_that_share_a_folder_have_different_pids() -> None:
    bus = Bus()
    outside = spawned_pids(bus)
    with folder() as shared:
        async with running(PROGRAMS, EXPLORER, bus) as extensions:
            locks = [await explore(ext, LOCK, folder=str(shared)) for ext in extensions]
            shells = [await explore(ext, SHELL, folder=str(shared)) for ext in extensions]
            assert {ext.enforced["pid"] for ext in extensions} == {"same as outside"}
    assert locks == [f"lock.{pid}" for pid in outside], "the host knows a program by the same pid"
    assert len({*shells, *map(str, outside)}) == 2 * PROGRAMS, (shells, outside)


@trial
async def a_program_that_is_started_again_has_another_pid() -> None:
    async with running(2, EXPLORER, Bus()) as (first, second):
        pids = [await explore(ext, MINE) for ext in (first, second)]
        for _ in range(3):
            await second.restart()
            pids.append(await explore(second, MINE))
    assert len(set(pids)) == len(pids), pids


@trial
async def the_processes_of_a_pool_have_different_pids() -> None:
    async with exthost.connect(EXPLORER, dialect="morphir", pool={"min": 3, "max": 3}) as ext:
        slowly = f"import time; time.sleep(0.2); {MINE}"

        async def all_busy() -> set[int]:
            return set(await asyncio.gather(*(explore(ext, slowly) for _ in range(9))))

        pids: set[int] = set()
        while len(pids) < 3:  # bounded by the trial; a pool starts its processes one by one
            pids = await all_busy()


@trial
async def where_the_kernel_chooses_the_pid_that_is_reported() -> None:
    async with exthost.connect(EXPLORER, dialect="morphir", permissions={}) as ext:
        assert ext.enforced["pid"] == "first of its namespace"
        assert await explore(ext, MINE) == 2
    support = sandbox_probe.find_sandbox_support()
    assert sandbox_probe.probe_pid_namespace(support)[0].keeps_pid
    assert not sandbox_probe.probe_strict(support).keeps_pid


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


async def answers(java: Extension) -> None:
    assert await java.call("echo", 1, timeout=60) == []


@trial
async def two_java_programs_run_at_once_and_one_is_restarted() -> None:
    java = needs("java")
    bus = Bus()
    lines: list[str] = []
    bus.subscribe(LogLine, lambda event: lines.append(event.text))
    outside = spawned_pids(bus)
    with folder() as place:
        source = place / "Echo.java"
        source.write_text(JAVA)
        async with running(2, [java, str(source)], bus) as (first, second):
            await answers(first)
            await answers(second)
            files = [*Path("/tmp").glob("hsperfdata_*/*")]  # each JVM has one, named after its pid
            assert {int(file.name) for file in files} >= set(outside), (files, outside)
            await second.restart()
            await answers(first)
            await answers(second)
    assert not [line for line in lines if "hsperfdata" in line], lines
