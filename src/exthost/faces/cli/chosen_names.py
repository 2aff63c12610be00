"""The names that a verb is given: one, several, or --all of a running host."""

import argparse

from exthost.errors import UsageError
from exthost.faces.cli.common import Args, config_path
from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest

# The time limit of the request for the names of all extensions.
_LIST_SECONDS = 10.0


def add_names_options(parser: argparse.ArgumentParser, *, without: str = "") -> None:
    """Add NAME… and --all. `without` describes what the verb does without a name; "" if it needs
    one."""
    help = f"the names of extensions{f' (default: {without})' if without else ''}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=help)
    parser.add_argument("--all", action="store_true", help="all extensions of the host")


def check_names(args: Args) -> None:
    """Raise UsageError if both names and --all are given."""
    if args.all and args.names:
        raise UsageError("X1316", "--all and NAME exclude each other", help="leave out one of them")


def required_names(args: Args, verb: str) -> list[str]:
    """Return the names, or those of all extensions of the running host with --all. Raises
    UsageError if there are none."""
    check_names(args)
    if args.all:
        status = ask(config_path(args), ControlRequest("status"), timeout=_LIST_SECONDS)
        return [row["id"] for row in status["extensions"]]
    if not args.names:
        raise UsageError(
            "X1316", "which extension?", help=f"write exthost {verb} NAME…, or exthost {verb} --all"
        )
    return list(dict.fromkeys(args.names))
