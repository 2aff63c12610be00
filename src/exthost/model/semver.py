"""Strict semantic versions (semver.org, 2.0.0): check one, and compare two.

It is for the versions in manifests, and the versions of the host that they require. "1.2.3" and
"1.0.0-beta.2" are versions; "1.2", "v1.2.3" and "01.2.3" are not. `is_newer` returns False if one
of its arguments is not a version. It does not raise, because its callers have checked one version,
and the other is a constant of theirs.
"""

import re
from typing import Final, TypeAlias

_IDENTIFIER: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)

# Longer than every real version. The limit is needed because int() raises for thousands of digits.
_MAX_CHARS: Final = 256

# The three numbers; whether it is a release; the sort keys of the identifiers of a pre-release,
# which are `beta` and `2` in "1.0.0-beta.2".
Precedence: TypeAlias = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def is_version(text: str) -> bool:
    """Return whether this text is exactly a semantic version."""
    return precedence(text) is not None


def is_newer(version: str, other: str) -> bool:
    """Return whether `version` comes after `other`; False if either is not a version."""
    rank, other_rank = precedence(version), precedence(other)
    return rank is not None and other_rank is not None and rank > other_rank


def precedence(text: str) -> Precedence | None:
    """Return a value by which versions can be compared, or None if the text is not a version.

    A release comes after its pre-releases. Build metadata is ignored.
    """
    match = _SEMVER.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if match is None:
        return None
    numbers = tuple(int(part) for part in match.groups()[:3])
    pre_release = match[4]
    if pre_release is None:
        return numbers, True, ()
    return numbers, False, tuple(_identifier_key(part) for part in pre_release.split("."))


def _identifier_key(part: str) -> tuple[bool, int, str]:
    """Return the sort key of an identifier of a pre-release: numbers come before texts."""
    return (False, int(part), "") if part.isdecimal() else (True, 0, part)
