"""Compares the processes, file descriptors, threads and memory of this process before and after a
test of the soak."""

import gc
import time
from collections.abc import Iterable
from typing import NamedTuple

from tests.extensions.proc import our_descriptors, our_processes, our_threads, resident_bytes

# The allocator may keep this much after thousands of processes were started and have ended.
MOST_GROWTH_BYTES = 5_000_000

# The time in which processes and descriptors may still go away after a row.
GRACE_SECONDS = 3.0


class Resources(NamedTuple):
    """The resources of this process now. Zombies count as processes."""

    processes: int
    descriptors: int
    threads: int
    resident: int


def current_resources() -> Resources:
    gc.collect()
    return Resources(
        len(our_processes()), len(our_descriptors()), len(our_threads()), resident_bytes()
    )


def settled_resources(before: Resources) -> Resources:
    """Return the resources when they are as before, or after a grace period."""
    deadline = time.monotonic() + GRACE_SECONDS
    while (now := current_resources())[:3] != before[:3] and time.monotonic() < deadline:
        time.sleep(0.02)
    return now


def complaints(before: Resources, after: Resources) -> Iterable[str]:
    for name in ("processes", "descriptors", "threads"):
        was, is_now = getattr(before, name), getattr(after, name)
        if was != is_now:
            yield f"{name} {was} → {is_now}"
    if after.resident - before.resident > MOST_GROWTH_BYTES:
        yield f"memory +{(after.resident - before.resident) / 1e6:.1f} MB"
