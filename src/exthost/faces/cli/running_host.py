"""Connects a verb (a subcommand of `exthost`) to the running host of its config, if there is one.

`call`, `tools` and `inspect` use the running host if they can. They start a new process if there is
a command after `--`, or an option that only a new process can apply: `--standalone`, `--trace`,
`--dialect`, `--option`, `--sandbox`, `--lifetime`, `-e` or `--cwd`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from exthost.errors import NotFound
from exthost.faces.cli.common import Args, config_path, format_number, say, show_line
from exthost.host.control.client import HELLO_SECONDS, HostClient, NoHost, NoSocket

if TYPE_CHECKING:
    from exthost.faces.cli.quick_call import BegunCall

# The code of "there is no extension …", as the host sends it: classes do not cross the socket.
_NO_EXTENSION = "X1205"


def add_standalone_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--standalone",
        action="store_true",
        help="start new processes, even if a host of this config is running",
    )


@contextmanager
def running_host(args: Args) -> Iterator[HostClient | None]:
    """Yield a connection to the running host of this config. Yield None if no host is running, if
    the host is ending, or if the options require a new process."""
    client = None if _needs_new_process(args) else _connect(args)
    if client is None:
        yield None
        return
    with client:
        if client.host["ending"]:
            yield None
            return
        say(f"through the running host, pid {client.host['pid']}")
        yield client


def resume(begun: BegunCall) -> HostClient:
    """Return the connection of a call that `quick_call` has begun: that module sends a simple call
    before the rest of the command line is imported, and leaves everything unusual to `call`."""
    return HostClient.resume(begun.socket.detach(), begun.host, begun.received)


def _connect(args: Args) -> HostClient | None:
    """Return a connection to the running host of the config, or None."""
    # `--timeout` is `timeout` in verbs that call, and `start_seconds` in verbs that only start.
    timeout = getattr(args, "timeout", None) or args.start_seconds
    try:
        return HostClient(config_path(args), timeout=timeout or HELLO_SECONDS)
    except NoHost:
        return None
    except NoSocket as error:
        say(f"{error.message}; a new process is started")
        return None


def _needs_new_process(args: Args) -> bool:
    """Return whether an option was given that the running host cannot apply."""
    new_process_options = (
        args.command,
        getattr(args, "dialect", None),  # the verb `rules` has no such option
        args.sandbox,
        args.lifetime,
        args.env,
        args.cwd,
        args.trace,
        getattr(args, "option", None),  # only `call` and `inspect` have such an option
    )
    return args.standalone or any(new_process_options)


def is_unlisted_path(error: NotFound, target: str | None) -> bool:
    """Return whether `error` says that the host has no extension of the name `target`, and `target`
    is the path of a folder or a manifest. The verb then starts that extension itself."""
    return error.code == _NO_EXTENSION and target is not None and os.path.exists(target)  # noqa: PTH110


def show_event(event: Mapping[str, Any]) -> None:
    """Print a log line or the progress of a call to stderr, in the same form as for an extension
    that the verb has started itself."""
    if event["kind"] == "log":
        show_line(event["extension"], event["text"])
    elif event["kind"] == "progress":
        total = f" of {format_number(event['total'])}" if event["total"] is not None else ""
        progress = format_number(event["progress"])
        text = f"{event['method']}: {progress}{total} {event['message']}".rstrip()
        say(f"[{event['extension']}] {text}")
