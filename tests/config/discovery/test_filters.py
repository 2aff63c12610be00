"""The pure steps after the walk, against naive references."""

import random
import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from exthost.config.discovery.filters import (
    dedupe,
    filter_allowed,
    filter_candidates,
    filter_disabled,
    order,
    prune,
)
from exthost.config.discovery.report import Candidate
from exthost.model.spec import Spec


def candidate(id: str, home: str, root: int = 0) -> Candidate:
    return Candidate(
        spec=Spec(id=id, argv=("x",)),
        path=f"{home.rstrip('/')}/plugin.toml",
        folder=home,
        home=home,
        root_index=root,
        dialect="test",
    )


def homes(candidates: Sequence[Candidate]) -> list[str]:
    return [c.home for c in candidates]


# Few letters and names that are prefixes of each other, so that nesting and clashes are common.
IDS = st.sampled_from(["a", "b", "c", "d"])
HOMES = st.lists(st.sampled_from(["a", "ab", "b", "a-"]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
CANDIDATES = st.lists(st.builds(candidate, IDS, HOMES, st.integers(0, 2)), max_size=12)
LISTED = st.lists(st.sampled_from(["a", "b", "c", "d", "absent"]), max_size=4)


def pruned_naively(candidates: Sequence[Candidate]) -> list[Candidate]:
    def inside(inner: str, outer: str) -> bool:
        ours, theirs = inner.strip("/").split("/"), outer.strip("/").split("/")
        theirs = [part for part in theirs if part]
        ours = [part for part in ours if part]
        return len(ours) > len(theirs) and ours[: len(theirs)] == theirs

    return [c for c in candidates if not any(inside(c.home, o.home) for o in candidates)]


@given(CANDIDATES)
def test_prune_agrees_with_comparing_each_to_each(candidates: list[Candidate]) -> None:
    assert list(prune(candidates)) == pruned_naively(candidates)


@given(CANDIDATES)
def test_pruning_twice_is_pruning_once(candidates: list[Candidate]) -> None:
    assert prune(prune(candidates)) == prune(candidates)


def test_prune_goes_by_whole_names_and_across_roots() -> None:
    found = [candidate("a", "/r/x"), candidate("b", "/r/x/y", root=1), candidate("c", "/r/xy")]
    assert homes(prune(found)) == ["/r/x", "/r/xy"]


def test_two_in_one_folder_do_not_prune_each_other() -> None:
    assert len(prune([candidate("a", "/r/x"), candidate("b", "/r/x")])) == 2


def test_a_candidate_in_the_topmost_folder_prunes_all_others() -> None:
    assert homes(prune([candidate("a", "/"), candidate("b", "/b")])) == ["/"]


def test_prune_does_not_grow_with_the_square() -> None:
    # Each-to-each of 30,000 is 9 * 10^8 comparisons: minutes. The bound is far from both.
    found = [candidate(f"i{n}", f"/r/{n % 100}/{n}") for n in range(30_000)]
    started = time.thread_time()  # which does not pass while others compute
    assert len(prune(found)) == 30_000
    assert time.thread_time() - started < 10


@given(CANDIDATES)
def test_dedupe_keeps_exactly_the_first_of_each_id(candidates: list[Candidate]) -> None:
    kept, shadowed = dedupe(candidates)
    ranked = sorted(candidates, key=lambda c: (c.root_index, c.path.split("/")))
    assert {c.id: c for c in kept} == {c.id: c for c in reversed(ranked)}
    assert len({c.id for c in kept}) == len(kept)
    assert len(kept) + len(shadowed) == len(candidates)
    for loser, winner in shadowed:
        assert loser.id == winner.id
        assert winner in kept


@given(CANDIDATES)
def test_deduping_twice_is_deduping_once(candidates: list[Candidate]) -> None:
    kept, _ = dedupe(candidates)
    assert dedupe(kept) == (kept, ())


def test_an_earlier_root_wins_over_an_earlier_path() -> None:
    late, early = candidate("a", "/a", root=1), candidate("a", "/z", root=0)
    assert dedupe([late, early]) == ((early,), ((late, early),))


def test_paths_compare_name_by_name_as_the_walk_meets_them() -> None:
    # As plain strings the other would win: "-" sorts before "/".
    first, second = candidate("a", "/r/x/y"), candidate("a", "/r/x-y")
    assert dedupe([second, first])[0] == (first,)


@given(CANDIDATES, LISTED)
def test_disabled_ids_are_gone_and_all_others_stay(
    candidates: list[Candidate], ids: list[str]
) -> None:
    kept = filter_disabled(candidates, ids)
    assert list(kept) == [c for c in candidates if ids.count(c.id) == 0]
    assert filter_disabled(kept, ids) == kept


@given(CANDIDATES, LISTED.filter(bool))
def test_an_allowlist_keeps_its_own_and_names_the_absent(
    candidates: list[Candidate], ids: list[str]
) -> None:
    kept, absent = filter_allowed(candidates, ids)
    assert list(kept) == [c for c in candidates if ids.count(c.id) > 0]
    assert set(absent) == {i for i in ids if all(c.id != i for c in candidates)}
    assert len(absent) == len(set(absent))
    assert filter_allowed(kept, ids) == (kept, absent)


@given(CANDIDATES)
def test_an_empty_allowlist_allows_all(candidates: list[Candidate]) -> None:
    assert filter_allowed(candidates, []) == (tuple(candidates), ())


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_order_is_by_root_and_id_however_they_came(
    candidates: list[Candidate], rng: random.Random
) -> None:
    unique, _ = dedupe(candidates)
    shuffled = list(unique)
    rng.shuffle(shuffled)
    ordered = order(shuffled)
    keys = [(c.root_index, c.id) for c in ordered]
    assert keys == sorted(keys)
    assert sorted(c.path for c in ordered) == sorted(c.path for c in unique)
    assert order(ordered) == ordered


@given(CANDIDATES, LISTED, LISTED)
def test_settling_does_not_depend_on_the_order_of_arrival(
    candidates: list[Candidate], disabled: list[str], allowlist: list[str]
) -> None:
    # Two with the same root and path cannot be found; here the first drawn is kept.
    distinct = list({(c.root_index, c.path): c for c in candidates}.values())
    forwards = filter_candidates(distinct, disabled=disabled, allowlist=allowlist)
    backwards = filter_candidates(distinct[::-1], disabled=disabled, allowlist=allowlist)
    assert forwards == backwards


def test_a_disabled_ancestor_still_prunes() -> None:
    found = [candidate("outer", "/r/x"), candidate("inner", "/r/x/y")]
    settled = filter_candidates(found, disabled=["outer"], allowlist=[])
    assert len(settled.disabled_candidates) == 1
    assert settled == ((), (), (found[0],), {})


def test_a_disabled_winner_does_not_bring_its_shadow_to_life() -> None:
    found = [candidate("a", "/r/x"), candidate("a", "/s/x", root=1)]
    settled = filter_candidates(found, disabled=["a"], allowlist=[])
    assert settled.candidates == ()
    assert len(settled.disabled_candidates) == 1
    assert [d.code for d in settled.diagnostics] == ["X0205"]


def test_the_shadowed_extension_is_reported_with_both_paths() -> None:
    found = [candidate("a", "/r/x"), candidate("a", "/s/x", root=1)]
    [warning] = filter_candidates(found, disabled=[], allowlist=[]).diagnostics
    assert (warning.level, warning.path) == ("warning", "/s/x/plugin.toml")
    assert "/r/x/plugin.toml" in warning.message
    assert warning.extension == "a"


def test_an_absent_allowlisted_id_is_a_warning_each() -> None:
    settled = filter_candidates([candidate("a", "/a")], disabled=[], allowlist=["x", "a", "y"])
    assert [c.id for c in settled.candidates] == ["a"]
    assert [(d.level, d.code, d.extension) for d in settled.diagnostics] == [
        ("warning", "X0206", "x"),
        ("warning", "X0206", "y"),
    ]


def test_an_id_both_allowed_and_disabled_is_not_reported_as_lost() -> None:
    settled = filter_candidates([candidate("a", "/a")], disabled=["a"], allowlist=["a"])
    assert settled.candidates == ()
    [warning] = settled.diagnostics
    assert "disabled" in warning.message
    assert "not found" not in warning.message
