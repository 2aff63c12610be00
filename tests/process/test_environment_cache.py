"""The cache of the environments that children get."""

from typing import Any

from exthost.process import environment
from exthost.process.environment import Snapshot


def test_the_cache_is_emptied_when_it_is_full() -> None:
    snapshot = Snapshot({})
    made: list[int] = []

    def child(number: int) -> Any:
        def make() -> Any:
            made.append(number)
            return number

        return snapshot.child(make, number)

    for number in range(environment._MAX_CACHED):
        assert child(number) == number
    assert child(0) == 0 and made.count(0) == 1, "it is still in the cache"
    assert child(environment._MAX_CACHED) == environment._MAX_CACHED
    assert child(0) == 0 and made.count(0) == 2, "the cache was emptied"
