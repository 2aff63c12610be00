"""Verbs as clients of the host of their config, where one runs.

`call`, `tools` and `inspect` ask here first. A request for a process of its own (a command after
`--`, `--standalone`, `--trace`, a sandbox, a dialect, a variable or a folder by option) is never
sent to the running host.
"""

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from exthost.cli.common import Args, config_path, say, show_line
from exthost.control.client import HostClient
from exthost.control.protocol import Request
from exthost.errors import NotFound

# A host that lives answers this at once.
_HELLO_SECONDS = 10.0

# "There is no extension …", and "no host is running".
_NO_EXTENSION = "X1205"
_NO_HOST = "X1275"


def add_standalone_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--standalone",
        action="store_true",
        help="start processes of its own, also where a host of this config runs",
    )


@contextmanager
def running_host(args: Args) -> Iterator[HostClient | None]:
    """Yield a connection to the host of this config; None if there is none, or it is not wanted."""
    client = None if _wants_own_process(args) else _connect(args)
    if client is None:
        yield None
        return
    with client:
        host = client.ask(Request("hello"), timeout=_HELLO_SECONDS)
        if host["ending"]:
            yield None
            return
        say(f"through the running host, pid {host['pid']}")
        yield client


def _connect(args: Args) -> HostClient | None:
    try:
        return HostClient(config_path(args), timeout=_HELLO_SECONDS)
    except NotFound as error:
        if error.code != _NO_HOST:
            raise
        return None


def _wants_own_process(args: Args) -> bool:
    own = (args.command, args.dialect, args.sandbox, args.lifetime, args.env, args.cwd, args.trace)
    return args.standalone or any(own)


def is_path_of_another(error: NotFound, target: str | None) -> bool:
    """Return whether the host does not know this target because it is a folder or a manifest."""
    return error.code == _NO_EXTENSION and target is not None and os.path.exists(target)  # noqa: PTH110


def show_event(event: Mapping[str, Any]) -> None:
    """Print a log line or the progress of a call to stderr, as a private process would have it."""
    if event["kind"] == "log":
        show_line(event["extension"], event["text"])
    elif event["kind"] == "progress":
        of = f" of {event['total']:g}" if event["total"] is not None else ""
        text = f"{event['method']}: {event['progress']:g}{of} {event['message']}".rstrip()
        say(f"[{event['extension']}] {text}")
