"""The MCP service of a host: its command line options, and its two transports, stdio and HTTP.

The commands `run` and `gateway` use it. The packages of the gateway are imported only if the
options request the service.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exthost.errors import UsageError
from exthost.faces.cli.background_service import BackgroundService, ServiceContext
from exthost.faces.cli.common import Args, say, show_json
from exthost.faces.cli.http_options import DEFAULT_HOST, find_token, read_address, warn_if_public
from exthost.faces.cli.optional_import import import_optional
from exthost.faces.http_server.listener import listen, listener_url
from exthost.faces.http_server.token import Tokens


def add_http_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        metavar="ADDR",
        type=read_address,
        help=f"serve MCP on HTTP at PORT or HOST:PORT (default host: {DEFAULT_HOST}; "
        "port 0 chooses a free port)",
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="the file that contains the bearer token for HTTP"
    )
    parser.add_argument(
        "--allow-origin",
        dest="origins",
        metavar="ORIGIN",
        action="append",
        default=[],
        type=read_origin,
        help="allow web pages of this origin, such as https://example.org, to use MCP over HTTP; "
        "repeatable",
    )
    parser.add_argument(
        "--plain-names",
        action="store_true",
        help="offer a tool under its own name if no other extension has a tool of that name",
    )


def http_arguments(args: Args) -> list[str]:
    """Return the options of `add_http_options` as arguments of another `exthost run`. Paths are
    absolute, because that process may have another working directory."""
    arguments = []
    if args.http is not None:
        arguments += ["--http", str(args.http)]
    for origin in args.origins:
        arguments += ["--allow-origin", origin]
    if args.plain_names:
        arguments.append("--plain-names")
    if args.token_file is not None:
        arguments += ["--token-file", str(Path(args.token_file).absolute())]
    return arguments


def read_origin(text: str) -> str:
    """Return an origin as browsers send it: scheme, host, and the port unless it is the default
    port of the scheme. Raises ArgumentTypeError."""
    origin_error = argparse.ArgumentTypeError(
        f"{text!r} is not an origin: write https://example.org or http://localhost:5173"
    )
    try:
        url_parts = urlsplit(text)
        # Browsers send an origin without a path. A URL that was copied may end in a slash.
        is_bare = url_parts.path in ("", "/") and not url_parts.query and not url_parts.fragment
        scheme, hostname = url_parts.scheme, url_parts.hostname
        if scheme not in _DEFAULT_PORTS or not hostname or "@" in text or not is_bare:
            raise origin_error
        if not hostname.isascii():  # browsers send the ASCII form of a name, such as xn--bcher-kva
            hostname = hostname.encode("idna").decode()
        host = f"[{hostname}]" if ":" in hostname else hostname
        is_default_port = url_parts.port in (None, _DEFAULT_PORTS[scheme])
        port = "" if is_default_port else f":{url_parts.port}"
    except ValueError:  # the port is not a number or out of range, or the name is not valid
        raise origin_error from None
    # Origins are compared as whole texts, so a wildcard would match nothing.
    if "*" in host or " " in host:
        raise origin_error
    return f"{scheme}://{host}{port}"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_http_options(args: Args, host: str | None = None) -> None:
    """Raise UsageError for options of HTTP if no service uses HTTP. `host` is the `--host` option
    of `gateway`."""
    # `gateway` has no option --web.
    uses_http = args.http is not None or getattr(args, "web", None) is not None
    needs_mcp = host is not None or args.origins
    if (args.token_file is not None and not uses_http) or (needs_mcp and args.http is None):
        raise UsageError(
            "X1366",
            "--host, --allow-origin and --token-file are about HTTP",
            help="add --http PORT, or leave out",
        )


@contextmanager
def mcp_services(
    args: Args, *, on_stdio: bool, host: str | None = None
) -> Iterator[list[BackgroundService]]:
    """Yield the MCP services that the options request, each with its open socket or file
    descriptors. `on_stdio` is whether to serve on stdin and stdout. `host` overrides the host in
    `--http`."""
    with ExitStack() as stack:
        services: list[BackgroundService] = []
        if args.http is not None:
            address = args.http
            listen_on = host or address.host or DEFAULT_HOST
            services.append(stack.enter_context(_open_http_service(args, listen_on, address.port)))
        if on_stdio:
            services.append(stack.enter_context(_open_stdio_service()))
        yield services


def _import_gateway_module(name: str) -> Any:
    """Return a module of the gateway. Raises ConfigError if its packages are not installed."""
    return import_optional(
        f"exthost.faces.gateway.{name}", code="X0165", feature="the gateway", extra="gateway"
    )


@contextmanager
def _open_stdio_service() -> Iterator[BackgroundService]:
    stdio = _import_gateway_module("stdio")

    async def serve(context: ServiceContext) -> None:
        await stdio.serve(context.mcp_server, claimed)

    with stdio.claim_stdio() as claimed:
        yield BackgroundService(serve, is_mcp=True)


@contextmanager
def _open_http_service(args: Args, host: str, port: int) -> Iterator[BackgroundService]:
    http = _import_gateway_module("http")
    token = find_token(args)

    async def serve(context: ServiceContext) -> None:
        await http.serve(
            context.mcp_server,
            listener,
            host,
            Tokens(token),
            context.probes,
            origins=args.origins,
        )

    with listen(host, port) as listener:
        address = listener_url(listener, host, http.PATH)
        if args.json:
            show_json({"url": address, "token": None if token.source else token.text})
        else:
            say(f"serving MCP on {address}")
            say(f"token: {'in ' + token.source if token.source else token.text}")
        warn_if_public(host)
        yield BackgroundService(serve, is_mcp=True, is_http=True)
