"""Delete the stored offer of an extension: the tools that it offered when it ran last.

The host stores the tools of each extension in the state folder, and lists them before the extension
runs. After this verb its tools are unknown until its next start.
"""

import argparse
import os

from exthost.faces.cli.common import (
    Args,
    add_config_option,
    require_config_path,
    say,
    show_json,
)
from exthost.host.known_offers import forget_offer


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the extension")
    add_config_option(parser)


def run(args: Args) -> int:
    was_known = forget_offer(require_config_path(args), os.environ, args.name)
    if args.json:
        show_json({"forgotten": was_known})
    elif was_known:
        say(f"the stored offer of {args.name} is deleted")
    else:
        say(f"there is no stored offer of {args.name}; `exthost tools` marks stored tools with *")
    return 0
