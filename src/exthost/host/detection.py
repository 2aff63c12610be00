"""Detects the dialect (protocol) of a command by trying handshakes.

`exthost.connect(["some-server"])` uses this module, because it names no dialect. The dialects are
tried in order, the most likely first, each with a new process of the command. The first process
that completes its handshake is used. A try fails when

- the handshake fails, or the program exits;
- the program has read what was sent, and then writes nothing new for the `seconds` of that dialect.

A program that has not read its input yet is still starting. The time of its start counts only
towards the limit of the whole search, so a program that starts slowly does not fail its first try.
After the last dialect, the dialects in which the program wrote nothing are tried once more, with a
longer limit of silence.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from exthost.dialects import find
from exthost.errors import NO_EVIDENCE, Evidence, HandshakeFailed
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.extension.misuse import OpenedByWith, already_open_error, require_asyncio
from exthost.host.connection import Connection, command_id
from exthost.model.spec import Spec
from exthost.session.inbound import Handler
from exthost.session.trace.traffic import Traffic

# The default limit of the whole search.
SEARCH_SECONDS = 30.0

# The time limits of the start are this much longer than the rest of the search, so that the search
# times out first, because its error is more specific.
_EXTRA_SECONDS = 10.0

# How often the progress of a try is polled.
_POLL_SECONDS = 0.05

# In the second round, the limit of silence is this many times as long.
_SECOND_ROUND_FACTOR = 4


class Attempt(NamedTuple):
    """A dialect that was tried, and the message of the error that the try ended with."""

    dialect: str
    message: str


class _SilentProgram(HandshakeFailed):
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
        """`seconds` limits the whole search; None means SEARCH_SECONDS. `traffic` records the
        messages of every try. The dialect of `spec` is ignored. The other parameters are the same
        as in `Connection`."""
        self._spec = spec
        self._events = events
        self._handlers = handlers
        self._environ = environ
        self._shared = shared
        self._traffic = traffic
        self._seconds = SEARCH_SECONDS if seconds is None else seconds
        self._connection: Connection | None = None
        self._errors: list[HandshakeFailed] = []
        self._wrote_nothing = False  # whether in some try it read its input and wrote nothing
        self.attempts: list[Attempt] = []

    async def __aenter__(self) -> Extension:
        if self._connection is not None:
            raise already_open_error()
        require_asyncio()
        candidates = detection_order(Path(self._spec.argv[0]).name)
        ends_at = time.monotonic() + self._seconds
        for factor in (1, _SECOND_ROUND_FACTOR):
            silent_candidates = []
            for name, seconds in candidates:
                seconds_left = ends_at - time.monotonic()
                if seconds_left <= 0:
                    break
                try:
                    return await self._try(name, seconds * factor, seconds_left)
                except HandshakeFailed as error:
                    self._errors.append(error)
                    self.attempts.append(Attempt(name, error.message))
                    if isinstance(error, _SilentProgram):
                        silent_candidates.append((name, seconds))
            candidates = silent_candidates
        raise self._not_detected_error()

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.__aexit__()
            self._connection = None

    async def _try(self, dialect: str, max_silence: float, seconds_left: float) -> Extension:
        """Start the command in one dialect. `max_silence` is the limit of silence, `seconds_left`
        the rest of the search, both in seconds."""
        limits = self._spec.limits
        seconds = seconds_left + _EXTRA_SECONDS
        limits = replace(
            limits,
            start=min(seconds, limits.start or seconds),
            handshake=min(seconds, limits.handshake or seconds),
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
            extension = await self._wait_opened(opening, connection, max_silence, seconds_left)
        except BaseException:
            opening.cancel()  # closes what the attempt has started
            await asyncio.wait([opening])
            raise
        self._connection = connection
        return extension

    async def _wait_opened(
        self,
        opening: "asyncio.Future[Extension]",
        connection: Connection,
        max_silence: float,
        seconds_left: float,
    ) -> Extension:
        """Return the extension when its connection is open. Raises `_SilentProgram`, or the error
        of a search that took too long."""
        began = time.monotonic()
        silent_since = began
        last_progress: object = None
        while True:
            done, _ = await asyncio.wait([opening], timeout=_POLL_SECONDS)
            if done:
                return opening.result()
            now = time.monotonic()
            progress = connection.handshake_progress()
            # A program that does not run yet, or has unread input, is not silent: it is starting.
            if progress is None or progress.unread_bytes or progress != last_progress:
                silent_since, last_progress = now, progress
            if now - began >= seconds_left:
                raise _too_slow_error(self._seconds, connection)
            if now - silent_since >= max_silence:
                self._wrote_nothing |= progress is not None and not progress.first_output
                raise _SilentProgram(
                    "X0504",
                    "it read the opening and did not complete the handshake within "
                    f"{max_silence:g} s",
                    evidence=connection.handshake_evidence(),
                )

    def _not_detected_error(self) -> HandshakeFailed:
        id = command_id(self._spec.argv)
        evidence = self._last_evidence()
        if self._errors and all(error.process_ended for error in self._errors):
            times = f"{len(self._errors)} times, once for each dialect"
            return HandshakeFailed(
                "X0501",
                f"it was started {times}, and ended before any handshake",
                extension=id,
                help=f"{_exit_help(evidence)}; or it needs its own option to speak a dialect",
                evidence=evidence,
            )
        help = "name its dialect with --dialect or dialect=…; some need their manifest"
        if self._wrote_nothing:
            help = f"does it flush stdout after each message? if it does, {help}"
        attempts_text = "; ".join(f"{name}: {message}" for name, message in self.attempts)
        if evidence.stderr:
            help = f"see its stderr for the cause; {help}"
        return HandshakeFailed(
            "X0504",
            "no dialect was found that it speaks. Tried: "
            f"{attempts_text or 'none, for lack of time'}",
            extension=id,
            help=help,
            evidence=evidence,
        )

    def _last_evidence(self) -> Evidence:
        """Return the evidence of the last try in which the program wrote to stderr; if it never
        did, of the last try."""
        all_evidence = [error.evidence for error in self._errors] or [NO_EVIDENCE]
        with_stderr = [evidence for evidence in all_evidence if evidence.stderr]
        return (with_stderr or all_evidence)[-1]


def _exit_help(evidence: Evidence) -> str:
    """Return how to find the cause of an exit before the handshake."""
    if evidence.stderr:
        return "see its stderr for the cause"
    if evidence.exit == "exited with 0":
        return (
            "it exited by itself, without an error, and wrote nothing to stderr: an extension "
            "reads requests in a loop, until its stdin ends"
        )
    return "its stderr does not name the cause: run its command by hand"


def _too_slow_error(seconds: float, connection: Connection) -> HandshakeFailed:
    progress = connection.handshake_progress()
    has_read = progress is not None and not progress.unread_bytes
    failure_text = "it did not complete the handshake" if has_read else "it did not read its input"
    return HandshakeFailed(
        "X0504",
        f"{failure_text} within the {seconds:g} s of the search",
        evidence=connection.handshake_evidence(),
    )


def detection_order(program: str) -> list[tuple[str, float]]:
    """Return the dialects to try for a program of this name, and the seconds of silence after which
    each try fails. First come the dialects whose executables have names like this one (such as a
    prefix), then all others by their rank.
    """
    dialects_by_name = {
        format.dialect
        for format in find.load_manifest_formats()
        if format.executable and format.matches(os.path.basename(program), "")  # noqa: PTH119
    }
    # Each item begins with the values by which the list is sorted: False comes before True.
    candidates = [
        (
            package.name not in dialects_by_name,
            package.detection.rank,
            package.name,
            package.detection.seconds,
        )
        for package in find.iter_packages()
        if package.detection is not None
    ]
    return [(name, seconds) for _, _, name, seconds in sorted(candidates)]
