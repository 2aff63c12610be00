"""Cargo's version requirements: `^0.1`, `>=1.2, <2`, `1.*`, and which versions satisfy them.

Owns the two notations and the one question between them. Pure. Exact where it matters and
surprises: a bare `1.2` is `^1.2`; `^0.1` never takes `0.2`; a pre-release satisfies a requirement
only if that names a pre-release of the very same three numbers; build metadata is read and
forgotten; only blanks may stand between the parts.

Whatever cannot be read raises `NotAVersion`, which says where and why.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

# A pre-release as it is compared: at each place numbers below words; none at all is above all.
_Pre: TypeAlias = tuple[tuple[int, int, str], ...]

_OPERATORS: Final = (">=", "<=", "=", ">", "<", "~", "^")
_WILDCARDS: Final = ("*", "x", "X")
_LARGEST: Final = 2**64 - 1

# What the original allows in one requirement.
_MAX_COMPARATORS: Final = 32

_WORD: Final = re.compile(r"[0-9A-Za-z.-]*")
_DIGITS: Final = re.compile(r"[0-9]*")


class NotAVersion(ValueError):
    """The text is no version, or no requirement."""


@dataclass(frozen=True, slots=True)
class Version:
    """Three numbers and a pre-release ("" for none)."""

    major: int
    minor: int
    patch: int
    pre: str = ""

    @classmethod
    def parse(cls, text: str) -> "Version":
        """The version in this text, which must be nothing else."""
        rest = text
        numbers: list[int] = []
        for place in ("major", "minor", "patch"):
            if numbers:
                if not rest.startswith("."):
                    raise NotAVersion(f"{text!r} is no version: it has no {place} number")
                rest = rest[1:]
            number, rest = _number(rest, place)
            numbers.append(number)
        pre, rest = _labels(rest)
        if rest:
            raise NotAVersion(f"{text!r} is no version: {rest!r} is left over")
        return cls(numbers[0], numbers[1], numbers[2], pre)


@dataclass(frozen=True, slots=True)
class Comparator:
    """One comparison; a number that was not said, or was a wildcard, is None."""

    op: str
    major: int
    minor: int | None = None
    patch: int | None = None
    pre: str = ""

    def admits(self, version: Version) -> bool:
        """Whether the version compares so, by numbers and order alone."""
        match self.op:
            case "=" | "*":
                return self._equals(version)
            case ">":
                return self._exceeded_by(version)
            case ">=":
                return self._equals(version) or self._exceeded_by(version)
            case "<":
                return self._exceeds(version)
            case "<=":
                return self._equals(version) or self._exceeds(version)
            case "~":
                return self._tilde(version)
        return self._caret(version)

    def names_pre_of(self, version: Version) -> bool:
        """Whether it speaks of a pre-release of the very same numbers."""
        numbers = (version.major, version.minor, version.patch)
        return bool(self.pre) and (self.major, self.minor, self.patch) == numbers

    def _equals(self, version: Version) -> bool:
        return (
            version.major == self.major
            and self.minor in (None, version.minor)
            and self.patch in (None, version.patch)
            and version.pre == self.pre
        )

    def _exceeded_by(self, version: Version) -> bool:
        said, found = self._compared(version)
        return found > said if len(said) < 3 else (found, _order(version)) > (said, _order(self))

    def _exceeds(self, version: Version) -> bool:
        said, found = self._compared(version)
        return found < said if len(said) < 3 else (found, _order(version)) < (said, _order(self))

    def _compared(self, version: Version) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The numbers that were said, and as many of the version's."""
        said: tuple[int, ...] = (self.major,)
        if self.minor is not None:
            said += (self.minor,)
            if self.patch is not None:
                said += (self.patch,)
        return said, (version.major, version.minor, version.patch)[: len(said)]

    def _tilde(self, version: Version) -> bool:
        if version.major != self.major or self.minor not in (None, version.minor):
            return False
        if self.patch is not None and version.patch != self.patch:
            return version.patch > self.patch
        return _order(version) >= _order(self)

    def _caret(self, version: Version) -> bool:
        if version.major != self.major:
            return False
        if self.minor is None:
            return True
        if self.patch is None:
            return version.minor >= self.minor if self.major else version.minor == self.minor
        said, found = (self.minor, self.patch), (version.minor, version.patch)
        if found == said:
            return _order(version) >= _order(self)
        if self.major:
            return found > said
        return self.minor > 0 and version.minor == self.minor and version.patch > self.patch


