"""Makes the event loop for the blocking API, and for the commands that run a host or a gateway.
Programs that use the asyncio API bring their own loop."""

import asyncio
import importlib
import importlib.util
import sys


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop if it is installed, and one of asyncio otherwise.

    uvloop is used on Linux only. There its clock has the same values as `time.monotonic`, which
    other threads can read while the loop sleeps. `loop.time()` of uvloop returns only the time at
    which the loop last woke.
    """
    if sys.platform == "linux" and importlib.util.find_spec("uvloop") is not None:
        loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return loop
    return asyncio.new_event_loop()
