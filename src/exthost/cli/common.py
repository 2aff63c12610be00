"""What all verbs share: common options, output, and how errors and interrupts become exit codes.

The words after `--` are the extension's own command and are cut off before anything is parsed.
"""

import argparse
import importlib
import os
import re
import shutil
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, NoReturn

from exthost.cli.colour import painted
from exthost.cli.verbs import INTERRUPTED, VERBS
from exthost.errors import ExthostError, UsageError
from exthost.errors import escape_controls as escape_controls
from exthost.names import nearest

DEFAULT_CONFIG = "exthost.toml"


class Args(argparse.Namespace):
    """The parsed arguments. `command` is what follows `--`; `tried` are the dialects that detection
    tried before the right one, each with its outcome; `start_seconds` is the `--timeout` of verbs
    that only start an extension; `token` is that of every service on HTTP."""

    json: bool
    config: str | None
    command: list[str]
    dialect: str | None
    target: str | None
    sandbox: str | None = None
    lifetime: str | None = None
    name: str
    timeout: float | None
    tried: tuple[tuple[str, str], ...] = ()
    start_seconds: float | None = None
    standalone: bool = False
    format: Any = None
    env: list[tuple[str, str]] | None = None
    cwd: str | None = None
    disabled: bool = False
    trace: str | None = None
    token: Any = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        unknown = message.partition("unrecognized arguments: ")[2]
        word = unknown.split(" ")[0].partition("=")[0]
        near = nearest(word, self._option_string_actions) if word.startswith("-") else None
        hint = f"did you mean {near}?" if near else f"see {self.prog} --help"
        if unknown and not word.startswith("-"):
            hint = f"a command stands after --; {hint}"
        raise UsageError("X1316", message, help=hint)


def run_verb(verb: str, words: list[str]) -> int:
    """Parse the arguments of a verb and run it; return its exit code, also of a failure."""
    module, parser = verb_parser(verb)
    wants_json = "--json" in words
    _shown_lines.clear()
    try:
        own_words, command = _cut(words)
        # Intermixed: an argument k=v may also stand after an option.
        args = parser.parse_intermixed_args(own_words, namespace=Args(command=command))
        code = int(module.run(args))
        sys.stdout.flush()
        return code
    except ExthostError as error:
        tell_error(error, wants_json)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our stdout has left
        _write_nowhere()
        return 0
    except OSError as error:
        if error.filename is not None:
            raise
        _write_nowhere()
        unread = UsageError(
            "X1379",
            f"the output cannot be written: {error.strerror or error}",
            help="is the disk full? what was asked may have been done all the same",
        )
        tell_error(unread, wants_json=False)
        return unread.exit_code


def verb_parser(verb: str) -> tuple[Any, argparse.ArgumentParser]:
    """Return the module of a verb, and the parser of its arguments."""
    module: Any = importlib.import_module(f"exthost.cli.{verb}")
    parser = _Parser(prog=f"exthost {verb}", description=module.__doc__, add_help=True)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    module.add_options(parser)
    return module, parser


def no_verb(verb: str, words: Sequence[str]) -> int:
    """Report an unknown verb; return the exit code."""
    near = nearest(verb, VERBS)
    hint = f"did you mean {near}?" if near else "see exthost --help"
    error = UsageError("X1316", f"there is no verb {verb!r}", help=hint)
    tell_error(error, "--json" in words)
    return error.exit_code


