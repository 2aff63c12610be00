"""Tell what an error code means and what to do about it; without a code, list them all."""

import argparse

from exthost import error_catalog
from exthost.cli.common import Args, no_command, show_json, show_table
from exthost.dialects import find
from exthost.errors import NotFound
from exthost.names import nearest


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="such as X0401")


def run(args: Args) -> int:
    no_command(args)
    entries = error_catalog.load(*(package.errors for package in find.packages()))
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
