"""The MCP service of a host: its options, and where it is served (stdin and stdout, or HTTP).

`run` and `gateway` share it. The packages of the gateway are imported only if a service is wanted.
"""

import argparse
import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from exthost.cli.common import Args, say, show_json
from exthost.cli.host_service import HostService, ServiceHost
from exthost.cli.http_options import DEFAULT_HOST, find_token, read_address, warn_if_public
from exthost.errors import ConfigError, UsageError
from exthost.http_server.listener import listen, url
from exthost.http_server.token import Tokens


def http_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        metavar="ADDR",
        type=read_address,
        help=f"serve MCP on HTTP at PORT or HOST:PORT (default host: {DEFAULT_HOST}; port 0: any)",
    )
    parser.add_argument("--token-file", metavar="FILE", help="the file of the bearer token of HTTP")
    parser.add_argument(
        "--allow-origin",
        dest="origins",
        metavar="ORIGIN",
        action="append",
        default=[],
        type=read_origin,
        help="let web pages of this origin use MCP on HTTP: https://example.org; repeatable",
    )
    parser.add_argument(
        "--plain-names",
        action="store_true",
        help="MCP clients see a tool under its own name where only one extension has it",
    )


def read_origin(text: str) -> str:
    """Return an origin as browsers send it: scheme, host, and port unless it is the usual one.
    Raises ArgumentTypeError."""
    wrong = argparse.ArgumentTypeError(
        f"{text!r} is not an origin: write https://example.org or http://localhost:5173"
    )
    try:
        parts = urlsplit(text)
        is_bare = parts.path in ("", "/") and not parts.query and not parts.fragment
        if parts.scheme not in _USUAL_PORTS or not parts.hostname or "@" in text or not is_bare:
            raise wrong
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        port = "" if parts.port in (None, _USUAL_PORTS[parts.scheme]) else f":{parts.port}"
    except ValueError:  # not a port
        raise wrong from None
    if "*" in host:
        raise wrong
    return f"{parts.scheme}://{host}{port}"


_USUAL_PORTS = {"http": 80, "https": 443}


def check_http_options(args: Args, host: str | None = None) -> None:
    """Raise UsageError for options that are about HTTP where there is none."""
    is_on_http = args.http is not None or getattr(args, "web", None) is not None
    needs_mcp = host is not None or args.origins
    if (args.token_file is not None and not is_on_http) or (needs_mcp and args.http is None):
        raise UsageError(
            "X1366",
            "--host, --allow-origin and --token-file are about HTTP",
            help="add --http PORT, or leave out",
        )


@contextmanager
def mcp_services(
    args: Args, *, on_stdio: bool, host: str | None = None
) -> Iterator[list[HostService]]:
    """Yield the services that the options request, each with its open socket or descriptors."""
    with ExitStack() as stack:
        services: list[HostService] = []
        if args.http is not None:
            address = args.http
            listen_on = host or address.host or DEFAULT_HOST
            services.append(stack.enter_context(_http(args, listen_on, address.port)))
        if on_stdio:
            services.append(stack.enter_context(_stdio()))
        yield services


def _module(name: str) -> Any:
    """Return a module of the gateway. Raises ConfigError if its packages are not installed."""
    try:
        return importlib.import_module(f"exthost.gateway.{name}")
    except ImportError as error:
        raise ConfigError(
            "X0165",
            f"the gateway is not installed: {error.name or error} is missing",
            help="pip install 'exthost[gateway]'",
        ) from None


@contextmanager
def _stdio() -> Iterator[HostService]:
    stdio = _module("stdio")

    async def serve(served: ServiceHost) -> None:
        await stdio.serve(served.mcp_server, wire)

    with stdio.claimed() as wire:
        yield HostService(serve, is_mcp=True)


@contextmanager
def _http(args: Args, host: str, port: int) -> Iterator[HostService]:
    http = _module("http")
    token = find_token(args)

    async def serve(served: ServiceHost) -> None:
        await http.serve(
            served.mcp_server,
            listener,
            host,
            Tokens(token),
            served.probes,
            origins=args.origins,
        )

    with listen(host, port) as listener:
        address = url(listener, host, http.PATH)
        if args.json:
            show_json({"url": address, "token": None if token.source else token.text})
        else:
            say(f"serving MCP on {address}")
            say(f"token: {'in ' + token.source if token.source else token.text}")
        warn_if_public(host)
        yield HostService(serve, is_mcp=True, is_http=True)
