"""Starting many extensions at once: how many, and what a cancellation does."""

import asyncio
import os

import pytest

from exthost.extension import parallel_start


def test_the_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert parallel_start._count_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS does not have it
    assert parallel_start._count_cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)  # the number is unknown
    assert parallel_start._count_cores() == 1


async def test_a_cancelled_start_is_cleaned_up_before_the_caller_continues() -> None:
    began, cleaned = asyncio.Event(), []

    async def start() -> None:
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    starting = asyncio.create_task(parallel_start.start_all([start]))
    await began.wait()
    starting.cancel()
    await asyncio.wait([starting])
    assert cleaned == [True]
