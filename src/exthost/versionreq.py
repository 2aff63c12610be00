"""Cargo's version requirements, such as `^0.1`, `>=1.2, <2` and `1.*`: parse them, match versions.

Pure. Follows Cargo's crate `semver` exactly, also where that may surprise: a bare `1.2` means
`^1.2`; `^0.1` does not match `0.2`; a pre-release matches a requirement only if the requirement
names a pre-release of the same three numbers; build metadata is ignored; only blanks may separate
the parts.

Raises `NotAVersion`, which gives the place and the reason, for text that cannot be parsed.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

# The sort key of a pre-release: in each part, numbers come before words.
_Pre: TypeAlias = tuple[tuple[int, int, str], ...]

_OPERATORS: Final = (">=", "<=", "=", ">", "<", "~", "^")
_WILDCARDS: Final = ("*", "x", "X")
_LARGEST: Final = 2**64 - 1

# The limit of Cargo's own parser.
_MAX_COMPARATORS: Final = 32

_WORD: Final = re.compile(r"[0-9A-Za-z.-]*")
_DIGITS: Final = re.compile(r"[0-9]*")


class NotAVersion(ValueError):
    """The text is not a version, or not a requirement."""


@dataclass(frozen=True, slots=True)
class Version:
    """Three numbers and a pre-release ("" for none)."""

    major: int
    minor: int
    patch: int
    pre: str = ""

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Return the version that this text is. Raises NotAVersion."""
        rest = text
        numbers: list[int] = []
        for place in ("major", "minor", "patch"):
            if numbers:
                if not rest.startswith("."):
                    raise NotAVersion(f"{text!r} is not a version: it has no {place} number")
                rest = rest[1:]
            number, rest = _number(rest, place)
            numbers.append(number)
        pre, rest = _labels(rest)
        if rest:
            raise NotAVersion(f"{text!r} is not a version: {rest!r} does not belong there")
        return cls(numbers[0], numbers[1], numbers[2], pre)


@dataclass(frozen=True, slots=True)
class Comparator:
    """One comparison. A number that is left out or a wildcard is None."""

    op: str
    major: int
    minor: int | None = None
    patch: int | None = None
    pre: str = ""

    def admits(self, version: Version) -> bool:
        """Return whether this comparison is true of the version, by precedence alone."""
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
        """Return whether this comparison names a pre-release of the version's three numbers."""
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
        required, actual = self._compared(version)
        return (
            actual > required
            if len(required) < 3
            else (actual, _order(version)) > (required, _order(self))
        )

    def _exceeds(self, version: Version) -> bool:
        required, actual = self._compared(version)
        return (
            actual < required
            if len(required) < 3
            else (actual, _order(version)) < (required, _order(self))
        )

    def _compared(self, version: Version) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of this comparison, and as many of the version's."""
        required: tuple[int, ...] = (self.major,)
        if self.minor is not None:
            required += (self.minor,)
            if self.patch is not None:
                required += (self.patch,)
        return required, (version.major, version.minor, version.patch)[: len(required)]

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
        required, actual = (self.minor, self.patch), (version.minor, version.patch)
        if actual == required:
            return _order(version) >= _order(self)
        if self.major:
            return actual > required
        return self.minor > 0 and version.minor == self.minor and version.patch > self.patch


@dataclass(frozen=True, slots=True)
class VersionReq:
    """A requirement: all comparators must match. Without any (`*`) it matches every release."""

    comparators: tuple[Comparator, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "VersionReq":
        """Return the requirement that this text is. Raises NotAVersion."""
        rest = text.lstrip(" ")
        if rest.startswith(_WILDCARDS):
            if rest[1:].strip(" "):
                raise NotAVersion(f"{text!r} is not a requirement: a wildcard must be alone")
            return cls()
        comparators: list[Comparator] = []
        while True:
            comparator, rest = _comparator(rest)
            comparators.append(comparator)
            if not rest:
                return cls(tuple(comparators))
            if not rest.startswith(","):
                raise NotAVersion(f"{text!r} is not a requirement: a comma is missing at {rest!r}")
            if len(comparators) == _MAX_COMPARATORS:
                raise NotAVersion(f"more than {_MAX_COMPARATORS} comparisons in one requirement")
            rest = rest[1:].lstrip(" ")

    def matches(self, version: Version) -> bool:
        """Return whether this version satisfies the requirement."""
        if not all(comparator.admits(version) for comparator in self.comparators):
            return False
        # ^1.2 does not mean 1.3.0-alpha, although that is in its range.
        return not version.pre or any(each.names_pre_of(version) for each in self.comparators)


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
    # After an operator, a wildcard is a number left out; without one, it is the operator itself.
    op = op or ("*" if wild else "^")
    return Comparator(op, major, minor, patch, pre), rest.lstrip(" ")


def _number(text: str, place: str) -> tuple[int, str]:
    match = _DIGITS.match(text)
    digits = match[0] if match else ""
    if not digits:
        instead = f"{text[0]!r}" if text else "the end"
        raise NotAVersion(f"the {place} number is missing: {instead} is in its place")
    # The length is checked first: int() would raise its own error for thousands of digits.
    if len(digits) > 20 or int(digits) > _LARGEST:
        raise NotAVersion(f"the {place} number is too large")
    if digits[0] == "0" and len(digits) > 1:
        raise NotAVersion(f"the {place} number begins with 0")
    return int(digits), text[len(digits) :]


def _labels(text: str) -> tuple[str, str]:
    """Return the pre-release and the rest of the text after any build metadata."""
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
    match = _WORD.match(text)
    word = match[0] if match else ""
    if not all(word.split(".")):
        raise NotAVersion(f"the {what} is empty, or a part of it is")
    return word, text[len(word) :]


def _order(labelled: Version | Comparator) -> tuple[bool, _Pre]:
    parts = labelled.pre.split(".") if labelled.pre else []
    compared = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts)
    return not parts, compared
