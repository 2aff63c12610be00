"""The filters of discovered extensions, compared with simple implementations.

A search finds candidates: extensions by their manifests. The filters then leave out those inside
the folder of another one (prune), disabled ones, all but the first of those with the same id
(dedupe), and those that are not in the allowlist. The root index says which search path a candidate
is from.
"""

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

# Codes of warnings.
REPEATED_ID = "X0205"
NOT_FOUND_OR_DISABLED = "X0206"  # an extension that the allowlist names


def make_candidate(id: str, home: str, root: int = 0) -> Candidate:
    """Return a candidate whose manifest is in the folder `home`."""
    return Candidate(
        spec=Spec(id=id, argv=("x",)),
        path=f"{home.rstrip('/')}/plugin.toml",
        folder=home,
        home=home,
        root_index=root,
        dialect="test",
    )


def homes(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.home for candidate in candidates]


# Few names, and names that are prefixes of each other, so that nesting and equal ids are common.
IDS = st.sampled_from(["a", "b", "c", "d"])
HOMES = st.lists(st.sampled_from(["a", "ab", "b", "a-"]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
CANDIDATES = st.lists(st.builds(make_candidate, IDS, HOMES, st.integers(0, 2)), max_size=12)
ID_LISTS = st.lists(st.sampled_from(["a", "b", "c", "d", "absent"]), max_size=4)


def prune_by_comparing_all(candidates: Sequence[Candidate]) -> list[Candidate]:
    """A simple and slow implementation of `prune`."""

    def is_inside(inner: str, outer: str) -> bool:
        inner_parts = [part for part in inner.split("/") if part]
        outer_parts = [part for part in outer.split("/") if part]
        is_longer = len(inner_parts) > len(outer_parts)
        return is_longer and inner_parts[: len(outer_parts)] == outer_parts

    return [
        candidate
        for candidate in candidates
        if not any(is_inside(candidate.home, other.home) for other in candidates)
    ]


@given(CANDIDATES)
def test_prune_agrees_with_the_simple_implementation(candidates: list[Candidate]) -> None:
    assert list(prune(candidates)) == prune_by_comparing_all(candidates)


@given(CANDIDATES)
def test_prune_is_idempotent(candidates: list[Candidate]) -> None:
    assert prune(prune(candidates)) == prune(candidates)


def test_prune_compares_whole_names_across_roots() -> None:
    candidates = [
        make_candidate("a", "/r/x"),
        make_candidate("b", "/r/x/y", root=1),
        make_candidate("c", "/r/xy"),
    ]
    assert homes(prune(candidates)) == ["/r/x", "/r/xy"]


def test_two_candidates_in_one_folder_do_not_prune_each_other() -> None:
    assert len(prune([make_candidate("a", "/r/x"), make_candidate("b", "/r/x")])) == 2


def test_a_candidate_in_the_topmost_folder_prunes_all_others() -> None:
    assert homes(prune([make_candidate("a", "/"), make_candidate("b", "/b")])) == ["/"]


def test_the_time_of_prune_is_not_quadratic() -> None:
    # Comparing all pairs of 30,000 would be 9 * 10^8 comparisons, which take minutes.
    candidates = [make_candidate(f"i{n}", f"/r/{n % 100}/{n}") for n in range(30_000)]
    started = time.thread_time()  # the time of this thread: other programs do not change it
    assert len(prune(candidates)) == 30_000
    assert time.thread_time() - started < 10


@given(CANDIDATES)
def test_dedupe_keeps_exactly_the_first_of_each_id(candidates: list[Candidate]) -> None:
    kept, shadowed = dedupe(candidates)
    by_priority = sorted(
        candidates, key=lambda candidate: (candidate.root_index, candidate.path.split("/"))
    )
    # In reverse order, the candidate with the highest priority is the last one to be stored.
    expected = {candidate.id: candidate for candidate in reversed(by_priority)}
    assert {candidate.id: candidate for candidate in kept} == expected
    assert len({candidate.id for candidate in kept}) == len(kept)
    assert len(kept) + len(shadowed) == len(candidates)
    for hidden, used in shadowed:
        assert hidden.id == used.id
        assert used in kept


@given(CANDIDATES)
def test_dedupe_is_idempotent(candidates: list[Candidate]) -> None:
    kept, _ = dedupe(candidates)
    assert dedupe(kept) == (kept, ())


def test_an_earlier_root_has_precedence_over_an_earlier_path() -> None:
    second_root, first_root = make_candidate("a", "/a", root=1), make_candidate("a", "/z", root=0)
    assert dedupe([second_root, first_root]) == ((first_root,), ((second_root, first_root),))


def test_paths_are_compared_name_by_name() -> None:
    # As plain strings they have the opposite order: "-" sorts before "/".
    first, second = make_candidate("a", "/r/x/y"), make_candidate("a", "/r/x-y")
    assert dedupe([second, first])[0] == (first,)


@given(CANDIDATES, ID_LISTS)
def test_filter_disabled_removes_exactly_the_disabled_ids(
    candidates: list[Candidate], ids: list[str]
) -> None:
    kept = filter_disabled(candidates, ids)
    assert list(kept) == [candidate for candidate in candidates if ids.count(candidate.id) == 0]
    assert filter_disabled(kept, ids) == kept


@given(CANDIDATES, ID_LISTS.filter(bool))
def test_filter_allowed_keeps_the_listed_ids_and_returns_the_absent_ones(
    candidates: list[Candidate], ids: list[str]
) -> None:
    kept, absent = filter_allowed(candidates, ids)
    assert list(kept) == [candidate for candidate in candidates if ids.count(candidate.id) > 0]
    assert set(absent) == {i for i in ids if all(candidate.id != i for candidate in candidates)}
    assert len(absent) == len(set(absent))
    assert filter_allowed(kept, ids) == (kept, absent)


@given(CANDIDATES)
def test_an_empty_allowlist_allows_all(candidates: list[Candidate]) -> None:
    assert filter_allowed(candidates, []) == (tuple(candidates), ())


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_order_sorts_by_root_and_id(candidates: list[Candidate], rng: random.Random) -> None:
    unique, _ = dedupe(candidates)
    shuffled = list(unique)
    rng.shuffle(shuffled)
    ordered = order(shuffled)
    keys = [(candidate.root_index, candidate.id) for candidate in ordered]
    assert keys == sorted(keys)
    assert sorted(candidate.path for candidate in ordered) == sorted(
        candidate.path for candidate in unique
    )
    assert order(ordered) == ordered


@given(CANDIDATES, ID_LISTS, ID_LISTS)
def test_filter_candidates_does_not_depend_on_the_order_of_its_input(
    candidates: list[Candidate], disabled: list[str], allowlist: list[str]
) -> None:
    # A search cannot find two candidates with the same root and path.
    distinct = list(
        {(candidate.root_index, candidate.path): candidate for candidate in candidates}.values()
    )
    in_order = filter_candidates(distinct, disabled=disabled, allowlist=allowlist)
    in_reverse_order = filter_candidates(distinct[::-1], disabled=disabled, allowlist=allowlist)
    assert in_order == in_reverse_order


def test_a_disabled_extension_prunes_those_inside_it() -> None:
    candidates = [make_candidate("outer", "/r/x"), make_candidate("inner", "/r/x/y")]
    filtered = filter_candidates(candidates, disabled=["outer"], allowlist=[])
    assert filtered.candidates == () and filtered.disabled_candidates == (candidates[0],)
    assert filtered.diagnostics == () and filtered.rivals == {}


def test_the_second_extension_of_a_disabled_id_is_not_used() -> None:
    candidates = [make_candidate("a", "/r/x"), make_candidate("a", "/s/x", root=1)]
    filtered = filter_candidates(candidates, disabled=["a"], allowlist=[])
    assert filtered.candidates == ()
    assert len(filtered.disabled_candidates) == 1
    assert [diagnostic.code for diagnostic in filtered.diagnostics] == [REPEATED_ID]


def test_the_warning_for_a_repeated_id_has_both_paths() -> None:
    candidates = [make_candidate("a", "/r/x"), make_candidate("a", "/s/x", root=1)]
    [warning] = filter_candidates(candidates, disabled=[], allowlist=[]).diagnostics
    assert (warning.level, warning.path) == ("warning", "/s/x/plugin.toml")
    assert "/r/x/plugin.toml" in warning.message
    assert warning.extension == "a"


def test_each_absent_id_of_the_allowlist_is_a_warning() -> None:
    filtered = filter_candidates(
        [make_candidate("a", "/a")], disabled=[], allowlist=["x", "a", "y"]
    )
    assert [candidate.id for candidate in filtered.candidates] == ["a"]
    assert [
        (diagnostic.level, diagnostic.code, diagnostic.extension)
        for diagnostic in filtered.diagnostics
    ] == [
        ("warning", NOT_FOUND_OR_DISABLED, "x"),
        ("warning", NOT_FOUND_OR_DISABLED, "y"),
    ]


def test_an_allowed_id_that_is_disabled_is_reported_as_disabled() -> None:
    filtered = filter_candidates([make_candidate("a", "/a")], disabled=["a"], allowlist=["a"])
    assert filtered.candidates == ()
    [warning] = filtered.diagnostics
    assert "disabled" in warning.message
    assert "not found" not in warning.message
