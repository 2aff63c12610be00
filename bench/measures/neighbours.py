"""The cost of a hostile extension for another extension beside it.

Each behaviour runs under the limit that ends it, and again as soon as the extension has been
started again, by the usual restart policy. So the behaviour, its end and the next start are
measured, as often as they happen in a host.
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

# Calls per block: enough that ten slow calls do not decide the 99th percentile.
CALLS = 1000
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
        restart = {"strategy": "exponential"}
        return subject.connect(argv, name="hostile", restart=restart, **self.settings)


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


def p99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(times)[len(times) * 99 // 100]


async def ask(neighbour: subject.Extension) -> float:
    """Call the neighbour once, and return how long that took. A short pause follows."""
    before = time.perf_counter()
    await neighbour.call("echo", baselines.SMALL, timeout=subject.CALL_S)
    took = time.perf_counter() - before
    await asyncio.sleep(PAUSE_S)
    return took


async def _misbehave(hostile: subject.Extension) -> None:
    """Request the behaviour again and again."""
    while True:
        with suppress(*subject.failures()):
            await hostile.call("deed", timeout=subject.CALL_S)
        await asyncio.sleep(PAUSE_S)


async def _beside(neighbour: subject.Extension, behaviour: Behaviour) -> list[float]:
    """Return how long the calls of the neighbour took during the behaviour."""
    async with behaviour.begin() as hostile:
        misbehaving = asyncio.ensure_future(_misbehave(hostile))
        await asyncio.sleep(0)
        times = [await ask(neighbour) for _ in range(CALLS)]
        misbehaving.cancel()
        await asyncio.wait([misbehaving])
    return times


def beside(name: str) -> Callable[[Setting], Reading]:
    """The 99th percentile of the calls of a neighbour beside a behaviour / beside an idle
    extension."""

    async def work(setting: Setting) -> Reading:
        idle, beside = [], []
        async with subject.connect(setting.child) as neighbour:
            for _ in range(setting.few):
                idle.append(p99([await ask(neighbour) for _ in range(CALLS)]))
                beside.append(p99(await _beside(neighbour, BEHAVIOURS[name])))
        absolute = (("beside", duration(beside)), ("idle", duration(idle)))
        return read_values(ratios(beside, idle), absolute)

    return lambda setting: subject.run(work(setting))
