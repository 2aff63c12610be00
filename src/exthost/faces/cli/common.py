"""The parts that all verbs (subcommands of exthost) share: options, output, and printing errors.

Data goes to stdout (`show_…`), and messages to stderr (`say…`).
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from exthost.errors import ExthostError, UsageError

# Imported under the same name, so that the verbs can import these two from here.
from exthost.errors import escape_controls as escape_controls
from exthost.errors import escape_message as escape_message
from exthost.faces.cli.colour import paint
from exthost.faces.cli.text_width import pad, text_width, truncate
from exthost.process.stderr_tail import is_note

if TYPE_CHECKING:
    from exthost.faces.cli.quick_call import BegunCall

DEFAULT_CONFIG = "exthost.toml"

# How many names an error lists.
_MAX_LISTED_NAMES = 10

# A longer argument of a command is cut in messages. It is longer than most paths.
_MAX_ARGUMENT_CHARS = 400


class Args(argparse.Namespace):
    """The parsed arguments of a verb; an attribute exists only if the verb has the option.

    `command` has the arguments after `--`. `timeout` is the `--timeout` of a call or request, and
    `start_seconds` the `--timeout` of verbs that start an extension and call nothing. Two values
    are set later: `failed_attempts` has the dialects that detection tried in vain, each with the
    message of its error, and `token` is the bearer token of all HTTP services. `begun` is a call
    that `quick_call` has begun in the running host, and that `call` continues with, or None.
    """

    begun: BegunCall | None
    json: bool
    config: str | None
    command: list[str]
    dialect: str | None
    target: str | None
    sandbox: str | None = None
    lifetime: str | None = None
    name: str
    names: list[str]
    all: bool = False
    timeout: float | None
    failed_attempts: tuple[tuple[str, str], ...] = ()
    start_seconds: float | None = None
    standalone: bool = False
    format: Any = None
    env: list[tuple[str, str]] | None = None
    cwd: str | None = None
    disabled: bool = False
    trace: str | None = None
    token: Any = None
    yes: bool = False


def add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help=f"the config to use (default: ./{DEFAULT_CONFIG})"
    )


def config_path(args: Args) -> str:
    """Return the path of the config, whether it exists or not."""
    return args.config or DEFAULT_CONFIG


def require_config_path(args: Args) -> str:
    """Return the path of the config. Raises UsageError if none is named and the default one does
    not exist."""
    if args.config is None and not os.path.exists(DEFAULT_CONFIG):  # noqa: PTH110
        if os.path.islink(DEFAULT_CONFIG):  # noqa: PTH114
            raise UsageError(
                "X1316",
                f"{DEFAULT_CONFIG} is a symbolic link that leads to no file: it points to "
                f"{escape_controls(os.readlink(DEFAULT_CONFIG))}",  # noqa: PTH115
                help="correct the link (ln -sf FILE exthost.toml), or name a config with --config",
            )
        # The verbs with --dialect are those that also take a command.
        or_command = ", or give a command after --" if hasattr(args, "dialect") else ""
        raise UsageError(
            "X1316",
            f"there is no {DEFAULT_CONFIG} here",
            help="`exthost add NAME --dialect D -- COMMAND` writes one, and --config names another "
            f"file{or_command}",
        )
    return config_path(args)


def add_dialect_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dialect", metavar="D", help="the dialect of `-- COMMAND`; detected if it is omitted"
    )


def add_sandbox_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sandbox",
        choices=("strict", "best-effort", "landlock", "off"),
        help="strict: no network and only its own files, unless its permissions grant more; "
        "best-effort: the restrictions that this machine supports; landlock: a weaker sandbox that "
        "needs no namespaces; off: no sandbox",
    )
    parser.add_argument(
        "--lifetime",
        choices=("tree", "plain"),
        help="tree: all its processes end with the extension; plain: no PID namespace",
    )


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """Add `-e` and `--cwd`, for verbs that start one extension."""
    parser.add_argument(
        "-e",
        "--env",
        metavar="KEY=VALUE",
        type=_parse_variable,
        action="append",
        default=[],
        help="an environment variable for the extension; KEY alone passes the value of this shell; "
        "may be repeated",
    )
    parser.add_argument("--cwd", metavar="DIR", help="the folder that the extension runs in")


def _parse_variable(text: str) -> tuple[str, str]:
    """Return the name and the value in KEY=VALUE, or in KEY for a variable of this process."""
    name, equals, value = text.partition("=")
    if not name or "\0" in text:
        raise argparse.ArgumentTypeError("a variable is written KEY=VALUE")
    if equals:
        return name, value
    if name not in os.environ:
        raise argparse.ArgumentTypeError(f"{name} is not set here; write {name}=VALUE")
    return name, os.environ[name]


def add_start_timeout_option(parser: argparse.ArgumentParser) -> None:
    """Add `--timeout` to a verb that starts an extension and calls nothing."""
    parser.add_argument(
        "--timeout",
        dest="start_seconds",
        metavar="T",
        type=parse_time_limit,
        help="the time limit of detection, start and handshake, such as 30s",
    )


def add_trace_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="start a new process and record all its messages; - writes them to stderr",
    )


def add_timeout_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        metavar="T",
        type=parse_time_limit,
        help="how long to wait, such as 500ms, 5s or 2m",
    )


def parse_time_limit(text: str) -> float:
    """Return the seconds in a time limit such as 500ms, 5s or 2. Raises ArgumentTypeError."""
    from exthost.config import UnitError, parse_seconds

    is_number = text.isascii() and text.replace(".", "", 1).isdecimal()
    try:
        limit_seconds = parse_seconds(float(text) if is_number else text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if limit_seconds == 0:
        raise argparse.ArgumentTypeError("a time limit must be longer than 0")
    return limit_seconds


def parse_size_limit(text: str) -> int:
    """Return the bytes in a size such as 500MB or 2GB. Raises ArgumentTypeError."""
    from exthost.config import UnitError, parse_size

    try:
        return parse_size(int(text) if text.isascii() and text.isdecimal() else text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_count(text: str) -> int:
    """Return the number in an argument such as 20; 0 is allowed, and a number that is too large for
    the system means the largest one. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 0 or 20")
    return min(int(text), sys.maxsize)


