"""The cost of a hostile extension for another extension beside it.

Each behaviour runs under the limit that ends it, and is started again until the neighbour has made
its calls. So the behaviour, its end and the next start are measured.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from bench import baselines, subject
from bench.rounds import duration, ratios, read_values
from bench.row import Reading, Setting

# Calls per block: enough that a single slow call does not decide the 99th percentile.
CALLS = 300
# The pause between two calls: the neighbour is in use and does not fill a core by itself.
PAUSE_S = 0.001

# Completes the handshake of morphir; misbehaves when it is called.
DOER = """
import json, os, signal, sys
def deed():
{deed}
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "deed":
        deed()
    print(json.dumps({{"id": asked["id"], "result": []}}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a hostile extension does, and the settings under which that ends."""

    code: str
    settings: dict[str, Any] = field(default_factory=dict)

    def begin(self) -> AbstractAsyncContextManager[subject.Extension]:
        """Return the extension, before the behaviour is requested."""
        code = DOER.format(deed="\n".join(f"    {line}" for line in self.code.splitlines()))
        argv = (sys.executable, "-S", "-E", "-c", code)
        return subject.connect(argv, name="hostile", **self.settings)


_HOARD = "hoard = []\nwhile True: hoard.append(bytearray(os.urandom(4096)) * 256)"

_LOG_FLOOD = r"""
line = json.dumps({"method": "log", "params": {"level": "info", "message": "a"}}) + "\n"
while True: os.write(1, line.encode() * 900)
"""

BEHAVIOURS = {
    "spinner": Behaviour(
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        {"limits": {"cpu": "1s"}},
    ),
    "memory hog": Behaviour(_HOARD, {"permissions": {"max_memory": "64MB"}}),
    "forked hogs": Behaviour(
        f"for _ in range(3):\n    if os.fork() == 0: break\n{_HOARD}",
        {"permissions": {"max_memory": "128MB"}},
    ),
    "fork bomb": Behaviour(
        "while True:\n    try: os.fork()\n    except OSError: pass",
        {"limits": {"nproc": 20}},
    ),
    "file-size exhaustion": Behaviour(
        "file = open('/tmp/large', 'wb', buffering=0)\nwhile True: file.write(bytes(4096))",
        {"permissions": {}, "limits": {"fsize": "16MB"}},
    ),
    "junk on stdout": Behaviour(r"while True: os.write(1, b'x\n' * 30000)"),
    "flood on stderr": Behaviour(r"while True: os.write(2, b'a line\n' * 9000)"),
    "flood of log messages": Behaviour(_LOG_FLOOD),
    "descriptor exhaustion": Behaviour(
        "while True: os.dup(0)",
        {"limits": {"nofile": 64}},
    ),
}


def _p99(times: list[float]) -> float:
    return sorted(times)[len(times) * 99 // 100]


async def _ask(neighbour: subject.Extension) -> float:
    before = time.perf_counter()
    await neighbour.call("echo", baselines.SMALL, timeout=subject.CALL_S)
    took = time.perf_counter() - before
    await asyncio.sleep(PAUSE_S)
    return took


async def _beside(neighbour: subject.Extension, behaviour: Behaviour) -> list[float]:
    """Return how long the calls of the neighbour took during the behaviour."""
    times: list[float] = []
    while len(times) < CALLS:
        async with behaviour.begin() as hostile:
            deed = asyncio.ensure_future(hostile.call("deed", timeout=subject.CALL_S))
            await asyncio.sleep(0)
            while not deed.done() and len(times) < CALLS:
                times.append(await _ask(neighbour))
            deed.cancel()
            with suppress(asyncio.CancelledError, *subject.failures()):
                await deed
    return times


def beside(name: str) -> Callable[[Setting], Reading]:
    """The 99th percentile of the calls of a neighbour beside a behaviour / beside an idle
    extension."""

    async def work(setting: Setting) -> Reading:
        idle, beside = [], []
        async with subject.connect(setting.child) as neighbour:
            for _ in range(setting.few):
                idle.append(_p99([await _ask(neighbour) for _ in range(CALLS)]))
                beside.append(_p99(await _beside(neighbour, BEHAVIOURS[name])))
        absolute = (("beside", duration(beside)), ("idle", duration(idle)))
        return read_values(ratios(beside, idle), absolute)

    return lambda setting: subject.run(work(setting))
