"""The rules about settings that belong together."""

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import ConfigError

ENTRY = {"name": "a", "source": {"type": "process", "command": "python3"}}


@pytest.mark.parametrize("pool", [{"min": 3}, {"max": 2}, {"min": 2, "max": 2}])
def test_a_pool_can_have_a_minimum_a_maximum_or_both(pool: dict[str, int]) -> None:
    settings = spec_from_mapping({**ENTRY, "pool": pool}).pool
    assert (settings.min, settings.max) == (pool.get("min"), pool.get("max"))


def test_the_minimum_of_a_pool_must_not_be_more_than_its_maximum() -> None:
    with pytest.raises(ConfigError, match=r"min \(3\) must not be more than max \(2\)"):
        spec_from_mapping({**ENTRY, "pool": {"min": 3, "max": 2}})
