"""One conversation per dialect, recorded through the fault proxy, and played back with a fault."""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

from exthost.authoring.testing import fault_proxy
from exthost.authoring.testing.peers import HostilePeer
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from tests.extensions.harness import accounted
from tests.faults.harness import command, extension, hurried

# The calls of the recording and of each playback.
ASKED = ("one", {"two": [2, None]}, "drei ü")

FAULT_PROXY = [sys.executable, "-S", "-E", "-P", str(fault_proxy.__file__)]


async def converse(ext: Extension, peer: HostilePeer, limit: float) -> list[Any]:
    """Start an extension and make calls; return how each step ended, wrong answers included."""
    ends: list[Any] = []
    try:
        await asyncio.wait_for(ext.start(), LATE_SECONDS)
    except ExthostError as error:
        ends.append(error)
    for value in ASKED:
        params = peer.wrap_command({"do": "echo", "value": value})
        try:
            result = await ext.call(peer.method, params, timeout=limit)
        except ExthostError as error:
            ends.append(error)
            continue
        try:
            ends.append(peer.unwrap_value(result))
        except (ValueError, KeyError, TypeError, AttributeError):
            ends.append(("spoilt", result))
    return ends


def _quick(peer: HostilePeer, folder: Path, argv: list[str], limit: float) -> Extension:
    return extension(
        peer,
        folder,
        argv=argv,
        dialect=hurried(peer, 0.02),
        restart={"strategy": "never"},
        limits={"handshake": limit},
    )


async def recorded(peer: HostilePeer, folder: Path) -> Path:
    """Return the recording of a conversation without faults."""
    file, kept = folder / f"{peer.dialect}.txt", folder / f"{peer.dialect}-kept.txt"
    home = folder / f"{peer.dialect}-recorded"
    home.mkdir()
    if peer.manifest is not None:
        (home / peer.manifest[0]).write_text(peer.manifest[1], encoding="utf-8")
    argv = [*FAULT_PROXY, "record", str(file), "--", *command(peer, home)]
    ext = _quick(peer, folder, argv, LATE_SECONDS)
    try:
        assert await converse(ext, peer, LATE_SECONDS) == list(ASKED)
        shutil.copy(file, kept)  # later output answers no call
    finally:
        await ext.close()
    return kept


def length(recording: Path) -> int:
    """Return how many bytes the extension sent in it."""
    return sum(len(text) // 2 for _, text in fault_proxy.read_chunks(str(recording)))


# A late byte is no fault: it gets the time that a busy machine may take. For the others the limit
# is what ends a call to which no answer will come.
LATE_SECONDS, LIMIT_SECONDS = 60.0, 0.5


async def replay(peer: HostilePeer, folder: Path, file: Path, fault: str, at: int) -> None:
    """Check that each call ends; if no byte was changed, with its own answer or an error."""
    limit = LATE_SECONDS if fault == "delay" else LIMIT_SECONDS
    argv = [*FAULT_PROXY, "play", str(file), fault, str(at)]
    ext = _quick(peer, folder, argv, limit)
    try:
        ends = await converse(ext, peer, limit)
    finally:
        await ext.close()
    accounted(ext, ext.stats.calls)
    if fault == "delay":
        assert ends == list(ASKED), (fault, at, ends)
    elif fault in ("cut", "truncate"):
        assert any(isinstance(end, ExthostError) for end in ends), (fault, at, ends)
        for end, value in zip(ends, ASKED, strict=False):
            assert end == value or isinstance(end, ExthostError), (fault, at, ends)
