"""Show the state, health, processes, calls and last error of each extension of a running host.

With names, the exit code is by the state of these extensions, and that of the worst counts:

  0  ready, starting, draining, or admitted (it starts at its first use)
  4  refused: a permission, a pin or the lock does not allow it
  5  failed: it did not start, and is not tried again
  7  stopped, in backoff before a restart, or open (the circuit breaker rejects calls)

Without names, or with --all, the exit code is 0 whatever the states are.
"""

import argparse
import time
from collections.abc import Mapping
from typing import Any

from exthost.errors import NotFound
from exthost.faces.cli.chosen_names import add_names_options, check_names
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_timeout_option,
    config_path,
    escape_controls,
    list_names,
    plural,
    say,
    show_json,
    show_table,
)
from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest
from exthost.model.names import nearest

# The default time limit of the request.
WAIT_SECONDS = 10.0

# The exit codes of states, as in the docstring. Any other state is 0.
STATE_EXIT_CODES = {"failed": 5, "refused": 4, "open": 7, "backoff": 7, "stopped": 7}
# The order of these codes, the worst first.
_WORST_FIRST = (5, 4, 7, 0)

HEADER = ("ID", "DIALECT", "STATE", "HEALTH", "PID", "UP", "RESTARTS", "CALLS", "LAST ERROR")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_names_options(parser, default="all of them")
    add_timeout_option(parser)
    add_config_option(parser)


def run(args: Args) -> int:
    timeout = WAIT_SECONDS if args.timeout is None else args.timeout
    check_names(args)
    # One name is left to the host, which knows the names that are near to it.
    request = ControlRequest("status", args.names[0] if len(args.names) == 1 else "")
    status = ask(config_path(args), request, timeout=timeout)
    if len(args.names) > 1:
        status["extensions"] = _select(status["extensions"], args.names)
    codes = [STATE_EXIT_CODES.get(row["state"], 0) for row in status["extensions"]]
    code = min(codes, key=_WORST_FIRST.index) if args.names else 0
    if args.json:
        show_json(status)
        return code
    show_table([row_cells(row, time.time()) for row in status["extensions"]], HEADER)
    for row in status["extensions"]:
        _say_refused_connections(row)
    host = status["host"]
    ending_text = ", ending" if host["ending"] else ""
    say(f"host: process {host['pid']}, up {format_duration(host['uptime'])}{ending_text}")
    for client in status["clients"]:
        name = _one_line(f"{client['name'] or 'a client'} {client['version']}")
        place = "on HTTP" if client["pid"] is None else f"process {client['pid']}"
        say(f"client: {name}, {place}")
    return code


def _say_refused_connections(row: Mapping[str, Any]) -> None:
    """Print how often the sandbox refused each connection of an extension, and the entry of its
    permissions that would allow it."""
    for target, count in row["stats"].get("refused", {}).items():
        entry = row.get("missing_network_entries", {}).get(target)
        fix = f'; to allow it, add "{_one_line(entry)}" to permissions.network' if entry else ""
        times = plural(count, "connection")
        say(f"{row['id']}: {times} to {_one_line(target)} refused{fix}")


def _select(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Return the rows of these names. Raises NotFound if there is no such extension."""
    by_id = {row["id"]: row for row in rows}
    for name in names:
        if name not in by_id:
            suggestion = nearest(name, by_id)
            known = f"the extensions here are: {list_names(by_id)}"
            raise NotFound(
                "X1205",
                f"there is no extension {name!r}",
                help=f"did you mean {suggestion!r}?" if suggestion else known,
            )
    return [by_id[name] for name in dict.fromkeys(names)]


def _format_processes(row: Mapping[str, Any]) -> str:
    """Return the pids of an extension's processes, each with `@` and its node if it runs on another
    machine."""
    locations = [(process["pid"], process["node"]) for process in row["processes"]]
    return ",".join(f"{pid}@{node}" if node else str(pid) for pid, node in locations)


def row_cells(row: Mapping[str, Any], now: float) -> tuple[str, ...]:
    """Return the cells of one extension's row. `row` is the host's report on the extension, and
    `now` is the time in seconds since the epoch."""
    error = row["last_error"]
    return (
        row["id"],
        row["dialect"],
        row["state"],
        row["health"],
        _format_processes(row) or "-",
        format_duration(row["uptime"]) if row["uptime"] else "-",
        str(row["restarts"]),
        _format_calls(row),
        _one_line(f"{error['message']} ({format_duration(now - error['time'])} ago)")
        if error
        else "-",
    )


def _format_calls(row: Mapping[str, Any]) -> str:
    return f"{row['calls']}, {row['failed']} failed" if row["failed"] else str(row["calls"])


def _one_line(text: str) -> str:
    return escape_controls(" ".join(text.split()))


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as 2h5m."""
    total_seconds = max(0, int(seconds))
    days, hours, minutes = (
        total_seconds // 86400,
        total_seconds // 3600 % 24,
        total_seconds // 60 % 60,
    )
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{total_seconds % 60}s" if minutes else f"{total_seconds}s"
