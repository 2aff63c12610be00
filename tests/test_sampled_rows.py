"""Tests of `sampled_rows`, which chooses the rows of long parametrized tests that `make test` runs.

A test with `@pytest.mark.sampled(0.25)` runs a quarter of its rows. The seed, which differs with
each commit, decides which: the same seed chooses the same rows, and over many seeds every row is
chosen. A test with `both_loops` (asyncio and uvloop) runs each row on one of the loops.
"""

from types import SimpleNamespace
from typing import Any

from tests.sampled_rows import unsampled_items


def make_item(
    table: str, number: int, loop: str | None = None, *, share: float | None = None
) -> Any:
    """Return a stand-in for the pytest item of one row of the parametrized test `table`."""
    id_parts = [str(number)] if loop is None else [loop, str(number)]
    markers = {
        "both_loops": loop,
        "sampled": None if share is None else SimpleNamespace(args=(share,)),
    }
    return SimpleNamespace(
        nodeid=f"{table}[{'-'.join(id_parts)}]",
        callspec=SimpleNamespace(id="-".join(id_parts), params={"loop_kind": loop}),
        get_closest_marker=markers.get,
    )


def chosen_ids(rows: list[Any], seed: str) -> list[str]:
    """Return the ids of the rows in the sample of this seed."""
    left_out = [item.nodeid for item in unsampled_items(rows, seed)]
    return [item.nodeid for item in rows if item.nodeid not in left_out]


SAMPLED = [make_item("t", number, share=0.25) for number in range(20)]
ON_BOTH_LOOPS = [
    make_item("b", number, loop) for loop in ("asyncio", "uvloop") for number in range(8)
]
NOT_SAMPLED = [make_item("p", number) for number in range(3)]


def test_a_share_of_each_table_is_chosen_and_other_tests_are_left_alone() -> None:
    assert len(chosen_ids(SAMPLED + NOT_SAMPLED, "a")) == 20 // 4 + 3
    assert chosen_ids(SAMPLED, "a") == chosen_ids(SAMPLED, "a") != chosen_ids(SAMPLED, "b")
    assert {name for seed in range(100) for name in chosen_ids(SAMPLED, str(seed))} == {
        item.nodeid for item in SAMPLED
    }


def test_each_row_of_a_test_on_both_loops_runs_on_one_of_them() -> None:
    names = chosen_ids(ON_BOTH_LOOPS, "a")
    assert sorted(name.partition("-")[2] for name in names) == [f"{n}]" for n in range(8)]
    assert {name.partition("-")[0] for name in names} == {"b[asyncio", "b[uvloop"}


def test_the_seed_all_chooses_every_row() -> None:
    assert chosen_ids(SAMPLED + ON_BOTH_LOOPS, "all") == [
        item.nodeid for item in SAMPLED + ON_BOTH_LOOPS
    ]
