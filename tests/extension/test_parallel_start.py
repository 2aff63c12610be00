"""The number of processor cores, on which depends how many extensions start at once."""

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
