"""Implements the subcommands `start`, `stop` and `restart`: each sends one request to a running
host."""

import argparse

from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_timeout_option,
    config_path,
    show_json,
    show_result,
)
from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest

# The default time limit of the request. It exceeds the defaults of limits.start (60 s) and
# limits.stop (5 s), which bound what the host does.
WAIT_SECONDS = 120.0


def add_control_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the extension")
    add_timeout_option(parser)
    add_config_option(parser)


def run_control_verb(args: Args, verb: str) -> int:
    """Send the request `verb`, wait until the host has done it, and print the new state of the
    extension. Return the exit code."""
    timeout = WAIT_SECONDS if args.timeout is None else args.timeout
    status = ask(config_path(args), ControlRequest(verb, args.name), timeout=timeout)
    if args.json:
        show_json(status)
    else:
        pids = "".join(f", process {pid}" for pid in status["pids"])
        show_result(f"{status['id']}: {status['state']}{pids}")
        if verb == "restart":
            # Imported lazily: it reads the config, and the module for that takes longer to import
            # than everything else here.
            from exthost.faces.cli.unapplied_settings import say_unapplied_settings

            say_unapplied_settings(args, args.name)
    return 0
