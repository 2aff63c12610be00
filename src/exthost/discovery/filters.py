"""Which of the extensions found are used: five pure steps, in this order.

    prune → dedupe → disabled → allowlist → order

The order is part of the contract (nexo-disc-06 to -10). A disabled extension still removes what is
nested in it, and still keeps its id: disabling one extension must never enable another of its id.

Nothing here reads the disk or raises. `filter_candidates` runs the steps and makes the warnings.
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
        """How many the `disabled` list removed."""
        return len(self.off)


def filter_candidates(
    candidates: Iterable[Candidate], *, disabled: Collection[str], allowlist: Sequence[str]
) -> Filtered:
    """Run all five steps."""
    unique, shadowed = dedupe(prune(candidates))
    enabled = filter_disabled(unique, disabled)
    allowed, absent = filter_allowed(enabled, allowlist)
    off = order(candidate for candidate in unique if candidate.id in disabled)
    diagnostics = [_shadowed(loser, winner) for loser, winner in shadowed]
    off_ids = {candidate.id for candidate in off}
    diagnostics += [_absent(name, name in off_ids) for name in absent]
    return Filtered(order(allowed), tuple(diagnostics), off)


def prune(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates that are not strictly inside the home of another, of whichever root.

    Takes one set lookup for each folder above a candidate, so it is linear in their number.
    """
    all_candidates = tuple(candidates)
    homes = {candidate.home for candidate in all_candidates}
    return tuple(c for c in all_candidates if not any(above in homes for above in _above(c.home)))


def dedupe(
    candidates: Iterable[Candidate],
) -> tuple[tuple[Candidate, ...], tuple[tuple[Candidate, Candidate], ...]]:
    """Return the first candidate of each id by (root, path), and (loser, winner) for each other."""
    winners: dict[str, Candidate] = {}
    shadowed = []
    for candidate in sorted(candidates, key=_place):
        winner = winners.setdefault(candidate.id, candidate)
        if winner is not candidate:
            shadowed.append((candidate, winner))
    return tuple(winners.values()), tuple(shadowed)


def filter_disabled(
    candidates: Iterable[Candidate], disabled: Collection[str]
) -> tuple[Candidate, ...]:
    """Return the candidates whose id is not listed."""
    unwanted = frozenset(disabled)
    return tuple(candidate for candidate in candidates if candidate.id not in unwanted)


def filter_allowed(
    candidates: Iterable[Candidate], allowlist: Sequence[str]
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return the candidates whose id is listed, and the listed ids without a candidate.

    An empty list allows all.
    """
    all_candidates = tuple(candidates)
    if not allowlist:
        return all_candidates, ()
    wanted = dict.fromkeys(allowlist)
    present = {candidate.id for candidate in all_candidates}
    return (
        tuple(candidate for candidate in all_candidates if candidate.id in wanted),
        tuple(name for name in wanted if name not in present),
    )


def order(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates by (root, id): the order of listing, starting and registering."""
    return tuple(sorted(candidates, key=lambda candidate: (candidate.root_index, candidate.id)))


def _place(candidate: Candidate) -> tuple[int, list[str]]:
    # Part by part, in the order of the walk: as plain strings "/a-b" would come before "/a/b".
    return candidate.root_index, candidate.path.split("/")


def _above(path: str) -> Iterator[str]:
    """Yield every folder strictly above an absolute path, the nearest first."""
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
    if path != "/":
        yield "/"


def _shadowed(loser: Candidate, winner: Candidate) -> Diagnostic:
    return Diagnostic(
        level="warning",
        path=loser.path,
        code="X0205",
        extension=loser.id,
        message=f"{loser.id!r} was already found at {winner.path}; that one is used",
        help="give one of them another id, or take one out of the search paths",
    )


def _absent(name: str, is_disabled: bool) -> Diagnostic:
    if is_disabled:
        message = f"{name!r} is in the allowlist and disabled; disabled wins"
        help = "take it out of one of the two lists"
    else:
        message = f"{name!r} is in the allowlist and was not found"
        help = "check its spelling and the search paths; a manifest with errors does not count"
    return Diagnostic(
        level="warning", path="", code="X0206", message=message, help=help, extension=name
    )
