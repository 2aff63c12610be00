"""The start of the command line, and of many extensions."""

import asyncio
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import baselines, cores, memory, subject
from bench.children import HERE, end
from bench.crowd import crowd
from bench.rounds import duration, ratios, read_values, take_turns, take_turns_async
from bench.row import NotBuiltYet, NotHere, Reading, Setting

CHILDREN = 100
# A start takes some twenty milliseconds, so there are fewer rounds.
HELP_ROUNDS_EACH = 2


def _run(words: Sequence[str]) -> Callable[[], None]:
    def block() -> None:
        subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=30,
            check=True,
        )

    return block


def help_text(setting: Setting) -> Reading:
    """`exthost --help` / `python -c pass`, whole processes."""
    spec = importlib.util.find_spec("exthost.faces.cli")
    # The script may be installed before its module is written; an empty folder has no origin.
    program = Path(sys.executable).parent / "exthost"
    if spec is None or spec.origin is None or not program.exists():
        raise NotBuiltYet("exthost.faces.cli")
    blocks = {
        "help": _run([str(program), "--help"]),
        "bare": _run([sys.executable, "-c", "pass"]),
    }
    took = take_turns(blocks, HELP_ROUNDS_EACH * setting.rounds, warm=2)
    absolute = (("--help", duration(took["help"])), ("python", duration(took["bare"])))
    return read_values(ratios(took["help"], took["bare"]), absolute)


# Opens and closes a host, and prints its processor time in milliseconds and its modules.
FIRST_HOST = """
import asyncio, sys, time
import exthost
async def main():
    async with exthost.Host():
        pass
asyncio.run(main())
print(time.process_time() * 1e3, len(sys.modules))
"""


def _first_host() -> tuple[float, int]:
    result = subprocess.run(
        [sys.executable, "-c", FIRST_HOST], capture_output=True, text=True, timeout=30, check=True
    )
    milliseconds, modules = result.stdout.split()
    return float(milliseconds), int(modules)


def first_host_time(setting: Setting) -> Reading:
    """The processor time of a program that opens and closes a host, in milliseconds."""
    _first_host()  # compiles the modules
    return read_values([_first_host()[0] for _ in range(setting.rounds)])


def first_host_modules(setting: Setting) -> Reading:
    """The modules of that program, those of the interpreter included."""
    return Reading(_first_host()[1])


def call_in_running_host(setting: Setting) -> Reading:
    """`exthost call` of a tool of a running host / `python -c pass`, whole processes."""
    if not setting.child_is_c:
        raise NotHere("a C compiler: the server is a C child")
    program = str(Path(sys.executable).parent / "exthost")
    with tempfile.TemporaryDirectory(prefix="exthost-bench-") as folder:
        config = Path(folder, "exthost.toml")
        command = json.dumps(setting.child[0])
        config.write_text(
            '[[extensions]]\nname = "x"\ndialect = "mcp"\n'
            f'source = {{ type = "process", command = {command}, args = ["--mcp"] }}\n'
        )
        _run([program, "up", "-d", "--config", str(config)])()
        try:
            blocks = {
                "call": _run([program, "call", "--config", str(config), "x", "echo", "text=hi"]),
                "bare": _run([sys.executable, "-c", "pass"]),
            }
            took = take_turns(blocks, HELP_ROUNDS_EACH * setting.rounds, warm=2)
        finally:
            _run([program, "down", "--config", str(config)])()
    absolute = (("call", duration(took["call"])), ("python", duration(took["bare"])))
    return read_values(ratios(took["call"], took["bare"]), absolute)


def many_children(lifetime: str) -> Callable[[Setting], Reading]:
    """100 children started, with handshake and one reply each / 100 bare Popen + echo.

    Not pinned, because starting many children uses several cores. Ending them is not counted.
    """

    async def work(setting: Setting) -> Reading:
        options: dict[str, Any] = {"lifetime": lifetime}
        note = ""
        if not subject.connect_takes("lifetime"):
            if lifetime != "plain":
                raise NotBuiltYet(f'lifetime = "{lifetime}"')
            options.clear()
            note = "connect takes no lifetime yet"

        async def start_bare() -> float:
            before = time.perf_counter()
            processes = baselines.start_many(setting.child, CHILDREN)
            bare_took = time.perf_counter() - before
            for process in processes:
                end(process)
            return bare_took

        async def start_extensions() -> float:
            async with crowd(setting.child, **options) as people:
                before = time.perf_counter()
                started = await people.grow(CHILDREN)
                await asyncio.gather(
                    *(
                        extension.call("echo", baselines.SMALL, timeout=subject.CALL_S)
                        for extension in started
                    )
                )
                host_took = time.perf_counter() - before
                if lifetime != "plain" and not cores.namespaced_below():
                    raise NotBuiltYet(f'lifetime = "{lifetime}" is accepted but not in force')
            return host_took

        blocks = {"bare": start_bare, "exthost": start_extensions}
        took = await take_turns_async(blocks, setting.few)
        absolute = (("exthost", duration(took["exthost"])), ("bare", duration(took["bare"])))
        return read_values(ratios(took["exthost"], took["bare"]), absolute, note)

    def measure(setting: Setting) -> Reading:
        memory.allow_files(CHILDREN * 8 + 100)
        return subject.run(work(setting))

    return measure


def sandboxed(setting: Setting) -> Reading:
    """The first reply of a Python extension in the strict sandbox / of the same under a bare Popen.

    The end is not counted, and neither is the probe that a host makes once.
    """
    twin = (sys.executable, "-I", "-S", str(HERE / "echo.py"))

    async def work() -> Reading:
        took: dict[str, list[float]] = {"bare": [], "strict": []}
        for turn in range(-2, setting.rounds):
            before = time.perf_counter()
            processes = baselines.start_many(twin, 1)
            bare_took = time.perf_counter() - before
            end(processes[0])
            before = time.perf_counter()
            async with subject.connect(twin, permissions={}) as extension:
                await extension.call("echo", baselines.SMALL, timeout=subject.CALL_S)
                strict_took = time.perf_counter() - before
            if turn >= 0:
                took["bare"].append(bare_took)
                took["strict"].append(strict_took)
        absolute = (("strict", duration(took["strict"])), ("bare", duration(took["bare"])))
        return read_values(ratios(took["strict"], took["bare"]), absolute)

    if shutil.which("bwrap") is None:
        raise NotHere("bubblewrap is not installed")
    return subject.run(work())


def bare_children(setting: Setting) -> Reading:
    """100 bare Popen + echo, in milliseconds: the denominator."""
    memory.allow_files(CHILDREN * 8 + 100)
    took: list[float] = []
    for _ in range(setting.few):
        before = time.perf_counter()
        processes = baselines.start_many(setting.child, CHILDREN)
        took.append((time.perf_counter() - before) * 1e3)
        for process in processes:
            end(process)
    return read_values(took)