def _write_nowhere() -> None:
    """Discard what is left in the buffer of stdout, so that the exit reports no second error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _cut(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    at = words.index("--")
    command = words[at + 1 :]
    if not command:
        raise UsageError("X1316", "there is no command after --", help="write -- COMMAND ARGS…")
    return words[:at], command


def no_command(args: Args) -> None:
    """Raise UsageError if there is a command, for verbs that read the config only."""
    if args.command:
        raise UsageError(
            "X1316", "this verb takes no command after --", help="exthost inspect -- COMMAND ARGS…"
        )


def add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help=f"the config to use (default: ./{DEFAULT_CONFIG})"
    )


def config_path(args: Args) -> str:
    """Return the path of the config, whether it exists or not."""
    return args.config or DEFAULT_CONFIG


def given_config(args: Args) -> str:
    """Return the path of the config; the default one must exist."""
    if args.config is None and not os.path.exists(DEFAULT_CONFIG):  # noqa: PTH110
        or_command = ", or give a command after --" if hasattr(args, "dialect") else ""
        raise UsageError(
            "X1316",
            f"there is no {DEFAULT_CONFIG} here",
            help=f"name a config with --config, or write one{or_command}",
        )
    return config_path(args)


def add_dialect_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dialect", metavar="D", help="the dialect of `-- COMMAND`; detected if it is left out"
    )


def add_sandbox_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sandbox",
        choices=("strict", "best-effort", "off"),
        help="strict: no network and no files but its own, unless its permissions say otherwise; "
        "best-effort: as far as this machine can; off: none",
    )
    parser.add_argument(
        "--lifetime",
        choices=("tree", "plain"),
        help="tree: none of its processes outlives it; plain: no namespace around it",
    )


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """`-e` and `--cwd`, of the verbs that start one extension."""
    parser.add_argument(
        "-e",
        "--env",
        metavar="KEY=VALUE",
        type=_variable,
        action="append",
        default=[],
        help="a variable for the extension; KEY alone passes the one that is set here; repeatable",
    )
    parser.add_argument("--cwd", metavar="DIR", help="the folder that the extension runs in")


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or "\0" in text:
        raise argparse.ArgumentTypeError("a variable is written KEY=VALUE")
    if equals:
        return name, value
    if name not in os.environ:
        raise argparse.ArgumentTypeError(f"{name} is not set here; write {name}=VALUE")
    return name, os.environ[name]


def add_start_timeout_option(parser: argparse.ArgumentParser) -> None:
    """`--timeout` of a verb that starts an extension and calls nothing."""
    parser.add_argument(
        "--timeout",
        dest="start_seconds",
        metavar="T",
        type=seconds_argument,
        help="the time limit of detection, start and handshake, such as 30s",
    )


def add_trace_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="record every message of a process of its own; - writes them to stderr",
    )


def add_timeout_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        metavar="T",
        type=seconds_argument,
        help="how long to wait, such as 500ms, 5s or 2m",
    )


def seconds_argument(text: str) -> float:
    """Read a time limit of the command line."""
    from exthost.config import UnitError, parse_seconds

    try:
        read = parse_seconds(float(text) if text.replace(".", "", 1).isdigit() else text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if read == 0:
        raise argparse.ArgumentTypeError("a time limit must be longer than 0")
    return read


# What a terminal obeys or reorders, and JSON lets through: DEL, C1 and bidirectional controls.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _as_json_escape(found: "re.Match[str]") -> str:
    return f"\\u{ord(found[0]):04x}"


def show_json(value: Any, *, pretty: bool = False) -> None:
    """Print JSON to stdout; values that are not JSON are shown as text."""
    # A lone surrogate, which a child may send, cannot be encoded: shown as an escape.
    text = _UNSAFE.sub(_as_json_escape, json_text(value, indent=2 if pretty else None))
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.flush()


def show_text(text: str) -> None:
    """Print text to stdout; control characters are escaped on a terminal."""
    shown = escape_controls(text) if sys.stdout.isatty() else text
    sys.stdout.buffer.write(shown.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.flush()


def json_text(value: Any, *, indent: int | None = None) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def in_line(value: Any) -> str:
    """Return a value as part of a line: text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def show_table(rows: Sequence[tuple[str, ...]], header: tuple[str, ...]) -> None:
    """Print aligned columns to stdout, a line per row. On a terminal the last column is cut at the
    end of the line."""
    if not rows:
        return
    lines = [tuple(map(one_line, line)) for line in (header, *rows)]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)]
        shown = "  ".join(cells).rstrip()
        if room is not None and sum(widths) + 20 < room < len(shown):
            shown = shown[: room - 1] + "…"
        sys.stdout.write(shown + "\n")


# What extensions wrote and was shown as it came: an error that has it as evidence does not show it
# a second time.
_shown_lines: deque[str] = deque(maxlen=200)


def note_shown(text: str) -> None:
    """Remember a line of stderr that was printed: an error does not repeat it."""
    _shown_lines.append(text)


def show_line(extension: str, text: str) -> None:
    """Print a line that an extension wrote to stderr."""
    note_shown(text)
    say(f"[{extension}] {text}")


def say(text: str) -> None:
    """Print a message to stderr; control characters are escaped."""
    sys.stderr.write(escape_controls(text) + "\n")


def say_labelled(label: str, style: str, text: str) -> None:
    """Print a message to stderr that begins with a coloured label."""
    sys.stderr.write(f"{painted(label, style, sys.stderr)} {escape_controls(text)}\n")


def say_empty(args: Args) -> None:
    say(f"{config_path(args)} names no extensions, and none were found")


def plural(number: int, what: str) -> str:
    """Return the number with its noun, in the plural unless it is 1."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def one_line(text: str) -> str:
    """Return the text as one line, escaped."""
    return escape_controls(text if text.isprintable() else " ".join(text.split()))


def tell_error(error: ExthostError, wants_json: bool) -> None:
    """Print an error: as JSON to stdout, or as text to stderr."""
    if wants_json:
        show_json({"error": error.as_dict()})
        return
    say_labelled(f"error[{error.code}]:", "error", error.headline)
    evidence = error.evidence
    if evidence.path:
        say(f"  in:     {evidence.path}" + (f":{evidence.line}" if evidence.line else ""))
        _say_excerpt(error)
    for line in error_details(error):
        say(line)


def error_details(error: ExthostError) -> list[str]:
    """Return the lines below the headline of an error: its evidence, its help, and its code. Lines
    of stderr that were shown already are left out."""
    evidence = error.evidence
    lines = []
    if evidence.argv:
        folder = f"  (in {evidence.cwd})" if evidence.cwd else ""
        lines.append(f"  ran:    {' '.join(evidence.argv)}{folder}")
    if evidence.exit:
        lines.append(f"  exit:   {evidence.exit}")
    if evidence.bytes:
        lines.append(f"  bytes:  {evidence.bytes!r}")
    lines += [f"  stderr: {line}" for line in evidence.stderr if line not in _shown_lines]
    lines += [f"  also:   {line}" for line in evidence.details]
    if error.help:
        lines.append(f"  help:   {error.help}")
    return [*lines, f"  more:   exthost explain {error.code}"]


def _say_excerpt(error: ExthostError) -> None:
    """Print the line with the mistake, and a caret under the place."""
    from exthost.cli.excerpt import excerpt  # here, because only a mistake needs it

    shown = excerpt(error.evidence, error.message)
    if shown is None:
        return
    number = str(error.evidence.line)
    margin = " " * (len(number) + 4)
    sys.stderr.write(f"    {number} | {shown.line}\n")
    caret = painted("^" * shown.width, "place", sys.stderr)
    sys.stderr.write(f"{margin} | {' ' * shown.start}{caret}\n")
