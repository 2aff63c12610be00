"""The command: run the rows one after another, print the table, tell by the exit code.

    python -m soak [--scale 0.1] [--minutes 30] [PATTERN …]

A row fails if it raises, or if afterwards a process, a descriptor or a thread is there that was not
before, or memory grew by more than 5 MB. Rows that the time does not suffice for are told as not
run, and that is a failure, too.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from pathlib import Path

from soak.measures import complaints, held, held_in_the_end
from soak.rows import Row, rows


def run(row: Row, seconds: float) -> tuple[bool, str]:
    """Whether it held, and what to say of it."""

    async def bounded(folder: Path) -> str:
        async with asyncio.timeout(seconds):
            return await row.run(folder)

    with tempfile.TemporaryDirectory() as name:
        before = held()
        try:
            told = asyncio.run(bounded(Path(name)))
        except Exception as error:
            traceback.print_exc()
            return False, f"{type(error).__name__}: {error}"
        after = held_in_the_end(before)
    wrong = [one for one in complaints(before, after) if row.flat or "memory" not in one]
    grown = (after.resident - before.resident) / 1e6
    same = f"{grown:+.1f} MB, {after.processes} processes left"
    return not wrong, f"{told}; {'; '.join(wrong) or same}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument(
        "patterns", nargs="*", metavar="PATTERN", help="rows whose name contains it"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the full numbers")
    parser.add_argument("--minutes", type=float, default=30.0, help="all of it takes no longer")
    asked = parser.parse_args()
    chosen = [
        row
        for row in rows(asked.scale)
        if not asked.patterns or any(pattern in row.name for pattern in asked.patterns)
    ]
    if not chosen:
        print("no row has such a name", file=sys.stderr)
        return 2
    # What is made once and kept (imports, the first loop's buffers) is nobody's leak.
    run(rows(0.001)[0], 60)
    deadline = time.monotonic() + asked.minutes * 60
    failed = 0
    for row in chosen:
        began = time.monotonic()
        left = deadline - began
        ok, told = run(row, left) if left > 0 else (False, "not run: the time was up")
        failed += not ok
        seconds = time.monotonic() - began
        print(f"{'ok  ' if ok else 'FAIL'}  {row.name:34} {seconds:7.1f} s  {told}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} rows held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
