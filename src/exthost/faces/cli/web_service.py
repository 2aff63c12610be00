"""The option `--web` of `exthost run`: serves the host's web page on an HTTP socket.

The packages of the page are imported only if the option is given.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from exthost.faces.cli.background_service import BackgroundService, ServiceContext
from exthost.faces.cli.common import Args, say, show_json
from exthost.faces.cli.http_options import DEFAULT_HOST, find_token, read_address, warn_if_public
from exthost.faces.cli.optional_import import import_optional
from exthost.faces.http_server.listener import listen, listener_url
from exthost.faces.http_server.token import Tokens


def add_web_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--web",
        metavar="ADDR",
        type=read_address,
        help=f"serve a page at PORT or HOST:PORT (default host: {DEFAULT_HOST}; "
        "port 0 chooses a free port)",
    )


@contextmanager
def web_services(args: Args) -> Iterator[list[BackgroundService]]:
    """Yield the service that serves the page on an open socket, or an empty list without `--web`.
    Raises ConfigError if the packages of the page are not installed."""
    if args.web is None:
        yield []
        return
    page_server = import_optional(
        "exthost.faces.web.page_server", code="X0167", feature="the page", extra="web"
    )
    questions = page_server.PageQuestions()
    server_requests = page_server.ServerRequests(questions)
    host = args.web.host or DEFAULT_HOST
    token = find_token(args)  # its `source` is "" if the token was generated

    async def serve(context: ServiceContext) -> None:
        await page_server.serve(
            context.host,
            context.report,
            context.requests,
            context.probes,
            config=context.config_path,
            listener=listener,
            address=host,
            tokens=Tokens(token),
            server_requests=server_requests,
            questions=questions,
        )

    # `serve` above uses this listener; it runs inside the `with` block.
    with listen(host, args.web.port) as listener:
        address = listener_url(listener, host, "/")
        if args.json:
            show_json({"page": address, "token": None if token.source else token.text})
        elif token.source:
            say(f"page: {address} (its token is in {token.source})")
        else:
            say(f"page: {address}?token={quote(token.text)}")
        warn_if_public(host)
        yield [BackgroundService(serve, is_http=True, server_requests=server_requests)]
