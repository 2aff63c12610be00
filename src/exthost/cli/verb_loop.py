"""Runs the coroutine of a verb on an event loop."""

import asyncio
from typing import Any

from exthost.cli.common import escape_controls, say
from exthost.cli.log_handler import WarningHandler
from exthost.event_loop import new_event_loop
from exthost.process.host_protection import harden


def run_async(main: Any) -> int:
    """Run a verb's coroutine; Ctrl-C cancels it. The processes that it starts cannot read the
    memory and the variables of this one."""
    harden()
    return int(asyncio.run(main))


def run_long_lived(main: Any) -> int:
    """Do the same as `run_async` for a verb that serves for long: on uvloop, if it is installed."""
    harden()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return int(runner.run(main))


def run_once(main: Any) -> int:
    """Do the same as `run_async` for a verb that ends by itself, with the host's warnings on
    stderr."""
    with WarningHandler(lambda text: say(escape_controls(text))):
        return run_async(main)
