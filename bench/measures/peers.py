"""Clients of other projects on the same C server, in the same run, in turn: `tools/call` with a
hundred in flight. Each is an optional install; without it the row says so.

exthost is called as its users do, by `host.call_tool`, with arguments checked against the schema of
the tool, time limits, progress and supervision. The other clients check what they check by default.
"""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

from bench import cores, subject
from bench.measures.calls import IN_FLIGHT_CALLS, Call, in_flight
from bench.rounds import held, ratios, read_values, take_turns_async
from bench.row import NotHere, Reading, Setting

TEXT = "x" * 40
ARGUMENTS = {"text": TEXT}
SCRIPTS = Path(__file__).parent.parent / "peers"
MODULES = Path(sys.prefix, "node", "node_modules")
PROGRAMS = Path(sys.prefix, "peers")
# A peer with a just-in-time compiler is fast after some thousand calls.
WARM_ROUNDS = 4

Through = Literal["host.call_tool", "ext.call_tool"]


def server(setting: Setting, mode: str = "--mcp") -> tuple[str, ...]:
    """Return the C child as an MCP server."""
    if not setting.child_is_c:
        raise NotHere("a C compiler: the server is a C child")
    return (*setting.child, mode)


def tool_call(extension: Any, tool: str = "echo") -> Call:
    """Return a call of a tool of one extension."""
    return lambda: extension.call_tool(tool, ARGUMENTS, timeout=subject.CALL_S)


def _rate(seconds: list[float]) -> str:
    return f"{1 / sorted(seconds)[len(seconds) // 2]:,.0f}/s"


async def _against(
    setting: Setting,
    name: str,
    block: Callable[[], Any],
    hosts: Collection[int] = (),
    *,
    through: Through = "host.call_tool",
) -> Reading:
    """Time the blocks of another client and of exthost in turn. The other client runs already;
    `hosts` are its processes."""
    pair = cores.apart()
    entry = subject.entry("x", server(setting), dialect="mcp")
    async with subject.host(entry) as host:
        calls: dict[Through, Call] = {
            "host.call_tool": lambda: host.call_tool(
                subject.registered("x"), ARGUMENTS, timeout=subject.CALL_S
            ),
            "ext.call_tool": tool_call(host["x"]),
        }
        call = calls[through]
        answer = subject.raw(await call())
        assert answer == {"content": [{"type": "text", "text": TEXT}]}, answer
        note = cores.pin(pair, hosts)
        blocks = {"peer": block, "exthost": in_flight(call)}
        took = await take_turns_async(blocks, setting.few, IN_FLIGHT_CALLS, WARM_ROUNDS)
    absolute = ((through, _rate(took["exthost"])), (name, _rate(took["peer"])))
    return read_values(ratios(took["peer"], took["exthost"]), absolute, note)


def installed(module: str) -> None:
    """Raise NotHere unless this module can be imported."""
    if importlib.util.find_spec(module) is None:
        raise NotHere(f"{module} is not installed")


def python_sdk(
    *, through: Through = "host.call_tool", uvloop: bool = False
) -> Callable[[Setting], Reading]:
    """The official Python SDK's client session, on the same loop."""

    @asynccontextmanager
    async def client(setting: Setting) -> AsyncIterator[Any]:
        mcp = importlib.import_module("mcp")
        program, *args = server(setting)
        about = mcp.StdioServerParameters(command=program, args=args)
        async with mcp.stdio_client(about) as pipes, mcp.ClientSession(*pipes) as session:
            await session.initialize()
            await session.list_tools()
            yield session

    async def work(setting: Setting) -> Reading:
        async with client(setting) as session:
            call: Call = lambda: session.call_tool("echo", ARGUMENTS)  # noqa: E731
            return await _against(setting, "MCP Python SDK", in_flight(call), through=through)

    def measure(setting: Setting) -> Reading:
        installed("mcp")
        return subject.run(work(setting), uvloop=uvloop)

    return measure


def fastmcp(setting: Setting) -> Reading:
    """FastMCP's client, on the same loop."""

    async def work() -> Reading:
        peer = importlib.import_module("fastmcp")
        transports = importlib.import_module("fastmcp.client.transports")
        program, *args = server(setting)
        async with peer.Client(transports.StdioTransport(program, args)) as client:
            call: Call = lambda: client.call_tool("echo", ARGUMENTS)  # noqa: E731
            return await _against(setting, "FastMCP", in_flight(call))

    installed("fastmcp")
    return subject.run(work())


@contextmanager
def _program(*command: str, server: tuple[str, ...]) -> Iterator[tuple[int, Callable[[], None]]]:
    """Return a program that makes one block of calls for each line that it reads."""
    name = Path(command[-1]).name
    words = [*command, str(IN_FLIGHT_CALLS), TEXT, *server]
    pipe = subprocess.PIPE
    environ = {**os.environ, "NODE_PATH": str(MODULES)}
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environ) as process:
        assert process.stdin is not None and process.stdout is not None

        def block() -> None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if line != "done\n":
                raise RuntimeError(f"{name} said {line!r}")

        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{name} did not get ready")
        yield process.pid, block
        process.stdin.close()


def node(script: str, mode: str, package: str) -> Callable[[Setting], Reading]:
    """A client in Node, in a process of its own that takes turns with this one."""

    def measure(setting: Setting) -> Reading:
        program = shutil.which("node")
        if program is None or not (MODULES / package).is_dir():
            raise NotHere(f"{package} is not installed: `make node` does it where npm is")
        command = (program, str(SCRIPTS / script))
        with _program(*command, server=server(setting, mode)) as (pid, block):
            return subject.run(_against(setting, package, held(block), hosts=[pid]))

    return measure


def compiled(name: str, program: str) -> Callable[[Setting], Reading]:
    """A client in Go or Rust, in a process of its own that takes turns with this one."""

    def measure(setting: Setting) -> Reading:
        path = PROGRAMS / program
        if not path.exists():
            raise NotHere(f"{name} is not built: `make bench-peers` does it where its compiler is")
        with _program(str(path), server=server(setting)) as (pid, block):
            return subject.run(_against(setting, name, held(block), hosts=[pid]))

    return measure
