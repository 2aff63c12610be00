"""Runs the coroutine of a verb (a subcommand of `exthost`) on an event loop."""

import asyncio
from typing import Any

from exthost.cli.common import escape_controls, say
from exthost.cli.log_handler import WarningHandler
from exthost.event_loop import new_event_loop


def run_async(main: Any) -> int:
    """Run a verb's coroutine on an asyncio event loop, and return its exit code. Ctrl-C cancels
    it."""
    return int(asyncio.run(main))


def run_long_lived(main: Any) -> int:
    """Do the same as `run_async`, on uvloop if it is installed. Used by verbs that run for long,
    such as `run`, because importing uvloop takes time."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return int(runner.run(main))


def run_once(main: Any) -> int:
    """Do the same as `run_async`, and print the warnings of the host to stderr. Verbs that have a
    display, such as `run`, show the warnings in the display instead."""
    with WarningHandler(lambda text: say(escape_controls(text))):
        return run_async(main)
