"""Collects the output of a child that is not a message, and counts dropped messages.

The output is stderr, and stray output (bytes on stdout that are not a message). The module supplies
the evidence (command line, exit status, last stderr lines) of errors about the child, and passes
its log lines on to the log and the event bus.

**Fairness.** Lines are passed on at a limited rate, so that an extension that logs without end does
not delay the others. Lines beyond that rate wait, and are passed on in turns of the flood queue of
the event loop (`process/flood_queue.py`); if very many wait, further lines are counted and dropped.
The last lines of stderr, which errors show, are always kept.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from exthost.dialects.base import Traits
from exthost.errors import CallFailed, Evidence, ExthostError, ProtocolViolation
from exthost.events import Bus, Dropped, LogLine
from exthost.process.child_process import ChildProcess
from exthost.process.flood_budget import PIPE_RATE, FloodBudget
from exthost.process.flood_queue import TurnEnd, flood_queue
from exthost.process.pipe_ends import ReadEnd
from exthost.process.stderr_reader import StderrReader
from exthost.process.stderr_tail import StderrTail
from exthost.session.failures import SHOWN_BYTES, add_evidence
from exthost.session.replies import GeneratorHandler
from exthost.session.trace.secrets import SecretFilter
from exthost.wire import jsontext
from exthost.wire.framing import EVIDENCE_BYTES

# The name under which output that is not a message is counted.
STRAY = "stray lines on stdout"

# The name under which replies with an id that no request had are counted.
UNMATCHED = "replies without a request"

# The name under which errors without an id are counted: the child could not read some request.
UNNAMED = "errors that name no request"

_log = logging.getLogger("exthost.extensions")

# The maximum that `drain_stderr` reads: enough for any traceback.
_LAST_STDERR_BYTES = 1024 * 1024

# This many warnings of one kind are logged one by one. After that, a warning is logged each time
# their number has doubled, because a flood would fill the disk. All warnings are counted.
MAX_LOGGED_SINGLY = 100

# The rate at which lines are passed on: this many in each tick.
_LINES_PER_TICK = 10
_TICK_SECONDS = 0.01

# The cost of a line that waits and is passed on, in units of the flood budget. It is higher than
# that of reading a line, so that an extension is still read while its lines are passed on.
_LINE_UNITS = 16

# The maximum number of lines that wait: they are passed on within a second, beside few floods.
_MAX_WAITING = 1000

# The maximum length of the lines that wait. A line of the log may be as long as a message.
_MAX_WAITING_CHARACTERS = 8 * 2**20

# The name under which dropped lines are counted.
DROPPED_LINES = "lines of stderr or of the log, beyond a thousand a second"


# The maximum number of names under which dropped messages are counted, because a name may contain
# text of the extension. Further names are counted together, under OTHER_NAMES.
MAX_NAMES = 64
OTHER_NAMES = "other messages that were dropped"


# Shared by all sessions without a waiting line; it stays empty. An empty deque takes 760 bytes.
_NOTHING_WAITS: deque[tuple[str, int, str]] = deque()


def _unchanged(content: Any) -> Any:
    return content


class Diagnostics:
    """Stderr, stray output and dropped messages of one session.

    extension        the id of the extension
    handshake        the steps of the handshake that is in progress, or has failed; else None
    redacts          whether the child's output must not appear in logs and errors
    hide_secrets     returns a text without the secrets that the config gives to the child
    hide_in_content  the same for JSON data that the child has sent
    suggest_grant    takes the error text of a failed call, and returns help that names the sandbox
                     permission that the call probably lacked, or ""; None without a sandbox
    unnamed_error_at when the last error arrived that names no request; -1 if none did
    stray_reason     why the last stray output is not a message; "" if there was none
    """

    __slots__ = (
        "_bus",
        "_child",
        "_counts",
        "_dropped_in_tick",
        "_hide_in_cut",
        "_loop",
        "_passed_on_in_tick",
        "_shown_names",
        "_stderr",
        "_stderr_level",
        "_tail",
        "_tick_timer",
        "_waiting",
        "_waiting_characters",
        "budget",
        "extension",
        "handshake",
        "hide_in_content",
        "hide_secrets",
        "redacts",
        "stray_reason",
        "suggest_grant",
        "unnamed_error_at",
    )

    def __init__(
        self,
        extension: str,
        child: ChildProcess,
        bus: Bus,
        loop: asyncio.AbstractEventLoop,
        traits: Traits,
        stderr: ReadEnd,
    ) -> None:
        self.extension = extension
        self.handshake: GeneratorHandler | None = None
        self._stderr_level = logging.DEBUG if traits.quiet_stderr else logging.INFO
        self.redacts = traits.redact
        self._counts: Counter[str] | None = None
        self._child = child
        self._bus = bus
        self._loop = loop
        self._tail: StderrTail | None = None
        self._shown_names: dict[str, str] = {}  # a cache: the search for secrets takes long
        self.unnamed_error_at = -1.0
        self.stray_reason = ""
        self._waiting = _NOTHING_WAITS
        self._waiting_characters = 0
        self.budget = FloodBudget(PIPE_RATE)  # of the lines that wait
        self._passed_on_in_tick = 0  # lines passed on in this tick
        self._dropped_in_tick = 0  # lines dropped in this tick
        self._tick_timer: asyncio.TimerHandle | None = None
        self.suggest_grant: Callable[[str], str] | None = None
        # `str` returns a text unchanged. It stays if the extension has no secrets.
        self.hide_secrets: Callable[[str], str] = str
        self.hide_in_content: Callable[[Any], Any] = _unchanged
        # The same for a text that was cut, and so may begin or end with a part of a secret.
        self._hide_in_cut: Callable[[str], str] = str
        self._stderr = StderrReader(stderr, loop, self._feed)

    def use_secret_filter(self, secret_filter: SecretFilter) -> None:
        """Hide the secrets of this filter in logs, errors and evidence. Must be called before the
        first output is read."""
        self.hide_secrets = secret_filter.text
        self.hide_in_content = secret_filter.content
        self._hide_in_cut = secret_filter.cut_text

    @property
    def counts(self) -> Counter[str]:
        """How many messages or lines were dropped, by the reason."""
        return Counter() if self._counts is None else self._counts

    def _feed(self, data: bytes) -> None:
        """Pass on or queue the lines of stderr as far as there is room, and count the others."""
        if self._tail is None:
            self._tail = StderrTail(self._log_stderr_line, self._loop.time, self._hide_in_cut)
        self._dropped_in_tick += self._tail.feed(data, _MAX_WAITING - len(self._waiting))

    def drain_stderr(self) -> None:
        """Read what is in the stderr pipe now, so that an error made now can show it."""
        self._stderr.drain(_LAST_STDERR_BYTES)

    def with_evidence(self, error: ExthostError) -> ExthostError:
        """Return the error. A protocol violation without evidence about the child gets it."""
        if isinstance(error, ProtocolViolation) and not error.evidence.argv:
            self.drain_stderr()
            add_evidence(error, self)
        return error

    def close(self) -> None:
        """Read the rest of stderr, and stop watching it, because the child has exited."""
        self.drain_stderr()
        if self._tail is not None:
            self._tail.end()
        self.flush()
        self._stderr.close()

    def _shown_text(self, data: bytes, errors: str) -> str:
        """Return the beginning of faulty output, without secrets. The secrets are hidden before the
        text is cut, because a part of a secret is not always recognised."""
        return self._hide_in_cut(data[:EVIDENCE_BYTES].decode("utf-8", errors))[:SHOWN_BYTES]

    def _hidden(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        return lines if self.hide_secrets is str else tuple(map(self.hide_secrets, lines))

    def _log_stderr_line(self, text: str) -> None:
        self.log("stderr", self._stderr_level, text)

    def log(self, source: str, level: int, text: str) -> None:
        """Pass on a log line of the extension, now or when the rate limit allows it. `source` is
        "stderr", "stdout" or "log"; `level` is a level of the logging module."""
        if self._tick_timer is None:
            self._passed_on_in_tick = 0
            self._tick_timer = self._loop.call_later(_TICK_SECONDS, self._tick)
        if self._passed_on_in_tick < _LINES_PER_TICK and not self._waiting:
            self._passed_on_in_tick += 1
            self._pass_on(source, level, text)
        elif (
            len(self._waiting) < _MAX_WAITING
            and self._waiting_characters + len(text) <= _MAX_WAITING_CHARACTERS
        ):
            if self._waiting is _NOTHING_WAITS:
                self._waiting = deque()
            self._waiting.append((source, level, text))
            self._waiting_characters += len(text)
        else:
            self._dropped_in_tick += 1

    def _tick(self) -> None:
        """End a tick. If lines wait, begin the next one and ask the flood queue for a turn."""
        self._tick_timer = None
        self._passed_on_in_tick = 0
        if not self._waiting:
            self._report_dropped()
            return
        self._tick_timer = self._loop.call_later(_TICK_SECONDS, self._tick)
        flood_queue(self._loop).add(self)

    def take_turn(self, end: float, *, may_be_long: bool) -> TurnEnd:
        """Pass on lines that wait, as many as this tick allows, until this time of
        `perf_counter`."""
        while self._waiting and self._passed_on_in_tick < _LINES_PER_TICK:
            self._passed_on_in_tick += 1
            self.budget.charge(_LINE_UNITS, self._loop.time())
            self._pass_on_first()
            if perf_counter() >= end:
                return TurnEnd.MORE
        return TurnEnd.EMPTY

    def flush(self) -> None:
        """Pass on every line that waits."""
        if self._tick_timer is not None:
            self._tick_timer.cancel()
            self._tick_timer = None
            flood_queue(self._loop).remove(self)
        while self._waiting:
            self._pass_on_first()
        self._report_dropped()

    def _pass_on_first(self) -> None:
        source, level, text = self._waiting.popleft()
        self._waiting_characters -= len(text)
        self._pass_on(source, level, text)

    def _report_dropped(self) -> None:
        dropped, self._dropped_in_tick = self._dropped_in_tick, 0
        if dropped:
            if self._counts is None:
                self._counts = Counter()
            self._counts[DROPPED_LINES] += dropped
            times = self._counts[DROPPED_LINES]
            if Dropped in self._bus.listeners:
                self._bus.publish(Dropped(self.extension, DROPPED_LINES, times))
            self._pass_on("stderr", logging.WARNING, f"dropped: {DROPPED_LINES} ({times} so far)")

    def _pass_on(self, source: str, level: int, text: str) -> None:
        text = self.hide_secrets(text)
        if LogLine in self._bus.listeners:
            self._bus.publish(LogLine(self.extension, source, level, text, self._child.node))
        if _log.isEnabledFor(level):
            _log.log(level, "[%s] %s", self.extension, text)

    def stray(self, data: bytes, reason: str) -> None:
        """Count and log output that is not a message, usually a print that should go to stderr."""
        self.stray_reason = reason
        if not self.count(STRAY):
            return
        text = self._shown_text(data.rstrip(b"\r"), "replace")
        details = "" if self.redacts else f": {text}"
        self.log("stdout", logging.WARNING, f"stray output on stdout ({reason}){details}")
        if self.redacts:
            self.log("stdout", logging.DEBUG, f"the stray output: {text}")

    def count(self, name: str, warning: str = "", content: Any = None) -> bool:
        """Count something that was dropped under this name, and log the warning, with the
        content unless output is redacted. Return False if the warning is not logged, because too
        many with this name there were before."""
        if self._counts is None:
            self._counts = Counter()
        self._counts[name] += 1
        times = self._counts[name]
        if name == UNNAMED:
            self.unnamed_error_at = self._loop.time()
        if Dropped in self._bus.listeners:
            self._bus.publish(Dropped(self.extension, name, times))
        is_logged = times <= MAX_LOGGED_SINGLY or not times & (times - 1)  # a power of two
        if warning and is_logged:
            has_content = content is not None and not self.redacts
            details = f": {self._cut_content(content)}" if has_content else ""
            self.log("stdout", logging.WARNING, f"{warning}{details}")
        return is_logged

    def _cut_content(self, content: Any) -> str:
        """Return the beginning of a message's content, without secrets."""
        return self.shorten(jsontext.display_text(content))

    def shorten(self, text: str) -> str:
        """Return the beginning of a text of the extension, without secrets."""
        return self._hide_in_cut(text[:EVIDENCE_BYTES])[:SHOWN_BYTES]

    def count_and_log(self, name: str) -> None:
        """Count something that was dropped, and log the 1st, 2nd, 4th, 8th … of its name. The name
        may contain text of the extension, in which secrets are hidden."""
        name = self._find_shown_name(name)
        self.count(name)
        times = self.counts[name]
        if times & (times - 1) == 0:  # a power of two
            self.log("stdout", logging.WARNING, f"dropped: {name} ({times} so far)")

    def _find_shown_name(self, name: str) -> str:
        """Return the name under which something is counted: shortened, and without secrets."""
        shown = self._shown_names.get(name)
        if shown is None:
            shown = self.shorten(name)
            if shown not in self.counts and len(self.counts) >= MAX_NAMES:
                shown = OTHER_NAMES
            if len(self._shown_names) < MAX_NAMES and len(name) <= SHOWN_BYTES:
                self._shown_names[name] = shown
        return shown

    @property
    def exit(self) -> str:
        """How the child ended, as text such as "exited with 1"; "" while it runs."""
        return str(self._child.poll_exit() or "")

    @property
    def is_lost(self) -> bool:
        """Whether the child ran on a node of a cluster that was lost."""
        status = self._child.poll_exit()
        return status is not None and bool(status.lost)

    def add_advice(self, error: CallFailed) -> None:
        """Replace the help of a failed call if the sandbox is the likely cause of the failure. Hide
        the secrets of the extension in the error."""
        if self.suggest_grant is not None:
            error.help = self.suggest_grant(error.error_message) or error.help
        self.hide_in_error(error)

    def hide_in_error(self, error: ExthostError) -> None:
        """Hide the secrets of the extension in an error: its message, its help, the answer of a
        failed call, and the bytes and details that show what the extension sent."""
        if self.hide_secrets is str:
            return
        if isinstance(error, CallFailed):
            error.error_code = self.hide_in_content(error.error_code)
            error.error_message = self.hide_secrets(error.error_message)
            error.data = self.hide_in_content(error.data)
        error.message = self.hide_secrets(error.message)
        error.help = self.hide_secrets(error.help)
        evidence = error.evidence
        if evidence.bytes or evidence.details:
            details = tuple(map(self.hide_secrets, evidence.details))
            hidden = self._hide_in_cut(evidence.bytes)
            error.evidence = replace(evidence, bytes=hidden, details=details)
        error.args = tuple(
            self.hide_secrets(item) if isinstance(item, str) else item for item in error.args
        )

    def evidence_since(self, started_at: float, offending: bytes = b"") -> Evidence:
        """Return the evidence for an error of a call that began at this loop time. Older lines of
        stderr are marked as such. `offending` are the bytes that were wrong."""
        self.drain_stderr()
        evidence = self.evidence(offending)
        if self._tail is not None:
            evidence = replace(evidence, stderr=self._hidden(self._tail.lines(started_at)))
        return evidence

    def evidence(self, offending: bytes = b"") -> Evidence:
        """Return the evidence for an error made now. `offending` are the bytes that were wrong."""
        if self.redacts:
            offending = b""
        return Evidence(
            argv=self._child.argv,
            cwd=self._child.cwd,
            exit=self.exit,
            stderr=() if self._tail is None else self._hidden(self._tail.lines()),
            bytes=self._shown_text(offending, "backslashreplace"),
        )
