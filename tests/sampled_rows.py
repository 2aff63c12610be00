"""The choice of the rows of slow parametrized tests that `make test` runs.

`@pytest.mark.sampled` runs a quarter of the rows, `@pytest.mark.sampled(share)` another share. A
test with `@pytest.mark.both_loops` runs each row on one of the two event loops.

When pytest has collected the tests, `conftest.py` calls `unsampled_items` and leaves these tests to
`make test-more`. The choice depends only on the seed, which is the commit or the value of
EXTHOST_TEST_SAMPLE (see `faults/trials.py`).
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest

SHARE = 1 / 4  # of a test with `@pytest.mark.sampled`


def unsampled_items(items: Sequence[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    """Yield the tests that are not in the sample of this seed. The sample of the seed "all" has
    every test."""
    if seed == "all":
        return
    rows_by_test: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") or item.get_closest_marker("both_loops"):
            name_of_test, _, _ = item.nodeid.partition("[")
            rows_by_test[name_of_test].append(item)
    for name, rows in rows_by_test.items():
        generator = random.Random(f"{seed} {name}")
        chosen_rows = _choose(rows, generator)
        yield from (row for row in rows if row not in chosen_rows)


def _choose(rows: list[pytest.Item], generator: random.Random) -> list[pytest.Item]:
    """Return the rows of one test that are in the sample. All rows have the markers of the test."""
    if rows[0].get_closest_marker("both_loops"):
        # The two items of each row, one for each loop.
        pairs: dict[str, list[pytest.Item]] = defaultdict(list)
        for row in rows:
            pairs[_id_without_loop(row)].append(row)
        rows = [generator.choice(pair) for pair in pairs.values()]
    sampled = rows[0].get_closest_marker("sampled")
    if sampled is None:
        return rows
    share = sampled.args[0] if sampled.args else SHARE
    return generator.sample(rows, math.ceil(len(rows) * share))


def _id_without_loop(row: pytest.Item) -> str:
    """Return the id of a row without the name of its event loop, such as "-3-x-" for
    "3-asyncio-x"."""
    callspec = getattr(row, "callspec")  # noqa: B009 - pytest.Function has it, pytest.Item does not
    # With a hyphen at both ends, the name of the loop has hyphens around it wherever it is.
    return f"-{callspec.id}-".replace(f"-{callspec.params['loop_kind']}-", "-", 1)