def show_json(value: Any, *, pretty: bool = False) -> None:
    """Print a value as JSON to stdout. A value that JSON cannot express is printed as its `str`."""
    sys.stdout.buffer.write(json_line(value, indent=2 if pretty else None))
    sys.stdout.flush()


def show_text(text: str) -> None:
    """Print text to stdout. On a terminal, control characters are escaped."""
    text_line = escape_controls(text) if sys.stdout.isatty() else text
    sys.stdout.buffer.write(text_line.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.flush()


def json_line(value: Any, *, indent: int | None = None) -> bytes:
    """Return a value as JSON with a newline. It contains nothing that controls a terminal."""
    from exthost.wire import jsontext

    # "backslashreplace", because an extension may send a lone surrogate, which UTF-8 cannot encode.
    data = json_text(value, indent=indent).encode("utf-8", "backslashreplace")
    return jsontext.escape_terminal_controls(data) + b"\n"


def show_result(text: str) -> None:
    """Print a line about what was done to stdout (see `escape_message`)."""
    print(escape_message(text))


def json_text(value: Any, *, indent: int | None = None) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def inline_text(value: Any) -> str:
    """Return a value as text within a line: a string unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def show_table(rows: Sequence[tuple[str, ...]], header: tuple[str, ...]) -> None:
    """Print aligned columns to stdout, a line per row; nothing if there are no rows. On a terminal
    the last column is cut at the right margin, unless that leaves it less than about 20
    characters."""
    if not rows:
        return
    lines = [tuple(map(one_line, line)) for line in (header, *rows)]
    terminal_width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    widths = [max(text_width(line[column]) for line in lines) for column in range(len(header) - 1)]
    for line in lines:
        cells = [pad(cell, width) for cell, width in zip(line, [*widths, 0], strict=True)]
        text_line = "  ".join(cells).rstrip()
        if terminal_width is not None and sum(widths) + 20 < terminal_width:
            text_line = truncate(text_line, terminal_width)
        sys.stdout.write(text_line + "\n")


# The last lines of stderr of extensions that were printed as they arrived. An error whose evidence
# has them does not print them again.
_printed_stderr_lines: deque[str] = deque(maxlen=200)


def remember_shown_line(text: str) -> None:
    """Remember that a line of an extension's stderr was printed, so that no error repeats it."""
    _printed_stderr_lines.append(text)


def forget_shown_lines() -> None:
    """Forget the printed lines. Called when a verb starts."""
    _printed_stderr_lines.clear()


def show_line(extension: str, text: str) -> None:
    """Print a line that an extension wrote to stderr."""
    remember_shown_line(text)
    say(f"[{extension}] {text}")


def say(text: str) -> None:
    """Print a message to stderr (see `escape_message`)."""
    _write_stderr(escape_message(text) + "\n")


def say_progress(
    extension: str, method: str, progress: float, total: float | None, message: str
) -> None:
    """Print the progress of a call to stderr. `total` is None if it is not known."""
    limit = "" if total is None else f" of {_format_number(total)}"
    say(f"[{extension}] {method}: {_format_number(progress)}{limit} {message}".rstrip())


def say_labelled(label: str, style: str, text: str) -> None:
    """Print a message to stderr that begins with a coloured label."""
    _write_stderr(f"{paint(label, style, sys.stderr)} {escape_message(text)}\n")


def _write_stderr(text: str) -> None:
    """Write to stderr. If it cannot be written, the verb continues without messages."""
    try:
        sys.stderr.write(text)
    except OSError:
        discard_stream(sys.stderr)


def discard_stream(stream: TextIO) -> None:
    """Redirect stdout or stderr to /dev/null, so that flushing its buffer at exit causes no second
    error."""
    null_fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_fd, stream.fileno())
    os.close(null_fd)


