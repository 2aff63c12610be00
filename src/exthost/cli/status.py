"""How the extensions of a running host are: state, health, processes, calls, the last error."""

import argparse
import time
from collections.abc import Mapping
from typing import Any

from exthost.cli.common import (
    Args,
    add_config_option,
    add_timeout_option,
    config_path,
    escape_controls,
    no_command,
    say,
    show_json,
    show_table,
)
from exthost.control.client import ask
from exthost.control.protocol import Request

WAIT_SECONDS = 10.0

HEADER = ("ID", "DIALECT", "STATE", "HEALTH", "PID", "UP", "RESTARTS", "CALLS", "LAST ERROR")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="only this extension")
    add_timeout_option(parser)
    add_config_option(parser)


def run(args: Args) -> int:
    no_command(args)
    timeout = WAIT_SECONDS if args.timeout is None else args.timeout
    status = ask(config_path(args), Request("status", args.name), timeout=timeout)
    if args.json:
        show_json(status)
        return 0
    show_table([cells(row, time.time()) for row in status["extensions"]], HEADER)
    host = status["host"]
    ending = ", ending" if host["ending"] else ""
    say(f"host: process {host['pid']}, up {span(host['uptime'])}{ending}")
    return 0


def _where(row: Mapping[str, Any]) -> str:
    """Return the processes of an extension, each with its node if it runs on another machine."""
    processes = row.get("processes")
    if processes is None:  # a host of an earlier version
        return ",".join(map(str, row["pids"]))
    places = [(process["pid"], process["node"]) for process in processes]
    return ",".join(f"{pid}@{node}" if node else str(pid) for pid, node in places)


def cells(row: Mapping[str, Any], now: float) -> tuple[str, ...]:
    """Return one extension as the cells of a line."""
    error = row["last_error"]
    return (
        row["id"],
        row["dialect"],
        row["state"],
        row["health"],
        _where(row) or "-",
        span(row["uptime"]) if row["uptime"] else "-",
        str(row["restarts"]),
        _calls(row),
        _in_a_line(f"{error['message']} ({span(now - error['time'])} ago)") if error else "-",
    )


def _calls(row: Mapping[str, Any]) -> str:
    failed = row.get("failed")  # a host of an earlier version does not say
    return f"{row['calls']}, {failed} failed" if failed else str(row["calls"])


def _in_a_line(text: str) -> str:
    return escape_controls(" ".join(text.split()))


def span(seconds: float) -> str:
    """Return a time span in its two largest units."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{whole % 60}s" if minutes else f"{whole}s"
