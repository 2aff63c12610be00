"""Explain what an error code means and what to do about it.

With a type of error, such as CallTimeout, list its codes. Without an argument, list all codes.
"""

import argparse

from exthost.dialects import find
from exthost.errors import NotFound, UsageError
from exthost.faces.cli.common import Args, say, show_json, show_table
from exthost.model import error_catalog
from exthost.model.names import nearest


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="such as X0401, or CallTimeout")


def _load_entries() -> dict[str, error_catalog.ErrorEntry]:
    """Return the entries of all error codes of exthost and of every installed dialect. If the error
    table of a dialect is not valid, print a warning and leave the table out."""
    usable: list[error_catalog.ErrorTable] = []
    for table in find.iter_error_tables():
        try:
            error_catalog.load(*usable, table)
        except UsageError as table_error:
            say(f"warning: {table_error.message}")
        else:
            usable.append(table)
    return error_catalog.load(*usable)


def run(args: Args) -> int:
    entries = _load_entries()
    kind = (args.code or "").casefold()
    # The codes of the type of error that the argument names, or all codes without an argument.
    matching = {
        code: entry
        for code, entry in sorted(entries.items())
        if args.code is None or entry.kind.casefold() == kind
    }
    if matching:
        if args.json:
            show_json({code: entry._asdict() for code, entry in matching.items()})
        else:
            rows = [(code, entry.kind, entry.title) for code, entry in matching.items()]
            show_table(rows, ("CODE", "KIND", "WHAT"))
        return 0
    # The argument is not a type of error, so it is a code.
    assert args.code is not None, "without an argument, all entries match"
    code = args.code.upper()
    entry = entries.get(code)
    if entry is None:
        kinds = {entry.kind for entry in entries.values()}
        suggestion = nearest(code, entries) or nearest(args.code, kinds)
        raise NotFound(
            "X1207",
            f"there is no error code {args.code!r}",
            help=f"did you mean {suggestion}?"
            if suggestion
            else "exthost explain lists all error codes, exthost check --rules the rules of check",
        )
    if args.json:
        show_json({"code": code, **entry._asdict()})
    else:
        print(f"{code}  {entry.kind}: {entry.title}\n\n{entry.meaning}\n\nWhat to do: {entry.fix}")
    return 0
