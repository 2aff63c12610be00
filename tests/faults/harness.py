"""Helpers to run the hostile extension in any dialect and to check how each call ended.

The hostile extension is a program that misbehaves on command, in each dialect (protocol):

    async with run_hostile(PEERS["mcp"], folder) as child:
        error = await child.do_or_error("die", code=3)     # the process exits with 3
        await child.check_answers()                        # another process was started

A `HostilePeer` knows how commands and values are written in one dialect. At the end of its block,
`run_hostile` checks that each accepted call ended exactly once, as a result, error, timeout,
cancelled or gone, and that no call is pending. A trial is one small test of a hostile behaviour in
one dialect; `tests/faults/trials.py` runs them.
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
from weakref import WeakKeyDictionary

from exthost.authoring.testing import hostile as program
from exthost.authoring.testing.behaviours import ID
from exthost.authoring.testing.peers import PEERS, HostilePeer
from exthost.cluster.cluster import Cluster
from exthost.cluster.local_nodes import LocalNodes
from exthost.cluster.placer import Placer
from exthost.cluster.ray_nodes import RayNodes
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
from tests.extensions.harness import Ledger, check_call_counts, pid_of
from tests.extensions.proc import outside

# The limit of calls and starts, unless a trial tests the limit itself. On a busy machine a process
# may take seconds to start.
CALL_SECONDS = 60.0

# The limit for operations that must not wait for the extension. An operation that waits by mistake
# would reach the longer limit of the call.
AT_ONCE_SECONDS = 25.0

# Restart a dead child immediately, up to 50 times.
RESTART_IMMEDIATELY = {"strategy": "immediate", "max_retries": 50}

# "local": the trials run with processes on nodes that are simulated on this machine; "ray": on the
# nodes of a Ray cluster.
ENGINE_VARIABLE = "EXTHOST_TEST_ENGINE"

# The address of that cluster, which `conftest.py` starts.
RAY_ADDRESS = "EXTHOST_TEST_RAY_ADDRESS"

# "template": the processes are forked from templates.
START_METHOD = os.environ.get("EXTHOST_TEST_START_METHOD", "execute")

_MAX_MESSAGE_BYTES = 1 << 30  # no message of a trial is longer
_folder_numbers = itertools.count()


def all_peers(*, but: Iterable[str] = ()) -> list[HostilePeer]:
    """Return the hostile peers of all dialects, without those in `but`."""
    return [peer for name, peer in PEERS.items() if name not in but]


def command(peer: HostilePeer, folder: Path, *flags: str) -> list[str]:
    """Return the command of the hostile extension. It starts faster without site-packages."""
    argv = [sys.executable, "-S", "-E", "-P", str(program.__file__), peer.dialect, *flags]
    if peer.modules:
        folders = dict.fromkeys(str(_site_folder_of(module)) for module in peer.modules)
        argv.append(f"path={os.pathsep.join(folders)}")
    if peer.manifest is not None:
        argv.append(f"manifest={folder / peer.manifest[0]}")
    return argv


def _site_folder_of(module: str) -> Path:
    module_spec = importlib.util.find_spec(module)
    assert module_spec is not None and module_spec.origin is not None
    return Path(module_spec.origin).parents[module.count(".") + 1]


def extension(
    peer: HostilePeer,
    folder: Path,
    *flags: str,
    argv: list[str] | None = None,
    ledger: Ledger | None = None,
    dialect: Dialect | None = None,
    **settings: Any,
) -> Extension:
    """Return an extension that is not started. The caller closes it. `argv` replaces the
    command."""
    extension_folder = folder / str(next(_folder_numbers))
    extension_folder.mkdir()
    program, *args = argv or command(peer, extension_folder, *flags)
    entry: dict[str, Any] = {
        "name": "hostile",
        "dialect": peer.dialect,
        "source": {"type": "process", "command": program, "args": args},
        "restart": RESTART_IMMEDIATELY,
        "breaker": {"failures": 1_000_000},  # never opens
        "start_method": START_METHOD,
        **peer.settings,
        **settings,
    }
    if peer.manifest is not None:
        name, text = peer.manifest
        (extension_folder / name).write_text(text, encoding="utf-8")
        entry["manifest"] = str(extension_folder / name)
    spec = read_named_manifest(spec_from_mapping(entry))
    bus = ledger.bus if ledger is not None else None
    chosen_dialect = dialect or find.find_dialect(peer.dialect)
    engine = os.environ.get(ENGINE_VARIABLE)
    if engine is None:
        return Extension(spec, chosen_dialect, bus=bus)
    shared = _SharedCluster(engine)
    if engine == "ray":  # shared by the trials of a test, because it takes seconds to connect
        shared = _ray_clusters.setdefault(asyncio.get_running_loop(), shared)
    return _OnNode(spec, chosen_dialect, bus=bus, spawn=shared.enter().spawner(spec), shared=shared)


class _SharedCluster:
    """A cluster that is closed with the last extension that uses it."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._cluster: Cluster | None = None
        self._users = 0

    def enter(self) -> Cluster:
        """Return the cluster, for an extension that will `leave` it."""
        if self._cluster is None:
            # Longer than usual: on a busy machine this process may not run for seconds.
            settings = ClusterSettings(silence=CALL_SECONDS, place=CALL_SECONDS)
            self._cluster = Cluster(settings, self._make_placer)
        self._users += 1
        return self._cluster

    async def leave(self) -> None:
        self._users -= 1
        if not self._users and self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            await cluster.close()

    def _make_placer(self) -> Placer:
        return RayNodes(os.environ[RAY_ADDRESS]) if self._engine == "ray" else LocalNodes()


