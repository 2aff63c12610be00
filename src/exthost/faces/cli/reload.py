"""Make a running host read its config again: new extensions are started, changed ones are replaced
when the replacement is ready, removed ones end when their calls have ended. Unchanged extensions
are not touched.

A config that cannot be used changes nothing. SIGHUP to the host does the same.
"""

import argparse
import sys

from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_timeout_option,
    config_path,
    print_error,
    show_json,
    show_result,
)
from exthost.faces.cli.control_verbs import WAIT_SECONDS
from exthost.faces.cli.host_process import reload_summary
from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest, read_error


def add_options(parser: argparse.ArgumentParser) -> None:
    add_timeout_option(parser)
    add_config_option(parser)


def run(args: Args) -> int:
    timeout = WAIT_SECONDS if args.timeout is None else args.timeout
    outcome = ask(config_path(args), ControlRequest("reload"), timeout=timeout)
    errors = [read_error(error) for error in outcome["failed"]]
    if args.json:
        show_json(outcome)
    else:
        show_result(f"reloaded: {reload_summary(outcome)}")
        sys.stdout.flush()
        for error in errors:
            print_error(error, wants_json=False)
    return errors[0].exit_code if errors else 0
