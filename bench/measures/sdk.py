"""Servers written with exthost.sdk, by hand and with FastMCP, called by the same bare client.

Each server is a Python process of its own, with an MCP tool that returns its text. What is compared
is the processor time that a call takes there, so neither the client nor other work on the machine
counts; where a system does not report the processor time of another process, it is the time of the
call.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import cores
from bench.baselines import MCP_LINE, READ_BYTES, ping_pong
from bench.children import Bare, bare
from bench.cores import Pin
from bench.measures.calls import IN_FLIGHT
from bench.measures.peers import installed
from bench.rounds import duration, ratios, read_values, take_turns
from bench.row import Reading, Setting

SERVERS = Path(__file__).parent.parent / "servers"
ASYNC_LINE = MCP_LINE.replace(b'"echo"', b'"echo_async"')
# The processor time of another process may be some milliseconds old, so a block takes longer. A
# call of FastMCP takes milliseconds itself.
CALLS, FASTMCP_CALLS = 500, 20
HUNDREDS, FASTMCP_HUNDREDS = 20, 1

SDK = ("exthost.sdk", "of_sdk.py", "--plain")
SDK_ASYNC = ("exthost.sdk, async", "of_sdk.py", "")
HAND_WRITTEN = ("hand-written", "hand_written.py", "")
FASTMCP = ("FastMCP", "of_fastmcp.py", "")


def argv(server: tuple[str, str, str]) -> tuple[str, ...]:
    """Return the command of one of these servers."""
    _, file, word = server
    return (sys.executable, str(SERVERS / file), *([word] if word else []))


def run_handshake(server: Bare) -> None:
    """Open a session of the handshake era."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }
    hello: dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    _ask(server, json.dumps(hello).encode() + b"\n", 1)
    os.write(server.stdin, json.dumps(ready).encode() + b"\n")


def _ask(server: Bare, lines: bytes, replies: int) -> bytes:
    os.write(server.stdin, lines)
    data = b""
    while data.count(b"\n") < replies:
        got = os.read(server.stdout, READ_BYTES)
        if not got:
            raise EOFError("the server has ended")
        data += got
    return data


def pipelined(server: Bare, line: bytes, times: int = 1) -> Callable[[], None]:
    """Return a block that sends a hundred lines at once and reads every reply, so many times."""
    lines = line * IN_FLIGHT

    def block() -> None:
        for _ in range(times):
            os.write(server.stdin, lines)
            left = IN_FLIGHT
            while left > 0:
                left -= os.read(server.stdout, READ_BYTES).count(b"\n")

    return block


def _on_processor(server: Bare, block: Callable[[], None], calls: int) -> Callable[[], object]:
    """The block, measured by the processor time of the server, in seconds a call."""
    # The clock of another process, as Linux numbers it (clock_getcpuclockid).
    clock = (~server.process.pid << 3) | 2

    def measured() -> float:
        try:
            before = time.clock_gettime(clock)
        except OSError:  # this system does not report it
            before = time.perf_counter()
            block()
            return (time.perf_counter() - before) / calls
        block()
        return (time.clock_gettime(clock) - before) / calls

    return measured


def against(
    subject: tuple[str, str, str],
    other: tuple[str, str, str],
    *,
    in_flight: bool = False,
    faster: bool = False,
) -> Callable[[Setting], Reading]:
    """Processor time of the subject / that of the other; inverted if `faster` is true."""

    def measure(setting: Setting) -> Reading:
        if other is FASTMCP:
            installed("mcp")
        rounds = setting.few if other is FASTMCP else setting.rounds
        line = ASYNC_LINE if subject is SDK_ASYNC else MCP_LINE
        blocks = {}
        with ExitStack() as stack:
            for chosen in (subject, other):
                name = chosen[0]
                server = stack.enter_context(bare(argv(chosen)))
                run_handshake(server)
                request_line = line if name == subject[0] else MCP_LINE
                assert b"xxx" in _ask(server, request_line, 1)
                is_slow = chosen is FASTMCP
                if in_flight:
                    times = FASTMCP_HUNDREDS if is_slow else HUNDREDS
                    calls, block = IN_FLIGHT * times, pipelined(server, request_line, times)
                else:
                    calls = FASTMCP_CALLS if is_slow else CALLS
                    block = ping_pong(server, calls, request_line)
                blocks[name] = _on_processor(server, block, calls)
            note = cores.pin(cores.pair(Pin.SPLIT))
            took = take_turns(blocks, rounds)
        own_times, other_times = took[subject[0]], took[other[0]]
        absolute = ((subject[0], duration(own_times)), (other[0], duration(other_times)))
        values = ratios(other_times, own_times) if faster else ratios(own_times, other_times)
        return read_values(values, absolute, note)

    return measure
