"""Show what an extension of `exthost run` wrote to stderr and to its log, even after it has
ended."""

import argparse
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from exthost.errors import NotFound
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    config_path,
    escape_controls,
    parse_count,
    say,
    show_json,
)
from exthost.faces.cli.target_specs import read_extensions
from exthost.host.control.socket_path import config_key
from exthost.host.extension_logs import rotated_path
from exthost.model.names import nearest
from exthost.process.state_dirs import log_file

DEFAULT_LINES = 200

# How often --follow checks for new lines. A check takes microseconds.
_POLL_SECONDS = 0.2


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the extension")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines")
    parser.add_argument(
        "-n",
        "--lines",
        type=parse_count,
        default=DEFAULT_LINES,
        metavar="N",
        help=f"how many of the last lines (default: {DEFAULT_LINES}; 0: none)",
    )
    add_config_option(parser)


def run(args: Args) -> int:
    file = Path(log_file(os.environ, config_key(config_path(args)), args.name))
    if not file.exists() and not rotated_path(file).exists():
        _check_name(args)
        say(f"{args.name} has written nothing yet; its log will be {file}")
    with closing(_LogReader(file)) as reader:
        for line in reader.read_last(args.lines):
            _show(args, line)
        if args.follow:
            for line in reader.follow():
                _show(args, line)
    return 0


def last_lines(config: str, name: str, count: int) -> list[str]:
    """Return the last lines of an extension's log."""
    file = Path(log_file(os.environ, config_key(config), name))
    with closing(_LogReader(file)) as reader:
        return [line.decode("utf-8", "replace") for line in reader.read_last(count)]


def _check_name(args: Args) -> None:
    """Raise NotFound if the config has no extension of this name. A missing log alone is not an
    error, because an extension that has written nothing has no log."""
    names = [spec.id for spec in read_extensions(args).specs]
    if args.name not in names:
        suggestion = nearest(args.name, names)
        raise NotFound(
            "X1276",
            f"there is no extension {args.name!r}, and no log of one",
            help=f"did you mean {suggestion!r}?"
            if suggestion
            else "exthost list shows the extensions",
        )


def _show(args: Args, line: bytes) -> None:
    text = line.decode("utf-8", "replace")
    if not args.json:
        print(escape_controls(text), flush=True)
        return
    # A line has four fields. Fields that are missing, as in a damaged line, become "".
    time_text, level, source, message = (*text.split(" ", 3), "", "", "")[:4]
    row: dict[str, Any] = {"time": time_text, "extension": args.name}
    show_json(row | {"level": level, "source": source, "text": message})


class _LogReader:
    """Reads complete lines of a log, and continues in the new file after a rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._partial_line = b""

    def read_last(self, count: int) -> list[bytes]:
        """Return the last `count` lines. `follow` continues after them."""
        last_lines: deque[bytes] = deque(maxlen=count)
        try:
            # The text after the last newline is not a complete line.
            last_lines.extend(rotated_path(self._path).read_bytes().split(b"\n")[:-1])
        except (FileNotFoundError, NotADirectoryError):
            pass
        last_lines.extend(self._read_new_lines())
        return list(last_lines)

    def follow(self) -> Iterator[bytes]:
        """Yield new lines as they are written, without end."""
        while True:
            # Checked before reading, so that no line of the old file is missed.
            is_rotated = self._is_rotated()
            yield from self._read_new_lines()
            if is_rotated:  # these were the last lines of the old file
                self.close()
                continue
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_rotated(self) -> bool:
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
