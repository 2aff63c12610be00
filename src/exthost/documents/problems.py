"""Collects the mistakes of a config, so that one run reports all of them.

A reader that finds a mistake records it at its Place and continues with None. Nothing is raised
until `Problems.raise_first`, which raises the first mistake in the file as a ConfigError and lists
the others in its evidence. So no incomplete value leaves this package.

The error codes are the constants below; `errors.toml` explains them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exthost.documents.toml_positions import KeyPath, find_key_lines, find_line
from exthost.errors import ConfigError, Evidence

UNREADABLE = "X0101"
UNKNOWN_KEY = "X0102"
WRONG_VALUE = "X0103"
DUPLICATE_NAME = "X0104"
UNSUPPORTED_SOURCE = "X0105"
BAD_UNIT = "X0106"
UNKNOWN_DIALECT = "X0107"

# Further mistakes are only counted: a generated file may repeat one mistake ten thousand times.
_MAX_LISTED = 50

# A key longer than this is cut in messages.
_MAX_KEY_CHARS = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake."""

    code: str
    text: str
    path: KeyPath
    help: str
    extension: str


@dataclass(slots=True)
class Problems:
    """The mistakes of one config. `origin` names its file; `text` is its TOML, if it has one.

    `notes` name keys that are no mistake and have no effect.
    """

    origin: str = ""
    text: str = ""
    items: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _lines: Mapping[KeyPath, int] | None = None

    def raise_first(self) -> None:
        """Raise a ConfigError for the first mistake in the file, if there is any."""
        if not self.items:
            return
        lines = self.lines()
        ordered = sorted(self.items, key=lambda problem: find_line(lines, problem.path))
        first, *others = ordered
        listed = others[:_MAX_LISTED]
        details = [f"{self._sentence(other, lines)} [{other.code}]" for other in listed]
        if len(others) > _MAX_LISTED:
            details.append(f"and {len(others) - _MAX_LISTED} more")
        message = self._sentence(first, lines)
        if others:
            message += f" (and {len(others)} more)"
        raise ConfigError(
            first.code,
            message,
            extension=first.extension,
            help=first.help,
            evidence=Evidence(
                path=self.origin,
                line=find_line(lines, first.path),
                key=format_path(first.path),
                details=tuple(details),
            ),
        )

    def lines(self) -> Mapping[KeyPath, int]:
        """Return the line of each key. The text is read again for this, so only after a mistake."""
        if self._lines is None:
            self._lines = find_key_lines(self.text)
        return self._lines

    def _sentence(self, problem: Problem, lines: Mapping[KeyPath, int]) -> str:
        line = find_line(lines, problem.path)
        where = f"{self.origin}:{line}" if self.origin and line else self.origin
        parts = [part for part in (where, format_path(problem.path), problem.text) if part]
        return ": ".join(parts)


class Place(NamedTuple):
    """The place of a value: its key path, its extension, and where to record mistakes."""

    problems: Problems
    path: KeyPath = ()
    extension: str = ""

    def at(self, key: str | int) -> "Place":
        """Return the place of this key or item within the value."""
        return Place(self.problems, (*self.path, key), self.extension)

    def for_extension(self, extension: str) -> "Place":
        """Return the same place, marked as a part of this extension."""
        return Place(self.problems, self.path, extension)

    def add_problem(self, code: str, text: str, help: str = "") -> None:
        """Record a mistake at this place."""
        self.problems.items.append(Problem(code, text, self.path, help, self.extension))

    def note_ignored(self) -> None:
        """Note that the key at this place has no effect."""
        self.problems.notes.append(f"`{format_path(self.path)}` has no effect here")


def format_path(path: KeyPath) -> str:
    """Return a key path as people write it: `extensions[2].restart.strategy`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            bare = step.replace("-", "").replace("_", "")
            plain = bare.isalnum() and bare.isascii()
            name = step if plain else repr(step)
            name = name if len(name) <= _MAX_KEY_CHARS else f"{name[:_MAX_KEY_CHARS]}…"
            text += f".{name}" if text else name
    return text
