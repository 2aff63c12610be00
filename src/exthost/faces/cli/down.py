"""End the running host of a config, and wait until it has ended. Calls in flight are completed
first."""

import argparse
import os
import select
import signal
import time

from exthost.errors import CallTimeout, ExthostError, UsageError
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_timeout_option,
    config_path,
    show_json,
)
from exthost.faces.cli.control_verbs import WAIT_SECONDS
from exthost.host.control.client import HELLO_SECONDS, ask
from exthost.host.control.protocol import ControlRequest


def add_options(parser: argparse.ArgumentParser) -> None:
    add_timeout_option(parser)
    add_config_option(parser)


def run(args: Args) -> int:
    timeout = WAIT_SECONDS if args.timeout is None else args.timeout
    host = ask(config_path(args), ControlRequest("hello"), timeout=timeout)
    pid = host["pid"]
    if host["program"]:  # the host is part of a program that uses the library
        raise UsageError(
            "X1383",
            f"the host of {config_path(args)} belongs to a program: process {pid}",
            help="end the program, or stop single extensions: exthost stop NAME",
        )
    if not _terminate(args, pid, timeout):
        raise CallTimeout(
            "X0875",
            f"the host did not end within {timeout:g} s",
            help="it is still ending: see exthost status, or kill it, and its extensions end too",
        )
    if args.json:
        show_json({"pid": pid, "ended": True})
    else:
        print(f"host: process {pid} ended")
    return 0


def _terminate(args: Args, pid: int, timeout: float) -> bool:
    """Send SIGTERM to the host, and return whether it ended in time. If the system supports pidfds,
    one is used, because a pid may be reused after the process has ended."""
    if not hasattr(os, "pidfd_open"):
        os.kill(pid, signal.SIGTERM)
        return _wait_until_unreachable(args, timeout)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        # The pid may have been reused before `pidfd_open`. If the host still reports this pid, the
        # pidfd is that of the host.
        if ask(config_path(args), ControlRequest("hello"), timeout=timeout)["pid"] == pid:
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        ready, _, _ = select.select([pidfd], [], [], timeout)
        return bool(ready)
    finally:
        os.close(pidfd)


def _wait_until_unreachable(args: Args, timeout: float) -> bool:
    """Wait until the host no longer answers on its socket. Return False after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            ask(config_path(args), ControlRequest("hello"), timeout=HELLO_SECONDS)
        except ExthostError:
            return True
        time.sleep(0.05)
    return False
