"""Collects all problems of a config or manifest, so that one error reports all of them.

A reader that finds a problem adds it to the list, with its place, and returns None instead of a
value. When the whole file has been read, `Problems.raise_first` raises a ConfigError for the first
problem in the file, whose `evidence.details` lists the others. So a caller never gets incomplete
values. The message of such an error is

    exthost.toml:7: extensions[2].permissions: must be a table, not text (and 2 more)

The error codes are the constants below; `errors.toml` explains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from exthost.errors import ConfigError, Evidence

if TYPE_CHECKING:
    from exthost.model.documents.toml_positions import KeyPath


UNREADABLE = "X0101"
UNKNOWN_KEY = "X0102"
WRONG_VALUE = "X0103"
DUPLICATE_NAME = "X0104"
UNSUPPORTED_SOURCE = "X0105"
BAD_UNIT = "X0106"
UNKNOWN_DIALECT = "X0107"

# An error lists this many problems and only counts the others, because a generated file may have
# the same problem ten thousand times.
_MAX_LISTED = 50

# A longer key is shortened in messages.
_MAX_KEY_CHARS = 80


@dataclass(frozen=True, slots=True)
class DocumentProblem:
    """One problem.

    code       the error code, one of the constants above
    text       what is wrong
    path       the path of the key
    help       what to do about it; may be ""
    extension  the name of the extension that the problem is about; "" for none in particular
    """

    code: str
    text: str
    path: KeyPath
    help: str
    extension: str


@dataclass(slots=True)
class Problems:
    """The problems of one file, in the order in which they were found.

    origin  the path of the file, "" if there is none
    text    its text if it is TOML, to find the lines of problems in; else ""
    items   the problems
    notes   texts about keys that have no effect and are not problems
    _lines  key path → line; None until `lines` is called, unless the caller passes it
    """

    origin: str = ""
    text: str = ""
    items: list[DocumentProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _lines: Mapping[KeyPath, int] | None = None

    def raise_first(self) -> None:
        """Raise a ConfigError if there are problems: its message is about the first in the file."""
        if not self.items:
            return
        lines = self.lines()
        from exthost.model.documents.toml_positions import find_line

        ordered = sorted(self.items, key=lambda problem: find_line(lines, problem.path))
        first, *others = ordered
        details = [
            f"{self._sentence(other, lines)} [{other.code}]" for other in others[:_MAX_LISTED]
        ]
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
        """Return the line of each key. This parses the text again, so it is for error messages."""
        if self._lines is None:
            from exthost.model.documents.toml_positions import find_key_lines

            self._lines = find_key_lines(self.text)
        return self._lines

    def _sentence(self, problem: DocumentProblem, lines: Mapping[KeyPath, int]) -> str:
        """Return a problem with its place: file, line and key, as far as they are known."""
        from exthost.model.documents.toml_positions import find_line

        line = find_line(lines, problem.path)
        where = f"{self.origin}:{line}" if self.origin and line else self.origin
        return ": ".join(filter(None, (where, format_path(problem.path), problem.text)))


class Place(NamedTuple):
    """The place of a value in a file.

    problems   the list to which problems at this place are added
    path       the key path of the value
    extension  the name of the extension that the value belongs to; "" for none in particular
    """

    problems: Problems
    path: KeyPath = ()
    extension: str = ""

    def at(self, key: str | int) -> Place:
        """Return the place of this key or item within the value."""
        return Place(self.problems, (*self.path, key), self.extension)

    def for_extension(self, extension: str) -> Place:
        """Return the same place with this extension, which problems there then name."""
        return Place(self.problems, self.path, extension)

    def add_problem(self, code: str, text: str, help: str = "") -> None:
        """Add a problem at this place. `help` is what to do about it."""
        self.problems.items.append(DocumentProblem(code, text, self.path, help, self.extension))

    def note_ignored(self) -> None:
        """Add a note that the key at this place has no effect."""
        self.problems.notes.append(f"`{format_path(self.path)}` has no effect here")


def format_path(path: KeyPath) -> str:
    """Return a key path as people write it: `extensions[2].restart.strategy`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            letters = step.replace("-", "").replace("_", "")
            is_bare_key = letters.isalnum() and letters.isascii()
            name = step if is_bare_key else repr(step)
            name = name if len(name) <= _MAX_KEY_CHARS else f"{name[:_MAX_KEY_CHARS]}…"
            text += f".{name}" if text else name
    return text
