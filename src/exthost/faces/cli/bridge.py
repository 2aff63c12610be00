"""Connect to a remote MCP server, and speak with it on stdin and stdout.

  exthost bridge URL            what the host starts for an entry of the config that has a url
  exthost bridge URL --login    log in with a browser, once; the host then uses the tokens
  exthost bridge URL --logout   delete the tokens

The server is reached by streamable HTTP, or by SSE if it does not support that. Values that may be
secrets are taken from environment variables. The tokens of a login are kept in a file that only you
can read, and are refreshed when they expire.
"""

import argparse
import asyncio
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from exthost.errors import UsageError
from exthost.faces.cli.common import Args, show_json, show_result
from exthost.faces.cli.optional_import import import_optional
from exthost.launch.bridge import FOLDER_VARIABLE, token_folder
from exthost.process.own_process import host_environ

# The form of the name of a header, by RFC 9110.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

# As long as a person may need to log in.
_LOGIN_SECONDS = 300.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", nargs="?", help="the address of the server")
    parser.add_argument("--url-from", metavar="VARIABLE", help="a variable that has the URL")
    parser.add_argument(
        "--header",
        dest="headers",
        metavar="NAME=VARIABLE",
        action="append",
        default=[],
        help="an HTTP header, and the variable that has its value; may be repeated",
    )
    parser.add_argument(
        "--token-from", metavar="VARIABLE", help="a variable that has a bearer token"
    )
    parser.add_argument(
        "--transport",
        choices=("auto", "http", "sse"),
        default="auto",
        help="how the server is reached (default: auto)",
    )
    parser.add_argument("--login", action="store_true", help="log in with a browser")
    parser.add_argument("--logout", action="store_true", help="delete the tokens of a login")


def run(args: Args) -> int:
    relay = import_optional(
        "exthost.faces.bridge.relay", code="X1811", feature="the bridge", extra="bridge"
    )
    environ = host_environ()
    url = _read_variable(args.url_from) if args.url_from else args.url or ""
    _check_url(url)
    headers = {}
    for header_option in args.headers:
        name, separator, variable = header_option.partition("=")
        if not separator or not _HEADER_NAME.fullmatch(name):
            raise UsageError(
                "X1810",
                f"{header_option!r:.60} is not a header and its variable",
                help="--header NAME=VARIABLE",
            )
        headers[name] = _read_header_value(variable)
    if args.token_from:
        headers["Authorization"] = f"Bearer {_read_header_value(args.token_from)}"
    # The host sets the variable for the bridges that it starts.
    folder = Path(environ.get(FOLDER_VARIABLE) or token_folder(url, environ))
    server = relay.RemoteServer(url, headers, args.transport, relay.TokenFile(folder))
    if args.logout:
        had_tokens = server.tokens.delete()
        if args.json:
            show_json({"origin": server.origin, "deleted": had_tokens})
        else:
            show_result("logged out" if had_tokens else "there are no tokens of this server")
    elif args.login:
        asyncio.run(relay.log_in(server, _LOGIN_SECONDS))
        if args.json:
            show_json({"origin": server.origin, "tokens": str(server.tokens.path)})
        else:
            show_result(f"logged in; the tokens are in {server.tokens.path}")
    else:
        asyncio.run(relay.run_bridge(server))
    return 0


def _read_variable(name: str) -> str:
    """Return the value of an environment variable. Raises UsageError if it is not set."""
    value = os.environ.get(name)
    if value is None:
        raise UsageError(
            "X1810", f"the variable {name!r} is not set", help="set it, or name another"
        )
    return value.strip()


def _read_header_value(name: str) -> str:
    """Return the value of an environment variable, for a header. Raises UsageError if the variable
    is not set, or if a header cannot have this value."""
    value = _read_variable(name)
    if not value.isascii() or not value.isprintable():
        raise UsageError(
            "X1810",
            f"the variable {name!r} has a character that an HTTP header cannot have",
            help="a header has printable characters of ASCII; was the value copied as a whole?",
        )
    return value


def _check_url(url: str) -> None:
    """Raise UsageError if this is not the URL of an HTTP server."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises ValueError if it is not a port
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UsageError(
            "X1810", "this is not an http or https URL", help="exthost bridge https://host/path"
        )
