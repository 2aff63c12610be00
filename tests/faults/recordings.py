"""Helpers that record a conversation of each dialect and replay it with a fault at one byte.

    recording = await record(peer, folder)
    for position in range(count_bytes(recording)):
        await replay(peer, folder, recording, "flip", position)

Both run the program `fault_proxy`, which describes the faults. While it records, it runs between
the host and the extension; in a replay it writes the recorded output in place of the extension.
"""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

from exthost.authoring.testing import fault_proxy
from exthost.authoring.testing.peers import HostilePeer
from exthost.errors import ExthostError
from exthost.extension.extension import Extension
from tests.extensions.harness import check_call_counts
from tests.faults.harness import command, extension, hurried

# The calls of the recording and of each playback.
CALL_VALUES = ("one", {"two": [2, None]}, "drei ü")

# A delayed byte is not an error, so its limit is what a busy machine may need. For other faults the
# limit ends a call that gets no answer.
LATE_SECONDS, LIMIT_SECONDS = 60.0, 0.5

FAULT_PROXY = [sys.executable, "-S", "-E", "-P", str(fault_proxy.__file__)]


async def start_and_call(ext: Extension, peer: HostilePeer, limit: float) -> list[Any]:
    """Start an extension and make calls. Return the error or the value of each step."""
    ends: list[Any] = []
    try:
        await asyncio.wait_for(ext.start(), LATE_SECONDS)
    except ExthostError as error:
        ends.append(error)
    for value in CALL_VALUES:
        params = peer.wrap_command({"do": "echo", "value": value})
        try:
            result = await ext.call(peer.method, params, timeout=limit)
        except ExthostError as error:
            ends.append(error)
            continue
        try:
            ends.append(peer.unwrap_value(result))
        except (ValueError, KeyError, TypeError, AttributeError):
            ends.append(("invalid", result))
    return ends


def _make_extension(peer: HostilePeer, folder: Path, argv: list[str], limit: float) -> Extension:
    return extension(
        peer,
        folder,
        argv=argv,
        dialect=hurried(peer, 0.02),
        restart={"strategy": "never"},
        limits={"handshake": limit},
    )


async def record(peer: HostilePeer, folder: Path) -> Path:
    """Record a conversation without faults, and return the file."""
    file, copy = folder / f"{peer.dialect}.txt", folder / f"{peer.dialect}-kept.txt"
    home = folder / f"{peer.dialect}-recorded"
    home.mkdir()
    if peer.manifest is not None:
        (home / peer.manifest[0]).write_text(peer.manifest[1], encoding="utf-8")
    argv = [*FAULT_PROXY, "record", str(file), "--", *command(peer, home)]
    ext = _make_extension(peer, folder, argv, LATE_SECONDS)
    try:
        assert await start_and_call(ext, peer, LATE_SECONDS) == list(CALL_VALUES)
        shutil.copy(file, copy)  # the file may get later output, which answers no call
    finally:
        await ext.close()
    return copy


def count_bytes(recording: Path) -> int:
    """Return how many bytes the extension sent in the recording."""
    chunks = fault_proxy.read_chunks(str(recording))
    return sum(len(hexadecimal) // 2 for _, hexadecimal in chunks)


async def replay(peer: HostilePeer, folder: Path, file: Path, fault: str, position: int) -> None:
    """Replay with a fault at this byte. Check that each call ends, and that no answer is wrong
    unless the fault changed bytes, which the host cannot always notice."""
    limit = LATE_SECONDS if fault == "delay" else LIMIT_SECONDS
    argv = [*FAULT_PROXY, "play", str(file), fault, str(position)]
    ext = _make_extension(peer, folder, argv, limit)
    try:
        ends = await start_and_call(ext, peer, limit)
    finally:
        await ext.close()
    check_call_counts(ext, ext.stats.calls)
    if fault == "delay":
        assert ends == list(CALL_VALUES), (fault, position, ends)
    elif fault in ("cut", "truncate"):
        assert any(isinstance(end, ExthostError) for end in ends), (fault, position, ends)
        for end, value in zip(ends, CALL_VALUES, strict=False):
            assert end == value or isinstance(end, ExthostError), (fault, position, ends)
