"""Runs the handshake with a new process, and makes the error if it fails.

Every failure is a HandshakeFailed with evidence (command line, exit status, last stderr lines). If
the first bytes of the output look like the framing of another dialect (protocol), the error says
so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from exthost.errors import (
    CallFailed,
    CallTimeout,
    Evidence,
    ExtensionGone,
    ExthostError,
    HandshakeFailed,
)
from exthost.model.offer import Offer
from exthost.session.replies import GeneratorHandler

if TYPE_CHECKING:
    from exthost.dialects.handshake_context import HandshakeContext
    from exthost.dialects.sniff import Sniffed
    from exthost.dialects.steps import Exchanges, Handshake
    from exthost.session.output_diagnosis import Diagnosis
    from exthost.session.session import Session


# The message of `env` if the interpreter in a line such as `#!/usr/bin/env python3` does not exist.
_MISSING_INTERPRETER = re.compile(r"\benv: \W?([\w.+-]+?)\W?: No such file or directory")

# Messages of JSON readers, of Python, Node, Go and Rust, and of programs that decode other frames.
_NOT_UNDERSTOOD = re.compile(
    r"JSONDecodeError|SyntaxError: (?:Unexpected|JSON)|invalid character .* looking for|DecodeError"
    r"|expected (?:value|ident) at line|[Pp]arse error|[Ii]nvalid (?:JSON|request|message|header)"
    r"|Content-Length"
)

# A child that writes nothing for this long after a faulty reply probably waits for the host.
_QUIET_SECONDS = 1.0


class HandshakeProgress(NamedTuple):
    """The visible progress of a handshake. `unread_bytes` is the number of bytes that the child has
    not read yet, `first_output` the first bytes of its output."""

    unread_bytes: int
    first_output: bytes


def read_progress(session: Session) -> HandshakeProgress:
    """Return the progress of this session's handshake."""
    return HandshakeProgress(session.unread_bytes(), session.first_output)


def read_evidence(session: Session) -> Evidence:
    """Return the evidence for an error about this session's handshake, with all that the child has
    written to stderr so far."""
    session.diagnostics.drain_stderr()
    return session.diagnostics.evidence(session.first_output)


async def run_handshake(
    session: Session, context: HandshakeContext, *, fallback: bool = False
) -> Offer:
    """Run the dialect's handshake, or with `fallback` the one for programs that exit when they
    read the usual one. The time limit `limits.handshake` applies to each request."""
    make_fallback = session.dialect.fallback if fallback else None
    steps = (make_fallback or session.dialect.handshake)(context)
    offer = await _run(session, "the handshake", steps, session.open)
    assert isinstance(offer, Offer)
    return offer


async def run_initial_steps(session: Session, steps: Exchanges) -> None:
    """Run the requests that a facet (an attribute that only one dialect has) needs after the
    handshake, before any call."""
    await _run(session, "the steps after the handshake", steps, _ignore)


def _help_for_exit(session: Session, error: ExtensionGone) -> str:
    """Return the help for a handshake during which the process ended: the likely cause, by its exit
    status and what it wrote to stderr."""
    evidence = session.diagnostics.evidence()
    if error.code == "X1002":  # it closed a pipe, and was ended because of that
        return (
            "an extension keeps stdin and stdout open for as long as it lives: does it redirect "
            "stdout, or go to the background as a daemon does? run it in the foreground"
        )
    if "ENOEXEC" in evidence.exit and evidence.argv:
        from exthost.process.spawn_errors import FOREIGN_PROGRAM_HELP, describe_foreign_program

        foreign = describe_foreign_program(evidence.argv[0])
        return f"{foreign}: {FOREIGN_PROGRAM_HELP}" if foreign else "is the file complete?"
    if (match := _MISSING_INTERPRETER.search("\n".join(evidence.stderr))) is not None:
        return (
            f"the first line of the script names {match[1]}, which is not on PATH: install it, or "
            "correct that line"
        )
    if any("\\r" in line and "No such file" in line for line in evidence.stderr):
        return "the script has Windows line ends: save it with plain \\n"
    if evidence.exit == "killed by SIGKILL" and not evidence.stderr:
        return (
            "it did not end by itself: is the machine out of memory (see dmesg)? does a limit of "
            "its service or container end it?"
        )
    if evidence.exit == "exited with 0" and not evidence.stderr:
        return (
            "it exited by itself, without an error: an extension reads requests in a loop, until "
            "its stdin ends, and stays in the foreground"
        )
    if _NOT_UNDERSTOOD.search("\n".join(evidence.stderr)):
        return (
            f"see its stderr: it did not understand the opening of {session.dialect.name}; if it "
            "speaks another dialect, name that one, or let `exthost inspect -- COMMAND` detect it"
        )
    if evidence.stderr:
        return "see its stderr for the cause"
    return "run its command by hand: its stderr does not name the cause"


