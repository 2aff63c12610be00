"""From everything that was found to what counts: five pure steps, in this order.

    prune → dedupe → disabled → allowlist → order

The order is part of the contract. A disabled extension still prunes what is nested in it, and
still holds its id against a later one: to disable something must never bring its shadow to life.

Nothing here touches the disk or raises; `settle` puts the steps together and words the warnings.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from exthost.discovery.report import Candidate, Diagnostic

__all__ = [
    "Settled",
    "dedupe",
    "filter_allowed",
    "filter_disabled",
    "order",
    "prune",
    "settle",
]


class Settled(NamedTuple):
    """What is left, what there is to say about it, and how many the `disabled` list took."""

    candidates: tuple[Candidate, ...]
    diagnostics: tuple[Diagnostic, ...]
    disabled: int


def settle(
    candidates: Iterable[Candidate], *, disabled: Collection[str], allowlist: Sequence[str]
) -> Settled:
    """All five steps."""
    unique, shadowed = dedupe(prune(candidates))
    enabled = filter_disabled(unique, disabled)
    allowed, absent = filter_allowed(enabled, allowlist)
    off = {candidate.id for candidate in unique} & set(disabled)
    diagnostics = [_shadowed(loser, winner) for loser, winner in shadowed]
    diagnostics += [_absent(name, name in off) for name in absent]
    return Settled(order(allowed), tuple(diagnostics), len(unique) - len(enabled))


def prune(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Without those that lie strictly inside the home of another, whichever root it is of.

    One set lookup for each folder above a candidate: linear in their number.
    """
    found = tuple(candidates)
    homes = {candidate.home for candidate in found}
    return tuple(c for c in found if not any(above in homes for above in _above(c.home)))


def dedupe(
    candidates: Iterable[Candidate],
) -> tuple[tuple[Candidate, ...], tuple[tuple[Candidate, Candidate], ...]]:
    """The first of each id by (root, path), and a pair (loser, winner) for each of the others."""
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
    """Without those whose id is listed."""
    unwanted = frozenset(disabled)
    return tuple(candidate for candidate in candidates if candidate.id not in unwanted)


def filter_allowed(
    candidates: Iterable[Candidate], allowlist: Sequence[str]
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Only those whose id is listed, and the listed ids that nobody has. Empty list: all."""
    found = tuple(candidates)
    if not allowlist:
        return found, ()
    wanted = dict.fromkeys(allowlist)
    there = {candidate.id for candidate in found}
    return (
        tuple(candidate for candidate in found if candidate.id in wanted),
        tuple(name for name in wanted if name not in there),
    )


def order(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """By (root, id): the order in which they are listed, started and registered."""
    return tuple(sorted(candidates, key=lambda candidate: (candidate.root_index, candidate.id)))


def _place(candidate: Candidate) -> tuple[int, list[str]]:
    # Part by part, as the walk meets them: as plain strings "/a-b" would come before "/a/b".
    return candidate.root_index, candidate.path.split("/")


def _above(path: str) -> Iterator[str]:
    """Every folder strictly above an absolute path, the nearest first."""
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
