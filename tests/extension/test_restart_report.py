"""The events and the log report a restart with its number, the allowed number and the delay."""

import logging

import pytest

import exthost
from exthost.events import Bus, StateChanged
from tests.dialects.requirements import shows
from tests.extensions.harness import error_of, wait_until
from tests.extensions.synaps_tree import command


@shows("synaps-today-14")
async def test_a_restart_is_reported_with_number_limit_and_delay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    bus = Bus()
    changes: list[StateChanged] = []
    bus.subscribe(StateChanged, changes.append)
    limits = {"handshake": "60s"}
    async with exthost.connect(
        command(),
        dialect="synaps",
        name="child",
        events=bus,
        retry="never",
        limits=limits,  # type: ignore[arg-type]
    ) as ext:
        for _ in range(2):
            await error_of(ext.call_tool("die", {"code": 3}))
            await wait_until(lambda: ext.state == "ready")
    restarts = [change for change in changes if change.after == "backoff"]
    assert [(change.attempt, change.max_attempts) for change in restarts] == [(1, 3), (2, 3)]
    assert all(change.delay and 0 < change.delay <= 0.5 for change in restarts)
    # The first delay of synaps is 0.25 s, less a random part.
    assert "restart 1 of 3 in 0.2" in restarts[0].reason
    assert "restart 1 of 3 in 0.2" in caplog.text and "restart 2 of 3 in 0." in caplog.text
    other_changes = [change for change in changes if change.after != "backoff"]
    assert {(change.attempt, change.max_attempts, change.delay) for change in other_changes} == {
        (0, None, None)
    }
