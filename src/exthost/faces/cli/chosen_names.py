"""The names of extensions that the user gives to a verb (a subcommand of exthost), such as `exthost
restart NAME…` or `exthost restart --all`, which means all extensions of the running host.
"""

import argparse

from exthost.errors import UsageError
from exthost.faces.cli.common import Args, config_path
from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest

# The time limit of the request for the names of all extensions.
_LIST_SECONDS = 10.0


def add_names_options(parser: argparse.ArgumentParser, *, default: str = "") -> None:
    """Add NAME… and --all. `default` describes the extensions that the verb uses without a name; ""
    if it needs one."""
    help = f"the names of extensions{f' (default: {default})' if default else ''}"
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
    return list(dict.fromkeys(args.names))  # each name once, in the order of the command line
