"""Waits for the calls in flight before a stop ends the processes of an extension."""

import asyncio

from exthost.extension.call_queue import CallQueue, ErrorFactory
from exthost.extension.processes import LATE_CALL_SECONDS, Processes
from exthost.extension.supervisor_commands import SupervisorCommands

# How often the queue is polled.
_POLL_SECONDS = 0.02


async def drain_calls(
    queue: CallQueue, processes: Processes, commands: SupervisorCommands, make_error: ErrorFactory
) -> None:
    """Return when all waiting calls and all calls in flight have ended. Return earlier if the
    patience of the stop command is over, or if a restart replaces the stop command.

    The queue stays open for `LATE_CALL_SECONDS`, for calls that were being submitted when the stop
    was requested. Then it is closed, and `make_error` makes the errors of later calls. No
    event reports that the last call has ended, so the queue is polled.
    """
    loop = queue.loop
    began_at = loop.time()
    is_accepting = True
    while commands.stop and (is_accepting or not processes.is_quiet()):
        now = loop.time()
        if now >= began_at + commands.patience:
            return
        if is_accepting and now >= began_at + LATE_CALL_SECONDS and not queue.waiting:
            is_accepting = False
            queue.close(make_error)
        await asyncio.sleep(_POLL_SECONDS)
