"""The cost of an extension that floods the host for another extension beside it.

A flood is output that serves no call, written as fast as the pipe takes it. Each is measured with
one such extension, and with forty at once. The first moments of a flood are measured, too.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from bench import subject
from bench.measures.neighbours import CALLS, ask, p99
from bench.rounds import duration, ratios, read_values
from bench.row import Reading, Setting

MANY = 40
# A round with forty floods takes seconds, most of them to start the processes.
MOST_ROUNDS = 5

# Completes the handshake of morphir, nexo or mcp, and then does two things at once: one thread
# floods, the other serves requests. `repeat` writes whole lines, and at most as much at once as a
# pipe takes in one piece, so that the two do not mix inside a line.
FLOODER = r"""
import json, os, sys, threading
HELLO = {{
    "protocolVersion": "2025-11-25", "serverInfo": {{"name": "flood", "version": "1"}},
    "capabilities": {{"tools": {{"listChanged": True}}}}, "server_version": "1", "tools": ["flood"],
}}
SCHEMA = {{"type": "object"}}
TOOLS = {{"tools": [{{"name": f"tool{{n}}", "inputSchema": SCHEMA}} for n in range(9)]}}
RESULTS = {{"initialize": HELLO, "capabilities": [], "tools/list": TOOLS}}
def encode(message):
    return json.dumps({{"jsonrpc": "2.0", **message}}).encode() + b"\n"
def repeat(message, fd=1):
    data = message if isinstance(message, bytes) else encode(message)
    block = data * max(1, 4096 // len(data))
    while True:
        os.write(fd, block)
def notify(method, **params):
    repeat({{"method": method, "params": params}})
def flood(request):
    id = request["id"]
{code}
for line in sys.stdin:
    request = json.loads(line)
    method, id = request.get("method"), request.get("id")
    if method == "flood":
        threading.Thread(target=flood, args=(request,), daemon=True).start()
    elif method in RESULTS:
        os.write(1, encode({{"id": id, "result": RESULTS[method]}}))
    elif method is not None and id is not None:
        os.write(1, encode({{"id": id, "error": {{"code": -32601, "message": "unknown"}}}}))
"""


@dataclass(frozen=True, slots=True)
class Flood:
    """What an extension writes without end, in a dialect in which that is a message."""

    code: str
    dialect: str = "mcp"

    async def begin(self, stack: AsyncExitStack) -> asyncio.Task[None]:
        """Start the extension, and then its flood."""
        argv = (sys.executable, "-S", "-E", "-c", FLOODER.format(code=f"    {self.code}"))
        context = subject.connect(argv, name="flood", dialect=self.dialect)
        extension = await stack.enter_async_context(context)

        async def flood() -> None:
            with suppress(*subject.failures()):
                await extension.call("flood", {"_meta": {}}, timeout=subject.CALL_S)

        return asyncio.ensure_future(flood())


FLOODS = {
    "unknown ids": Flood('repeat({"id": 987654321, "result": 1})', "morphir"),
    "unknown ids in nexo": Flood('repeat({"id": 987654321, "result": 1})', "nexo"),
    "repeated replies": Flood('repeat({"id": id, "result": 1})', "nexo"),
    "notifications": Flood('notify("progress", n=1)', "nexo"),
    "progress of no call": Flood('notify("tools/progress", id=987654321, progress=1)', "nexo"),
    "progress of a call": Flood(
        'notify("notifications/progress", progressToken=id, progress=1)',
    ),
    "log messages": Flood('notify("notifications/message", level="info", data="a")'),
    "stray lines": Flood(r'repeat(b"x\n")', "morphir"),
    "stderr": Flood(r'repeat(b"a line\n", fd=2)', "morphir"),
    "a line without end": Flood('repeat(b"x" * 4096)', "morphir"),
    "large lines": Flood('notify("progress", text="x" * 1_000_000)', "nexo"),
    "large structures": Flood('notify("progress", list=[[]] * 250_000)', "nexo"),
    "changed tools": Flood('notify("notifications/tools/list_changed")'),
    "requests to the host": Flood('repeat({"id": 1, "method": "host/ask", "params": {}})', "nexo"),
    "pings": Flood('repeat({"id": 1, "method": "ping"})'),
}


async def _beside(neighbour: subject.Extension, flood: Flood, count: int) -> list[float]:
    """Return how long the calls of the neighbour took during the floods."""
    async with AsyncExitStack() as stack:
        floods = await asyncio.gather(*(flood.begin(stack) for _ in range(count)))
        times = [await ask(neighbour) for _ in range(CALLS)]
        for task in floods:
            task.cancel()
        await asyncio.wait(floods)
    return times


def beside(name: str, count: int) -> Callable[[Setting], Reading]:
    """The 99th percentile of the calls of a neighbour beside this many floods / without one."""

    async def work(setting: Setting) -> Reading:
        idle, beside = [], []
        async with subject.connect(setting.child) as neighbour:
            for _ in range(min(setting.few, MOST_ROUNDS)):
                idle.append(p99([await ask(neighbour) for _ in range(CALLS)]))
                beside.append(p99(await _beside(neighbour, FLOODS[name], count)))
        absolute = (("beside", duration(beside)), ("idle", duration(idle)))
        return read_values(ratios(beside, idle), absolute)

    return lambda setting: subject.run(work(setting))
