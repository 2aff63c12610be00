"""Decides which of the discovered extensions are used, in five steps:

    prune            removes extensions that are nested in others
    dedupe           keeps the first extension of each id
    filter_disabled  removes the extensions of the `disabled` list
    filter_allowed   keeps only the extensions of the allowlist, unless that is empty
    order            sorts the remaining extensions

The requirements nexo-disc-06 to -10 prescribe the order of the steps. `filter_disabled` comes after
`prune` and `dedupe`, so a disabled extension still hides the extensions that are nested in it or
have the same id. Hence disabling one extension never enables another.

The module does no I/O and raises nothing. `filter_candidates` runs all steps and returns the
warnings.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exthost.config.discovery.report import Candidate, Diagnostic, RejectedManifest


class Filtered(NamedTuple):
    """The result of the five steps.

    candidates           the extensions that remain
    diagnostics          the warnings
    disabled_candidates  the extensions that the `disabled` list removed
    rivals               as in `SearchReport`
    """

    candidates: tuple[Candidate, ...]
    diagnostics: tuple[Diagnostic, ...]
    disabled_candidates: tuple[Candidate, ...]
    rivals: Mapping[str, tuple[Candidate, ...]]


def filter_candidates(
    candidates: Iterable[Candidate],
    *,
    disabled: Collection[str],
    allowlist: Sequence[str],
    homes: Sequence[str] = (),
) -> Filtered:
    """Run all five steps. `disabled` and `allowlist` have ids; an empty allowlist allows all.

    `homes` has for each root the search path, such as `$SYNAPS`, of which it is one of several
    folders; "" if it is the only one. In the original host of such a dialect, users replace an
    extension in one of these folders by one in another on purpose. So there is no warning, unless a
    hook that may block calls is no longer used.
    """
    unique, shadowed = dedupe(prune(candidates))
    enabled = filter_disabled(unique, disabled)
    allowed, absent_ids = filter_allowed(enabled, allowlist)
    removed = order(candidate for candidate in unique if candidate.id in disabled)
    diagnostics = [
        _shadowed_diagnostic(loser, winner)
        for loser, winner in shadowed
        if not _is_intended(loser, winner, homes)
    ]
    removed_ids = {candidate.id for candidate in removed}
    diagnostics += [_absent_diagnostic(id, id in removed_ids) for id in absent_ids]
    return Filtered(order(allowed), tuple(diagnostics), removed, _find_rivals(shadowed))


def filter_rejected(
    rejected: Iterable[RejectedManifest],
    candidates: Iterable[Candidate],
    *,
    disabled: Collection[str],
    allowlist: Sequence[str],
) -> tuple[RejectedManifest, ...]:
    """Return the rejected manifests that would be used if they were valid, by the same steps:
    `candidates` are all valid ones, before the filters. One whose id cannot be read may be in the
    allowlist."""
    all_candidates = tuple(candidates)
    homes = {candidate.home for candidate in all_candidates}
    roots: dict[str, float] = {}  # id → the first search path that has an extension of this id
    for candidate in all_candidates:
        roots[candidate.id] = min(candidate.root_index, roots.get(candidate.id, math.inf))

    def would_be_used(manifest: RejectedManifest) -> bool:
        if any(folder in homes for folder in _parent_folders(manifest.home)):
            return False  # it is nested in another extension
        if roots.get(manifest.diagnostic.extension, math.inf) < manifest.root_index:
            return False  # an earlier search path has an extension of its id
        if not manifest.ids.isdisjoint(disabled):
            return False
        may_be_allowed = not manifest.has_id or not manifest.ids.isdisjoint(allowlist)
        return not allowlist or may_be_allowed

    return tuple(filter(would_be_used, rejected))


def prune(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates whose home (the real path of the extension's own folder or program) is
    not inside the home of another candidate. The two may be in different search paths. The time is
    linear in the number of candidates: one set lookup for each folder above a candidate."""
    all_candidates = tuple(candidates)
    homes = {candidate.home for candidate in all_candidates}
    return tuple(
        c for c in all_candidates if not any(folder in homes for folder in _parent_folders(c.home))
    )


def dedupe(
    candidates: Iterable[Candidate],
) -> tuple[tuple[Candidate, ...], tuple[tuple[Candidate, Candidate], ...]]:
    """Return the first candidate of each id, by (root, path), and a pair (loser, winner) for each
    later candidate of the same id."""
    winners: dict[str, Candidate] = {}
    shadowed = []
    for candidate in sorted(candidates, key=_sort_key):
        winner = winners.setdefault(candidate.id, candidate)
        if winner is not candidate:
            shadowed.append((candidate, winner))
    return tuple(winners.values()), tuple(shadowed)


def _find_rivals(
    shadowed: Iterable[tuple[Candidate, Candidate]],
) -> dict[str, tuple[Candidate, ...]]:
    """Return the candidates that were removed in favour of one in the same search path, by id.
    Between search paths the order is the operator's choice."""
    found: dict[str, tuple[Candidate, ...]] = {}
    for loser, winner in shadowed:
        if loser.root_index == winner.root_index:
            found[loser.id] = (*found.get(loser.id, ()), loser)
    return found


def filter_disabled(
    candidates: Iterable[Candidate], disabled: Collection[str]
) -> tuple[Candidate, ...]:
    """Return the candidates whose id is not in `disabled`."""
    disabled_ids = frozenset(disabled)
    return tuple(candidate for candidate in candidates if candidate.id not in disabled_ids)


def filter_allowed(
    candidates: Iterable[Candidate], allowlist: Sequence[str]
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return the candidates whose id is in the allowlist, and the ids of the allowlist that no
    candidate has. An empty allowlist allows all candidates."""
    all_candidates = tuple(candidates)
    if not allowlist:
        return all_candidates, ()
    allowed_ids = dict.fromkeys(allowlist)
    present_ids = {candidate.id for candidate in all_candidates}
    return (
        tuple(candidate for candidate in all_candidates if candidate.id in allowed_ids),
        tuple(id for id in allowed_ids if id not in present_ids),
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


def _is_intended(loser: Candidate, winner: Candidate, homes: Sequence[str]) -> bool:
    """Return whether the two are in different folders of one search path such as `$SYNAPS`."""
    if not homes or loser.root_index == winner.root_index:
        return False
    is_one_path = bool(homes[loser.root_index]) and (
        homes[loser.root_index] == homes[winner.root_index]
    )
    # A hook that could block calls must not disappear without a warning.
    blocking_hooks = set(loser.spec.declared_hooks) - set(loser.spec.advisory_hooks)
    return is_one_path and not blocking_hooks


def _shadowed_diagnostic(loser: Candidate, winner: Candidate) -> Diagnostic:
    """Return the warning for an extension whose id an earlier one has."""
    return Diagnostic(
        level="warning",
        path=loser.path,
        code="X0205",
        extension=loser.id,
        message=f"{loser.id!r} was already found at {winner.path}, so this one is not used",
        help="give one of them another id, or take one out of the search paths",
    )


def _absent_diagnostic(id: str, is_disabled: bool) -> Diagnostic:
    """Return the warning for an id of the allowlist that no remaining candidate has."""
    if is_disabled:
        message = f"{id!r} is in the allowlist and disabled; disabled wins"
        help = "take it out of one of the two lists"
    else:
        message = f"{id!r} is in the allowlist and was not found"
        help = "check its spelling and the search paths; a manifest with errors does not count"
    return Diagnostic(
        level="warning", path="", code="X0206", message=message, help=help, extension=id
    )
