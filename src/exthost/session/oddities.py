"""What a child says that is nobody's: answers that match no call, lines that are no message, and
messages too long to be kept. Each is counted; what can be told from it goes to its call.
"""

from typing import TYPE_CHECKING

from exthost.messages import Failure, Id, Noise
from exthost.session import answers, violations
from exthost.session.stream import EventStream
from exthost.wire.framing import Skipped

if TYPE_CHECKING:
    from exthost.session.session import Session

# In so much of a stray line its id is looked for: floods of them must cost next to nothing.
_HEAD_BYTES = 256


def stray(session: "Session", id: Id | None, failure: Failure | None = None) -> None:
    """An answer that matched no call; by order, every later one would be one off."""
    if session.standing.is_over(id, failure):
        return
    if session.dialect.traits.correlation == "order":
        raise violations.no_message(session.witness, Noise(b"", "an answer that nobody asked for"))
    session.witness.drop(session.state.stray_reply(id))


def noise(session: "Session", heard: Noise) -> None:
    """Output that is no message; a call whose id it has will know why no answer came."""
    if session.dialect.traits.noise == "fatal":
        raise violations.no_message(session.witness, heard)
    session.witness.stray(heard.data, heard.why)
    number = session.codec.answers(heard.data[:_HEAD_BYTES])
    if number is not None and (call := session.pending.get(number)) is not None:
        call.misread = number, heard


def skipped(session: "Session", passed: Skipped) -> None:
    """Bytes that the framing passed over; a call that they answered fails."""
    if passed.why != "too long":
        session.witness.stray(passed.head, passed.why)
        return
    cap = session.limits.max_message
    why = f"it sent a message longer than the limit of {cap:,} bytes"
    session.witness.complain("messages over the size limit", why)
    number = session.codec.answers(passed.head)
    call = session.pending.pop(number, None) if number is not None else None
    if call is not None:
        error = violations.too_long(session.witness, why, call.method, passed.head)
        if isinstance(call.stream, EventStream):
            session.leave(call.stream, "its answer was too large")
            answers.fail_stream(session, call, call.stream, error)
        else:
            session.desk.fail(call, error)
