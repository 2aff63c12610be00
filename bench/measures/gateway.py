"""The cost of the gateway: `tools/call` through `exthost gateway` compared with direct calls of the
same server, by the same client, in turn.

With the C server and a bare client nearly all of the time is the gateway's own, so that row is the
hardest. The rows with a target are about what people use: the official package's client, and a
server that is written with the official package, on stdio and on HTTP. With HTTP, the direct calls
go to the server's own HTTP, and those through the gateway to the gateway's, with the server behind
it on stdio.
"""

import asyncio
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from bench import cores, subject
from bench.baselines import MCP_LINE, ping_pong
from bench.children import bare, end
from bench.measures.calls import BLOCK_CALLS, IN_FLIGHT, Call, one_by_one
from bench.measures.peers import ARGUMENTS, TEXT, installed, server, tool_call
from bench.measures.sdk import FASTMCP, argv, pipelined, run_handshake
from bench.rounds import duration, ratios, read_values, take_turns, take_turns_async
from bench.row import Reading, Setting

Measure = Callable[[Setting], Reading]
Transport = Literal["stdio", "http"]
Era = Literal["legacy", "auto"]
# A call of the official client takes a millisecond.
FEW_CALLS = 5 * IN_FLIGHT
# How long a server on HTTP may take until it listens.
START_S = 30.0


def _gateway(config: Path) -> tuple[str, ...]:
    """Return the command of a gateway with a host for one client."""
    return (*_relay(config), "--own")


def _relay(config: Path) -> tuple[str, ...]:
    """Return the command of a gateway that relays its client to a shared host."""
    return (sys.executable, "-m", "exthost", "gateway", "--config", str(config))


