"""Implements the subcommands `start`, `stop` and `restart`: each sends a request for each named
extension to the running host of the config, over its control socket."""

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

from exthost.errors import ExthostError
from exthost.faces.cli.chosen_names import add_names_options, required_names
from exthost.faces.cli.common import (
    Args,
    add_config_option,
    add_timeout_option,
    config_path,
    print_error,
    show_json,
    show_result,
)
from exthost.host.control.client import ask
from exthost.host.control.protocol import ControlRequest

# The default time limit of the request. It exceeds the defaults of limits.start (60 s) and
# limits.stop (5 s), which bound what the host does.
WAIT_SECONDS = 120.0

# How many requests are sent at once. The host starts as many processes at the same time.
_MAX_CONCURRENT = 8


_Outcome: TypeAlias = dict[str, Any] | ExthostError


def add_control_options(parser: argparse.ArgumentParser) -> None:
    add_names_options(parser)
    add_timeout_option(parser)
    add_config_option(parser)


def run_control_verb(args: Args, verb: str) -> int:
    """Send the request `verb` for each name, wait until the host has done it, and print the new
    state of the extensions. If it fails for one of them, the others are done all the same; return
    the exit code of the first failure."""
    names = required_names(args, verb)
    timeout = WAIT_SECONDS if args.timeout is None else args.timeout

    def send(name: str) -> _Outcome:
        try:
            row: dict[str, Any] = ask(
                config_path(args), ControlRequest(verb, name), timeout=timeout
            )
        except ExthostError as error:
            return error
        return row

    outcomes = _map_in_threads(send, names)
    if args.json:
        items = [
            {"error": outcome.as_dict()} if isinstance(outcome, ExthostError) else outcome
            for outcome in outcomes
        ]
        show_json(items[0] if len(args.names) == 1 else items)
    else:
        for outcome in outcomes:
            _show(outcome)
    if verb == "restart" and not args.json:
        # Imported lazily: it reads the config, and the module for that takes longer to import than
        # everything else here.
        from exthost.faces.cli.unapplied_settings import say_unapplied_settings

        for name, outcome in zip(names, outcomes, strict=True):
            if not isinstance(outcome, ExthostError):
                say_unapplied_settings(args, name)
    failures = [outcome for outcome in outcomes if isinstance(outcome, ExthostError)]
    return failures[0].exit_code if failures else 0


def _map_in_threads(send: Callable[[str], _Outcome], names: Sequence[str]) -> list[_Outcome]:
    """Return the outcome of each name. Ctrl-C raises KeyboardInterrupt at once: a
    `ThreadPoolExecutor` would wait until the host has answered."""
    futures: list[Future[_Outcome]] = [Future() for _ in names]
    pending = SimpleQueue[tuple[str, "Future[_Outcome]"]]()
    for item in zip(names, futures, strict=True):
        pending.put(item)

    def run() -> None:
        while True:
            try:
                name, future = pending.get_nowait()
            except Empty:
                return
            try:
                future.set_result(send(name))
            except Exception as error:
                future.set_exception(error)

    for _ in range(min(_MAX_CONCURRENT, len(names))):
        Thread(target=run, daemon=True).start()
    return [future.result() for future in futures]


def _show(outcome: dict[str, Any] | ExthostError) -> None:
    if isinstance(outcome, ExthostError):
        print_error(outcome, wants_json=False)
        return
    pids = "".join(f", process {pid}" for pid in outcome["pids"])
    show_result(f"{outcome['id']}: {outcome['state']}{pids}")
