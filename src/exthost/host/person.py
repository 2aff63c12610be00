"""Asks a person whether a call may be made.

A rule of the config or a hook of an extension may request that. The function of the program that
made the call is used (`call_tool(…, confirm=ask)`), or else that of the host (`Host(…,
confirm=ask)`). Any answer but True means no, and False is returned. If no person could be asked, or
no person answered, an error is raised.
"""

import logging

from exthost.errors import ExthostError, Refused
from exthost.extension.callbacks import call_plain_or_async
from exthost.extension.confirmation import Confirm, Confirmation

_log = logging.getLogger("exthost.hooks")


async def ask_person(
    confirmation: Confirmation, caller: Confirm | None, host: Confirm | None
) -> bool:
    """Ask the caller of a call, or the host if `caller` is None, and return whether the answer is
    yes. Raises ExthostError, with the cause as its message, if no person could be asked or no
    person answered: the call must not be made then, either."""
    confirm = host if caller is None else caller
    if confirm is None:
        raise Refused(
            "X0354",
            "there is no person to ask",
            help="a program passes a function that asks to its host, to exthost.attach or to the "
            "call (confirm=…); exthost call asks on a terminal, or agrees with --yes; the gateway "
            "asks a client that supports elicitation; exthost run --web asks on its page",
        )
    try:
        return await call_plain_or_async(confirm, confirmation) is True
    except ExthostError:
        raise
    except Exception:
        _log.exception(
            "[%s] no person could be asked: %s", confirmation.extension, confirmation.message
        )
        raise Refused(
            "X0354",
            "asking failed",
            help="correct the function that asks (confirm=…): the log has its error",
        ) from None
