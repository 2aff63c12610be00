"""The command line's end of the socket: ask a running host one thing, and wait so long.

Blocking and without asyncio: a verb that asks one question should not pay for a loop.
"""

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from exthost.control import protocol
from exthost.control.address import ours, sockets
from exthost.control.peer import is_same_user
from exthost.control.protocol import REPLY_BYTES, Request
from exthost.errors import CallTimeout, Evidence, ExtensionGone, ExthostError, NotFound
from exthost.wire.framing import Broken, Skipped
from exthost.wire.lines import Lines

# What lies in the kernel's buffers of a local socket.
_READ_BYTES = 256 * 1024


def ask(
    config: str, request: Request, *, timeout: float, environ: Mapping[str, str] = os.environ
) -> Any:
    """What the host of this config answers. Raises what it raised, NotFound if none runs."""
    deadline = time.monotonic() + timeout
    try:
        with _connected(config, environ, timeout) as connection:
            # A host that takes no more clients says so and hangs up before it is asked.
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(protocol.question(request))
            return protocol.outcome(_line(connection, deadline))
    except ExthostError:  # what the host raised: some of these are OSErrors, too
        raise
    except TimeoutError:
        raise CallTimeout(
            "X0875",
            f"the host did not answer within {timeout:g} s",
            help="it goes on with what was asked; see exthost status, or give a longer --timeout",
        ) from None
    except OSError:
        raise _gone() from None


def _connected(config: str, environ: Mapping[str, str], timeout: float) -> socket.socket:
    for path in sockets(config, environ):
        if not ours(path.parent):
            continue
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(str(path))
            if is_same_user(connection):
                return connection
        except TimeoutError:
            connection.close()
            raise
        except OSError:
            pass  # not there, or left by a host that died
        connection.close()
    raise NotFound(
        "X1275",
        f"no host is running for {config}",
        help="start one with exthost run, or name its config with --config",
        evidence=Evidence(path=os.path.realpath(config)),
    )


def _line(connection: socket.socket, deadline: float) -> bytes:
    framing = Lines(REPLY_BYTES)
    while True:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        data = connection.recv(_READ_BYTES)
        if not data:
            raise _gone()
        for item in framing.feed(data):
            return item.head if isinstance(item, Skipped | Broken) else bytes(item)


def _gone() -> ExtensionGone:
    return ExtensionGone(
        "X1075",
        "the host ended before it answered",
        help="run it again: exthost run; its last words are in exthost logs NAME",
    )
