"""The cache of the environments that child processes get.

A `Snapshot` has the environment of the host at one time, and computes that of a child from it. It
keeps a limited number of them by a key, since most starts need the same.
"""

from typing import Any

from exthost.process import environment
from exthost.process.environment import Snapshot


def test_the_cache_is_emptied_when_it_is_full() -> None:
    snapshot = Snapshot({})
    made: list[int] = []  # the numbers for which an environment was made

    def child_environment(number: int) -> Any:
        """Return the environment with this number as its key. The number stands for its content."""

        def make() -> Any:
            made.append(number)
            return number

        return snapshot.child(make, number)

    for number in range(environment._MAX_CACHED):
        assert child_environment(number) == number
    assert child_environment(0) == 0 and made.count(0) == 1, "it is still in the cache"
    assert child_environment(environment._MAX_CACHED) == environment._MAX_CACHED
    assert child_environment(0) == 0 and made.count(0) == 2, "the cache was emptied"
