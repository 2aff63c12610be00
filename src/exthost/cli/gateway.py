"""Offer every tool of every extension of a config as one MCP server, on stdio or HTTP.

  exthost gateway                       for an mcpServers file: speaks on stdin and stdout
  exthost gateway --http 8765           http://127.0.0.1:8765/mcp, with a bearer token

The token is that of --token-file (made if it is not there), else $EXTHOST_GATEWAY_TOKEN, else a
new one, shown on stderr. Ctrl-C or the end of stdin ends it: once drains, twice kills.
"""

import argparse
import asyncio
import importlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from exthost.cli.common import Args, config_option, given_config, no_command, say, show_json
from exthost.cli.list import tell_diagnostics
from exthost.cli.target import run_async
from exthost.config import Config
from exthost.discovery.configfile import read_config
from exthost.errors import ConfigError, UsageError
from exthost.events import Exited, LogLine, StateChanged
from exthost.host.host import Host

if TYPE_CHECKING:
    from exthost.gateway.server import Gateway, McpServer

INTERRUPTED = 130
DEFAULT_HOST = "127.0.0.1"

Transport = Callable[["McpServer"], Coroutine[Any, Any, None]]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http", metavar="PORT", type=_port, help="serve HTTP on this port; 0: any"
    )
    parser.add_argument(
        "--host", metavar="ADDRESS", help=f"with --http: listen here (default: {DEFAULT_HOST})"
    )
    parser.add_argument("--token-file", metavar="FILE", help="with --http: the bearer token's file")
    config_option(parser)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, which is 0 to 65535")
    return int(text)


def run(args: Args) -> int:
    no_command(args)
    if args.http is None and (args.host is not None or args.token_file is not None):
        raise UsageError(
            "X1366", "--host and --token-file are about HTTP", help="add --http PORT, or leave out"
        )
    config = read_config(given_config(args))
    transport = _on_stdio() if args.http is None else _on_http(args)
    with transport as serve:
        return run_async(_serve(config, serve))


def _room(name: str) -> Any:
    """A module of the gateway; or which install is missing."""
    try:
        return importlib.import_module(f"exthost.gateway.{name}")
    except ImportError as error:
        raise ConfigError(
            "X0165",
            f"the gateway is not installed: {error.name or error} is missing",
            help="pip install 'exthost[gateway]'",
        ) from None


@contextmanager
def _on_stdio() -> Iterator[Transport]:
    stdio = _room("stdio")
    with stdio.claimed() as wire:
        yield lambda server: stdio.serve(server, wire)


@contextmanager
def _on_http(args: Args) -> Iterator[Transport]:
    http, token = _room("http"), _room("token")
    host = args.host or DEFAULT_HOST
    found = token.find(args.token_file, os.environ)
    with http.listen(host, args.http) as listener:
        url = http.url(listener, host)
        if args.json:
            show_json({"url": url, "token": None if found.source else found.text})
        else:
            say(f"serving MCP on {url}")
            say(f"token: {'in ' + found.source if found.source else found.text}")
        if host not in http.LOOPBACK:
            say("warning: others can connect, and the token travels unencrypted: put TLS before it")
        yield lambda server: http.serve(server, listener, host, found.text)


async def _serve(config: Config, transport: Transport) -> int:
    from exthost.gateway.server import Gateway
    from exthost.gateway.token import VARIABLE

    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    host = Host(config, environ=environ)
    _tell_what_happens(host)
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signals.put_nowait, number)
    gateway = Gateway(host)
    opening = gateway.open()
    serving = loop.create_task(transport(gateway.server))
    signalled = loop.create_task(signals.get())
    awaited = {opening, serving, signalled}
    try:
        while not (serving.done() or signalled.done()):
            await asyncio.wait(awaited, return_when="FIRST_COMPLETED")
            if opening in awaited and opening.done():
                awaited.remove(opening)
                opening.result()
                _tell_ready(host)
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await _close(gateway, signals)
        signalled.cancel()
        await asyncio.wait([signalled])
    if signalled.cancelled():
        serving.result()
        return 0
    return INTERRUPTED if signalled.result() == signal.SIGINT else 0


async def _close(gateway: "Gateway", signals: "asyncio.Queue[int]") -> None:
    closing = asyncio.ensure_future(gateway.close())
    second = asyncio.ensure_future(signals.get())
    await asyncio.wait([closing, second], return_when="FIRST_COMPLETED")
    if not closing.done():
        gateway.host.kill()
    await closing
    second.cancel()
    await asyncio.wait([second])


def _tell_ready(host: Host) -> None:
    tell_diagnostics(host.diagnostics)
    ready = sum(ext.state == "ready" for ext in host.extensions)
    say(f"{ready} of {len(host)} extensions ready, {len(host.tools)} tools")


def _tell_what_happens(host: Host) -> None:
    def tell(event: Any) -> None:
        if isinstance(event, StateChanged):
            why = f" ({event.reason})" if event.reason else ""
            say(f"{event.extension}: {event.after}{why}")
        elif isinstance(event, Exited):
            say(f"{event.extension}: process {event.pid} {event.status}")

    host.events.subscribe((StateChanged, Exited), tell)
    host.events.subscribe(LogLine, lambda line: say(f"[{line.extension}] {line.text}"))
