"""Decides whether a call may be sent a second time after its process died, and makes the error that
the caller gets."""

from exthost.errors import CallFailed, ExthostError
from exthost.session.call import Call
from exthost.session.failures import failed_twice_error, not_resent_error
from exthost.session.replies import GeneratorHandler


def may_resend(call: Call) -> bool:
    """Return whether a call whose process died may be sent to another process.

    The call may be sent again if it was sent only once, consists of a single request, and no part
    of its reply has come. An operation of several requests may already have changed something.
    """
    handler = call.reply_handler
    stream = handler.stream
    has_no_reply = stream is None or not (stream.delivered or stream.acknowledged)
    is_single_request = not isinstance(handler, GeneratorHandler)
    return has_no_reply and is_single_request and call.first_error is None and not call.ended


def final_error(extension: str, call: Call, error: ExthostError) -> ExthostError:
    """Return the error that the caller gets. It has the evidence (command line, exit status, last
    stderr lines) of the process, and the message of the first error if the call lost a process."""
    error.extension = error.extension or extension
    if call.session is not None:
        error = call.session.diagnostics.with_evidence(error)
        if isinstance(error, CallFailed):
            call.session.diagnostics.add_advice(error)
    if call.first_error is not None and not isinstance(error, CallFailed):
        combine = failed_twice_error if call.was_resent else not_resent_error
        error = combine(call.first_error, error)
    return error
