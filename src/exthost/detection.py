"""Detects the dialect of a command by trying handshakes.

The dialects are tried in order, the likeliest first, each with a process of its own. The process
that completes its handshake is the one that is used. A try ends when

- the handshake fails, or the program dies; - the program has read what was sent and then writes
nothing new for the `seconds` of that dialect.

A program that has not read its input yet is still starting. That time counts only towards the limit
of the whole search, so a slow program is detected at its first try. If the program was silent in
every dialect, those are tried once more with a longer limit.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from exthost.connection import Connection, command_id
from exthost.dialects import find
from exthost.errors import NO_EVIDENCE, HandshakeFailed
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.extension.misuse import OpenedByWith
from exthost.session.inbound import Handler
from exthost.spec import Spec
from exthost.trace.traffic import Traffic

__all__ = ["Attempt", "DetectedConnection", "detection_order"]

# The default limit of the whole search.
SEARCH_SECONDS = 30.0

# The limits of the process are this much longer, because the error of the search says more.
_LATER_SECONDS = 10.0

# How often the progress of a try is checked: no event reports it.
_POLL_SECONDS = 0.05

# In the second round, the limit of silence is this many times as long.
_MORE_PATIENCE = 4


class Attempt(NamedTuple):
    """A dialect that was tried, and why the program does not speak it."""

    dialect: str
    answer: str


class _Silence(HandshakeFailed):
    """The program read its input and wrote nothing; it may only be slow."""


class DetectedConnection(OpenedByWith):
    """A connection to one extension whose dialect is detected. Use it with `async with`."""

    def __init__(
        self,
        spec: Spec,
        *,
        events: Bus | None = None,
        handlers: Mapping[str, Handler] | None = None,
        environ: Mapping[str, str] | None = None,
        shared: bool = False,
        seconds: float | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """`seconds` limits the whole search. `traffic` records the messages of every try. The
        dialect of `spec` is ignored."""
        self._spec = spec
        self._events = events
        self._handlers = handlers
        self._environ = environ
        self._shared = shared
        self._traffic = traffic
        self._seconds = SEARCH_SECONDS if seconds is None else seconds
        self._connection: Connection | None = None
        self._errors: list[HandshakeFailed] = []
        self.attempts: list[Attempt] = []

    async def __aenter__(self) -> Extension:
        candidates = detection_order(Path(self._spec.argv[0]).name)
        ends_at = time.monotonic() + self._seconds
        for factor in (1, _MORE_PATIENCE):
            silent = []
            for name, seconds in candidates:
                left = ends_at - time.monotonic()
                if left <= 0:
                    break
                try:
                    return await self._try(name, seconds * factor, left)
                except HandshakeFailed as error:
                    self._errors.append(error)
                    self.attempts.append(Attempt(name, error.message))
                    if isinstance(error, _Silence):
                        silent.append((name, seconds))
            candidates = silent
        raise self._not_found()

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.__aexit__()

    async def _try(self, dialect: str, patience: float, left: float) -> Extension:
        limits = self._spec.limits
        after = left + _LATER_SECONDS
        limits = replace(
            limits,
            start=min(after, limits.start or after),
            handshake=min(after, limits.handshake or after),
        )
        connection = Connection(
            replace(self._spec, dialect=dialect, limits=limits),
            events=self._events,
            handlers=self._handlers,
            environ=self._environ,
            shared=self._shared,
            traffic=self._traffic,
        )
        opening = asyncio.ensure_future(connection.__aenter__())
        try:
            extension = await self._opened(opening, connection, patience, left)
        except BaseException:
            opening.cancel()  # closes what the attempt has started
            await asyncio.wait([opening])
            raise
        self._connection = connection
        return extension

    async def _opened(
        self,
        opening: "asyncio.Future[Extension]",
        connection: Connection,
        patience: float,
        left: float,
    ) -> Extension:
        began = quiet_since = time.monotonic()
        before: object = None
        while True:
            done, _ = await asyncio.wait([opening], timeout=_POLL_SECONDS)
            if done:
                return opening.result()
            now = time.monotonic()
            progress = connection.handshake_progress()
            if progress is None or progress.unread_bytes or progress != before:
                quiet_since, before = now, progress
            if now - began >= left:
                raise _too_slow(self._seconds, connection)
            if now - quiet_since >= patience:
                raise _Silence(
                    "X0504", f"it read the opening and did not shake hands in {patience:g} s"
                )

    def _not_found(self) -> HandshakeFailed:
        id = command_id(self._spec.argv)
        evidence = self._errors[-1].evidence if self._errors else NO_EVIDENCE
        if self._errors and all(error.process_ended for error in self._errors):
            times = f"{len(self._errors)} times, once for each dialect"
            return HandshakeFailed(
                "X0501",
                f"it was started {times}, and ended before any handshake",
                extension=id,
                help="its stderr says why; or it needs its own option to speak a dialect",
                evidence=evidence,
            )
        tried = "; ".join(f"{name}: {answer}" for name, answer in self.attempts)
        return HandshakeFailed(
            "X0504",
            f"no dialect was found that it speaks. Tried: {tried or 'none, for lack of time'}",
            extension=id,
            help="name its dialect with --dialect or dialect=…; some need their manifest",
            evidence=evidence,
        )


def _too_slow(seconds: float, connection: Connection) -> HandshakeFailed:
    progress = connection.handshake_progress()
    has_read = progress is not None and not progress.unread_bytes
    what = "it did not shake hands" if has_read else "it did not even read its input"
    return HandshakeFailed("X0504", f"{what} in the {seconds:g} s of the search")


def detection_order(program: str) -> list[tuple[str, float]]:
    """Return the dialects to try for a program of this name, and the seconds of silence that end
    each try. Dialects whose manifest format claims the name are first, then the order is by rank.
    """
    known = {
        format.dialect
        for format in find.load_manifest_formats()
        if format.executable and format.matches(os.path.basename(program), "")  # noqa: PTH119
    }
    tried = [
        (package.name not in known, package.detection.rank, package.name, package.detection.seconds)
        for package in find.iter_packages()
        if package.detection is not None
    ]
    return [(name, seconds) for _, _, name, seconds in sorted(tried)]
