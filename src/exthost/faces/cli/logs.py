"""Show what extensions of `exthost run` wrote to stderr and to their logs, even after they have
ended.

Without a name, or with several, the lines are in the order of their times, each after the name of
its extension. --since takes a duration such as 10m, or a time such as 2026-01-31T12:00:00Z.
"""

import argparse
import os
import re
import time
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from exthost.errors import NotFound
from exthost.faces.cli.chosen_names import add_names_options, check_names
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    config_path,
    escape_controls,
    parse_count,
    parse_time_limit,
    say,
    show_json,
)
from exthost.faces.cli.target_specs import read_extensions
from exthost.host.control.socket_path import config_key
from exthost.host.extension_logs import rotated_path
from exthost.model.names import nearest
from exthost.process.private_folders import free_bytes
from exthost.process.state_dirs import log_file

DEFAULT_LINES = 200

# The levels of lines, the least serious first.
LEVELS = ("debug", "info", "warning", "error", "critical")

# How often --follow checks for new lines. A check takes microseconds.
_POLL_SECONDS = 0.2


def add_options(parser: argparse.ArgumentParser) -> None:
    add_names_options(parser, default="all that have a log")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines")
    parser.add_argument(
        "-n",
        "--lines",
        type=parse_count,
        default=DEFAULT_LINES,
        metavar="N",
        help=f"how many of the last lines (default: {DEFAULT_LINES}; 0: none)",
    )
    parser.add_argument(
        "--since", type=_parse_since, metavar="T", help="only lines after this time"
    )
    parser.add_argument(
        "--level", choices=LEVELS, help="only lines of this level and of more serious ones"
    )
    parser.add_argument(
        "--grep", type=_parse_pattern, metavar="REGEX", help="only lines that match, in any case"
    )
    add_config_option(parser)


def run(args: Args) -> int:
    check_names(args)
    # The folder is the same for each extension, so the name does not matter here.
    folder = Path(log_file(os.environ, config_key(config_path(args)), "x")).parent
    names = list(dict.fromkeys(args.names)) or _find_names(folder)
    for name in args.names:
        file = _find_log(args, name)
        if not file.exists() and not rotated_path(file).exists():
            _check_name(args, name)
            say(f"{name} has written nothing yet; its log will be {file}")
    if not names:
        say(f"no extension has written anything yet; the logs will be in {folder}")
    if free_bytes(folder) == 0:
        say(f"warning: the disk of {folder} is full: newer lines are lost; free some space")
    log_filter = LogFilter(args.since, args.level, args.grep)
    with ExitStack() as stack:
        readers = {
            name: stack.enter_context(closing(_LogReader(_find_log(args, name)))) for name in names
        }
        lines = [
            (line, name)
            for name, reader in readers.items()
            for line in log_filter.select(reader.read_last(None))
        ]
        lines.sort(key=lambda item: item[0].partition(b" ")[0])  # the time, which sorts as text
        show_name = len(args.names) != 1
        shown_lines = lines[max(0, len(lines) - args.lines) :]
        for line, name in shown_lines:
            _show(args, name, line, show_name=show_name)
        while args.follow:  # until Ctrl-C
            for name, reader in readers.items():
                for line in log_filter.select(reader.read_new()):
                    _show(args, name, line, show_name=show_name)
            time.sleep(_POLL_SECONDS)
            if not args.names:  # an extension may have begun its log meanwhile
                for name in _find_names(folder):
                    if name not in readers:
                        new_reader = _LogReader(_find_log(args, name))
                        readers[name] = stack.enter_context(closing(new_reader))
    return 0


class LogFilter:
    """Selects lines of a log by time, level and text. A line that has no known level, as in a
    damaged file, is selected."""

    def __init__(
        self,
        since: str | None = None,
        level: str | None = None,
        grep: re.Pattern[str] | None = None,
    ) -> None:
        self._since = since.encode() if since is not None else b""
        self._excluded_levels = (
            set(LEVELS[: LEVELS.index(level)]) if level is not None else set[str]()
        )
        self._grep = grep

    def select(self, lines: Iterable[bytes]) -> list[bytes]:
        """Return the lines that are wanted."""
        return [line for line in lines if self._is_wanted(line)]

    def _is_wanted(self, line: bytes) -> bool:
        # A line begins with its time. Times have one form, which sorts as text.
        if self._since and line[: len(self._since)] < self._since:
            return False
        level = line.split(b" ", 2)[1:2]
        if level and level[0].decode("utf-8", "replace") in self._excluded_levels:
            return False
        return self._grep is None or self._grep.search(line.decode("utf-8", "replace")) is not None


