"""How trials run the hostile extension in any dialect, and account for each call.

`held` starts one and is left with the accounts settled: each call that was accepted ended in
exactly one of result, error, timeout, cancelled, gone, and nothing is pending.
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

from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.config import spec_from_mapping
from exthost.config.cluster import ClusterSettings
from exthost.dialects import find
from exthost.dialects.base import Dialect
from exthost.dialects.codec import Positional, Role
from exthost.discovery.configfile import completed
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from exthost.messages import Message, Reply
from exthost.shutdown_steps import Write
from exthost.testing import hostile as program
from exthost.testing.behaviours import ID
from exthost.testing.peers import PEERS, HostilePeer
from tests.extensions.driving import Ledger, accounted, pid_of
from tests.extensions.looking import outside

# What a trial gives a call, and a start, unless the time itself is the trial: on a machine with
# much else to do, a process may take seconds to start.
CALL_SECONDS = 60.0

# What waits for nobody ends within this time. What it must not wait for never comes, so that the
# call's own limit would be the first to end it.
AT_ONCE_SECONDS = 25.0

# A child that may die is there again at once, as often as it takes.
REVIVED = {"strategy": "immediate", "max_retries": 50}

# "local": the trials run with processes on nodes that are simulated on this machine.
ENGINE_VARIABLE = "EXTHOST_TEST_ENGINE"

_CAP = 1 << 30
_folders = itertools.count()


def every(*, but: Iterable[str] = ()) -> list[HostilePeer]:
    """The dialects that a trial is for."""
    return [peer for name, peer in PEERS.items() if name not in but]


def command(peer: HostilePeer, folder: Path, *flags: str) -> list[str]:
    """What runs the hostile extension in this dialect; without site-packages it starts faster."""
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
    """One that nobody has started yet. Close it. `argv` in place of the hostile extension's own."""
    here = folder / str(next(_folders))
    here.mkdir()
    program, *args = argv or command(peer, here, *flags)
    entry: dict[str, Any] = {
        "name": "hostile",
        "dialect": peer.dialect,
        "source": {"type": "process", "command": program, "args": args},
        "restart": REVIVED,
        "breaker": {"failures": 1_000_000},  # it is not to be left alone
        **peer.settings,
        **settings,
    }
    if peer.manifest is not None:
        name, text = peer.manifest
        (here / name).write_text(text, encoding="utf-8")
        entry["manifest"] = str(here / name)
    spec = completed(spec_from_mapping(entry))
    bus = ledger.bus if ledger is not None else None
    chosen = dialect or find.find_dialect(peer.dialect)
    if os.environ.get(ENGINE_VARIABLE) != "local":
        return Extension(spec, chosen, bus=bus)
    # Not the usual silence: beside much other work, this process may not run for seconds.
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


class Held:
    """A hostile extension in the hands of a trial."""

    def __init__(self, ext: Extension, peer: HostilePeer, ledger: Ledger | None) -> None:
        self.ext = ext
        self.peer = peer
        self._ledger = ledger

    async def do(self, deed: str = "echo", *, timeout: float = CALL_SECONDS, **words: Any) -> Any:
        """One call that tells it what to do; returns the value of its answer."""
        params = self.peer.wrap_command({"do": deed, **words})
        result = await self.ext.call(self.peer.method, params, timeout=timeout)
        return self.peer.unwrap_value(result)

    async def end(self, deed: str, *, timeout: float = CALL_SECONDS, **words: Any) -> Any:
        """The same; an error of ours is a value, too. Whatever else is raised is no outcome."""
        try:
            return await self.do(deed, timeout=timeout, **words)
        except ExthostError as error:
            return error

    async def spew(
        self, *out: bytes | tuple[bytes, int], timeout: float = CALL_SECONDS, **words: Any
    ) -> Any:
        """Let it write these bytes, each so often; then it does as the words say."""
        pieces = [piece if isinstance(piece, tuple) else (piece, 1) for piece in out]
        listed = [[piece.hex(), times] for piece, times in pieces]
        return await self.end("spew", timeout=timeout, out=listed, **words)

    async def fork(self, *, timeout: float = CALL_SECONDS, **words: Any) -> int:
        """Let it have a child of its own; returns the pid which that has here."""
        inside = await self.do("fork", timeout=timeout, **words)
        return outside(inside, pid_of(self.ext))

    async def is_well(self) -> None:
        """It answers, and with what was asked for: perhaps after a restart."""
        for value in ("well", {"n": 7}, [1, None]):
            assert await self.do(value=value) == value

    def settle(self, **expected: int) -> None:
        """Each call that was accepted ended once; nothing is pending, nothing waits."""
        if self._ledger is not None:
            self._ledger.settle(self.ext, **expected)
        else:
            accounted(self.ext, self.ext.stats.calls, **expected)


@asynccontextmanager
async def held(
    peer: HostilePeer,
    folder: Path,
    *flags: str,
    watched: bool = True,
    start: bool = True,
    step: float = 0.3,
    **more: Any,
) -> AsyncIterator[Held]:
    """Start it, end it, and settle the accounts. Unwatched, calls go the shorter way that those
    take to which nobody listens."""
    ledger = Ledger() if watched else None
    ext = extension(peer, folder, *flags, ledger=ledger, dialect=hurried(peer, step), **more)
    one = Held(ext, peer, ledger)
    try:
        if start:
            await ext.start()
        yield one
    finally:
        await ext.close()
    one.settle()


def at(stage: str, **words: Any) -> tuple[str, str]:
    """Flags: at this moment of its life it does as the words say."""
    return f"at={stage}", f"words={json.dumps(words)}"


def frame(peer: HostilePeer, message: Message) -> bytes:
    """A message of the extension's, in its dialect's framing."""
    framing = find.find_dialect(peer.dialect).framing(_CAP)
    return framing.wrap(payload(peer, message))


def payload(peer: HostilePeer, message: Message) -> bytes:
    codec = find.find_dialect(peer.dialect).codec(Role.GUEST)
    if isinstance(codec, Positional):  # it must have been asked before it can answer
        codec.expect(peer.method)
        codec.decode(b"")
    return codec.encode(message)


def answer(peer: HostilePeer, value: Any, id: Any = ID) -> bytes:
    """The frame of an answer to the request at hand, or to another."""
    return frame(peer, Reply(id, peer.wrap_value(value)))


def wrapped(peer: HostilePeer, data: bytes) -> bytes:
    """Any bytes as a frame."""
    return find.find_dialect(peer.dialect).framing(_CAP).wrap(data)


def answer_in_text(peer: HostilePeer, text: bytes) -> bytes:
    """The frame of an answer whose value is this text, which need not be JSON."""
    said = payload(peer, Reply(ID, peer.wrap_value("@@@")))
    assert said.count(b'"@@@"') == 1
    return wrapped(peer, said.replace(b'"@@@"', text))


async def lag_while(awaitable: Any) -> tuple[Any, float]:
    """What it comes to, and the longest that one step of the loop worked meanwhile: by the clock of
    our thread's own work, since the machine may be busy with others."""
    task = asyncio.ensure_future(awaitable)
    longest, last = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return task.result(), longest
