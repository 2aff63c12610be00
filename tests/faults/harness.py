"""How trials run the hostile extension in any dialect, and account for each call.

`run_hostile` starts an extension. At the end of its block it checks that each accepted call ended
in exactly one of result, error, timeout, cancelled, gone, and that nothing is pending.
"""

import asyncio
import importlib.util
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.authoring.testing import hostile as program
from exthost.authoring.testing.behaviours import ID
from exthost.authoring.testing.peers import PEERS, HostilePeer
from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.config import spec_from_mapping
from exthost.config.cluster import ClusterSettings
from exthost.config.discovery.configfile import read_named_manifest
from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.dialects.codec import Positional, Role
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.model.messages import Message, Reply
from exthost.model.shutdown_steps import Write
from tests.extensions.harness import Ledger, accounted, pid_of
from tests.extensions.proc import outside

# The limits of calls and starts, unless a trial is about them: on a busy machine a process may take
# seconds to start.
CALL_SECONDS = 60.0

# What must not wait ends within this time. What it must not wait for never happens, so a mistake is
# shown by the longer limit of the call.
AT_ONCE_SECONDS = 25.0

# A child that died is restarted at once, without a limit.
REVIVED = {"strategy": "immediate", "max_retries": 50}

# "local": the trials run with processes on nodes that are simulated on this machine.
ENGINE_VARIABLE = "EXTHOST_TEST_ENGINE"

_CAP = 1 << 30
_folders = itertools.count()


def every(*, but: Iterable[str] = ()) -> list[HostilePeer]:
    """Return the dialects that a trial is run in."""
    return [peer for name, peer in PEERS.items() if name not in but]


def command(peer: HostilePeer, folder: Path, *flags: str) -> list[str]:
    """Return the command of the hostile extension. It starts faster without site-packages."""
    words = [sys.executable, "-S", "-E", "-P", str(program.__file__), peer.dialect, *flags]
    if peer.modules:
        words.append(f"path={_home_of(peer.modules[0])}")
    if peer.manifest is not None:
        words.append(f"manifest={folder / peer.manifest[0]}")
    return words


def _home_of(module: str) -> Path:
    found = importlib.util.find_spec(module)
    assert found is not None and found.origin is not None
    return Path(found.origin).parents[module.count(".") + 1]


def extension(
    peer: HostilePeer,
    folder: Path,
    *flags: str,
    argv: list[str] | None = None,
    ledger: Ledger | None = None,
    dialect: Dialect | None = None,
    **settings: Any,
) -> Extension:
    """Return an extension, not started; the caller closes it. `argv` replaces its command."""
    here = folder / str(next(_folders))
    here.mkdir()
    program, *args = argv or command(peer, here, *flags)
    entry: dict[str, Any] = {
        "name": "hostile",
        "dialect": peer.dialect,
        "source": {"type": "process", "command": program, "args": args},
        "restart": REVIVED,
        "breaker": {"failures": 1_000_000},  # never opens
        **peer.settings,
        **settings,
    }
    if peer.manifest is not None:
        name, text = peer.manifest
        (here / name).write_text(text, encoding="utf-8")
        entry["manifest"] = str(here / name)
    spec = read_named_manifest(spec_from_mapping(entry))
    bus = ledger.bus if ledger is not None else None
    chosen = dialect or find.find_dialect(peer.dialect)
    if os.environ.get(ENGINE_VARIABLE) != "local":
        return Extension(spec, chosen, bus=bus)
    # Longer than usual: on a busy machine this process may not run for seconds.
    cluster = Cluster(ClusterSettings(silence=CALL_SECONDS), LocalNodes)
    return _OnNode(spec, chosen, bus=bus, spawn=cluster.spawner(spec), cluster=cluster)


class _OnNode(Extension):
    """An extension whose processes run on a simulated node, which ends with it."""

    def __init__(self, *args: Any, cluster: Cluster, **named: Any) -> None:
        super().__init__(*args, **named)
        self._cluster = cluster

    async def close(self, *, patience: float | None = 0.0) -> None:
        await super().close(patience=patience)
        await self._cluster.close()


def hurried(peer: HostilePeer, seconds: float) -> Dialect:
    """Return the dialect with short shutdown steps, for trials that are not about them."""
    whole = find.find_dialect(peer.dialect)
    steps = tuple(
        step if isinstance(step, Write) else step._replace(wait=min(step.wait, seconds))
        for step in whole.traits.shutdown_steps
    )
    return replace(whole, traits=replace(whole.traits, shutdown_steps=steps))


