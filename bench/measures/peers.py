"""Clients of other projects on the same C server, in the same run, in turn: `tools/call` with a
hundred in flight, and starts of a server. Each is an optional install; without it the row says so.

exthost is called as its users do, by `host.call_tool`, with arguments checked against the schema of
the tool, time limits, progress and supervision. The other clients check what they check by default.
Each of them is a program of its own (`bench/peers`), which runs already when it is measured.
"""

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bench import cores, subject
from bench.measures.calls import IN_FLIGHT_CALLS, Call, in_flight
from bench.rounds import duration, held, ratios, read_values, take_turns_async
from bench.row import NotHere, Reading, Setting

TEXT = "x" * 40
ARGUMENTS = {"text": TEXT}
SCRIPTS = Path(__file__).parent.parent / "peers"
MODULES = Path(sys.prefix, "node", "node_modules")
PROGRAMS = Path(sys.prefix, "peers")
# `make fastmcp` installs it there.
FASTMCP_PYTHON = Path(sys.prefix, "fastmcp", "bin", "python")
# A peer with a just-in-time compiler is fast after some thousand calls.
WARM_ROUNDS = 4

Through = Literal["host.call_tool", "ext.call_tool"]


@dataclass(frozen=True, slots=True)
class Peer:
    """A client of another project: its name, the command of its program without arguments, and the
    mode of the C server. `find` raises NotHere if the program cannot run here."""

    name: str
    find: Callable[[], tuple[str, ...]]
    mode: str = "--mcp"


class Program:
    """The running program of a peer, which acts when it reads a line."""

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self._name = name
        self._process = process
        self.pid = process.pid

    def expect(self, word: str) -> None:
        """Read the next line of the program, which has to be this word."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line != f"{word}\n":
            raise RuntimeError(f"{self._name} printed {line!r} instead of {word!r}")

    def _send(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def make_calls(self) -> None:
        """Make a block of calls."""
        self._send("go")
        self.expect("done")

    def start(self) -> float:
        """Start another client and its server; return the seconds until the first result."""
        before = time.perf_counter()
        self._send("start")
        self.expect("started")
        took = time.perf_counter() - before
        self.expect("closed")
        return took


@contextmanager
def _run(peer: Peer, setting: Setting) -> Iterator[Program]:
    words = [*peer.find(), str(IN_FLIGHT_CALLS), TEXT, *server(setting, peer.mode)]
    pipe = subprocess.PIPE
    environ = {**os.environ, "NODE_PATH": str(MODULES)}
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environ) as process:
        assert process.stdin is not None
        program = Program(peer.name, process)
        program.expect("ready")
        yield program
        process.stdin.close()


def server(setting: Setting, mode: str = "--mcp") -> tuple[str, ...]:
    """Return the C child as an MCP server."""
    if not setting.child_is_c:
        raise NotHere("a C compiler: the server is a C child")
    return (*setting.child, mode)


def tool_call(extension: Any, tool: str = "echo") -> Call:
    """Return a call of a tool of one extension."""
    return lambda: extension.call_tool(tool, ARGUMENTS, timeout=subject.CALL_S)


def _open_host(setting: Setting) -> AbstractAsyncContextManager[subject.Host]:
    return subject.host(subject.entry("x", server(setting), dialect="mcp"))


def _call_tool(host: subject.Host) -> Awaitable[Any]:
    return host.call_tool(subject.registered("x"), ARGUMENTS, timeout=subject.CALL_S)


def _rate(seconds: list[float]) -> str:
    return f"{1 / statistics.median(seconds):,.0f}/s"


def _read(
    took: dict[str, list[float]], show: Callable[[list[float]], str], names: tuple[str, str]
) -> Reading:
    """Return how many times as long the peer took, and the time that exthost took."""
    own, peer = names
    absolute = ((own, show(took["exthost"])), (peer, show(took["peer"])))
    reading = read_values(ratios(took["peer"], took["exthost"]), absolute)
    return replace(reading, subject_s=statistics.median(took["exthost"]))


def calls(
    peer: Peer, *, through: Through = "host.call_tool", uvloop: bool = False
) -> Callable[[Setting], Reading]:
    """Blocks of calls of another client and of exthost, in turn."""

    async def work(setting: Setting, program: Program) -> Reading:
        pair = cores.apart()
        async with _open_host(setting) as host:
            own: dict[Through, Call] = {
                "host.call_tool": lambda: _call_tool(host),
                "ext.call_tool": tool_call(host["x"]),
            }
            answer = subject.raw(await own[through]())
            assert answer == {"content": [{"type": "text", "text": TEXT}]}, answer
            note = cores.pin(pair, [program.pid])
            blocks = {"peer": held(program.make_calls), "exthost": in_flight(own[through])}
            took = await take_turns_async(blocks, setting.few, IN_FLIGHT_CALLS, WARM_ROUNDS)
        return replace(_read(took, _rate, (through, peer.name)), note=note)

    def measure(setting: Setting) -> Reading:
        with _run(peer, setting) as program:
            return subject.run(work(setting, program), uvloop=uvloop)

    return measure


def starts(peer: Peer) -> Callable[[Setting], Reading]:
    """Starts of the server by another client and by a new host, in turn: launch, handshake, list
    of tools and one call.

    Not pinned, because a start uses several cores. Ending the server is not counted.
    """

    async def work(setting: Setting, program: Program) -> Reading:
        async def start_peer() -> float:
            return program.start()

        async def start_host() -> float:
            before = time.perf_counter()
            async with _open_host(setting) as host:
                await _call_tool(host)
                return time.perf_counter() - before

        blocks = {"peer": start_peer, "exthost": start_host}
        took = await take_turns_async(blocks, setting.rounds, warm=WARM_ROUNDS)
        return _read(took, duration, ("Host", peer.name))

    def measure(setting: Setting) -> Reading:
        with _run(peer, setting) as program:
            return subject.run(work(setting, program))

    return measure


def installed(module: str) -> None:
    """Raise NotHere unless this module can be imported."""
    if importlib.util.find_spec(module) is None:
        raise NotHere(f"{module} is not installed")


def python_sdk(*, uvloop: bool = False) -> Peer:
    """The client session of the official Python SDK."""

    def find() -> tuple[str, ...]:
        installed("mcp")
        if uvloop:
            installed("uvloop")
        options = ("--uvloop",) if uvloop else ()
        return (sys.executable, str(SCRIPTS / "python_client.py"), *options, "mcp")

    return Peer("MCP Python SDK", find)


def _find_fastmcp() -> tuple[str, ...]:
    if not FASTMCP_PYTHON.exists():
        raise NotHere("FastMCP is not installed: `make fastmcp` does it")
    return (str(FASTMCP_PYTHON), str(SCRIPTS / "python_client.py"), "fastmcp")


FASTMCP = Peer("FastMCP", _find_fastmcp)


def node(script: str, package: str, mode: str = "--mcp") -> Peer:
    """A client in Node."""

    def find() -> tuple[str, ...]:
        program = shutil.which("node")
        if program is None or not (MODULES / package).is_dir():
            raise NotHere(f"{package} is not installed: `make node` does it where npm is")
        return (program, str(SCRIPTS / script))

    return Peer(package, find, mode)


def compiled(name: str, program: str) -> Peer:
    """A client in Go or Rust."""

    def find() -> tuple[str, ...]:
        path = PROGRAMS / program
        if not path.exists():
            raise NotHere(f"{name} is not built: `make bench-peers` does it where its compiler is")
        return (str(path),)

    return Peer(name, find)
