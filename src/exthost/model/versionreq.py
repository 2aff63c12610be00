"""Parses version requirements of Cargo, such as `^0.1`, `>=1.2, <2` and `1.*`, and matches them.

Follows Cargo's crate `semver` exactly, also where that may surprise: `1.2` without operator means
`^1.2`; `^0.1` does not match `0.2`; a pre-release matches a requirement only if the requirement
names a pre-release of the same three numbers; build metadata is ignored; only spaces may
stand between the parts. Manifests name the versions of the host that an extension can run with:

    VersionReq.parse(">=0.1.0, <0.3").matches(Version.parse("0.2.5"))      is True

Text that cannot be parsed raises `NotAVersion`, with the place and the reason.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

# The sort key of a pre-release. Each identifier is (0, its length, its digits) or (1, 0, text), so
# that numbers come before texts. A number does not begin with 0, so the longer one is larger; int()
# would raise for thousands of digits.
_PreReleaseKey: TypeAlias = tuple[tuple[int, int, str], ...]

_OPERATORS: Final = (">=", "<=", "=", ">", "<", "~", "^")
_WILDCARDS: Final = ("*", "x", "X")
_MAX_NUMBER: Final = 2**64 - 1  # Cargo has 64-bit numbers

# The limit of Cargo's own parser.
_MAX_COMPARATORS: Final = 32

_IDENTIFIERS: Final = re.compile(r"[0-9A-Za-z.-]*")
_DIGITS: Final = re.compile(r"[0-9]*")


class NotAVersion(ValueError):
    """The text is not a version, or not a requirement."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version: three numbers, and a pre-release such as "beta.1" ("" for a release)."""

    major: int
    minor: int
    patch: int
    pre_release: str = ""

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Return the version in this text. Raises NotAVersion."""
        rest = text
        numbers: list[int] = []
        for place in ("major", "minor", "patch"):
            if numbers:
                if not rest.startswith("."):
                    raise NotAVersion(f"{text!r} is not a version: it has no {place} number")
                rest = rest[1:]
            number, rest = _parse_number(rest, place)
            numbers.append(number)
        pre_release, rest = _parse_labels(rest)
        if rest:
            raise NotAVersion(f"{text!r} is not a version: {rest!r} does not belong there")
        return cls(numbers[0], numbers[1], numbers[2], pre_release)


@dataclass(frozen=True, slots=True)
class Comparator:
    """One comparison, such as `>=1.2`. A number is None if it is left out or a wildcard."""

    operator: str
    major: int
    minor: int | None = None
    patch: int | None = None
    pre_release: str = ""

    def is_satisfied_by(self, version: Version) -> bool:
        """Return whether the version satisfies the comparison. The rule that most requirements do
        not match pre-releases is not applied here but in `VersionReq.matches`."""
        match self.operator:
            case "=" | "*":
                return self._equals(version)
            case ">":
                return self._is_below(version)
            case ">=":
                return self._equals(version) or self._is_below(version)
            case "<":
                return self._is_above(version)
            case "<=":
                return self._equals(version) or self._is_above(version)
            case "~":
                return self._matches_tilde(version)
        return self._matches_caret(version)

    def has_pre_release_of(self, version: Version) -> bool:
        """Return whether this comparison has a pre-release of the same three numbers."""
        numbers = (version.major, version.minor, version.patch)
        return bool(self.pre_release) and (self.major, self.minor, self.patch) == numbers

    def _equals(self, version: Version) -> bool:
        return (
            version.major == self.major
            and self.minor in (None, version.minor)
            and self.patch in (None, version.patch)
            and version.pre_release == self.pre_release
        )

    def _is_below(self, version: Version) -> bool:
        """Return whether the numbers of this comparison are below those of the version."""
        required, actual = self._comparable_numbers(version)
        if len(required) < 3:
            return actual > required
        return (actual, _pre_release_key(version)) > (required, _pre_release_key(self))

    def _is_above(self, version: Version) -> bool:
        """Return whether the numbers of this comparison are above those of the version."""
        required, actual = self._comparable_numbers(version)
        if len(required) < 3:
            return actual < required
        return (actual, _pre_release_key(version)) < (required, _pre_release_key(self))

    def _comparable_numbers(self, version: Version) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of this comparison, and equally many numbers of the version."""
        required: tuple[int, ...] = (self.major,)
        if self.minor is not None:
            required += (self.minor,)
            if self.patch is not None:
                required += (self.patch,)
        return required, (version.major, version.minor, version.patch)[: len(required)]

    def _matches_tilde(self, version: Version) -> bool:
        """Return whether major and minor are equal, as far as they are set, and the patch number is
        not lower."""
        if version.major != self.major or self.minor not in (None, version.minor):
            return False
        if self.patch is not None and version.patch != self.patch:
            return version.patch > self.patch
        return _pre_release_key(version) >= _pre_release_key(self)

    def _matches_caret(self, version: Version) -> bool:
        """Return whether the version is not lower, and the first number that is not 0 is equal."""
        if version.major != self.major:
            return False
        if self.minor is None:
            return True
        if self.patch is None:
            return version.minor >= self.minor if self.major else version.minor == self.minor
        required, actual = (self.minor, self.patch), (version.minor, version.patch)
        if actual == required:
            return _pre_release_key(version) >= _pre_release_key(self)
        if self.major:
            return actual > required
        # ^0.2.3 matches 0.2.4 and not 0.3.0; ^0.0.3 matches 0.0.3 alone.
        return self.minor > 0 and version.minor == self.minor and version.patch > self.patch