@dataclass(frozen=True, slots=True)
class VersionReq:
    """A requirement: all its comparators must agree. None at all (`*`) admits every release."""

    comparators: tuple[Comparator, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "VersionReq":
        """The requirement in this text."""
        rest = text.lstrip(" ")
        if rest.startswith(_WILDCARDS):
            if rest[1:].strip(" "):
                raise NotAVersion(f"{text!r} is no requirement: a wildcard must stand alone")
            return cls()
        read: list[Comparator] = []
        while True:
            comparator, rest = _comparator(rest)
            read.append(comparator)
            if not rest:
                return cls(tuple(read))
            if not rest.startswith(","):
                raise NotAVersion(f"{text!r} is no requirement: a comma should stand at {rest!r}")
            if len(read) == _MAX_COMPARATORS:
                raise NotAVersion(f"more than {_MAX_COMPARATORS} comparisons in one requirement")
            rest = rest[1:].lstrip(" ")

    def matches(self, version: Version) -> bool:
        """Whether this version will do."""
        if not all(comparator.admits(version) for comparator in self.comparators):
            return False
        # Who asks for ^1.2 does not want 1.3.0-alpha, though it lies in between.
        return not version.pre or any(one.names_pre_of(version) for one in self.comparators)


def _comparator(text: str) -> tuple[Comparator, str]:
    op = next((known for known in _OPERATORS if text.startswith(known)), "")
    rest = text[len(op) :].lstrip(" ")
    major, rest = _number(rest, "major")
    numbers: list[int | None] = []
    wild = False
    for place in ("minor", "patch"):
        if not rest.startswith("."):
            break
        rest = rest[1:]
        if rest.startswith(_WILDCARDS):
            wild, rest = True, rest[1:]
            numbers.append(None)
        elif wild:
            raise NotAVersion(f"a {place} number after a wildcard")
        else:
            number, rest = _number(rest, place)
            numbers.append(number)
    minor, patch = (*numbers, None, None)[:2]
    pre = ""
    if patch is not None:
        pre, rest = _labels(rest)
    # With an operator a wildcard is simply a number not said; alone it is an operator itself.
    op = op or ("*" if wild else "^")
    return Comparator(op, major, minor, patch, pre), rest.lstrip(" ")


def _number(text: str, place: str) -> tuple[int, str]:
    found = _DIGITS.match(text)
    digits = found[0] if found else ""
    if not digits:
        what = f"{text[0]!r}" if text else "the end"
        raise NotAVersion(f"the {place} number is missing: {what} stands in its place")
    # Compared as text first: int() refuses thousands of digits in its own words.
    if len(digits) > 20 or int(digits) > _LARGEST:
        raise NotAVersion(f"the {place} number is too large")
    if digits[0] == "0" and len(digits) > 1:
        raise NotAVersion(f"the {place} number begins with 0")
    return int(digits), text[len(digits) :]


def _labels(text: str) -> tuple[str, str]:
    """The pre-release, with any build metadata after it read and dropped."""
    pre = ""
    if text.startswith("-"):
        pre, text = _identifiers(text[1:], "pre-release")
        for part in pre.split("."):
            if part.isdigit() and part[0] == "0" and len(part) > 1:
                raise NotAVersion(f"the number {part} in the pre-release begins with 0")
    if text.startswith("+"):
        _, text = _identifiers(text[1:], "build metadata")
    return pre, text


def _identifiers(text: str, what: str) -> tuple[str, str]:
    found = _WORD.match(text)
    word = found[0] if found else ""
    if not all(word.split(".")):
        raise NotAVersion(f"the {what} is empty, or a part of it is")
    return word, text[len(word) :]


def _order(labelled: Version | Comparator) -> tuple[bool, _Pre]:
    parts = labelled.pre.split(".") if labelled.pre else []
    compared = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts)
    return not parts, compared