# The connections to the cluster at `RAY_ADDRESS`, by event loop.
_ray_clusters: WeakKeyDictionary[asyncio.AbstractEventLoop, _SharedCluster] = WeakKeyDictionary()


class _OnNode(Extension):
    """An extension whose processes run on a node."""

    def __init__(self, *args: Any, shared: _SharedCluster, **named: Any) -> None:
        super().__init__(*args, **named)
        self._shared = shared
        self._has_left = False

    async def close(self, *, patience: float | None = 0.0) -> None:
        await super().close(patience=patience)
        if not self._has_left:  # a trial may close it more than once
            self._has_left = True
            await self._shared.leave()


def hurried(peer: HostilePeer, seconds: float) -> Dialect:
    """Return the dialect with shutdown steps of at most this time, for trials about other things.

    A shutdown step is what the host does to end a process, for example to close its stdin, and then
    the time that it waits."""
    original = find.find_dialect(peer.dialect)
    steps = tuple(
        step if isinstance(step, Write) else step._replace(wait=min(step.wait, seconds))
        for step in original.traits.shutdown_steps
    )
    return replace(original, traits=replace(original.traits, shutdown_steps=steps))


class HostileRun:
    """A hostile extension, with methods that send it commands."""

    def __init__(self, ext: Extension, peer: HostilePeer, ledger: Ledger | None) -> None:
        self.ext = ext
        self.peer = peer
        self._ledger = ledger

    async def do(
        self, behaviour: str = "echo", *, timeout: float = CALL_SECONDS, **options: Any
    ) -> Any:
        """Send a command in a call, and return the value of its answer."""
        params = self.peer.wrap_command({"do": behaviour, **options})
        result = await self.ext.call(self.peer.method, params, timeout=timeout)
        return self.peer.unwrap_value(result)

    async def do_or_error(
        self, behaviour: str, *, timeout: float = CALL_SECONDS, **options: Any
    ) -> Any:
        """Send a command as `do` does, but return an ExthostError instead of raising it."""
        try:
            return await self.do(behaviour, timeout=timeout, **options)
        except ExthostError as error:
            return error

    async def spew(
        self, *out: bytes | tuple[bytes, int], timeout: float = CALL_SECONDS, **options: Any
    ) -> Any:
        """Let the extension write these bytes, each the given number of times, and then answer."""
        pieces = [piece if isinstance(piece, tuple) else (piece, 1) for piece in out]
        pieces_as_hex = [[piece.hex(), times] for piece, times in pieces]
        return await self.do_or_error("spew", timeout=timeout, out=pieces_as_hex, **options)

    async def fork(self, *, timeout: float = CALL_SECONDS, **options: Any) -> int:
        """Let the extension fork, and return the pid of the new process in this namespace."""
        pid_inside = await self.do("fork", timeout=timeout, **options)
        return outside(pid_inside, pid_of(self.ext))

    async def check_answers(self) -> None:
        """Check that the extension answers correctly, perhaps after a restart."""
        for value in ("well", {"n": 7}, [1, None]):
            assert await self.do(value=value) == value

    def check_calls(self, **expected: int) -> None:
        """Check that each accepted call ended once, and that no call is pending or waits."""
        if self._ledger is not None:
            self._ledger.check_calls(self.ext, **expected)
        else:
            check_call_counts(self.ext, self.ext.stats.calls, **expected)


