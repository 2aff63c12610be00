"""Runs the coroutine of a verb (a subcommand of `exthost`) on an event loop: `run_once` for a verb
that starts extensions and ends soon, `run_async` for one that has its own display, and
`run_long_lived` for a host."""

import asyncio
import signal
from typing import Any

from exthost.faces.cli.common import escape_controls, say
from exthost.faces.cli.log_handler import WarningHandler
from exthost.host.event_loop import new_event_loop

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_async(main: Any) -> int:
    """Run a verb's coroutine on an asyncio event loop, and return its exit code. Ctrl-C cancels
    it."""
    return int(asyncio.run(main))


def run_long_lived(main: Any) -> int:
    """Do the same as `run_async`, on uvloop if it is installed. Used by verbs that run for long,
    such as `run`, because importing uvloop takes time. When the coroutine has returned, further
    signals are ignored, because the exit code is known and the process is about to end."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        code = int(runner.run(main))
        ignore_end_signals(runner.get_loop())
    return code


def ignore_end_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Ignore the signals that end a process. The loop must not have a handler for them: it would
    restore their default action when it is closed."""
    # Removing the loop's handler restores the default action, which would end the process. So the
    # signals are blocked first, and none is delivered before it is ignored.
    signal.pthread_sigmask(signal.SIG_BLOCK, _END_SIGNALS)
    for number in _END_SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def run_once(main: Any) -> int:
    """Do the same as `run_async`, and print the warnings of the host to stderr. Verbs that have a
    display, such as `run`, show the warnings in the display instead."""
    with WarningHandler(lambda text: say(escape_controls(text))):
        return run_async(main)
