"""The errors of calls while no process of the extension is ready, and of failed restarts.

Some callers do not wait for a start; others call an extension that was stopped, or that was given
up because its restart policy allows no further start.
"""

import shlex

from exthost.errors import ExtensionGone, ExthostError
from exthost.session.failures import copy_error


def not_ready_error(extension: str, name: str, state: str) -> ExthostError:
    """Return the error for a caller who does not wait, while no process is ready. `name` is the
    method or tool."""
    return ExtensionGone(
        "X1007",
        f"{name} is not available: the extension is {state}",
        extension=extension,
        help=f"wait for it, or start it: `exthost start {shlex.quote(extension)}`, or restart() "
        "in a program",
    )


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
