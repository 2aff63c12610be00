"""The choice of the rows of slow parametrized tests that `make test` runs.

`@pytest.mark.sampled` runs a quarter of the rows, `@pytest.mark.sampled(share)` another share. A
test with `@pytest.mark.both_loops` runs each row on one of the two event loops. The choice depends
only on the seed.
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest

SHARE = 1 / 4  # of a test with `@pytest.mark.sampled`


def unsampled_items(items: Sequence[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    """Yield the tests that are not in the sample of this seed; none for the seed "all"."""
    if seed == "all":
        return
    tables: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") or item.get_closest_marker("both_loops"):
            tables[item.nodeid.partition("[")[0]].append(item)
    for name, rows in tables.items():
        generator = random.Random(f"{seed} {name}")
        chosen_rows = _choose(rows, generator)
        yield from (row for row in rows if row not in chosen_rows)


def _choose(rows: list[pytest.Item], generator: random.Random) -> list[pytest.Item]:
    """Return the rows of one test that are in the sample."""
    if rows[0].get_closest_marker("both_loops"):
        pairs: dict[str, list[pytest.Item]] = defaultdict(list)
        for row in rows:
            pairs[_without_loop(row)].append(row)
        rows = [generator.choice(pair) for pair in pairs.values()]
    sampled = rows[0].get_closest_marker("sampled")
    if sampled is None:
        return rows
    share = sampled.args[0] if sampled.args else SHARE
    return generator.sample(rows, math.ceil(len(rows) * share))


def _without_loop(row: pytest.Item) -> str:
    """Return the id of a row without the name of its event loop."""
    callspec = getattr(row, "callspec")  # noqa: B009  (of a pytest.Function)
    return f"-{callspec.id}-".replace(f"-{callspec.params['loop_kind']}-", "-", 1)
