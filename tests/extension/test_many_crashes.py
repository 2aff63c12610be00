"""After many crashes each call has ended, and no process, descriptor, thread or memory remains."""

import pytest

from tests.extensions.crashes import calls_with_crashes, crash_cycles


@pytest.mark.both_loops
async def test_a_process_that_dies_at_every_hundredth_call_loses_no_call() -> None:
    account = await calls_with_crashes(2_000, 100)
    assert account.balances() and set(account.ends) == {"result", "gone"}
    # Each process answers a hundred calls. At most ten calls are in flight when it dies.
    assert account.restarts >= account.ends["result"] // 100
    assert account.ends["gone"] <= account.restarts * 10


async def test_many_crashes_and_restarts_leave_no_resource() -> None:
    account = await crash_cycles(25)
    assert account.balances() and account.restarts == 25
    assert account.ends == {"result": 25, "gone": 25}
