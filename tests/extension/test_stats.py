"""Counts are read by attribute or by name, and are frozen."""

import dataclasses

import pytest

from tests.extensions.harness import closing, unstarted


async def test_counts_are_read_either_way_and_cannot_be_changed() -> None:
    async with closing(unstarted()) as ext:
        stats = ext.stats
        assert stats["calls"] == stats.calls == 0
        assert dict(stats)["pid"] == stats.pid
        with pytest.raises(KeyError):
            stats["nonsense"]
        with pytest.raises(dataclasses.FrozenInstanceError):
            stats.calls = 3  # type: ignore[misc]