def _environment() -> dict[str, str]:
    """Return the variables of a gateway: exthost may be importable and not installed."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _write_config(folder: str, words: tuple[str, ...]) -> Path:
    """Write a config with this command as the MCP server `c`."""
    program, *args = (json.dumps(word) for word in words)
    config = Path(folder, "exthost.toml")
    entry = f"[mcp_servers.c]\ncommand = {program}\nargs = [{', '.join(args)}]\n"
    config.write_text(f'[gateway]\nlinger = "0s"\n{entry}')
    return config


# -- the client of exthost, and a bare client -----------------------------------------------------


def one_call(setting: Setting) -> Reading:
    """One call at a time of the C server by the client of exthost, through the gateway /
    directly."""

    async def work(config: Path) -> Reading:
        async with (
            subject.connect(server(setting), dialect="mcp") as direct,
            subject.connect(_gateway(config), dialect="mcp", env=_environment()) as through,
        ):
            note = cores.pin(cores.apart())
            blocks = {
                "directly": one_by_one(tool_call(direct)),
                "gateway": one_by_one(tool_call(through, "ext_c_echo")),
            }
            took = await take_turns_async(blocks, setting.rounds, BLOCK_CALLS)
        absolute = tuple((name, duration(took[name])) for name in ("gateway", "directly"))
        return read_values(ratios(took["gateway"], took["directly"]), absolute, note)

    installed("mcp")
    with tempfile.TemporaryDirectory() as folder:
        return subject.run(work(_write_config(folder, server(setting))))


def lines(*, in_flight: bool = False) -> Measure:
    """A client that only writes and reads lines, and the C server: one call at a time, the time
    through the gateway / directly; or a hundred in flight, the calls per second likewise."""

    def measure(setting: Setting) -> Reading:
        installed("mcp")
        calls = IN_FLIGHT if in_flight else BLOCK_CALLS
        blocks = {}
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            config = _write_config(folder, server(setting))
            words = ("env", *(f"{k}={v}" for k, v in _environment().items()), *_gateway(config))
            for name, command in (("directly", server(setting)), ("gateway", words)):
                child = stack.enter_context(bare(command))
                run_handshake(child)
                tool = b'"ext_c_echo"' if name == "gateway" else b'"echo"'
                line = MCP_LINE.replace(b'"echo"', tool)
                one = ping_pong(child, calls, line)
                blocks[name] = pipelined(child, line) if in_flight else one
                one()
            note = cores.pin(cores.apart()) if not in_flight else ""
            took = take_turns(blocks, setting.rounds, calls)
        return _reading(took, in_flight, note)

    return measure


def relayed(*, in_flight: bool = False) -> Measure:
    """The same client and server: one call at a time, the time through a relay and a shared host /
    through a gateway with a host of its own; or a hundred in flight, the calls per second."""

    def measure(setting: Setting) -> Reading:
        installed("mcp")
        calls = IN_FLIGHT if in_flight else BLOCK_CALLS
        blocks = {}
        line = MCP_LINE.replace(b'"echo"', b'"ext_c_echo"')
        with ExitStack() as stack:
            # Two configs, because a host of its own is not shared.
            for name, command in (("directly", _gateway), ("gateway", _relay)):
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                words = command(_write_config(folder, server(setting)))
                variables = (f"{key}={value}" for key, value in _environment().items())
                child = stack.enter_context(bare(("env", *variables, *words)))
                run_handshake(child)
                one = ping_pong(child, calls, line)
                blocks[name] = pipelined(child, line) if in_flight else one
                one()
            took = take_turns(blocks, setting.rounds, calls)
        return _reading(took, in_flight, "")

    return measure


def relay_start(setting: Setting) -> Reading:
    """The time until `exthost gateway` has answered `initialize`, where a host runs, / that of
    `python -c pass`."""
    installed("mcp")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        words = _relay(_write_config(folder, server(setting)))
        variables = (f"{key}={value}" for key, value in _environment().items())
        command = ("env", *variables, *words)
        run_handshake(stack.enter_context(bare(command)))  # this client keeps the host running

        def join() -> float:
            began_at = time.perf_counter()
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
                assert client.stdin is not None and client.stdout is not None
                client.stdin.write(_INITIALIZE)
                client.stdin.flush()
                client.stdout.readline()
                took = time.perf_counter() - began_at
                client.stdin.close()
            return took

        def nothing() -> float:
            began_at = time.perf_counter()
            subprocess.run((sys.executable, "-c", "pass"), check=True)
            return time.perf_counter() - began_at

        took = take_turns({"gateway": join, "directly": nothing}, setting.rounds)
    return _reading(took, False, "")


_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
)


# -- the official client and server ---------------------------------------------------------------


def official(transport: Transport, *, in_flight: bool = False, era: Era = "legacy") -> Measure:
    """The official package's client and server: one call at a time, the time through the gateway /
    directly; or a hundred in flight, the calls per second likewise."""

    async def work(config: Path, rounds: int) -> Reading:
        on = _on_stdio if transport == "stdio" else _on_http
        async with (
            on(argv(FASTMCP), era) as direct,
            on(_gateway(config), era) as through,
        ):
            blocks = {}
            for name, call in (
                ("directly", _official_call(direct, "echo")),
                ("gateway", _official_call(through, "ext_c_echo")),
            ):
                answer: Any = await call()
                assert answer.content[0].text == TEXT, answer
                blocks[name] = _together(call) if in_flight else one_by_one(call)
            calls = FEW_CALLS if in_flight else BLOCK_CALLS
            took = await take_turns_async(blocks, rounds, calls)
        return _reading(took, in_flight, "")

    def measure(setting: Setting) -> Reading:
        installed("mcp")
        rounds = setting.few if in_flight else setting.rounds
        with tempfile.TemporaryDirectory() as folder:
            return subject.run(work(_write_config(folder, argv(FASTMCP)), rounds))

    return measure


def _official_call(client: Any, tool: str) -> Call:
    return lambda: client.call_tool(tool, ARGUMENTS)


def _together(call: Call) -> Callable[[], Any]:
    async def repeat() -> None:
        for _ in range(FEW_CALLS // IN_FLIGHT):
            await call()

    async def block() -> None:
        await asyncio.gather(*(repeat() for _ in range(IN_FLIGHT)))

    return block


def _reading(took: dict[str, list[float]], in_flight: bool, note: str) -> Reading:
    absolute = tuple((name, duration(took[name])) for name in ("gateway", "directly"))
    through, direct = took["gateway"], took["directly"]
    values = ratios(direct, through) if in_flight else ratios(through, direct)
    return read_values(values, absolute, note)


def _on_stdio(words: tuple[str, ...], era: Era) -> AbstractAsyncContextManager[Any]:
    mcp = importlib.import_module("mcp")
    program, *args = words
    env = {**os.environ, **_environment()}
    about = mcp.StdioServerParameters(command=program, args=args, env=env)
    client: AbstractAsyncContextManager[Any] = mcp.Client(mcp.stdio_client(about), mode=era)
    return client


@asynccontextmanager
async def _on_http(words: tuple[str, ...], era: Era) -> AsyncIterator[Any]:
    """Start the program on HTTP; it writes its address, and a token if it needs one, as JSON."""
    httpx = importlib.import_module("httpx2")
    mcp = importlib.import_module("mcp")
    http = importlib.import_module("mcp.client.streamable_http")
    port = ("--http", "0", "--json") if "gateway" in words else ("--http",)
    environ = {**os.environ, **_environment()}
    process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        [*words, *port], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environ, bufsize=0
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_S):
            address = json.loads(await asyncio.to_thread(process.stdout.readline))
        token = address.get("token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with (
            httpx.AsyncClient(headers=headers, limits=limits, timeout=START_S) as requests,
            mcp.Client(
                http.streamable_http_client(address["url"], http_client=requests), mode=era
            ) as client,
        ):
            yield client
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await asyncio.to_thread(end, process)
