"""Finds the line of a config or manifest that has a mistake, and the place to mark with carets.

A value may be a secret, so its letters and digits are replaced by dots, except for text that the
error message quotes anyway. The file is read again to get the line; if that fails, no excerpt is
printed.
"""

import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from exthost.errors import Evidence, escape_controls

# A longer line is cut. A minified file, for example, has all of its text in one line.
_MAX_LINE_CHARS = 160

_QUOTED = re.compile(r"'([^']+)'")
_COLUMN = re.compile(r"\bcolumn (\d+)")


class Excerpt(NamedTuple):
    """A line that has a mistake.

    line   the text of the line, with masked values
    start  the index in `line` at which the mistake begins
    width  the length of the mistake in characters
    """

    line: str
    start: int
    width: int


def find_excerpt(evidence: Evidence, message: str) -> Excerpt | None:
    """Return an excerpt of the line that `evidence` names, or None if it names no line or the line
    cannot be read. `message` is the error message, which may quote values and name a column."""
    line = _read_line(evidence.path, evidence.line)
    if line is None:
        return None
    masked = _restore_quoted(_mask_values(line), line, message)
    column = _COLUMN.search(message)
    if column is not None:
        position = min(int(column[1]) - 1, len(masked))  # columns count from 1; a line may be cut
        return Excerpt(masked, position, 1)
    key = evidence.key.rpartition(".")[2].partition("[")[0]  # `b` of `a.b[2]`
    match = re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", masked) if key else None
    if match is None:  # mark the whole line
        start = len(masked) - len(masked.lstrip())
        return Excerpt(masked, start, max(1, len(masked.strip())))
    return Excerpt(masked, match.start(), len(match[0]))


def _restore_quoted(masked: str, line: str, message: str) -> str:
    """Return the masked line with the values restored that the message quotes."""
    for quoted in _QUOTED.findall(message):
        for match in re.finditer(rf"(?<!\w){re.escape(quoted)}(?!\w)", line):
            masked = masked[: match.start()] + quoted + masked[match.end() :]
    return masked


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


def _mask_values(line: str) -> str:
    """Return the line with a dot for each letter and digit of its values. Keys, brackets and
    quotation marks are kept. A line without a key is a value, unless it is a table header or a
    comment.
    """
    if line.lstrip().startswith(("[", "#")) and "=" not in line:
        return line
    if "=" not in line and ":" not in line:
        return re.sub(r"\w", "·", line)
    key, sign, value = _split_at_first_sign(line)
    return key + sign + _mask_except_inner_keys(value)


def _split_at_first_sign(line: str) -> tuple[str, str, str]:
    signs = [position for position in (line.find("="), line.find(":")) if position >= 0]
    position = min(signs)
    return line[:position], line[position], line[position + 1 :]


def _mask_except_inner_keys(value: str) -> str:
    """Return a masked value, with the keys of inline tables kept."""
    parts = re.split(r"([\w-]+\s*=(?!=))", value)
    return "".join(
        part if index % 2 else re.sub(r"\w", "·", part) for index, part in enumerate(parts)
    )
