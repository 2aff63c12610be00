"""The blocking client of the control socket, for the command line.

It works without asyncio, because a command that sends one request does not need an event loop.
"""

import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Self

from exthost.control import protocol
from exthost.control.address import is_own_folder, socket_paths
from exthost.control.peer_credentials import is_same_user, is_sandboxed
from exthost.control.protocol import REPLY_BYTES, Request
from exthost.errors import CallTimeout, Evidence, ExtensionGone, NotFound
from exthost.wire.framing import Broken, Skipped
from exthost.wire.lines import Lines

# Memory of twice this size would be requested from the system for each read, which takes longer
# than the read.
_READ_BYTES = 64 * 1024


def ask(
    config: str, request: Request, *, timeout: float, environ: Mapping[str, str] = os.environ
) -> Any:
    """Send a request to the host of this config, and return the value of the reply. Raises the
    error in the reply, or NotFound if no host is running. `timeout` is in seconds."""
    with HostClient(config, timeout=timeout, environ=environ) as client:
        return client.ask(request, timeout=timeout)


class HostClient:
    """One connection to the host of a config, for one request at a time."""

    def __init__(
        self, config: str, *, timeout: float, environ: Mapping[str, str] = os.environ
    ) -> None:
        """Connect. Raises NotFound if no host is running, and CallTimeout if the host does not
        accept within `timeout` seconds."""
        try:
            self._socket = connect_to_host(config, environ, timeout)
        except TimeoutError:
            raise _timeout_error(timeout) from None
        self._framing = Lines(REPLY_BYTES)
        self._lines: deque[bytes] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(
        self,
        request: Request,
        *,
        timeout: float | None = None,
        on_event: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> Any:
        """Send a request, and return the value of the reply or raise the error in it. `on_event` is
        called with each event that comes before the reply. `timeout` is in seconds; None waits
        until the host replies or ends."""
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            # A host with too many clients sends an error and closes the connection before it reads
            # a request. The error can be read even though the request cannot be written.
            with contextlib.suppress(BrokenPipeError):
                self._socket.sendall(protocol.encode_request(request))
            while True:
                line = protocol.read_line(self._receive_line(deadline))
                if line.event is None:
                    break
                if on_event is not None:
                    on_event(line.event)
        except TimeoutError:
            assert timeout is not None  # without a timeout, no TimeoutError is raised
            raise _timeout_error(timeout) from None
        except OSError:
            raise host_gone_error() from None
        if line.error is not None:
            raise line.error
        return line.value

    def _receive_line(self, deadline: float | None) -> bytes:
        while not self._lines:
            # Not 0, which would make the socket non-blocking.
            seconds_left = None if deadline is None else max(0.001, deadline - time.monotonic())
            self._socket.settimeout(seconds_left)
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise host_gone_error()
            for item in self._framing.feed(data):
                self._lines.append(item.head if isinstance(item, Skipped | Broken) else bytes(item))
        return self._lines.popleft()


def _timeout_error(timeout: float) -> CallTimeout:
    return CallTimeout(
        "X0875",
        f"the host did not answer within {timeout:g} s",
        help="it goes on with what was asked; see exthost status, or give a longer --timeout",
    )


def connect_to_host(config: str, environ: Mapping[str, str], timeout: float) -> socket.socket:
    """Return a socket that is connected to the host of this config. Raises NotFound."""
    for path in socket_paths(config, environ):
        if not is_own_folder(path.parent):
            continue
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(str(path))
            # A sandboxed extension that may write to the folder could pretend to be the host.
            if is_same_user(connection) and not is_sandboxed(connection):
                return connection
        except TimeoutError:
            connection.close()
            raise
        except OSError:
            pass  # there is no socket, or it is left over from a host that crashed
        connection.close()
    raise NotFound(
        "X1275",
        f"no host is running for {config}",
        help="start one with exthost run, or name its config with --config",
        evidence=Evidence(path=os.path.realpath(config)),
    )


def host_gone_error() -> ExtensionGone:
    """Return the error for a host that ended before it replied."""
    return ExtensionGone(
        "X1075",
        "the host ended before it answered",
        help="run it again: exthost run; its last words are in exthost logs NAME",
    )
