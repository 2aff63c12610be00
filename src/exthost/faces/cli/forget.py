"""Drop what an extension offered when it ran last.

The host keeps the tools of each extension in the state folder, and lists them before the extension
runs. After this verb its tools are unknown until its next start.
"""

import argparse
import os

from exthost.faces.cli.common import (
    Args,
    add_config_option,
    refuse_command,
    require_config_path,
    say,
    show_json,
)
from exthost.host.known_offers import forget_offer


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the extension")
    add_config_option(parser)


def run(args: Args) -> int:
    refuse_command(args)
    was_known = forget_offer(require_config_path(args), os.environ, args.name)
    if args.json:
        show_json({"forgotten": was_known})
    elif was_known:
        say(f"what {args.name} offered is forgotten")
    else:
        say(f"nothing was known of {args.name}; exthost tools marks what is with *")
    return 0
