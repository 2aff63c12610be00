"""The MCP face of a host: its options, and where it is served (stdin and stdout, or HTTP).

`run` and `gateway` share it. The packages of the gateway are imported only if a face is wanted.
"""

import argparse
import importlib
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from exthost.cli.common import Args, say, show_json
from exthost.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from exthost.gateway.server import McpServer

DEFAULT_HOST = "127.0.0.1"

Transport: TypeAlias = Callable[["McpServer"], Coroutine[Any, Any, None]]


class Address(NamedTuple):
    """Where to listen. `host` is "" if only a port was given."""

    host: str
    port: int


def http_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        metavar="ADDR",
        type=read_address,
        help=f"serve MCP on HTTP at PORT or HOST:PORT (default host: {DEFAULT_HOST}; port 0: any)",
    )
    parser.add_argument("--token-file", metavar="FILE", help="with --http: the bearer token's file")


def read_address(text: str) -> Address:
    """Return the address in PORT, HOST:PORT or [IPV6]:PORT. Raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an address: write PORT or HOST:PORT, with a port from 0 to 65535"
        )
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise argparse.ArgumentTypeError(f"write {text!r} as [{host}]:{port}")
    return Address(host.strip("[]"), int(port))


def check_http_options(args: Args, host: str | None = None) -> None:
    """Raise UsageError for options that are about HTTP where there is none."""
    if args.http is None and (host is not None or args.token_file is not None):
        raise UsageError(
            "X1366", "--host and --token-file are about HTTP", help="add --http PORT, or leave out"
        )


@contextmanager
def mcp_transports(
    args: Args, *, on_stdio: bool, host: str | None = None
) -> Iterator[list[Transport]]:
    """Yield the transports that were asked for; each has its socket or descriptors already."""
    with ExitStack() as stack:
        transports: list[Transport] = []
        if args.http is not None:
            address = args.http
            listen_on = host or address.host or DEFAULT_HOST
            transports.append(stack.enter_context(_http(args, listen_on, address.port)))
        if on_stdio:
            transports.append(stack.enter_context(_stdio()))
        yield transports


def child_variables() -> dict[str, str]:
    """Return our variables without the token of the HTTP face, which is no extension's business."""
    variable = _module("token").VARIABLE
    return {name: value for name, value in os.environ.items() if name != variable}


def _module(name: str) -> Any:
    """Return a module of the gateway, or raise which install is missing."""
    try:
        return importlib.import_module(f"exthost.gateway.{name}")
    except ImportError as error:
        raise ConfigError(
            "X0165",
            f"the gateway is not installed: {error.name or error} is missing",
            help="pip install 'exthost[gateway]'",
        ) from None


@contextmanager
def _stdio() -> Iterator[Transport]:
    stdio = _module("stdio")
    with stdio.claimed() as wire:
        yield lambda server: stdio.serve(server, wire)


@contextmanager
def _http(args: Args, host: str, port: int) -> Iterator[Transport]:
    http, token = _module("http"), _module("token")
    found = token.find(args.token_file, os.environ)
    with http.listen(host, port) as listener:
        url = http.url(listener, host)
        if args.json:
            show_json({"url": url, "token": None if found.source else found.text})
        else:
            say(f"serving MCP on {url}")
            say(f"token: {'in ' + found.source if found.source else found.text}")
        if host not in http.LOOPBACK:
            say("warning: others can connect, and the token travels unencrypted: put TLS before it")
        yield lambda server: http.serve(server, listener, host, found.text)