@dataclass(frozen=True, slots=True)
class VersionReq:
    """A requirement: all comparators must match. `*` has none of them and matches every release."""

    comparators: tuple[Comparator, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "VersionReq":
        """Return the requirement in this text. Raises NotAVersion."""
        rest = text.lstrip(" ")
        if rest.startswith(_WILDCARDS):
            if rest[1:].strip(" "):
                raise NotAVersion(f"{text!r} is not a requirement: a wildcard must be alone")
            return cls()
        comparators: list[Comparator] = []
        while True:
            comparator, rest = _parse_comparator(rest)
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
        if not all(comparator.is_satisfied_by(version) for comparator in self.comparators):
            return False
        # ^1.2 does not match 1.3.0-alpha, although that version is in its range.
        return not version.pre_release or any(
            comparator.has_pre_release_of(version) for comparator in self.comparators
        )


def _parse_comparator(text: str) -> tuple[Comparator, str]:
    """Return the comparison at the beginning of a text, and the rest of the text."""
    operator = next((item for item in _OPERATORS if text.startswith(item)), "")
    rest = text[len(operator) :].lstrip(" ")
    major, rest = _parse_number(rest, "major")
    numbers: list[int | None] = []
    is_wild = False
    for place in ("minor", "patch"):
        if not rest.startswith("."):
            break
        rest = rest[1:]
        if rest.startswith(_WILDCARDS):
            is_wild, rest = True, rest[1:]
            numbers.append(None)
        elif is_wild:
            raise NotAVersion(f"a {place} number after a wildcard")
        else:
            number, rest = _parse_number(rest, place)
            numbers.append(number)
    minor, patch = (*numbers, None, None)[:2]
    pre_release = ""
    if patch is not None:
        pre_release, rest = _parse_labels(rest)
    # After an operator, `1.*` means the same as `1`. Without one, the wildcard is the operator.
    operator = operator or ("*" if is_wild else "^")
    return Comparator(operator, major, minor, patch, pre_release), rest.lstrip(" ")


def _parse_number(text: str, place: str) -> tuple[int, str]:
    """Return the number at the beginning of a text, and the rest of the text. `place` is "major",
    "minor" or "patch", for the error."""
    match = _DIGITS.match(text)
    digits = match[0] if match else ""
    if not digits:
        found_instead = f"{text[0]!r}" if text else "the end"
        raise NotAVersion(f"the {place} number is missing: {found_instead} is in its place")
    # The length is checked first: int() would raise its own error for thousands of digits.
    if len(digits) > 20 or int(digits) > _MAX_NUMBER:
        raise NotAVersion(f"the {place} number is too large")
    if digits[0] == "0" and len(digits) > 1:
        raise NotAVersion(f"the {place} number begins with 0")
    return int(digits), text[len(digits) :]


def _parse_labels(text: str) -> tuple[str, str]:
    """Return the pre-release, and the rest of the text after the pre-release and build metadata."""
    pre_release = ""
    if text.startswith("-"):
        pre_release, text = _parse_identifiers(text[1:], "pre-release")
        for part in pre_release.split("."):
            if part.isdigit() and part[0] == "0" and len(part) > 1:
                raise NotAVersion(f"the number {part} in the pre-release begins with 0")
    if text.startswith("+"):
        _, text = _parse_identifiers(text[1:], "build metadata")
    return pre_release, text


def _parse_identifiers(text: str, part: str) -> tuple[str, str]:
    """Return the identifiers, separated by dots, at the beginning of a text, and the rest of the
    text. `part` is the part of the version that they are, for the error."""
    match = _IDENTIFIERS.match(text)
    identifiers = match[0] if match else ""
    if not all(identifiers.split(".")):
        raise NotAVersion(f"the {part} is empty, or a part of it is")
    return identifiers, text[len(identifiers) :]


def _pre_release_key(version: Version | Comparator) -> tuple[bool, _PreReleaseKey]:
    """Return the sort key of the pre-release: a release comes after all its pre-releases."""
    parts = version.pre_release.split(".") if version.pre_release else []
    keys = tuple((0, len(part), part) if part.isdigit() else (1, 0, part) for part in parts)
    return not parts, keys
