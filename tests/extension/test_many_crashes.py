"""After many crashes each call has ended, and no process, descriptor, thread or memory remains.

The functions of `tests/extensions/crashes.py` make calls to a program that dies again and again.
They return a report, which is clean if every call ended once and nothing remains.
"""

import pytest

from tests.extensions.crashes import calls_with_crashes, crash_cycles


@pytest.mark.both_loops
async def test_a_process_that_dies_at_every_hundredth_call_loses_no_call() -> None:
    report = await calls_with_crashes(2_000, 100)  # 2000 calls, a crash after each 100
    assert report.is_clean() and set(report.outcomes) == {"result", "gone"}
    # Each process answers a hundred calls. At most ten calls are in flight when it dies.
    assert report.restarts >= report.outcomes["result"] // 100
    assert report.outcomes["gone"] <= report.restarts * 10


@pytest.mark.more
async def test_many_crashes_and_restarts_leave_no_resource() -> None:
    report = await crash_cycles(25)
    assert report.is_clean() and report.restarts == 25
    assert report.outcomes == {"result": 25, "gone": 25}
