"""A program that forks while it has an open host; test_forking.py runs it.

    with_fork.py MODE [CONFIG]

MODE is what the child of the fork does: `call`, `tool`, `pool` and `restart` use a blocking host,
`loop` a host in an event loop, `attached` an attached host; `unwind`, `exit` and `close` end the
child in these ways; `outlive` keeps it running, and waits to be killed. Output of the child begins
with "copy:", output of the parent with "ours:".
"""

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


def print_now(text: object) -> None:
    print(text, flush=True)


def run_in_fork(function: Callable[[], object]) -> None:
    """Call the function in a fork of this process, print the outcome, and wait for the fork."""
    pid = os.fork()
    if pid == 0:
        try:
            print_now(f"copy: {function()!r}")
        except exthost.errors.ExthostError as error:
            print_now(f"copy: {error.kind} {error.code}")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def use_blocking_host(mode: str) -> None:
    with exthost.SyncHost.from_config(CONFIG) as host:
        calls: dict[str, Callable[[], Any]] = {
            "call": lambda: host["a"].call("echo", 1),
            "tool": lambda: host.call_tool("ext_a_echo", {"n": 1}),
            "pool": lambda: host["p"].call("echo", 1),
            "restart": lambda: host["a"].restart(),
        }
        run_in_fork(calls[mode])
        print_now(f"ours: {host['p' if mode == 'pool' else 'a'].call('echo', 2)}")


async def use_host_in_loop() -> None:
    async with exthost.Host.from_config(CONFIG) as host:

        def send() -> NoReturn:  # the first step of the call; it must raise an error
            host["a"].call("echo", 1).send(None)
            raise AssertionError("the request was sent")

        run_in_fork(send)
        print_now(f"ours: {await host['a'].call('echo', 2)}")


def write_config(path: Path) -> None:
    source = f"{{ type = 'process', command = '{sys.executable}', args = ['{TEXT}'] }}"
    path.write_text(f'[[extensions]]\nname = "a"\nsource = {source}\n')


async def use_attached_host() -> None:
    """Fork while this program is attached to a host."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "exthost.toml")
        write_config(path)
        async with exthost.Host.from_config(path, control=True), exthost.attach(path) as host:

            def send() -> NoReturn:
                host["a"].call("echo", 1).send(None)
                raise AssertionError("the request was sent")

            run_in_fork(send)
            print_now(f"ours: {await host['a'].call('echo', 2)}")


def end_child(way: str) -> None:
    """Fork, and end the child in this way. "unwind" leaves the block of the host by `return`."""
    with exthost.SyncHost.from_config(CONFIG) as host:
        pid = os.fork()
        if pid == 0:
            if way == "exit":
                sys.exit(0)
            if way == "close":
                host.close()
            return
        _, status = os.waitpid(pid, 0)
        print_now(f"copy: ended with {status}")
        print_now(f"ours: {host['a'].call('echo', 2)}")


def outlive(config: Path) -> NoReturn:
    """Fork, print the pids of the child and of the extensions, and wait to be killed."""
    write_config(config)
    host = exthost.SyncHost.from_config(config, control=True).__enter__()
    extension_pids = [extension.stats.pid for extension in host.extensions]
    pid = os.fork()
    if pid == 0:
        time.sleep(120)
        os._exit(0)
    print_now(" ".join(map(str, (pid, *extension_pids))))
    sys.stdin.read()  # until this program is killed
    raise AssertionError("the program was not killed")


if __name__ == "__main__":
    match sys.argv[1]:
        case "loop":
            asyncio.run(use_host_in_loop())
        case "attached":
            asyncio.run(use_attached_host())
        case "outlive":
            outlive(Path(sys.argv[2]))
        case "unwind" | "exit" | "close" as way:
            end_child(way)
        case mode:
            use_blocking_host(mode)
