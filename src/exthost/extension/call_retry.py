"""Calls that may be sent a second time after their process died. Pure."""

from exthost.errors import CallFailed, ExthostError
from exthost.session.call import Call
from exthost.session.failures import failed_twice_error
from exthost.session.replies import GeneratorReply


def may_resend(call: Call) -> bool:
    """Return whether a call of a process that died may be sent again: it was sent once, consists of
    a single request, and no part of a reply has come."""
    handler = call.on_reply
    stream = handler.stream
    is_untouched = stream is None or not (stream.delivered or stream.acknowledged)
    is_single = not isinstance(handler, GeneratorReply)
    return is_untouched and is_single and call.first_error is None and not call.ended


def final_error(extension: str, call: Call, error: ExthostError) -> ExthostError:
    """Return the error that the caller gets: with the evidence of the process, and with the first
    error if the call was sent twice."""
    error.extension = error.extension or extension
    if call.session is not None:
        error = call.session.with_evidence(error)
        if isinstance(error, CallFailed):
            call.session.diagnostics.add_advice(error)
    if call.first_error is not None and not isinstance(error, CallFailed):
        error = failed_twice_error(call.first_error, error)
    return error
