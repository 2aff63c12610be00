"""Tell what an error code means and what to do about it; without a code, list them all."""

import argparse

from exthost.catalogue import CATALOGUE, Entry
from exthost.cli.frame import Asked, no_command, show_json, show_table
from exthost.dialects import find
from exthost.errors import NotFound
from exthost.names import nearest


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", metavar="CODE", help="such as X0401")


def _entries() -> dict[str, Entry]:
    """Return every code: our own, and those of the dialects that are installed."""
    of_dialects = {
        code: Entry(**fields)
        for package in find.packages()
        for code, fields in package.errors.items()
    }
    return dict(sorted({**of_dialects, **CATALOGUE}.items()))


def run(asked: Asked) -> int:
    no_command(asked)
    entries = _entries()
    if asked.code is None:
        if asked.json:
            show_json({code: entry._asdict() for code, entry in entries.items()})
        else:
            rows = [(code, entry.kind, entry.title) for code, entry in entries.items()]
            show_table(rows, ("CODE", "KIND", "WHAT"))
        return 0
    code = asked.code.upper()
    entry = entries.get(code)
    if entry is None:
        near = nearest(code, entries)
        raise NotFound(
            "X1207",
            f"there is no error code {asked.code!r}",
            help=f"did you mean {near}?" if near else "exthost explain lists them all",
        )
    if asked.json:
        show_json({"code": code, **entry._asdict()})
    else:
        print(f"{code}  {entry.kind}: {entry.title}\n\n{entry.meaning}\n\nWhat to do: {entry.fix}")
    return 0
