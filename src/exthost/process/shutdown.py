"""Runs the shutdown steps of a dialect until the process has exited; SIGKILL is always the last.

A dialect (the protocol of an extension) declares its steps as data: a message to send, bytes to
write, closing stdin, SIGTERM. The host runs them when an extension is stopped or replaced.

Every step has a timeout, so the whole shutdown takes a bounded time.
"""

from collections.abc import Sequence
from typing import Protocol

from exthost.model.messages import Notification, Request
from exthost.model.shutdown_steps import CloseStdin, Say, ShutdownStep, Terminate, Write

# How long the exit is awaited after SIGKILL. A process that remains is stuck in the kernel.
KILL_SECONDS = 5.0

# How long the exit is awaited after the first `kill()`. For a program in a namespace, that closes a
# pipe to the first process in the namespace, which then ends all others. If the wrapper (the
# process that makes the namespace) hangs, only the second `kill()` helps, which sends SIGKILL.
CLEAN_KILL_SECONDS = 1.0


class Stoppable(Protocol):
    """The process to be shut down, as the steps use it.

    send_message  sends a message, and waits up to `wait` seconds for a reply if it is a request
    write_raw     writes bytes to stdin
    terminate     sends SIGTERM
    exits_within  waits up to `seconds`, and returns whether the process has exited
    """

    async def send_message(self, message: Request | Notification, wait: float) -> None: ...
    def write_raw(self, data: bytes) -> None: ...
    def close_stdin(self) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    async def exits_within(self, seconds: float) -> bool: ...


async def run_steps(steps: Sequence[ShutdownStep], process: Stoppable) -> bool:
    """Run the steps until the process has exited; if none of them ends it, kill it. Return whether
    it has exited."""
    for step in steps:
        wait = 0.0  # seconds to wait for the exit; the last two patterns below assign it
        match step:
            case Say(message, reply_seconds):
                await process.send_message(message, reply_seconds)
            case Write(data):
                process.write_raw(data)
            case CloseStdin(wait):
                process.close_stdin()
            case Terminate(wait):
                process.terminate()
        if await process.exits_within(wait):
            return True
    process.kill()
    if await process.exits_within(CLEAN_KILL_SECONDS):
        return True
    process.kill()
    return await process.exits_within(KILL_SECONDS)
