"""The line of a config or manifest that has a mistake, with a caret under the place.

A value may be a secret, so its letters and digits are shown as dots, save what the message quotes.
The file is read again for this, and a file that cannot be read has no excerpt.
"""

import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from exthost.errors import Evidence, escape_controls

# A longer line is cut: a minified file has all of its text in one.
_MAX_LINE_CHARS = 160

_QUOTED = re.compile(r"'([^']+)'")
_COLUMN = re.compile(r"\bcolumn (\d+)")


class Excerpt(NamedTuple):
    """A line without its values; the mistake is at `start` and `width` characters wide."""

    line: str
    start: int
    width: int


def excerpt(evidence: Evidence, message: str) -> Excerpt | None:
    """Return the line that the evidence names, or None if it cannot be shown."""
    line = _read_line(evidence.path, evidence.line)
    if line is None:
        return None
    shown = _with_quoted(_without_values(line), line, message)
    column = _COLUMN.search(message)
    if column is not None:
        at = min(int(column[1]) - 1, len(shown))
        return Excerpt(shown, at, 1)
    key = evidence.key.rpartition(".")[2].partition("[")[0]
    match = re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", shown) if key else None
    if match is None:
        start = len(shown) - len(shown.lstrip())
        return Excerpt(shown, start, max(1, len(shown.strip())))
    return Excerpt(shown, match.start(), len(match[0]))


def _with_quoted(shown: str, line: str, message: str) -> str:
    """Return the shown line with the values that the message quotes, which are no secrets."""
    for quoted in _QUOTED.findall(message):
        for match in re.finditer(rf"(?<!\w){re.escape(quoted)}(?!\w)", line):
            shown = shown[: match.start()] + quoted + shown[match.end() :]
    return shown


def _read_line(path: str, number: int) -> str | None:
    if not path or not number:
        return None
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            lines = list(islice(file, number - 1, number))
    except (OSError, ValueError):
        return None
    if not lines or not lines[0].strip():
        return None
    return escape_controls(lines[0].rstrip("\r\n").expandtabs(1))[:_MAX_LINE_CHARS]


def _without_values(line: str) -> str:
    """Return the line with dots for the letters and digits of its values; brackets and quotes stay.

    Keys are kept. A line that holds no key is all value, except a table's header.
    """
    if line.lstrip().startswith(("[", "#")) and "=" not in line:
        return line
    if "=" not in line and ":" not in line:
        return re.sub(r"\w", "·", line)
    key, sign, value = _at_first_sign(line)
    return key + sign + _keep_inner_keys(value)


def _at_first_sign(line: str) -> tuple[str, str, str]:
    signs = [at for at in (line.find("="), line.find(":")) if at >= 0]
    at = min(signs)
    return line[:at], line[at], line[at + 1 :]


def _keep_inner_keys(value: str) -> str:
    """Return a value with dots, in which the keys of inline tables stay readable."""
    parts = re.split(r"([\w-]+\s*=(?!=))", value)
    return "".join(
        part if index % 2 else re.sub(r"\w", "·", part) for index, part in enumerate(parts)
    )
