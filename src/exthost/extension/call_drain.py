"""Waits for calls under way before the processes of an extension are ended."""

import asyncio

from exthost.extension.call_queue import CallQueue, ErrorFactory
from exthost.extension.commands import Commands
from exthost.extension.processes import LATE_CALL_SECONDS, Processes

# How often the calls under way are checked.
_CHECK_SECONDS = 0.02


async def drain_calls(
    queue: CallQueue, processes: Processes, commands: Commands, why_closed: ErrorFactory
) -> None:
    """Return when the calls under way have ended, or the patience of the stop command is over, or
    a restart replaces that command.

    Polls, because the queue still accepts calls at first: those that wait, and those that were
    submitted when the stop was requested.
    """
    loop = queue.loop
    began = loop.time()
    is_accepting = True
    while commands.stop and (is_accepting or not processes.is_quiet()):
        now = loop.time()
        if now >= began + commands.patience:
            return
        if is_accepting and now >= began + LATE_CALL_SECONDS and not queue.waiting:
            is_accepting = False
            queue.close(why_closed)
        await asyncio.sleep(_CHECK_SECONDS)
