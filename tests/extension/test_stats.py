"""`ext.stats`, the counts of an extension, can be read by attribute or by name, and not changed."""

import dataclasses

import pytest

from tests.extensions.harness import closed_at_end, unstarted_extension


async def test_stats_are_readable_by_attribute_and_name_and_frozen() -> None:
    async with closed_at_end(unstarted_extension()) as ext:
        stats = ext.stats
        assert stats["calls"] == stats.calls == 0
        assert dict(stats)["pid"] == stats.pid
        with pytest.raises(KeyError):
            stats["nonsense"]
        with pytest.raises(dataclasses.FrozenInstanceError):
            stats.calls = 3  # type: ignore[misc]