def _ignore(_: Any) -> None:
    pass


async def _run(
    session: Session, name: str, steps: Exchanges | Handshake, on_done: Callable[[Any], None]
) -> Any:
    """Run these steps, call `on_done` with their value, and return the value. Raises
    HandshakeFailed."""
    limit = session.limits.handshake
    assert limit is not None
    call = session.internal.run_operation(name, steps, limit, limits_each_request=True)
    if isinstance(call.reply_handler, GeneratorHandler):
        session.diagnostics.handshake = call.reply_handler
    try:
        await _wait(session, call.future)
        value = call.future.result()
        on_done(value)
        session.diagnostics.handshake = None
    except HandshakeFailed as error:
        session.internal.cancel(call)
        error.evidence = replace(session.diagnostics.evidence(), bytes=error.evidence.bytes)
        error.extension = session.diagnostics.extension
        _explain_missing_result(session, error)
        raise
    except ExthostError as error:
        raise _handshake_error(session, error) from None
    except asyncio.CancelledError:
        session.internal.cancel(call)
        raise
    return value


async def _wait(session: Session, future: asyncio.Future[Any]) -> None:
    """Wait for the end of a handshake. Raises HandshakeFailed early if the child has sent a faulty
    reply and nothing since then, because waiting longer would not help.

    The future itself is awaited, not a task or `asyncio.wait`, because these take one more
    event-loop iteration. In that iteration, a child that replies and exits at once would be taken
    for a child that did not reply.
    """
    silence_check = _SilenceCheck(session, future)
    try:
        await future
    except asyncio.CancelledError:
        if silence_check.fault is not None:
            raise silence_check.fault from None
        raise
    finally:
        silence_check.timer.cancel()


class _SilenceCheck:
    """Checks the output of a child whenever it has not changed for `_QUIET_SECONDS`. If the output
    is a faulty reply, sets `fault` to the error and cancels the handshake."""

    __slots__ = ("_future", "_last_output", "_session", "fault", "timer")

    def __init__(self, session: Session, future: asyncio.Future[Any]) -> None:
        self._session = session
        self._future = future
        self._last_output = b""
        self.fault: HandshakeFailed | None = None
        self._start_timer()

    def _start_timer(self) -> None:
        self.timer = asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._check)

    def _check(self) -> None:
        """Look for a faulty reply, if the output has not changed since the last check."""
        session = self._session
        output = session.first_output
        is_quiet = bool(output) and output == self._last_output
        self._last_output = output
        diagnosis = None
        if is_quiet and not _detect_other_dialect(session) and _is_meant_as_reply(session):
            diagnosis = _diagnose(session)
        if diagnosis is None or self._future.done():
            self._start_timer()
            return
        self.fault = HandshakeFailed(
            "X0508",
            f"it did not complete the handshake: {diagnosis.message}",
            help=diagnosis.help,
            evidence=Evidence(bytes=diagnosis.data.decode("utf-8", "backslashreplace")),
        )
        self._future.cancel()


def _is_meant_as_reply(session: Session) -> bool:
    """Return whether the output is a faulty reply, not text that a program prints while it
    starts. In a framing with lengths, text does not form a frame, so any frame is a reply."""
    output = session.first_output.replace(b"\0", b"")  # it may be UTF-16
    # A framing either ends each message with a suffix, such as a newline, or writes its length
    # before it. The argument is a size limit, which does not matter here.
    has_lengths = session.dialect.framing(1024).suffix is None
    return has_lengths or b'"id"' in output or b"'id'" in output


