"""Makes the error of a call that timed out. It says what the call waited for, and what to do.

A call whose time is over before it is made is refused here, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exthost.errors import NO_EVIDENCE, CallTimeout
from exthost.extension.misuse import check_timeout
from exthost.session.diagnostics import MAX_LOGGED_SINGLY, STRAY, UNMATCHED

if TYPE_CHECKING:
    from exthost.errors import ExthostError
    from exthost.session.call import Call
    from exthost.session.session import Session

_LOOK_AT_EXTENSION = "give the call a longer timeout, or find out why the extension is slow"


def require_time_left(extension: str, method: str, timeout: Any) -> float:
    """Return the timeout that a caller passed, in seconds. Raises CallTimeout if it is over."""
    seconds = check_timeout(timeout)
    if seconds <= 0.0:
        raise no_time_left_error(extension, method, seconds)
    return seconds


def no_time_left_error(extension: str, method: str, seconds: float) -> CallTimeout:
    """Return the error of a call whose time was over before it was made. It is not accepted:
    nothing is sent, nothing is counted, and the breaker does not take it for a failure."""
    return CallTimeout(
        "X0801",
        f"{method} was not sent: its time was over before (timeout={round(seconds, 3):g})",
        extension=extension,
        help="the timeout is 0 or less: find out what took the time before this call",
    )


def timeout_error(extension: str, call: Call, *, has_process: bool) -> CallTimeout:
    """Return the error of a call that timed out. `has_process`: a process of the extension is
    ready."""
    from exthost.session.stream import StreamCall

    if isinstance(call, StreamCall) and call.stream.acknowledged:
        return CallTimeout(
            "X0840",
            f"{call.method} took longer than {_seconds(call.timeout)}, "
            "and its last event has not come",
            extension=extension,
            help="give the stream a longer timeout, or find out why the extension is slow",
        )
    session = call.session
    offending = b""
    # Output that has the id of the call but is not a message was perhaps meant as the reply. The id
    # is compared, because a call of several requests gets another id for each.
    if call.unreadable_reply is not None and call.unreadable_reply[0] == call.id:
        _, noise = call.unreadable_reply
        offending = noise.data
        reason = f"its answer is not a message ({noise.reason})"
        help = "the extension has to answer with a message of its dialect"
    elif session is not None:
        reason, help = _explain_silence(call, session)
    elif has_process:
        reason, help = "it was still waiting for its turn", _LOOK_AT_EXTENSION
    else:
        reason, help = "the extension was not ready", _LOOK_AT_EXTENSION
    error = CallTimeout(
        "X0801",
        f"{call.method} took longer than {_seconds(call.timeout + call.extended)}: {reason}",
        extension=extension,
        help=help,
    )
    if session is not None:
        error.evidence = session.diagnostics.evidence_since(call.started_at, offending)
    return error


def _explain_silence(call: Call, session: Session) -> tuple[str, str]:
    """Return why a call that was sent probably got no reply, and what to do about it."""
    diagnostics = session.diagnostics
    if unmatched := diagnostics.counts.get(UNMATCHED, 0):
        reason = (
            f"no reply arrived with its id {call.id}, "
            f"but {unmatched} with an id that no request had"
        )
        return reason, "the extension must copy `id` from the request into its reply"
    if diagnostics.unnamed_error_at >= call.started_at:
        reason = "no answer arrived with its id, but an error that names no request"
        return reason, "perhaps it could not read the request: the log has its error"
    reason, help = "no answer arrived", _LOOK_AT_EXTENSION
    if stray := diagnostics.counts.get(STRAY, 0):
        help = f"its answer may be among the {stray} {STRAY}"
        if stray <= MAX_LOGGED_SINGLY:
            help += ": the log has them"
        else:
            # The host reads the stdout of a flood slowly, and the log has a sample of it.
            help += (
                ", or behind them and still unread: the extension must write nothing but "
                f"messages to stdout; the log has the first {MAX_LOGGED_SINGLY} and some more"
            )
        return reason, f"{help}. The last one: {diagnostics.stray_reason}"
    oldest = next(iter(session.pending.values()), call)  # `pending` is in the order of sending
    if oldest is not call:
        oldest_seconds = call.deadline - oldest.started_at
        # An older request has no reply either, so the extension may hang on that request.
        help = f"it has not answered {oldest.method} either ({oldest_seconds:.0f} s); {help}"
    return reason, help


def not_ready_in_time_error(
    extension: str, method: str, seconds: float, cause: ExthostError | None
) -> CallTimeout:
    """Return the error of a call that waited for a start during its whole time limit. `cause` is
    the error of the last process, if one has failed before."""
    cause_text = f" ({cause.message})" if cause is not None else ""
    return CallTimeout(
        "X0801",
        f"{method} took longer than {_seconds(seconds)}: the extension was not ready{cause_text}",
        extension=extension,
        help=_LOOK_AT_EXTENSION,
        evidence=cause.evidence if cause is not None else NO_EVIDENCE,
    )


def _seconds(seconds: float) -> str:
    """Return a time limit for a message. It is rounded, because a limit that is the rest of another
    one has many digits; one of less than half a millisecond keeps its first digit."""
    return f"{round(seconds, 3) or float(f'{seconds:.1g}'):g} s"
