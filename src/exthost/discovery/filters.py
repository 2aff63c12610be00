"""Decides which of the discovered extensions are used, in five steps:

    prune            removes extensions that are nested in others
    dedupe           keeps the first extension of each id
    filter_disabled  removes the extensions of the `disabled` list
    filter_allowed   keeps only those of the allowlist, if there is one
    order            sorts the rest

The order of the steps is part of the contract (nexo-disc-06 to -10). `filter_disabled` comes after
`prune` and `dedupe`, so a disabled extension still hides what is nested in it, and what has the
same id. Hence disabling one extension never enables another.

The module is pure: it reads no files and raises nothing. `filter_candidates` runs all steps and
returns the warnings.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from exthost.discovery.report import Candidate, Diagnostic

__all__ = [
    "Filtered",
    "dedupe",
    "filter_allowed",
    "filter_disabled",
    "order",
    "prune",
    "filter_candidates",
]


class Filtered(NamedTuple):
    """The extensions that remain, the warnings, and those that the `disabled` list removed."""

    candidates: tuple[Candidate, ...]
    diagnostics: tuple[Diagnostic, ...]
    off: tuple[Candidate, ...]

    @property
    def disabled(self) -> int:
        """The number of extensions that the `disabled` list removed."""
        return len(self.off)


def filter_candidates(
    candidates: Iterable[Candidate], *, disabled: Collection[str], allowlist: Sequence[str]
) -> Filtered:
    """Run all five steps."""
    unique, shadowed = dedupe(prune(candidates))
    enabled = filter_disabled(unique, disabled)
    allowed, absent = filter_allowed(enabled, allowlist)
    off = order(candidate for candidate in unique if candidate.id in disabled)
    diagnostics = [_shadowed_diagnostic(loser, winner) for loser, winner in shadowed]
    off_ids = {candidate.id for candidate in off}
    diagnostics += [_absent_diagnostic(name, name in off_ids) for name in absent]
    return Filtered(order(allowed), tuple(diagnostics), off)


def prune(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates whose home is not inside the home of another candidate, in whichever
    root that was found. The time is linear in the number of candidates: one set lookup for each
    folder above a candidate."""
    all_candidates = tuple(candidates)
    homes = {candidate.home for candidate in all_candidates}
    return tuple(
        c for c in all_candidates if not any(above in homes for above in _parent_folders(c.home))
    )


def dedupe(
    candidates: Iterable[Candidate],
) -> tuple[tuple[Candidate, ...], tuple[tuple[Candidate, Candidate], ...]]:
    """Return the first candidate of each id by (root, path), and (loser, winner) for each other."""
    winners: dict[str, Candidate] = {}
    shadowed = []
    for candidate in sorted(candidates, key=_sort_key):
        winner = winners.setdefault(candidate.id, candidate)
        if winner is not candidate:
            shadowed.append((candidate, winner))
    return tuple(winners.values()), tuple(shadowed)


def filter_disabled(
    candidates: Iterable[Candidate], disabled: Collection[str]
) -> tuple[Candidate, ...]:
    """Return the candidates whose id is not listed."""
    disabled_ids = frozenset(disabled)
    return tuple(candidate for candidate in candidates if candidate.id not in disabled_ids)


def filter_allowed(
    candidates: Iterable[Candidate], allowlist: Sequence[str]
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return the candidates whose id is listed, and the listed ids without a candidate.

    An empty list allows all.
    """
    all_candidates = tuple(candidates)
    if not allowlist:
        return all_candidates, ()
    allowed_ids = dict.fromkeys(allowlist)
    present = {candidate.id for candidate in all_candidates}
    return (
        tuple(candidate for candidate in all_candidates if candidate.id in allowed_ids),
        tuple(name for name in allowed_ids if name not in present),
    )


def order(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates by (root, id): the order of listing, starting and registering."""
    return tuple(sorted(candidates, key=lambda candidate: (candidate.root_index, candidate.id)))


def _sort_key(candidate: Candidate) -> tuple[int, list[str]]:
    # The components of a path are compared one by one, as in the walk. As plain strings, "/a-b"
    # would come before "/a/b".
    return candidate.root_index, candidate.path.split("/")


def _parent_folders(path: str) -> Iterator[str]:
    """Yield every folder strictly above an absolute path, the nearest first."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
    if path != "/":
        yield "/"


def _shadowed_diagnostic(loser: Candidate, winner: Candidate) -> Diagnostic:
    return Diagnostic(
        level="warning",
        path=loser.path,
        code="X0205",
        extension=loser.id,
        message=f"{loser.id!r} was already found at {winner.path}; that one is used",
        help="give one of them another id, or take one out of the search paths",
    )


def _absent_diagnostic(name: str, is_disabled: bool) -> Diagnostic:
    if is_disabled:
        message = f"{name!r} is in the allowlist and disabled; disabled wins"
        help = "take it out of one of the two lists"
    else:
        message = f"{name!r} is in the allowlist and was not found"
        help = "check its spelling and the search paths; a manifest with errors does not count"
    return Diagnostic(
        level="warning", path="", code="X0206", message=message, help=help, extension=name
    )
