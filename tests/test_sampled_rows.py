"""The sample of a table of rows: the same for the same seed, and every row in the end."""

from types import SimpleNamespace
from typing import Any

from tests.sampled_rows import unsampled_items


def row(table: str, number: int, loop: str | None = None, *, share: float | None = None) -> Any:
    words = [str(number)] if loop is None else [loop, str(number)]
    markers = {
        "both_loops": loop,
        "sampled": None if share is None else SimpleNamespace(args=(share,)),
    }
    return SimpleNamespace(
        nodeid=f"{table}[{'-'.join(words)}]",
        callspec=SimpleNamespace(id="-".join(words), params={"loop_kind": loop}),
        get_closest_marker=markers.get,
    )


def chosen(rows: list[Any], seed: str) -> list[str]:
    left_out = [item.nodeid for item in unsampled_items(rows, seed)]
    return [entry.nodeid for entry in rows if entry.nodeid not in left_out]


TABLE = [row("t", number, share=0.25) for number in range(20)]
ON_BOTH = [row("b", number, loop) for loop in ("asyncio", "uvloop") for number in range(8)]
PLAIN = [row("p", number) for number in range(3)]


def test_a_share_of_each_table_is_chosen_and_other_tests_are_left_alone() -> None:
    assert len(chosen(TABLE + PLAIN, "a")) == 5 + 3
    assert chosen(TABLE, "a") == chosen(TABLE, "a") != chosen(TABLE, "b")
    assert {name for seed in range(100) for name in chosen(TABLE, str(seed))} == {
        item.nodeid for item in TABLE
    }


def test_each_row_of_a_test_on_both_loops_runs_on_one_of_them() -> None:
    names = chosen(ON_BOTH, "a")
    assert sorted(name.partition("-")[2] for name in names) == [f"{n}]" for n in range(8)]
    assert {name.partition("-")[0] for name in names} == {"b[asyncio", "b[uvloop"}


def test_all_is_all() -> None:
    assert chosen(TABLE + ON_BOTH, "all") == [item.nodeid for item in TABLE + ON_BOTH]
