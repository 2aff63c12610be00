"""Measures searches in a memory of a million records: `python -m bench.recall [RECORDS [FOLDER]]`.

It is a target of its own, because filling a store takes minutes; a store in FOLDER is kept for the
next time. Prints the median of several queries of each kind, made through the thread of the store
as the host makes them, with their processor time. Exits with 1 if a kind exceeds its limit. Each
kind is tried on its hard cases: rare, common, old and missing matches.
"""

import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

from exthost.dialects.host_requests import Recall, Remember
from exthost.host.api import memory
from exthost.host.api.memory import Memories
from exthost.host.api.store import Store

RECORDS = 1_000_000
TIMES = 9
FIRST_MS = 1_000_000

# The limits, in milliseconds.
FAST_MS, SLOW_MS = 20.0, 500.0

WORDS = ("alpha", "beta", "Gamma", "delta", "epsilon", "Zeta", "eta", "theta")


def fill(store: Store, records: int) -> float:
    """Fill the store as the appends of a plugin do, but with many records in each transaction."""
    began = time.perf_counter()
    for start in range(0, records, 10_000):
        store.write(partial(_fill, range(start, min(start + 10_000, records)), records)).result()
    return time.perf_counter() - began


def _fill(span: range, records: int, connection: sqlite3.Connection) -> None:
    for n in span:
        memory.insert_record(connection, "bench", record(n, records), FIRST_MS + n)


def record(n: int, records: int) -> Remember:
    words = " ".join(WORDS[(n >> shift) % len(WORDS)] for shift in range(0, 30, 3))
    tags = (f"kind:{n % 7}", f"user:{n % 5000}", "old" if n < records // 20 else "new")
    return Remember(f"note {n} about {words}, and what else there is to say of it", tags)


def queries(records: int) -> Iterator[tuple[str, float, Recall]]:
    yield "newest", FAST_MS, Recall()
    yield "by time, the oldest hour", FAST_MS, Recall(until_ms=FIRST_MS + 3600)
    yield (
        "by time, in the middle",
        FAST_MS,
        Recall(None, None, FIRST_MS + 10, FIRST_MS + records // 2),
    )
    yield "by tag, one of 5,000", FAST_MS, Recall(tag_prefix="user:4321")
    yield "by tag prefix of all, 5,000 tags", FAST_MS, Recall(tag_prefix="user:")
    yield "by tag prefix of all, 7 tags", FAST_MS, Recall(tag_prefix="kind:")
    yield "by tag, the oldest twentieth", FAST_MS, Recall(tag_prefix="old")
    yield "by tag that is not there", FAST_MS, Recall(tag_prefix="nobody")
    yield "by content, the oldest alone", SLOW_MS, Recall(content_contains="NOTE 0 ABOUT")
    yield "by content that is not there", SLOW_MS, Recall(content_contains="omega")
    yield "by content, two letters, not there", SLOW_MS, Recall(content_contains="qq")
    yield "by content, one letter, not there", SLOW_MS, Recall(content_contains="q")
    scattered = Recall(content_contains="alpha and what else there")
    yield "by content of common words, not there", SLOW_MS, scattered
    yield "by content that is common", SLOW_MS, Recall(content_contains="gamma")
    both = Recall(content_contains="omega", tag_prefix="kind:3")
    yield "by content and a common tag, none", SLOW_MS, both


def main() -> int:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    missed = 0
    with tempfile.TemporaryDirectory(prefix="exthost-recall-") as temporary:
        store = Store(sys.argv[2] if len(sys.argv) > 2 else temporary)
        try:
            if not Path(store.path).exists():
                print(f"{records:,} records in {fill(store, records):.1f} s")
            memories = Memories(store)
            for name, most, wish in queries(records):
                took, busy = [], []
                for _ in range(TIMES):
                    began, worked = time.perf_counter(), time.process_time()
                    found = memories.query("bench", wish).result()
                    took.append((time.perf_counter() - began) * 1000)
                    busy.append((time.process_time() - worked) * 1000)
                half = median(took)
                verdict = "ok" if half <= most else "MISSED"
                missed += verdict != "ok"
                line = f"{half:8.2f} ms of {most:g}, busy {median(busy):.2f} ms"
                print(f"{name:38} {line:36} {len(found):3} found  {verdict}")
        finally:
            store.close()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
