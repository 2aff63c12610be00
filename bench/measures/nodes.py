"""Processes on nodes, which are simulated on this machine, against local processes."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from bench import cores, memory, subject
from bench.memory import MIB
from bench.rounds import Samples, duration, ratios, read_values, take_turns_async
from bench.row import Reading, Setting

BLOCK_CALLS = 200
IN_FLIGHT = 100
LARGE_BYTES = 16 * MIB
# What a node may need before the programs, and with how many processes it is measured.
NODE_MB, PROCESS_MB = 40, 3
MEMORY_PROCESSES = 16

Measure = Callable[[Setting], Reading]
Block = Callable[[], Awaitable[object]]


def _on_nodes(size: int = 1) -> dict[str, object]:
    return {"engine": "local", "min": size, "max": size}


def _one_by_one(extension: subject.Extension, calls: int, params: object) -> Block:
    async def block() -> None:
        for _ in range(calls):
            await extension.call("echo", params, timeout=subject.CALL_S)

    return block


def _in_flight(extension: subject.Extension) -> Block:
    async def work() -> None:
        for _ in range(BLOCK_CALLS // 10):
            await extension.call("echo", 1, timeout=subject.CALL_S)

    async def block() -> None:
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))

    return block


@asynccontextmanager
async def _here_and_there(
    setting: Setting, *, is_encrypted: bool
) -> AsyncIterator[tuple[subject.Extension, subject.Extension]]:
    """Yield an extension with a local process, and one with a process on a node."""
    if not is_encrypted:
        async with (
            subject.connect(setting.child) as here,
            subject.connect(setting.child, pool=_on_nodes()) as there,
        ):
            yield here, there
        return
    entries = [
        subject.entry("here", setting.child, dialect="morphir"),
        subject.entry("there", setting.child, dialect="morphir", pool=_on_nodes()),
    ]
    with tempfile.TemporaryDirectory() as folder:
        certificates = Path(folder, "cluster")
        subject.make_certificates(certificates)
        cluster = {"certificates": str(certificates)}
        async with subject.host(*entries, cluster=cluster) as host:
            for name in ("here", "there"):
                await host[name].start()
            yield host["here"], host["there"]


async def _against_local(
    setting: Setting,
    make: Callable[[subject.Extension], Block],
    calls: int,
    *,
    pinned: bool = False,
    is_encrypted: bool = False,
) -> Reading:
    """Seconds on a node / seconds of a local process. Pinned, the host has one core, and all other
    processes have the other: a node is another machine, so it does not use the core of the
    host."""
    note = ""
    async with _here_and_there(setting, is_encrypted=is_encrypted) as (here, there):
        blocks = {"node": make(there), "local": make(here)}
        if pinned:
            note = cores.pin(cores.apart())
        took = await take_turns_async(blocks, setting.rounds, calls)
    absolute = (("node", duration(took["node"])), ("local", duration(took["local"])))
    return read_values(ratios(took["node"], took["local"]), absolute, note)


def one_call(setting: Setting, *, is_encrypted: bool = False) -> Reading:
    """One small call at a time."""
    blocks = partial(_one_by_one, calls=BLOCK_CALLS, params=1)
    reading = _against_local(setting, blocks, BLOCK_CALLS, pinned=True, is_encrypted=is_encrypted)
    return subject.run(reading)


def large_echo(setting: Setting, *, is_encrypted: bool = False) -> Reading:
    """A text of 16 MiB there and back."""
    params = {"text": "x" * LARGE_BYTES}
    blocks = partial(_one_by_one, calls=1, params=params)
    return subject.run(_against_local(setting, blocks, 1, is_encrypted=is_encrypted))


def many_in_flight(setting: Setting, *, is_encrypted: bool = False) -> Reading:
    """Calls a second with 100 in flight, of those of a local process."""

    async def work() -> Reading:
        async with _here_and_there(setting, is_encrypted=is_encrypted) as (here, there):
            blocks = {"node": _in_flight(there), "local": _in_flight(here)}
            calls = IN_FLIGHT * BLOCK_CALLS // 10
            took = await take_turns_async(blocks, setting.rounds, calls)
        absolute = (("node", duration(took["node"])), ("local", duration(took["local"])))
        return read_values(ratios(took["local"], took["node"]), absolute)

    return subject.run(work())


def pool(size: int) -> Measure:
    """Calls a second through `size` processes on nodes, of those through one process there."""

    async def work(setting: Setting) -> Reading:
        async with (
            subject.connect(setting.child, pool=_on_nodes()) as one,
            subject.connect(setting.child, pool=_on_nodes(size)) as many,
        ):
            await subject.processes(many, size)
            blocks = {"many": _in_flight(many), "one": _in_flight(one)}
            calls = IN_FLIGHT * BLOCK_CALLS // 10
            took = await take_turns_async(blocks, setting.rounds, calls)
        absolute = ((f"pool of {size}", duration(took["many"])), ("one", duration(took["one"])))
        return read_values(ratios(took["one"], took["many"]), absolute)

    return lambda setting: subject.run(work(setting))


def start(setting: Setting) -> Reading:
    """The start of a process on a node / of a local one, handshake and one call included."""

    def starting(**options: object) -> Block:
        async def block() -> None:
            async with subject.connect(setting.child, **options) as extension:
                await extension.call("echo", 1, timeout=subject.CALL_S)

        return block

    async def work() -> Reading:
        blocks = {"node": starting(pool=_on_nodes()), "local": starting()}
        took = await take_turns_async(blocks, setting.few)
        absolute = (("node", duration(took["node"])), ("local", duration(took["local"])))
        return read_values(ratios(took["node"], took["local"]), absolute)

    return subject.run(work())


async def _warm_starts(setting: Setting) -> Samples:
    """Time the start of the next process of an extension on a node whose agent runs, and of a local
    one, with handshake and one call."""

    def fresh(extension: subject.Extension) -> Block:
        async def block() -> None:
            await extension.restart()
            await extension.call("echo", 1, timeout=subject.CALL_S)

        return block

    async with (
        subject.connect(setting.child) as here,
        subject.connect(setting.child, pool=_on_nodes()) as there,
    ):
        blocks = {"node": fresh(there), "local": fresh(here)}
        # A restart starts the next process before the last has ended. After a few restarts, each
        # node has an agent.
        return await take_turns_async(blocks, setting.rounds, warm=5)


def warm_start(setting: Setting) -> Reading:
    """The start of a process on a node whose agent runs / of a local one."""
    took = subject.run(_warm_starts(setting))
    absolute = (("node", duration(took["node"])), ("local", duration(took["local"])))
    return read_values(ratios(took["node"], took["local"]), absolute)


def warm_start_added(setting: Setting) -> Reading:
    """How much longer the start of a process takes on a node whose agent runs, in milliseconds."""
    took = subject.run(_warm_starts(setting))
    added = [(node - local) * 1e3 for node, local in zip(took["node"], took["local"], strict=True)]
    absolute = (("node", duration(took["node"])), ("local", duration(took["local"])))
    return read_values(added, absolute)


def node_memory(setting: Setting) -> Reading:
    """The memory of one node with some processes, without the programs / 40 MB and 3 MB a process.

    It is that of the agent and of the processes that contain a program. Memory that several of them
    share is counted for each of them.
    """

    async def work() -> Reading:
        pool = {**_on_nodes(MEMORY_PROCESSES), "spread": False}  # all on one node
        async with subject.connect(setting.child, pool=pool) as extension:
            await subject.processes(extension, MEMORY_PROCESSES)
            await _in_flight(extension)()  # fills the buffers
            agents, containers = [], []
            for process in cores.descendants(os.getpid()):
                command = memory.command_of(process)
                if "exthost.cluster.agent" in command:
                    agents.append(memory.resident_of(process))
                elif tuple(command) != setting.child:
                    containers.append(memory.resident_of(process))
        assert len(agents) == 1, agents
        allowed = NODE_MB + PROCESS_MB * MEMORY_PROCESSES
        absolute = (
            ("agent", f"{agents[0] / 1e6:.1f} MB"),
            ("each process", f"{sum(containers) / MEMORY_PROCESSES / 1e6:.2f} MB"),
        )
        return Reading((agents[0] + sum(containers)) / 1e6 / allowed, absolute)

    return subject.run(work())