def _diagnose(session: Session, *, was_read: bool = False) -> Diagnosis | None:
    """Return the fault in the first output, or None. `was_read`: the replies could be read."""
    ids = range(session.dialect.traits.first_id, session.next_id)
    from exthost.session.output_diagnosis import diagnose_output

    return diagnose_output(session.dialect, session.first_output, ids, was_read=was_read)


def _explain_missing_result(session: Session, error: HandshakeFailed) -> None:
    """Add what the child really sent to the error, if a reply had neither a result nor an error and
    was therefore read as the result null."""
    if (diagnosis := _diagnose(session, was_read=True)) is not None:
        error.message = f"{error.message}; {diagnosis.message}"
        error.help = diagnosis.help
        offending = diagnosis.data.decode("utf-8", "backslashreplace")
        error.evidence = replace(error.evidence, bytes=offending)


def start_timeout_error(session: Session, seconds: float) -> HandshakeFailed:
    """Return the error of a handshake that was not done within the limit of the whole start
    (`limits.start`). The evidence has no exit status, because the host itself has killed the
    process."""
    error = _handshake_error(session, CallTimeout("X0801", ""), seconds)
    if error.code == "X0504":  # no more specific cause, such as another dialect
        error.code = "X0507"
        error.message = error.message.replace(
            "it did not complete the handshake within", "it was not ready within"
        )
    error.evidence = replace(error.evidence, exit="")
    return error


def _detect_other_dialect(session: Session) -> Sniffed | None:
    """Return what the first output looks like, if it is the framing of another dialect."""
    from exthost.dialects.sniff import sniff

    sniffed = sniff(session.first_output)
    if sniffed is None or sniffed.framing is session.dialect.framing:
        return None
    return sniffed


def _explain_timeout(session: Session, seconds: float) -> tuple[str, str]:
    """Return the message and the help of the error for a handshake that took too long."""
    message = f"it did not complete the handshake within {seconds:g} s"
    help = (
        f"does it speak {session.dialect.name}? and does it flush its output? if it is slow to "
        "start, as a program that is compiled first, raise limits.handshake or --timeout"
    )
    if not session.first_output:
        return f"{message}, and wrote nothing to stdout at all", help
    if (diagnosis := _diagnose(session)) is not None:
        return f"{message}: {diagnosis.message}", diagnosis.help
    steps = session.diagnostics.handshake
    if steps and steps.answered and steps.awaited:
        is_repeated = steps.answered == steps.awaited  # such as for the next page of a list
        missing = f"the next {steps.awaited}" if is_repeated else steps.awaited
        message += f": it answered {steps.answered}, but not {missing}"
        help = (
            f"check its code for {steps.awaited}: see its stderr; if it is only "
            "slow, raise limits.handshake or --timeout"
        )
    return message, help


def _handshake_error(
    session: Session, error: ExthostError, seconds: float | None = None
) -> HandshakeFailed:
    """Return the error for a handshake that ended with `error`. `seconds` is the time limit that
    the message names; None means `limits.handshake`."""
    dialect, output = session.dialect, session.first_output
    if isinstance(error, CallTimeout):
        limit = session.limits.handshake if seconds is None else seconds
        assert limit is not None
        code, (message, help) = "X0504", _explain_timeout(session, limit)
    elif isinstance(error, ExtensionGone):
        code, message = "X0501", f"the handshake failed: {error.message}"
        help = _help_for_exit(session, error)
    elif isinstance(error, CallFailed):
        code, message, help = "X0502", f"it refused the handshake: {error.message}", error.help
    else:
        code, message, help = "X0505", f"it broke the handshake: {error.message}", error.help
    sniffed = _detect_other_dialect(session)
    if sniffed is not None:
        code = "X0506"
        dialects = ", ".join(sniffed.dialects)
        message = (
            f"{message}; you chose {dialect.name}, but it answers in {sniffed.form} ({dialects})"
        )
        help = "choose the dialect it speaks, with --dialect or `dialect = …`"
    evidence = session.diagnostics.evidence()
    if not session.diagnostics.redacts:
        evidence = replace(evidence, bytes=output.decode("utf-8", "backslashreplace"))
    return HandshakeFailed(
        code,
        message,
        extension=session.diagnostics.extension,
        help=help,
        permanent=sniffed is not None,
        process_ended=isinstance(error, ExtensionGone) and sniffed is None,
        has_read=not session.unread_bytes(),
        evidence=evidence,
    )
