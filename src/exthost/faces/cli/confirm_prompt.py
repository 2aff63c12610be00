"""Asks the person at the terminal whether a call may be made, for `exthost call`.

A hook (a function of an extension that judges the calls of others) or a rule of the config may
request that a person confirms a call. If stderr is not a terminal, no question is asked, because a
program reads the output then. The question is written to the controlling terminal, and the answer
is read from it, so that stdin and stdout may be pipes. Text that was typed before the question is
ignored.
"""

import os
import select
import sys
import termios
from typing import Protocol

from exthost.errors import Refused
from exthost.extension.confirmation import Confirmation
from exthost.faces.cli.common import Args, escape_controls, escape_message, json_text, say

# How many characters of the arguments are shown: a person does not read more. The prompt shows how
# many it omits.
_MAX_ARGUMENT_CHARS = 4000


class ConfirmPrompt(Protocol):
    """Returns whether a person agrees. `seconds` is the time to answer; None for no limit. Raises
    Refused if no person can be asked, or if no answer comes in time."""

    def __call__(self, confirmation: Confirmation, seconds: float | None = None) -> bool: ...


def choose_prompt(args: Args) -> ConfirmPrompt | None:
    """Return the function that answers the questions about a call: with `--yes` one that agrees, on
    a terminal one that asks the person; otherwise None."""
    if args.yes:
        return _agree
    return _ask_on_terminal if sys.stderr.isatty() else None


def _agree(confirmation: Confirmation, seconds: float | None = None) -> bool:
    say(_first_line(confirmation))
    say("the answer is yes, by --yes")
    return True


def _ask_on_terminal(confirmation: Confirmation, seconds: float | None = None) -> bool:
    """Ask the person at the terminal. This is a `ConfirmPrompt`."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise _no_person_error(f"/dev/tty cannot be opened: {error.strerror}") from None
    try:
        # The kernel would stop a process in the background that reads from the terminal.
        if os.tcgetpgrp(fd) != os.getpgrp():
            raise _no_person_error("this process is in the background")
        sys.stderr.flush()
        termios.tcflush(fd, termios.TCIFLUSH)
        os.write(fd, question_text(confirmation).encode("utf-8", "backslashreplace"))
        if not select.select([fd], [], [], seconds)[0]:
            os.write(fd, b"\n")
            raise _no_person_error(f"no answer arrived within {seconds:g} s")
        answer = os.read(fd, 1024).decode("utf-8", "replace")
    except (OSError, termios.error) as error:
        raise _no_person_error(f"the terminal cannot be used: {error}") from None
    finally:
        os.close(fd)
    return answer.strip().lower() in ("y", "yes")


def _no_person_error(reason: str) -> Refused:
    help = "call it from a shell in the foreground of a terminal, or agree with --yes"
    return Refused("X0354", reason, help=help)


def _first_line(confirmation: Confirmation) -> str:
    # If a rule of the config asks instead of a hook, there is no extension to name.
    asker = f"[{confirmation.extension}] asks: " if confirmation.extension else ""
    return f"{asker}{confirmation.message}"


def question_text(confirmation: Confirmation) -> str:
    """Return the question as it is shown, with control characters escaped."""
    event = confirmation.event
    question = escape_message(_first_line(confirmation))
    tool = escape_controls(str(event.get("tool_name", confirmation.hook)))
    arguments = escape_controls(json_text(event.get("arguments")))
    left_out = len(arguments) - _MAX_ARGUMENT_CHARS
    if left_out > 0:
        shown = arguments[:_MAX_ARGUMENT_CHARS]
        arguments = f"{shown} … and {left_out:,} more characters that are not shown"
    return f"{question}\ntool: {tool}\narguments: {arguments}\nCall it? [y/N] "
