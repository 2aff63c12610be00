"""Finds the line of a config or manifest that has a mistake, and the place to mark with carets.

An error about `token = "abc 1"` in line 3 is printed with this excerpt, for example:

    3 | token = "··· ·"
      | ^^^^^

A value may be a secret, so its letters and digits are replaced by dots. Two kinds of values are
shown: text that the error message quotes anyway, and short values of settings such as limits and
names, which hold no secrets. Lines of `exthost.lock`, which has none, are shown as they are. The
file is read again to get the line; if that fails, no excerpt is printed.
"""

import re
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from exthost.config.lock_file import LOCK_NAME
from exthost.errors import Evidence, escape_controls
from exthost.model.spec import Breaker, Limits, Restart

# A longer line is cut. A minified file, for example, has all of its text in one line.
_MAX_LINE_CHARS = 160

# The settings whose values are shown: limits, policies, names and choices. A value of `env`,
# `headers`, `options` or a command line is not one of them.
_SHOWN_KEYS = frozenset(
    {
        *(field.name for settings in (Limits, Restart, Breaker) for field in fields(settings)),
        *("restart", "limits", "breaker", "retry", "dialect", "start", "sandbox", "lifetime"),
        *("enabled", "min", "max", "per_node", "network", "permissions", "max_memory", "type"),
        *("do", "strategy", "linger", "first_list", "mode", "lock", "new", "on_failure"),
        "on_weaker",
    }
)

# Tables whose values belong to the user. Nothing in them is shown, whatever its key is.
_PRIVATE_TABLES = frozenset({"env", "headers", "options", "config", "args", "inputs"})

# A longer word is not shown: it may be a secret in the wrong place.
_MAX_SHOWN_CHARS = 16

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
    line, header = _read_line(evidence.path, evidence.line)
    if line is None:
        return None
    tables = {*re.findall(r"\w+", evidence.key), *re.findall(r"\w+", header)}
    is_private = bool(tables & _PRIVATE_TABLES)
    shown_keys = frozenset[str]() if is_private else _SHOWN_KEYS
    if Path(evidence.path).name == LOCK_NAME:  # a lock has no secrets
        masked = line
    else:
        masked = _restore_quoted(_mask_values(line, shown_keys), line, message)
    column = _COLUMN.search(message)
    if column is not None:
        # Columns count from 1, and a line may be cut.
        position = max(0, min(int(column[1]) - 1, len(masked)))
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


def _read_line(path: str, number: int) -> tuple[str | None, str]:
    """Return the line of this number, and the last header of a table above it."""
    header = ""
    if not path or not number:
        return None, header
    try:
        # A byte order mark is not part of the line.
        with Path(path).open(encoding="utf-8-sig", errors="replace") as file:
            for above in islice(file, number - 1):
                if above.lstrip().startswith("["):
                    header = above
            line = next(file, "")
    except (OSError, ValueError):
        return None, header
    if not line.strip():
        return None, header
    return escape_controls(line.rstrip("\r\n").expandtabs(1))[:_MAX_LINE_CHARS], header


def _mask_values(line: str, shown_keys: frozenset[str]) -> str:
    """Return the line with a dot for each letter and digit of its values, except those of
    `shown_keys`. Keys, brackets and quotation marks are kept. A line without a key is a value,
    unless it is a table header or a comment.
    """
    if line.lstrip().startswith(("[", "#")) and "=" not in line:
        return line
    if "=" not in line and ":" not in line:
        return re.sub(r"\w", "·", line)
    key, sign, value = _split_at_first_sign(line)
    name = key.strip().strip("\"'").rpartition(".")[2]
    if any(part in _PRIVATE_TABLES for part in re.findall(r"\w+", key)):
        shown_keys = frozenset()
    return key + sign + _mask_except_inner_keys(name, value, shown_keys)


def _split_at_first_sign(line: str) -> tuple[str, str, str]:
    """Return the key, the "=" (TOML) or ":" (YAML, JSON), and the value."""
    signs = [position for position in (line.find("="), line.find(":")) if position >= 0]
    position = min(signs)
    return line[:position], line[position], line[position + 1 :]


def _mask_except_inner_keys(key: str, value: str, shown_keys: frozenset[str]) -> str:
    """Return a masked value, with the keys of inline tables kept, such as `{ max = 3 }`."""
    # The parts with odd indices are the keys, each with its "="; the others are values.
    parts = re.split(r"([\w-]+\s*=(?!=))", value)
    masked = []
    for index, part in enumerate(parts):
        if index % 2:
            key = part.rstrip("= \t")
            if key in _PRIVATE_TABLES:  # and all that follows it on the line
                shown_keys = frozenset()
            masked.append(part)
            continue
        longest = max(map(len, re.findall(r"[\w-]+", part)), default=0)
        is_shown = key in shown_keys and longest <= _MAX_SHOWN_CHARS
        masked.append(part if is_shown else re.sub(r"\w", "·", part))
    return "".join(masked)
