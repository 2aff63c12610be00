"""Makes the event loop where no caller chooses one: for the blocking API and for the commands that
run a host or a gateway."""

import asyncio
import importlib
import importlib.util
import sys

__all__ = ["new_event_loop"]


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop if it is installed, and one of asyncio otherwise.

    uvloop is used on Linux only. There its clock is `time.monotonic`, which threads can read
    while the loop sleeps; `loop.time` of uvloop is the time at which the loop last woke.
    """
    if sys.platform == "linux" and importlib.util.find_spec("uvloop") is not None:
        loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return loop
    return asyncio.new_event_loop()
