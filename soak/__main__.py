"""The command line: runs the tests one after another and prints a table.

    python -m soak [--scale 0.1] [--minutes 30] [PATTERN …]

A test (a row of the table) fails if it raises, if it leaves a process, a file descriptor or a
thread behind, or if memory grew by more than 5 MB. A test for which no time is left is reported as
not run, which is a failure, too. The exit status is not 0 if a test failed.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from pathlib import Path

from soak.measures import complaints, current_resources, settled_resources
from soak.row import Row
from soak.rows import rows


def run(row: Row, seconds: float) -> tuple[bool, str]:
    """Run one row. Return whether it passed, and a line about it for the table."""

    async def bounded(folder: Path) -> str:
        async with asyncio.timeout(seconds):
            return await row.run(folder)

    with tempfile.TemporaryDirectory() as name:
        before = current_resources()
        try:
            summary = asyncio.run(bounded(Path(name)))
        except Exception as error:
            traceback.print_exc()
            return False, f"{type(error).__name__}: {error}"
        after = settled_resources(before)
    wrong = [text for text in complaints(before, after) if row.flat or "memory" not in text]
    grown = (after.resident - before.resident) / 1e6
    same = f"{grown:+.1f} MB, {after.processes} processes left"
    return not wrong, f"{summary}; {'; '.join(wrong) or same}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument(
        "patterns", nargs="*", metavar="PATTERN", help="rows whose name contains it"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the full numbers")
    parser.add_argument("--minutes", type=float, default=30.0, help="the limit of all tests")
    args = parser.parse_args()
    chosen = [
        row
        for row in rows(args.scale)
        if not args.patterns or any(pattern in row.name for pattern in args.patterns)
    ]
    if not chosen:
        print("no row has such a name", file=sys.stderr)
        return 2
    # A first run, so that what is made once and kept (imports, buffers) does not count as a leak.
    run(rows(0.001)[0], 60)
    deadline = time.monotonic() + args.minutes * 60
    failed = 0
    for row in chosen:
        began = time.monotonic()
        left = deadline - began
        ok, summary = run(row, left) if left > 0 else (False, "not run: no time was left")
        failed += not ok
        seconds = time.monotonic() - began
        print(f"{'ok  ' if ok else 'FAIL'}  {row.name:34} {seconds:7.1f} s  {summary}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} rows passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
