"""Tell what an error code means and what to do about it; without a code, list them all."""

import argparse

from exthost import error_catalog
from exthost.cli.common import Args, no_command, say, show_json, show_table
from exthost.dialects import find
from exthost.errors import NotFound, UsageError
from exthost.names import nearest


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="such as X0401")


def _entries() -> dict[str, error_catalog.ErrorEntry]:
    """Return every code: our own, and those of the dialects that are installed. A table that
    cannot be used is left out, so that the others can still be explained."""
    usable: list[error_catalog.ErrorTable] = []
    for table in find.error_tables():
        try:
            error_catalog.load(*usable, table)
        except UsageError as wrong:
            say(f"warning: {wrong.message}")
        else:
            usable.append(table)
    return error_catalog.load(*usable)


def run(args: Args) -> int:
    no_command(args)
    entries = _entries()
    if args.code is None:
        if args.json:
            show_json({code: entry._asdict() for code, entry in sorted(entries.items())})
        else:
            rows = [(code, entry.kind, entry.title) for code, entry in sorted(entries.items())]
            show_table(rows, ("CODE", "KIND", "WHAT"))
        return 0
    code = args.code.upper()
    entry = entries.get(code)
    if entry is None:
        near = nearest(code, entries)
        raise NotFound(
            "X1207",
            f"there is no error code {args.code!r}",
            help=f"did you mean {near}?" if near else "exthost explain lists them all",
        )
    if args.json:
        show_json({"code": code, **entry._asdict()})
    else:
        print(f"{code}  {entry.kind}: {entry.title}\n\n{entry.meaning}\n\nWhat to do: {entry.fix}")
    return 0
