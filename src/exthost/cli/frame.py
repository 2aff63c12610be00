"""What all verbs share: their common options, and how results, errors and interrupts end.

The words after `--` are the extension's own command and are cut off before anything is parsed.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from exthost.cli import INTERRUPTED
from exthost.errors import ExthostError, UsageError

DEFAULT_CONFIG = "exthost.toml"


class Asked(argparse.Namespace):
    """What the user asked for, parsed. `command` is what stood after `--`; `tried` are the
    dialects that it was tried in before the one it speaks, with what came of each."""

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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError("X1316", message, help=f"see {self.prog} --help")


def run_verb(verb: str, words: list[str]) -> int:
    """Parse a verb's words and run it; every failure becomes its exit code."""
    module = importlib.import_module(f"exthost.cli.{verb}")
    parser = _Parser(prog=f"exthost {verb}", description=module.__doc__, add_help=True)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    module.options(parser)
    wants_json = "--json" in words
    try:
        mine, command = _cut(words)
        # Intermixed: an argument k=v may also stand after an option.
        asked = parser.parse_intermixed_args(mine, namespace=Asked(command=command))
        return int(module.run(asked))
    except ExthostError as error:
        tell_error(error, wants_json)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our stdout has left
        sys.stderr.close()
        return 0


def _cut(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    at = words.index("--")
    command = words[at + 1 :]
    if not command:
        raise UsageError("X1316", "there is no command after --", help="write -- COMMAND ARGS…")
    return words[:at], command


def no_command(asked: Asked) -> None:
    """For verbs that are about what is written down, which a bare command is not."""
    if asked.command:
        raise UsageError(
            "X1316", "this verb takes no command after --", help="exthost inspect -- COMMAND ARGS…"
        )


def config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help=f"the config to use (default: ./{DEFAULT_CONFIG})"
    )


def config_path(asked: Asked) -> str:
    """The config that is meant, whether it is there or not."""
    return asked.config or DEFAULT_CONFIG


def dialect_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dialect", metavar="D", help="what `-- COMMAND` speaks; left out, it is found out"
    )


def holding_options(parser: argparse.ArgumentParser) -> None:
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


def timeout_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", metavar="T", type=_seconds, help="how long to wait, such as 500ms, 5s or 2m"
    )


def _seconds(text: str) -> float:
    from exthost.config import UnitError, seconds

    try:
        read = seconds(float(text) if text.replace(".", "", 1).isdigit() else text)
    except UnitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if read == 0:
        raise argparse.ArgumentTypeError("a time limit must be longer than 0")
    return read


def show_json(value: Any, *, pretty: bool = False) -> None:
    """JSON on stdout; values that are not JSON are shown as text."""
    # A lone surrogate, which a child may send, cannot be encoded: shown as an escape.
    text = json_text(value, indent=2 if pretty else None)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.flush()


def json_text(value: Any, *, indent: int | None = None) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def show_table(rows: Sequence[tuple[str, ...]], header: tuple[str, ...]) -> None:
    """Aligned columns on stdout, a row a line; the last one may be as long as it likes."""
    if not rows:
        return
    lines = [header, *(tuple(map(one_line, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def say(text: str) -> None:
    """Talk, on stderr."""
    sys.stderr.write(text + "\n")


def visible(text: str) -> str:
    """A child's words for a terminal: what would move its cursor or change its title is shown as
    an escape instead of being obeyed."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in "\t\n" else one.encode("unicode_escape").decode("ascii")
        for one in text
    )


def one_line(text: str) -> str:
    """The same where there is room for one line only."""
    return visible(text if text.isprintable() else " ".join(text.split()))


def tell_error(error: ExthostError, wants_json: bool) -> None:
    """An error: on stdout as data if JSON was asked for, else on stderr for a person."""
    if wants_json:
        show_json({"error": error.as_dict()})
        return
    about = f"{error.extension}: " if error.extension else ""
    say(f"error[{error.code}]: {about}{visible(error.message)}")
    evidence = error.evidence
    if evidence.path:
        say(f"  in:     {evidence.path}" + (f":{evidence.line}" if evidence.line else ""))
    if evidence.argv:
        say(
            f"  ran:    {' '.join(evidence.argv)}"
            + (f"  (in {evidence.cwd})" if evidence.cwd else "")
        )
    if evidence.exit:
        say(f"  exit:   {evidence.exit}")
    if evidence.bytes:
        say(f"  bytes:  {evidence.bytes!r}")
    for line in evidence.stderr[-10:]:
        say(f"  stderr: {visible(line)}")
    for line in evidence.details:
        say(f"  also:   {line}")
    if error.help:
        say(f"  help:   {error.help}")
    say(f"  more:   exthost explain {error.code}")