class HostileRun:
    """A hostile extension, and what a trial does with it."""

    def __init__(self, ext: Extension, peer: HostilePeer, ledger: Ledger | None) -> None:
        self.ext = ext
        self.peer = peer
        self._ledger = ledger

    async def do(self, deed: str = "echo", *, timeout: float = CALL_SECONDS, **words: Any) -> Any:
        """Send a command in a call; return the value of its answer."""
        params = self.peer.wrap_command({"do": deed, **words})
        result = await self.ext.call(self.peer.method, params, timeout=timeout)
        return self.peer.unwrap_value(result)

    async def end(self, deed: str, *, timeout: float = CALL_SECONDS, **words: Any) -> Any:
        """Do the same, and return an error of ours as a value. Other exceptions are raised."""
        try:
            return await self.do(deed, timeout=timeout, **words)
        except ExthostError as error:
            return error

    async def spew(
        self, *out: bytes | tuple[bytes, int], timeout: float = CALL_SECONDS, **words: Any
    ) -> Any:
        """Have it write these bytes the given number of times, and then obey the command."""
        pieces = [piece if isinstance(piece, tuple) else (piece, 1) for piece in out]
        listed = [[piece.hex(), times] for piece, times in pieces]
        return await self.end("spew", timeout=timeout, out=listed, **words)

    async def fork(self, *, timeout: float = CALL_SECONDS, **words: Any) -> int:
        """Have it start a child of its own; return the pid of that child, as seen from here."""
        inside = await self.do("fork", timeout=timeout, **words)
        return outside(inside, pid_of(self.ext))

    async def is_well(self) -> None:
        """Check that it answers correctly, perhaps after a restart."""
        for value in ("well", {"n": 7}, [1, None]):
            assert await self.do(value=value) == value

    def settle(self, **expected: int) -> None:
        """Check that each accepted call ended once, and that no call is pending or waits."""
        if self._ledger is not None:
            self._ledger.settle(self.ext, **expected)
        else:
            accounted(self.ext, self.ext.stats.calls, **expected)


@asynccontextmanager
async def run_hostile(
    peer: HostilePeer,
    folder: Path,
    *flags: str,
    watched: bool = True,
    start: bool = True,
    step: float = 0.3,
    **more: Any,
) -> AsyncIterator[HostileRun]:
    """Start a hostile extension; at the end of the block, end it and check the account of calls.
    Without `watched` the bus has no subscribers."""
    ledger = Ledger() if watched else None
    ext = extension(peer, folder, *flags, ledger=ledger, dialect=hurried(peer, step), **more)
    run = HostileRun(ext, peer, ledger)
    try:
        if start:
            await ext.start()
        yield run
    finally:
        await ext.close()
    run.settle()


def at(stage: str, **words: Any) -> tuple[str, str]:
    """Return flags by which the extension misbehaves at this moment."""
    return f"stage={stage}", f"command={json.dumps(words)}"


def frame(peer: HostilePeer, message: Message) -> bytes:
    """Return a message of the extension, framed as its dialect does it."""
    framing = find.find_dialect(peer.dialect).framing(_CAP)
    return framing.wrap(payload(peer, message))


def payload(peer: HostilePeer, message: Message) -> bytes:
    codec = find.find_dialect(peer.dialect).codec(Role.GUEST)
    if isinstance(codec, Positional):  # an answer needs a request before it
        codec.expect(peer.method)
        codec.decode(b"")
    return codec.encode(message)


def answer(peer: HostilePeer, value: Any, id: Any = ID) -> bytes:
    """Return the frame of an answer to the current request, or to another one."""
    return frame(peer, Reply(id, peer.wrap_value(value)))


def wrapped(peer: HostilePeer, data: bytes) -> bytes:
    """Return these bytes as a frame."""
    return find.find_dialect(peer.dialect).framing(_CAP).wrap(data)


def answer_in_text(peer: HostilePeer, text: bytes) -> bytes:
    """Return the frame of an answer with this text as its value, which need not be JSON."""
    output = payload(peer, Reply(ID, peer.wrap_value("@@@")))
    assert output.count(b'"@@@"') == 1
    return wrapped(peer, output.replace(b'"@@@"', text))


async def lag_while(awaitable: Any) -> tuple[Any, float]:
    """Return the result, and the longest step of the loop meanwhile, in processor time of this
    thread: the machine may be busy with other processes."""
    task = asyncio.ensure_future(awaitable)
    longest, last = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return task.result(), longest
