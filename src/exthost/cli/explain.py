"""Tell what an error code means and what to do about it.

Of a kind of error, such as CallTimeout, list the codes; without either, list them all.
"""

import argparse

from exthost import error_catalog
from exthost.cli.common import Args, no_command, say, show_json, show_table
from exthost.dialects import find
from exthost.errors import NotFound, UsageError
from exthost.names import nearest


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="such as X0401, or CallTimeout")


def _entries() -> dict[str, error_catalog.ErrorEntry]:
    """Return every code: our own, and those of the dialects that are installed. A table that
    cannot be used is left out, so that the others can still be explained."""
    usable: list[error_catalog.ErrorTable] = []
    for table in find.iter_error_tables():
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
    kind = (args.code or "").casefold()
    of_kind = {
        code: entry
        for code, entry in sorted(entries.items())
        if args.code is None or entry.kind.casefold() == kind
    }
    if of_kind:
        if args.json:
            show_json({code: entry._asdict() for code, entry in of_kind.items()})
        else:
            rows = [(code, entry.kind, entry.title) for code, entry in of_kind.items()]
            show_table(rows, ("CODE", "KIND", "WHAT"))
        return 0
    assert args.code is not None, "there are entries"
    code = args.code.upper()
    entry = entries.get(code)
    if entry is None:
        kinds = {entry.kind for entry in entries.values()}
        near = nearest(code, entries) or nearest(args.code, kinds)
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
