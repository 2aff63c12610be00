"""Reads the address and the bearer token of HTTP services from the command line, such as those of
`exthost run --web 127.0.0.1:8766 --token-file FILE`.

An address is PORT, HOST:PORT or [IPV6]:PORT.
"""

import argparse
import os
from typing import NamedTuple

from exthost.faces.cli.common import Args, say
from exthost.faces.http_server import token
from exthost.faces.http_server.listener import LOOPBACK

DEFAULT_HOST = "127.0.0.1"


class Address(NamedTuple):
    """Where to listen. `host` is "" if only a port was given."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if host else str(self.port)


def read_address(text: str) -> Address:
    """Return the address in PORT, HOST:PORT or [IPV6]:PORT. Raises ArgumentTypeError."""
    if "://" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is a URL: write HOST:PORT, without http://")
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an address: write PORT or HOST:PORT, with a port from 0 to 65535"
        )
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        # Not how to write it: in `::1`, the last number may be a port or a part of the address.
        raise argparse.ArgumentTypeError(
            f"{text!r} may be an IPv6 address with or without a port: write [ADDRESS]:PORT"
        )
    return Address(host.strip("[]"), int(port))


def warn_if_public(host: str) -> None:
    """Print a warning if other machines can connect to this address."""
    if host not in LOOPBACK:
        say("warning: others can connect, and the token is not encrypted: use a proxy with TLS")


def find_token(args: Args) -> token.Token:
    """Return the bearer token of all HTTP services of this process. The first call finds or creates
    the token and stores it in `args.token`, so that all services have the same one."""
    if args.token is None:
        args.token = token.find_token(args.token_file, os.environ)
    bearer_token: token.Token = args.token
    return bearer_token
