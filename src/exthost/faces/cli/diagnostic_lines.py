"""Prints diagnostics (problems of manifests and configs) as text, and converts them for JSON
output."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from exthost.config.discovery.report import Diagnostic
from exthost.faces.cli.common import say, say_labelled


def add_all_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="every mistake of a manifest")


def select_diagnostics(
    diagnostics: Iterable[Diagnostic], *, include_all: bool
) -> tuple[Diagnostic, ...]:
    """Return the diagnostics to show. Each of `diagnostics` is the first mistake of a manifest, and
    its `more` has the others. Of these, only misspelt keys are returned, which may have caused the
    first mistake; with `include_all` all are returned."""
    return tuple(
        diagnostic
        for first in diagnostics
        for diagnostic in (first, *first.more)
        if include_all
        or diagnostic is first
        or "did you mean" in diagnostic.message + diagnostic.help
    )


def diagnostic_as_dict(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic in the form of the JSON output."""
    return {
        "level": diagnostic.level,
        "path": diagnostic.path,
        "line": diagnostic.line,
        "key": diagnostic.key,
        "message": diagnostic.message,
        "code": diagnostic.code,
        "extension": diagnostic.extension,
        "help": diagnostic.help,
    }


def print_diagnostics(
    diagnostics: Iterable[Diagnostic],
    *,
    with_help: bool = False,
    print_line: Callable[[str], None] = say,
) -> None:
    """Print each diagnostic with its file and line, and with its help if `with_help` is set.

    `print_line` prints one line. Labels are coloured only if it is `say`, which prints to stderr.
    """
    for diagnostic in diagnostics:
        where = f"{diagnostic.path}:{diagnostic.line}" if diagnostic.line else diagnostic.path
        text = f"{where}: {diagnostic.message}" if where else diagnostic.message
        if print_line is say:
            say_labelled(f"{diagnostic.level}:", diagnostic.level, text)
        else:
            print_line(f"{diagnostic.level}: {text}")
        if with_help and diagnostic.help:
            print_line(f"  fix: {diagnostic.help}")
