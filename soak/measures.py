"""What must be the same before and after: processes, descriptors, threads, nearly the memory."""

import gc
import time
from collections.abc import Iterable
from typing import NamedTuple

from tests.extensions.looking import our_descriptors, our_processes, our_threads, resident_bytes

# What the allocator may keep of thousands of processes that came and went.
MOST_GROWTH_BYTES = 5_000_000

# For what is on its way out when a row ends.
GRACE_SECONDS = 3.0


class Held(NamedTuple):
    """What this process holds right now; zombies are processes, too."""

    processes: int
    descriptors: int
    threads: int
    resident: int


def held() -> Held:
    gc.collect()
    return Held(len(our_processes()), len(our_descriptors()), len(our_threads()), resident_bytes())


def held_in_the_end(before: Held) -> Held:
    """After a short grace for what is on its way out."""
    deadline = time.monotonic() + GRACE_SECONDS
    while (now := held())[:3] != before[:3] and time.monotonic() < deadline:
        time.sleep(0.02)
    return now


def complaints(before: Held, after: Held) -> Iterable[str]:
    for name in ("processes", "descriptors", "threads"):
        was, is_now = getattr(before, name), getattr(after, name)
        if was != is_now:
            yield f"{name} {was} → {is_now}"
    if after.resident - before.resident > MOST_GROWTH_BYTES:
        yield f"memory +{(after.resident - before.resident) / 1e6:.1f} MB"
