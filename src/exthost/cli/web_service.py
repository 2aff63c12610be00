"""The page of a host, `--web`: its option, and its socket.

The packages of the page are imported only if it is wanted.
"""

import argparse
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from exthost.cli.common import Args, say, show_json
from exthost.cli.host_service import HostService, ServiceHost
from exthost.cli.http_options import DEFAULT_HOST, find_token, read_address, warn_if_public
from exthost.errors import ConfigError
from exthost.http_server.listener import listen, url
from exthost.http_server.token import Tokens


def web_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--web",
        metavar="ADDR",
        type=read_address,
        help=f"serve a page at PORT or HOST:PORT (default host: {DEFAULT_HOST}; port 0: any)",
    )


@contextmanager
def web_services(args: Args) -> Iterator[list[HostService]]:
    """Yield the service of the page, with its open socket; nothing without `--web`."""
    if args.web is None:
        yield []
        return
    try:
        page = importlib.import_module("exthost.web.page_server")
    except ImportError as error:
        raise ConfigError(
            "X0167",
            f"the page is not installed: {error.name or error} is missing",
            help="pip install 'exthost[web]'",
        ) from None
    host = args.web.host or DEFAULT_HOST
    token = find_token(args)

    async def serve(served: ServiceHost) -> None:
        await page.serve(
            served.host,
            served.report,
            served.requests,
            served.probes,
            config=served.path,
            listener=listener,
            address=host,
            tokens=Tokens(token),
        )

    with listen(host, args.web.port) as listener:
        address = url(listener, host, "/")
        if args.json:
            show_json({"page": address, "token": None if token.source else token.text})
        elif token.source:
            say(f"page: {address} (its token is in {token.source})")
        else:
            say(f"page: {address}?token={quote(token.text)}")
        warn_if_public(host)
        yield [HostService(serve, is_http=True)]
