"""What an extension of `exthost run` wrote to stderr and to its log, also after it has ended."""

import argparse
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from exthost.cli.common import (
    Args,
    add_config_option,
    config_path,
    escape_controls,
    no_command,
    say,
    show_json,
)
from exthost.cli.target_specs import read_wanted
from exthost.control.address import config_key
from exthost.errors import NotFound
from exthost.host.extension_logs import rotated_path
from exthost.names import nearest
from exthost.process.state_dirs import log_file

LINES = 200

# How soon a new line shows. A person cannot tell, and a look costs microseconds.
_LOOK_SECONDS = 0.2


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="which extension")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines")
    parser.add_argument(
        "-n",
        "--lines",
        type=_number,
        default=LINES,
        metavar="N",
        help=f"how many of the last lines (default: {LINES}; 0: none)",
    )
    add_config_option(parser)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def run(args: Args) -> int:
    no_command(args)
    file = Path(log_file(os.environ, config_key(config_path(args)), args.name))
    if not file.exists() and not rotated_path(file).exists():
        _check_name(args)
        say(f"{args.name} has not said anything yet; its log will be {file}")
    with closing(_Follower(file)) as follower:
        for line in follower.last(args.lines):
            _show(args, line)
        if args.follow:
            for line in follower.follow():
                _show(args, line)
    return 0


def last_lines(config: str, name: str, count: int) -> list[str]:
    """Return the last lines of an extension's log."""
    file = Path(log_file(os.environ, config_key(config), name))
    with closing(_Follower(file)) as follower:
        return [line.decode("utf-8", "replace") for line in follower.last(count)]


def _check_name(args: Args) -> None:
    """Raise NotFound if there is no extension of this name: one that has written nothing has no
    log either."""
    names = [spec.id for spec in read_wanted(args).specs]
    if args.name not in names:
        near = nearest(args.name, names)
        raise NotFound(
            "X1276",
            f"there is no extension {args.name!r}, and no log of one",
            help=f"did you mean {near!r}?" if near else "exthost list shows the extensions",
        )


def _show(args: Args, line: bytes) -> None:
    text = line.decode("utf-8", "replace")
    if not args.json:
        print(escape_controls(text), flush=True)
        return
    moment, level, source, message = (*text.split(" ", 3), "", "", "")[:4]
    row: dict[str, Any] = {"time": moment, "extension": args.name}
    show_json(row | {"level": level, "source": source, "text": message})


class _Follower:
    """Reads a log across its rotations, whole lines only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._partial_line = b""

    def last(self, count: int) -> list[bytes]:
        """Return the last `count` lines. `follow` continues after them."""
        last_lines: deque[bytes] = deque(maxlen=count)
        try:
            last_lines.extend(rotated_path(self._path).read_bytes().split(b"\n")[:-1])
        except FileNotFoundError:
            pass
        last_lines.extend(self._new_lines())
        return list(last_lines)

    def follow(self) -> Iterator[bytes]:
        """Yield new lines as they are written, without end."""
        while True:
            is_rotated = self._is_rotated()
            yield from self._new_lines()
            if is_rotated:  # these were the last lines of the old file
                self.close()
                continue
            time.sleep(_LOOK_SECONDS)

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

    def _new_lines(self) -> list[bytes]:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return []
        *whole, self._partial_line = (self._partial_line + self._file.read()).split(b"\n")
        return whole
