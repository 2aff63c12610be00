"""Crash after crash: no call lost, no process, descriptor or thread left, no memory kept."""

import pytest

from tests.extensions.crashes import calls_with_crashes, crash_cycles


@pytest.mark.both_loops
async def test_a_process_that_dies_at_every_hundredth_call_loses_no_call() -> None:
    account = await calls_with_crashes(2_000, 100)
    assert account.balances() and set(account.ends) == {"result", "gone"}
    # Each life answers a hundred; whatever was under way at its end is told so, once.
    assert account.restarts >= account.ends["result"] // 100
    assert account.ends["gone"] <= account.restarts * 10


async def test_crash_and_restart_over_and_over_leaves_nothing_behind() -> None:
    account = await crash_cycles(25)
    assert account.balances() and account.restarts == 25
    assert account.ends == {"result": 25, "gone": 25}