def _parse_since(text: str) -> str:
    """Return a duration or a time as the text of a time in a log. Raises ArgumentTypeError."""
    if text[:1].isdecimal() and "-" not in text:
        moment = datetime.now(UTC) - timedelta(seconds=parse_time_limit(text))
    else:
        try:
            # A time without a zone is local time.
            moment = datetime.fromisoformat(text).astimezone(UTC)
        except (ValueError, OverflowError):  # the year 1 may begin before the first time in UTC
            raise argparse.ArgumentTypeError(
                f"{text!r} is neither a duration such as 10m nor a time such as 2026-01-31T12:00"
            ) from None
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _parse_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:  # also {99999999999}, and ((((…
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None


def _find_log(args: Args, name: str) -> Path:
    return Path(log_file(os.environ, config_key(config_path(args)), name))


def _find_names(folder: Path) -> list[str]:
    """Return the extensions of the logs in a folder. A file is named after the id."""
    # The end is removed and not what follows the first ".log", since an id may be `my.logger`.
    names = (path.name.removesuffix(".1") for path in folder.glob("*.log*"))
    return sorted({name.removesuffix(".log") for name in names if name.endswith(".log")})


def last_lines(config: str, name: str, count: int) -> list[str]:
    """Return the last lines of an extension's log."""
    file = Path(log_file(os.environ, config_key(config), name))
    with closing(_LogReader(file)) as reader:
        return [line.decode("utf-8", "replace") for line in reader.read_last(count)]


def _check_name(args: Args, name: str) -> None:
    """Raise NotFound if the config has no extension of this name. A missing log alone is not an
    error, because an extension that has written nothing has no log."""
    names = [spec.id for spec in read_extensions(args).specs]
    if name not in names:
        suggestion = nearest(name, names)
        raise NotFound(
            "X1276",
            f"there is no extension {name!r}, and no log of one",
            help=f"did you mean {suggestion!r}?"
            if suggestion
            else "exthost list shows the extensions",
        )


def _show(args: Args, name: str, line: bytes, *, show_name: bool) -> None:
    """Print a line of the log of the extension `name`, as text or as JSON."""
    text = line.decode("utf-8", "replace")
    if not args.json:
        prefix = f"{name}: " if show_name else ""
        print(escape_controls(prefix + text), flush=True)
        return
    # A line has four fields. Fields that are missing, as in a damaged line, become "".
    time_text, level, source, message = (*text.split(" ", 3), "", "", "")[:4]
    source, _, node = source.partition("@")
    row: dict[str, Any] = {"time": time_text, "extension": name, "node": node}
    show_json(row | {"level": level, "source": source, "text": message})


class _LogReader:
    """Reads complete lines of a log, and continues in the new file after a rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._partial_line = b""

    def read_last(self, count: int | None) -> list[bytes]:
        """Return the last `count` lines (None: all). `read_new` continues after them."""
        last_lines: deque[bytes] = deque(maxlen=count)
        try:
            # The text after the last newline is not a complete line.
            last_lines.extend(rotated_path(self._path).read_bytes().split(b"\n")[:-1])
        except (FileNotFoundError, NotADirectoryError):
            pass
        last_lines.extend(self._read_new_lines())
        return list(last_lines)

    def read_new(self) -> list[bytes]:
        """Return the lines that were written since the last read."""
        # Checked before reading, so that no line of the old file is missed.
        is_rotated = self._is_rotated()
        lines = self._read_new_lines()
        if is_rotated:  # these were the last lines of the old file
            self.close()
            lines += self._read_new_lines()
        return lines

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_rotated(self) -> bool:
        """Return whether the path names another file now than the one that is open."""
        if self._file is None:
            return False
        try:
            return os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:  # between the two steps of a rotation
            return False

    def _read_new_lines(self) -> list[bytes]:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except (FileNotFoundError, NotADirectoryError):
                return []
        *complete_lines, self._partial_line = (self._partial_line + self._file.read()).split(b"\n")
        return complete_lines