def say_no_extensions(args: Args, searched: Sequence[str] = ()) -> None:
    """Say that the config has no extensions, and in which folders others were searched for."""
    folders = f" in {', '.join(searched)}" if searched else ""
    say(f"{config_path(args)} names no extensions, and none were found{folders}")


def write_help(error: OSError) -> str:
    """Return the help of an error about a file that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free disk space, or raise the limit of file sizes (ulimit -f)"
    return "check the permissions of the file and of its folder"


def plural(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _format_number(value: float) -> str:
    """Return a number with at most 15 digits. The format `g` alone would show 1234567 as
    1.23457e+06."""
    try:
        return f"{value:.15g}"
    except OverflowError:  # an integer of hundreds of digits
        return "more than 1e308" if value > 0 else "less than -1e308"


def list_names(names: Iterable[str]) -> str:
    """Return the first names, separated by commas, and how many there are if that is not all."""
    all_names = list(names)
    shown = ", ".join(all_names[:_MAX_LISTED_NAMES])
    rest = len(all_names) - _MAX_LISTED_NAMES
    return f"{shown}, … ({len(all_names)} in all)" if rest > 0 else shown


def one_line(text: str) -> str:
    """Return the text as one line, with control characters escaped."""
    return escape_controls(text if text.isprintable() else " ".join(text.split()))


def print_error(error: ExthostError, wants_json: bool) -> None:
    """Print an error: as JSON to stdout, or as text to stderr."""
    if wants_json:
        show_json({"error": error.as_dict()})
        return
    say_labelled(f"error[{error.code}]:", "error", error.headline)
    evidence = error.evidence
    if evidence.path:
        say(f"  in:     {evidence.path}" + (f":{evidence.line}" if evidence.line else ""))
        _say_excerpt(error)
    for line in format_error_details(error):
        say(line)


def format_error_details(error: ExthostError) -> list[str]:
    """Return the lines below the headline of an error: its evidence (command line, exit status,
    last stderr lines), its help, and its code. Lines of stderr that were printed already are left
    out."""
    evidence = error.evidence
    lines = []
    if evidence.argv:
        folder = f"  (in {evidence.cwd})" if evidence.cwd else ""
        command = " ".join(map(_shorten_argument, evidence.argv))
        lines.append(f"  ran:    {command}{folder}")
    if evidence.exit:
        lines.append(f"  exit:   {evidence.exit}")
    if evidence.bytes:
        lines.append(f"  bytes:  {evidence.bytes!r}")
    stderr = [line for line in evidence.stderr if line not in _printed_stderr_lines]
    # A note is a line of the host about lines that it left out. Without any line it means nothing.
    if any(not is_note(line) for line in stderr):
        lines += [f"  stderr: {line}" for line in stderr]
    lines += [f"  also:   {line}" for line in evidence.details]
    if error.help:
        lines.append(f"  help:   {error.help}")
    return [*lines, f"  more:   exthost explain {error.code}"]


def _shorten_argument(argument: str) -> str:
    if len(argument) <= _MAX_ARGUMENT_CHARS:
        return argument
    return f"{argument[:_MAX_ARGUMENT_CHARS]}… ({len(argument)} characters)"


def _say_excerpt(error: ExthostError) -> None:
    """Print the line of the config or manifest that has the mistake, with carets below the
    place."""
    from exthost.faces.cli.excerpt import find_excerpt  # lazily: few errors have an excerpt

    excerpt = find_excerpt(error.evidence, error.message)
    if excerpt is None:
        return
    number = str(error.evidence.line)
    margin = " " * (len(number) + 4)
    _write_stderr(f"    {number} | {excerpt.line}\n")
    end = excerpt.start + excerpt.width
    # In columns: a Chinese character, for example, takes two.
    start = text_width(excerpt.line[: excerpt.start])
    caret = paint("^" * max(1, text_width(excerpt.line[:end]) - start), "place", sys.stderr)
    _write_stderr(f"{margin} | {' ' * start}{caret}\n")
