"""Asks a question at the terminal, for subcommands of exthost that need a yes of a person, such as
`exthost approve`.

No question is asked if stderr is not a terminal. The question is written to the controlling
terminal and the answer is read from it, so that stdin and stdout may be pipes. Text that was
typed before the question is ignored.
"""

import os
import sys
import termios

from exthost.faces.cli.common import escape_controls


def ask_on_terminal(question: str) -> bool | None:
    """Return whether the answer is yes; None if there is no terminal."""
    if not sys.stderr.isatty():
        return None
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # The kernel would stop a process in the background that reads from the terminal.
        if os.tcgetpgrp(fd) != os.getpgrp():
            return None
        sys.stderr.flush()
        termios.tcflush(fd, termios.TCIFLUSH)
        os.write(fd, escape_controls(question).encode("utf-8", "backslashreplace"))
        answer = os.read(fd, 1024).decode("utf-8", "replace")
    except (OSError, termios.error):
        return None
    finally:
        os.close(fd)
    return answer.strip().lower() in ("y", "yes")