@asynccontextmanager
async def run_hostile(
    peer: HostilePeer,
    folder: Path,
    *flags: str,
    watched: bool = True,
    start: bool = True,
    step: float = 0.3,
    **settings: Any,
) -> AsyncIterator[HostileRun]:
    """Start a hostile extension. At the end of the block, close it and check that every call ended
    once.

    Without `watched`, nothing subscribes to the events of calls, which the host then does not
    publish. `step` limits the time of each shutdown step."""
    ledger = Ledger() if watched else None
    ext = extension(peer, folder, *flags, ledger=ledger, dialect=hurried(peer, step), **settings)
    run = HostileRun(ext, peer, ledger)
    try:
        if start:
            await ext.start()
        yield run
    finally:
        await ext.close()
    run.check_calls()


def flags_at(stage: str, **command: Any) -> tuple[str, str]:
    """Return flags that make the extension run this command at this stage, before any call."""
    return f"stage={stage}", f"command={json.dumps(command)}"


def frame(peer: HostilePeer, message: Message) -> bytes:
    """Return the frame of a message of the extension in its dialect."""
    framing = find.find_dialect(peer.dialect).framing(_MAX_MESSAGE_BYTES)
    return framing.wrap(encode_payload(peer, message))


def encode_payload(peer: HostilePeer, message: Message) -> bytes:
    codec = find.find_dialect(peer.dialect).codec(Role.GUEST)
    if isinstance(codec, Positional):  # an answer needs a request before it
        codec.expect(peer.method)
        codec.decode(b"")
    return codec.encode(message)


def answer_frame(peer: HostilePeer, value: Any, id: Any = ID) -> bytes:
    """Return the frame of an answer to the current request, or to another one."""
    return frame(peer, Reply(id, peer.wrap_value(value)))


def wrap_bytes(peer: HostilePeer, data: bytes) -> bytes:
    """Return a frame with these bytes."""
    return find.find_dialect(peer.dialect).framing(_MAX_MESSAGE_BYTES).wrap(data)


def answer_with_text(peer: HostilePeer, text: bytes) -> bytes:
    """Return the frame of an answer with this text as its value, also if it is not JSON."""
    output = encode_payload(peer, Reply(ID, peer.wrap_value("@@@")))
    assert output.count(b'"@@@"') == 1
    return wrap_bytes(peer, output.replace(b'"@@@"', text))


async def measure_lag(awaitable: Any) -> tuple[Any, float]:
    """Return the result, and the longest iteration of the loop until then. It is measured in
    processor time, because the machine may be busy with other processes."""
    task = asyncio.ensure_future(awaitable)
    longest, last = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return task.result(), longest
