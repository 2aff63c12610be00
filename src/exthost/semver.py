"""Strict semantic versions (semver.org, 2.0.0): is this one, and which of two is newer?

Pure. Nothing is guessed: "1.2", "v1.2.3" and "01.2.3" are no versions. What cannot be read is
never newer than anything, since whoever compares has checked one side and owns the other.
"""

import re
from typing import Final, TypeAlias

_IDENTIFIER: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)

# Longer numbers fit no 64-bit integer, and Python refuses to read those of thousands of digits.
_MAX_CHARS: Final = 256

Precedence: TypeAlias = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def is_version(text: str) -> bool:
    """Whether this is a semantic version to the letter."""
    return precedence(text) is not None


def newer(one: str, other: str) -> bool:
    """Whether `one` comes after `other`; False where either is no version."""
    mine, theirs = precedence(one), precedence(other)
    return mine is not None and theirs is not None and mine > theirs


def precedence(text: str) -> Precedence | None:
    """What versions compare by: numbers, then a release after its pre-releases. Build data does
    not count. None: not a version."""
    found = _SEMVER.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if found is None:
        return None
    numbers = tuple(int(part) for part in found.groups()[:3])
    pre = found[4]
    if pre is None:
        return numbers, True, ()
    return numbers, False, tuple(_identifier(part) for part in pre.split("."))


def _identifier(part: str) -> tuple[bool, int, str]:
    """Numbers compare as numbers and come before words."""
    return (False, int(part), "") if part.isdecimal() else (True, 0, part)
