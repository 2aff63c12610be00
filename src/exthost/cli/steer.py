"""What `start`, `stop` and `restart` have in common: one thing asked of a running host."""

import argparse

from exthost.cli.frame import (
    Asked,
    config_option,
    config_path,
    no_command,
    show_json,
    timeout_option,
)
from exthost.control.client import ask
from exthost.control.protocol import Request

# A start takes up to limits.start and a stop up to limits.stop, 60 s and 10 s unless configured.
WAIT_SECONDS = 120.0


def steer_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="which extension")
    timeout_option(parser)
    config_option(parser)


def steer(asked: Asked, verb: str) -> int:
    """Ask, wait until it is done, show how the extension is then."""
    no_command(asked)
    timeout = WAIT_SECONDS if asked.timeout is None else asked.timeout
    row = ask(config_path(asked), Request(verb, asked.name), timeout=timeout)
    if asked.json:
        show_json(row)
    else:
        pids = "".join(f", process {pid}" for pid in row["pids"])
        print(f"{row['id']}: {row['state']}{pids}")
    return 0
