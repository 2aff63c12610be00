"""The end of one process of a pool while another is ready (`recovery`)."""

import time

import pytest

from exthost.errors import ExtensionGone
from exthost.extension.policy import PoolSize
from exthost.extension.recovery import PoolGrowth, Recovery
from exthost.extension.restart import Again, GiveUp


@pytest.mark.parametrize("gives_up", [True, False])
def test_fewer_processes_after_a_wanted_end_are_logged(
    gives_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    decision = GiveUp("too many") if gives_up else Again(0.0)
    logged: list[str] = []
    monkeypatch.setattr(Recovery, "_decide", lambda *_, **__: decision)
    monkeypatch.setattr(Recovery, "_log_fewer_processes", lambda _, reason: logged.append(reason))
    monkeypatch.setattr(Recovery, "is_unplaced", lambda *_: False)
    pool = Recovery.__new__(Recovery)  # without an extension
    pool.growth = PoolGrowth(PoolSize(1, 2, 1))
    pool._now = time.monotonic
    pool.on_worker_lost(ExtensionGone("X1006", "it has ended"), is_wanted_end=True)
    assert logged == (["too many"] if gives_up else [])
