"""Diagnostics of manifests and configs, as lines for a person and as JSON."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from exthost.cli.common import (
    say,
    say_labelled,
)
from exthost.discovery.report import Diagnostic


def add_all_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="every mistake of a manifest")


def select_diagnostics(diagnostics: Iterable[Diagnostic], *, every: bool) -> tuple[Diagnostic, ...]:
    """Return the first mistake of each manifest, or every one."""
    if not every:
        return tuple(diagnostics)
    return tuple(diagnostic for first in diagnostics for diagnostic in (first, *first.more))


def diagnostic_row(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as JSON shows it."""
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


def tell_diagnostics(
    diagnostics: Iterable[Diagnostic], *, fixes: bool = False, tell: Callable[[str], None] = say
) -> None:
    for diagnostic in diagnostics:
        where = f"{diagnostic.path}:{diagnostic.line}" if diagnostic.line else diagnostic.path
        text = f"{where}: {diagnostic.message}" if where else diagnostic.message
        if tell is say:
            say_labelled(f"{diagnostic.level}:", diagnostic.level, text)
        else:
            tell(f"{diagnostic.level}: {text}")
        if fixes and diagnostic.help:
            tell(f"  fix: {diagnostic.help}")
