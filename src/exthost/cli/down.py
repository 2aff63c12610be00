"""End the running host of a config: its extensions drain, and it waits until all is done."""

import argparse
import os
import select
import signal
import time

from exthost.cli.common import (
    Args,
    add_config_option,
    add_timeout_option,
    config_path,
    no_command,
    show_json,
)
from exthost.control.client import ask
from exthost.control.protocol import Request
from exthost.errors import CallTimeout, ExthostError, UsageError

# A host drains for at most limits.stop of its slowest extension.
WAIT_SECONDS = 120.0

_HELLO_SECONDS = 10.0


def add_options(parser: argparse.ArgumentParser) -> None:
    add_timeout_option(parser)
    add_config_option(parser)


def run(args: Args) -> int:
    no_command(args)
    timeout = WAIT_SECONDS if args.timeout is None else args.timeout
    host = ask(config_path(args), Request("hello"), timeout=_HELLO_SECONDS)
    pid = host["pid"]
    if host["program"]:
        raise UsageError(
            "X1383",
            f"the host of {config_path(args)} belongs to a program: process {pid}",
            help="end the program, or stop single extensions: exthost stop NAME",
        )
    if not _end(args, pid, timeout):
        raise CallTimeout(
            "X0875",
            f"the host did not end within {timeout:g} s",
            help="it goes on with that; see exthost status, or kill it: its extensions end too",
        )
    if args.json:
        show_json({"pid": pid, "ended": True})
    else:
        print(f"host: process {pid} ended")
    return 0


def _end(args: Args, pid: int, timeout: float) -> bool:
    """Send SIGTERM to the process, and return whether it ended in time. It is addressed by a
    descriptor, because its pid may be reused once it has ended."""
    if not hasattr(os, "pidfd_open"):
        os.kill(pid, signal.SIGTERM)
        return _wait_for_silence(args, timeout)
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if ask(config_path(args), Request("hello"), timeout=_HELLO_SECONDS)["pid"] == pid:
            signal.pidfd_send_signal(process, signal.SIGTERM)
        ready, _, _ = select.select([process], [], [], timeout)
        return bool(ready)
    finally:
        os.close(process)


def _wait_for_silence(args: Args, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            ask(config_path(args), Request("hello"), timeout=_HELLO_SECONDS)
        except ExthostError:
            return True
        time.sleep(0.05)
    return False
