"""The errors of calls while no process of the extension is ready, and of failed restarts.

Some callers do not wait for a start; others call an extension that was stopped, or that was given
up because its restart policy allows no further start.
"""

import shlex

from exthost.errors import ExtensionGone, ExthostError
from exthost.extension.lifecycle import State
from exthost.session.failures import copy_error

_NO_ACTION_HELP = "wait until it is ready: start() does that, and so do calls without wait=False"


def not_ready_error(extension: str, name: str, state: State) -> ExthostError:
    """Return the error for a caller who does not wait, while no process is ready. `name` is the
    method or tool."""
    reason = f"the extension is {state.value}"
    help = (
        f"wait for it, or start it: `exthost start {shlex.quote(extension)}`, or restart() "
        "in a program"
    )
    if state is State.STARTING:
        help = _NO_ACTION_HELP
    elif state is State.READY:  # a process that takes one call is not available during this call
        reason = "each process of the extension works on a call"
        help = "wait for their replies: calls without wait=False do that"
    return ExtensionGone(
        "X1007", f"{name} is not available: {reason}", extension=extension, help=help
    )


def starting_again_error(cause: ExthostError, name: str) -> ExthostError:
    """Return the error for a caller who does not wait, while the extension is started again. It is
    a copy of the cause of that restart."""
    error = copy_error(cause)
    error.message = f"{cause.message}; it is being started again, and {name} is not available yet"
    error.args = (error.message,)
    error.help = f"{_NO_ACTION_HELP}; {cause.help}".rstrip("; ")
    return error


def stopped_error(extension: str, method: str, *, is_final: bool = False) -> ExthostError:
    """Return the error of a call after the extension was stopped. `is_final`: it cannot be started
    again, because its host is closed or has removed it."""
    help = f"`exthost start {shlex.quote(extension)}`, or restart() in a program, starts it again"
    if is_final:
        help = "its host is closed, or has it no longer: use the extension of an open host"
    return ExtensionGone(
        "X1006",
        f"{method} was not sent: the extension was stopped",
        extension=extension,
        help=help,
    )


def given_up_error(cause: ExthostError, reason: str) -> ExthostError:
    """Return the error of a call after the extension was given up: a copy of the cause, whose help
    says why no process is started any more."""
    error = copy_error(cause)
    if reason and isinstance(cause, ExtensionGone):
        restart_hint = f"restart(), or `exthost restart {shlex.quote(cause.extension)}`, starts it"
        error.help = f"it is not started again: {reason}; {restart_hint}"
    return error


def kept_old_process_error(cause: ExthostError) -> ExthostError:
    """Return the error of a restart whose new process failed, so that the old one stays in
    use."""
    error = copy_error(cause)
    error.help = f"the old process continues; {cause.help}".rstrip("; ")
    return error
