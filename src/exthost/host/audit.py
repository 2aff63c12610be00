"""Writes the audit file: one JSON line for each call, with its method and its outcome.

    {"time": 1795075200.25, "extension": "weather", "method": "tools/call", "outcome": "result", …}

These have lines of their own:

- a failed hook, with the reason and whether the call was refused
- a rule that decided about a call
- a call whose caller turned rules and hooks off (`hooks=False`)
- a hook that replaced the output of a tool, with the sizes of both outputs, not their contents
- an extension or a tool that differs from the lock of the config
- an approval of such a difference, with the user who approved it

The audit subscribes to the event bus. Each line is one `write` to a file that is opened for
appending. So lines of several hosts in the same file do not mix. An error, such as a full disk, is
logged and never raised, because the audit must not make a call fail. If a full disk cuts a line
off, the next line begins after a line break, so that only one line is lost.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from exthost.errors import ConfigError, Evidence, ExthostError
from exthost.events import (
    Bus,
    CallEnded,
    HookFailed,
    HooksSkipped,
    LockMismatch,
    OutputReplaced,
    Quarantined,
    RuleApplied,
)
from exthost.wire import jsontext

_log = logging.getLogger("exthost.audit")

# The file records callers and calls, so only its owner can read it.
_FILE_MODE = 0o600

# Characters that JSON allows in strings, and at which some programs end a line (`str.splitlines`):
# U+0085, U+2028 and U+2029 in UTF-8.
_LINE_ENDS = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")


def record_approval(path: str, extension: str, user: str, changes: Sequence[str]) -> None:
    """Append that a user approved these changes of an extension (`exthost approve`)."""
    audit = Audit(path, Bus())
    try:
        audit.write(
            {
                "time": time.time(),
                "extension": extension,
                "method": "approve",
                "outcome": "approved",
                "context": {"user": user},
                "changes": list(changes),
            }
        )
    finally:
        audit.close()


class Audit:
    """Writes an audit file until it is closed."""

    def __init__(self, path: str, bus: Bus) -> None:
        """Open the file and subscribe to the bus. Raises ConfigError if it cannot be written."""
        try:
            self._fd = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _FILE_MODE
            )
        except OSError as error:
            raise ConfigError(
                "X0110",
                f"the audit file {path} cannot be written: {error.strerror}",
                help="name another file under [audit] path",
                evidence=Evidence(path=path),
            ) from None
        self._path = path
        self._is_cut = False  # whether the last line was written in part
        self._unsubscribes: tuple[Callable[[], None], ...] = (
            bus.subscribe(CallEnded, self._write_call),
            bus.subscribe(HookFailed, self._write_hook),
            bus.subscribe(HooksSkipped, self._write_skip),
            bus.subscribe(RuleApplied, self._write_rule),
            bus.subscribe(OutputReplaced, self._write_replacement),
            bus.subscribe(Quarantined, self._write_quarantine),
            bus.subscribe(LockMismatch, self._write_mismatch),
        )

    def _write_call(self, ended: CallEnded) -> None:
        self.write(
            {
                "time": time.time(),
                "extension": ended.extension,
                "method": ended.method,
                "outcome": ended.outcome,
                "seconds": round(ended.seconds, 6),
                "context": ended.context or None,
                **({} if ended.call is None else {"call": ended.call}),
            }
        )

    def _write_hook(self, failed: HookFailed) -> None:
        self.write(
            {
                "time": time.time(),
                "extension": failed.extension,
                "method": failed.hook,
                "outcome": failed.outcome,
                "seconds": round(failed.seconds, 6),
                "context": failed.context or None,
                "about": failed.about,
                "code": failed.code,
                "reason": failed.reason,
            }
        )

    def _write_skip(self, skipped: HooksSkipped) -> None:
        self.write(
            {
                "time": time.time(),
                "extension": skipped.extension,
                "method": "hooks",
                "outcome": "skipped",
                "context": skipped.context or None,
                "about": skipped.tool_name,
            }
        )

    def _write_rule(self, applied: RuleApplied) -> None:
        self.write(
            {
                "time": time.time(),
                "extension": applied.extension,
                "method": "rules",
                "outcome": applied.outcome,
                "context": applied.context or None,
                "about": applied.tool_name,
                "rule": applied.rule,
                "reason": applied.reason,
                "client": applied.client,
            }
        )

    def _write_replacement(self, replaced: OutputReplaced) -> None:
        self.write(
            {
                "time": time.time(),
                "extension": replaced.extension,
                "method": replaced.hook,
                "outcome": "replaced",
                "context": replaced.context or None,
                "about": replaced.about,
                "before_bytes": replaced.before,
                "after_bytes": replaced.after,
            }
        )

    def _write_quarantine(self, quarantined: Quarantined) -> None:
        self._write_lock(quarantined, quarantined.tool, "quarantined")

    def _write_mismatch(self, mismatch: LockMismatch) -> None:
        self._write_lock(mismatch, mismatch.key, "refused")

    def _write_lock(self, event: Quarantined | LockMismatch, about: str, outcome: str) -> None:
        self.write(
            {
                "time": time.time(),
                "extension": event.extension,
                "method": "lock",
                "outcome": outcome if event.is_enforced else "warned",
                "context": None,
                "about": about,
                "reason": event.reason,
            }
        )

    def write(self, record: dict[str, Any]) -> None:
        """Append one line."""
        try:
            encoded = jsontext.encode(record)
        except ExthostError:  # the caller's context has a value that JSON cannot express
            encoded = jsontext.encode(record | {"context": repr(record["context"])})
        escaped = _LINE_ENDS.sub(_escape, jsontext.escape_terminal_controls(encoded))
        line = (b"\n" if self._is_cut else b"") + escaped + b"\n"
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            _log.error("a line of the audit %s is lost: %s", self._path, error)
            return
        self._is_cut = written < len(line)
        if self._is_cut:
            _log.error("a line of the audit %s is cut off: the disk is full", self._path)

    def close(self) -> None:
        """Stop recording and close the file."""
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        os.close(self._fd)


def _escape(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())
