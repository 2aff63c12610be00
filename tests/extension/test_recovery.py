"""What is logged when one process of a pool ends and another is ready (`Recovery`).

A process that ended on purpose, for example after it was idle, is not reported as lost. But if the
restart policy starts no other process in its place, the pool stays smaller, and that is logged.
"""

import time

import pytest

from exthost.errors import ExtensionGone
from exthost.extension.policy import PoolSize
from exthost.extension.recovery import PoolGrowth, Recovery
from exthost.extension.restart import Again, Decision, GiveUp


@pytest.mark.parametrize(
    ("decision", "logged_reasons"), [(GiveUp("too many"), ["too many"]), (Again(0.0), [])]
)
def test_a_process_that_ended_on_purpose_and_is_not_replaced_is_logged(
    decision: Decision, logged_reasons: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[str] = []
    monkeypatch.setattr(Recovery, "_decide", lambda *_, **__: decision)
    monkeypatch.setattr(Recovery, "_log_fewer_processes", lambda _, reason: reasons.append(reason))
    monkeypatch.setattr(Recovery, "is_unplaced", lambda *_: False)
    # The constructor needs a whole extension. `on_worker_lost` uses only these two attributes.
    recovery = Recovery.__new__(Recovery)
    recovery.growth = PoolGrowth(PoolSize(1, 2, 1))
    recovery._now = time.monotonic
    recovery.on_worker_lost(ExtensionGone("X1006", "it has ended"), is_wanted_end=True)
    assert reasons == logged_reasons
