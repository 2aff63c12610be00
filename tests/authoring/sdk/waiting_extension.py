"""An extension for tests of the SDK: its handlers wait for other calls, for the host, or for ever.

`tests/authoring/sdk/programs.py` starts it as WAITING, with an option that chooses the protocol.
"""

import asyncio
import os
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from exthost.sdk import Context, Extension, Param, ToolError

ext = Extension("waiting", max_threads=100)
# For `meet` and `meet_in_threads`, which wait for other calls.
arrived = 0
all_have_arrived = asyncio.Event()
barrier = threading.Barrier(100)
# What happened in other handlers, for `wait_for`.
events: list[str] = []


@dataclass
class Point:
    x: int
    y: int = 0


@ext.tool
async def meet(of: int) -> int:
    """Wait until this many calls run."""
    global arrived
    arrived += 1
    if arrived == of:
        all_have_arrived.set()
    await all_have_arrived.wait()
    return arrived


@ext.tool(thread=True)
def meet_in_threads() -> str:
    """Wait until a hundred calls run, each in a thread."""
    barrier.wait(50)
    return threading.current_thread().name


@ext.tool
async def hang(name: str, ctx: Context) -> None:
    """Wait for ever, and record a cancellation."""
    await ctx.progress(1, None, "hanging")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        events.append(f"{name} cancelled")
        raise


@ext.tool
def hang_in_a_thread(name: str, ctx: Context) -> None:
    """Wait in a thread until the context is cancelled, and record the cancellation."""
    ctx.progress(1, None, "hanging")
    while not ctx.cancelled:
        threading.Event().wait(0.01)
    events.append(f"{name} cancelled")


@ext.tool
async def wait_for(event: str) -> list[str]:
    """Wait until this event was recorded, and return all events."""
    while event not in events:  # noqa: ASYNC110 - threads record events, too
        await asyncio.sleep(0.01)
    return events


@ext.tool
def fail(how: Literal["plainly", "on purpose", "by exiting"]) -> None:
    """Fail."""
    if how == "plainly":
        raise ValueError("the value is odd")
    if how == "on purpose":
        raise ToolError("come back tomorrow", code=-32050, data={"day": 1})
    raise SystemExit(3)


@ext.tool
async def fail_later() -> None:
    """Fail after an iteration of the loop."""
    await asyncio.sleep(0)
    raise LookupError("not here")


@ext.tool
def distance(at: Point, scale: Annotated[float, Param("a factor", minimum=0)] = 1.0) -> float:
    """Accept a dataclass and a limited number."""
    return (abs(at.x) + abs(at.y)) * scale


@ext.tool
def unwritable() -> Any:
    """Return a value that JSON does not have."""
    return {"at": object()}


@ext.tool
async def large(size: int) -> str:
    """Return a text of this length."""
    return "x" * size


@ext.tool
def ask(method: str, params: dict[str, Any], ctx: Context) -> Any:
    """Send a request to the host from a thread."""
    return ctx.call(method, params, timeout=50)


@ext.tool
async def ask_async(method: str, params: dict[str, Any], ctx: Context) -> Any:
    """Send a request to the host from the event loop."""
    return await ctx.call_async(method, params, timeout=50)


@ext.tool
async def stubborn() -> None:
    """Refuse to be cancelled."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass


@ext.tool
async def hang_in_to_thread() -> None:
    """Wait for ever in a thread of asyncio."""
    await asyncio.to_thread(threading.Event().wait)


@ext.tool
def pid() -> int:
    """Return the pid of the process."""
    return os.getpid()


if __name__ == "__main__":
    ext.run()
