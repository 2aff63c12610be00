"""What an answer means to the call it belongs to, where it is more than a result to hand over.

The next step of an operation, the end or the acknowledgement of a stream, a result that its
dialect still maps, an error. Whose answer it is, the session has found out before.
"""

from typing import TYPE_CHECKING

from exthost.dialects.dialect import refusal
from exthost.errors import ExthostError
from exthost.messages import Failure, Reply
from exthost.session import causes, exchanges, violations
from exthost.session.state import Call
from exthost.session.stream import EventStream

if TYPE_CHECKING:
    from exthost.session.session import Session


def heed_reply(session: "Session", call: Call, reply: Reply) -> None:
    """A reply to anything but the plainest call."""
    if call.steps is not None:
        exchanges.advance(session, call, reply)
        return
    if call.once is not None:
        exchanges.settle_once(session, call, reply.result)
        return
    stream, result = call.stream, reply.result
    if isinstance(stream, EventStream):
        kind = stream.kind
        if kind.ends == "reply":
            try:
                result = result if kind.result is None else kind.result(result)
            except ExthostError as error:
                error.evidence = session.witness.evidence()
                fail_stream(session, call, stream, error)
                return
            session.state.close_stream(stream)
            stream.finish(result)
        elif kind.acknowledged is not None and not kind.acknowledged(call.params, result):
            wrong = violations.acknowledged_another(session.witness, call.method)
            fail_stream(session, call, stream, wrong)
            return
    if call.map_result is not None:
        result = call.map_result(result)
    session.desk.settle(call, result)


def heed_failure(session: "Session", call: Call, failure: Failure) -> None:
    """The child says that it could not."""
    error = refusal(failure, call.method)
    if isinstance(call.stream, EventStream):
        fail_stream(session, call, call.stream, error)
    else:
        session.desk.fail(call, error)


def fail_stream(session: "Session", call: Call, stream: EventStream, error: ExthostError) -> None:
    """The call that opened a stream is over, and so is the stream."""
    error.extension = session.desk.extension
    session.state.close_stream(stream)
    session.desk.fail(call, causes.copy_of(error))
    stream.fail(error)
