"""A program with an open host that forks, for test_forking.py: `with_fork.py WHAT [CONFIG]`."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import exthost

TEXT = Path(__file__).parents[2] / "examples" / "morphir" / "text.py"
SOURCE = {"type": "process", "command": sys.executable, "args": [str(TEXT)]}
CONFIG = {
    "extensions": [
        {"name": "a", "source": SOURCE},
        {"name": "p", "source": SOURCE, "pool": {"min": 1, "max": 2}},
    ]
}


def say(text: object) -> None:
    print(text, flush=True)


def in_a_copy(do: Callable[[], object]) -> None:
    """Have a copy of this process do something, and wait for it."""
    pid = os.fork()
    if pid == 0:
        try:
            say(f"copy: {do()!r}")
        except exthost.errors.ExthostError as error:
            say(f"copy: {error.kind} {error.code}")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def blocking(what: str) -> None:
    with exthost.SyncHost.from_config(CONFIG) as host:
        calls: dict[str, Callable[[], Any]] = {
            "call": lambda: host["a"].call("echo", 1),
            "tool": lambda: host.call_tool("ext_a_echo", {"n": 1}),
            "pool": lambda: host["p"].call("echo", 1),
            "restart": lambda: host["a"].restart(),
        }
        in_a_copy(calls[what])
        say(f"ours: {host['p' if what == 'pool' else 'a'].call('echo', 2)}")


async def looping() -> None:
    async with exthost.Host.from_config(CONFIG) as host:

        def send() -> NoReturn:  # as far as a copy gets whose loop is not its own
            host["a"].call("echo", 1).send(None)
            raise AssertionError("it was sent")

        in_a_copy(send)
        say(f"ours: {await host['a'].call('echo', 2)}")


def write_config(path: Path) -> None:
    source = f"{{ type = 'process', command = '{sys.executable}', args = ['{TEXT}'] }}"
    path.write_text(f'[[extensions]]\nname = "a"\nsource = {source}\n')


async def attached() -> None:
    """The copy of a program that is attached to a host."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "exthost.toml")
        write_config(path)
        async with exthost.Host.from_config(path, control=True), exthost.attach(path) as host:

            def send() -> NoReturn:
                host["a"].call("echo", 1).send(None)
                raise AssertionError("it was sent")

            in_a_copy(send)
            say(f"ours: {await host['a'].call('echo', 2)}")


def ending(how: str) -> None:
    with exthost.SyncHost.from_config(CONFIG) as host:
        pid = os.fork()
        if pid == 0:
            if how == "exit":
                sys.exit(0)
            if how == "close":
                host.close()
            return
        _, status = os.waitpid(pid, 0)
        say(f"copy: ended with {status}")
        say(f"ours: {host['a'].call('echo', 2)}")


def outlive(config: Path) -> NoReturn:
    write_config(config)
    host = exthost.SyncHost.from_config(config, control=True).__enter__()
    running = [extension.stats.pid for extension in host.extensions]
    pid = os.fork()
    if pid == 0:
        time.sleep(120)
        os._exit(0)
    say(" ".join(map(str, (pid, *running))))
    sys.stdin.read()  # for as long as it may live
    raise AssertionError("it was to be killed")


if __name__ == "__main__":
    match sys.argv[1]:
        case "loop":
            asyncio.run(looping())
        case "attached":
            asyncio.run(attached())
        case "outlive":
            outlive(Path(sys.argv[2]))
        case "unwind" | "exit" | "close" as how:
            ending(how)
        case what:
            blocking(what)
