"""What is seen of a child besides its messages: stderr, stray output, what had to be dropped.

Keeps the evidence that every error about the child carries, and tells the log and the bus. It
never decides anything.
"""

import asyncio
import logging
import os
from collections import Counter

from exthost.errors import Evidence
from exthost.events import Bus, Dropped, LogLine
from exthost.process.child import Child
from exthost.process.tail import Tail
from exthost.wire.framing import READ_BYTES

# What is counted of output that is no message.
STRAY = "stray lines on stdout"

_log = logging.getLogger("exthost.extensions")

# Most of what stands in the stderr pipe of a child that died: its traceback.
_LAST_STDERR_BYTES = 1024 * 1024

# So many complaints of a kind are told one by one, then each time their number has doubled: a flood
# of them would fill somebody's disk, and telling takes longer than reading. Counted are they all.
_TOLD_ONE_BY_ONE = 100

# Of a stray line, as much as a person needs to recognise it.
_SHOWN_BYTES = 200


class Witness:
    """The onlooker of one session."""

    __slots__ = (
        "_bus",
        "_child",
        "_loop",
        "_private",
        "_tail",
        "counts",
        "extension",
        "first_output",
    )

    def __init__(
        self,
        extension: str,
        child: Child,
        bus: Bus,
        loop: asyncio.AbstractEventLoop,
        *,
        private: bool = False,
    ) -> None:
        self.extension = extension
        self._private = private
        self.counts: Counter[str] = Counter()
        self.first_output = b""  # how its stdout began: tells a wrong dialect
        self._child = child
        self._bus = bus
        self._loop = loop
        self._tail = Tail(self._stderr_line)
        os.set_blocking(child.stderr, False)
        loop.add_reader(child.stderr, self._on_stderr)

    def _on_stderr(self) -> None:
        try:
            data = os.read(self._child.stderr, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._tail.feed(data)
        else:
            self._loop.remove_reader(self._child.stderr)

    def drain(self) -> None:
        """Take what is in the stderr pipe now: it explains what just happened."""
        left = _LAST_STDERR_BYTES
        while left > 0 and self._child.stderr >= 0:
            try:
                data = os.read(self._child.stderr, READ_BYTES)
            except OSError:
                return
            if not data:
                return
            self._tail.feed(data)
            left -= len(data)

    def leave(self) -> None:
        """The child is gone: take the rest, and look no more."""
        self.drain()
        self._tail.end()
        if self._child.stderr >= 0:
            self._loop.remove_reader(self._child.stderr)

    def _stderr_line(self, text: str) -> None:
        self.log("stderr", logging.INFO, text)

    def log(self, source: str, level: int, text: str) -> None:
        """A line of the extension's own, for a person."""
        if LogLine in self._bus.kinds:
            self._bus.publish(LogLine(self.extension, source, level, text))
        if _log.isEnabledFor(level):
            _log.log(level, "[%s] %s", self.extension, text)

    def stray(self, data: bytes, why: str) -> None:
        """Output that is no message: usually a print that should have gone to stderr."""
        if not self.drop(STRAY):
            return
        text = data[:_SHOWN_BYTES].rstrip(b"\r").decode("utf-8", "replace")
        shown = "" if self._private else f": {text}"
        self.log("stdout", logging.WARNING, f"stray output on stdout ({why}){shown}")
        if self._private:
            self.log("stdout", logging.DEBUG, f"the stray output: {text}")

    def complain(self, what: str, text: str) -> None:
        """Count something dropped, and tell the log."""
        if self.drop(what):
            self.log("stdout", logging.WARNING, text)

    def drop(self, what: str) -> bool:
        """Count something that could not be kept or placed; False if such a thing was told often
        enough."""
        times = self.counts[what] = self.counts[what] + 1
        if Dropped in self._bus.kinds:
            self._bus.publish(Dropped(self.extension, what, times))
        return times <= _TOLD_ONE_BY_ONE or not times & (times - 1)

    @property
    def exit(self) -> str:
        """How it ended, in words; "" as long as it runs."""
        return str(self._child.see_exit() or "")

    def evidence(self, offending: bytes = b"") -> Evidence:
        """What is known of the child right now."""
        if self._private:
            offending = b""
        return Evidence(
            argv=self._child.argv,
            cwd=self._child.cwd,
            exit=self.exit,
            stderr=self._tail.lines(),
            bytes=offending[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"),
        )
