"""The two directions of the connection to one client of the gateway that is not on HTTP.

A pipe (`stdio`) and the socket of a relay (`relay_connection`) have this interface. Each line that
a client sends has a number, which a relay uses to know which of the lines are answered.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from exthost.wire.framing import Broken, Skipped


class ClientLine(NamedTuple):
    """A line of a client. Of a line that is too long, only the beginning is known (Skipped)."""

    number: int
    text: bytes | Skipped | Broken


class ClientStream(Protocol):
    """The connection to one client.

    is_broken    whether the client has closed its end
    plain_names  whether the client sees tools under their own names where these are unique; None
                 if the gateway decides it
    client_info  the name and version of the client, as it declared them; {} until then
    """

    is_broken: bool
    plain_names: bool | None
    client_info: dict[str, Any]

    def open(
        self, handle_line: Callable[[bytes, int], bool], on_broken: Callable[[], object]
    ) -> None:
        """Begin to read. Each line is passed to `handle_line` at once; if that returns False, the
        line is queued for `next`. `on_broken` is called when the client has closed its end."""

    async def next(self) -> ClientLine | None:
        """Return the next line that `handle_line` did not handle, or None at the end of input."""

    def pause(self) -> None:
        """Stop reading until `next` needs a line."""

    def write(self, line: bytes) -> None:
        """Write a message that is neither a reply nor a request."""

    def write_reply(self, number: int, line: bytes) -> None:
        """Write the reply to the line of this number."""

    def write_request(self, line: bytes) -> None:
        """Write a request of a server to the client."""

    def end_line(self, number: int) -> None:
        """Note that the line of this number gets no reply."""

    async def wait_for_room(self) -> None:
        """Wait while the client does not read what was written."""

    async def flush(self) -> None:
        """Wait until everything is written."""

    def watch_client(self) -> None:
        """Check from now on whether the client has closed its end, though nothing is written."""

    def close(self) -> None:
        """Drop the unwritten lines, and write nothing more."""


CURRENT_STREAM: ContextVar[ClientStream | None] = ContextVar("CURRENT_STREAM", default=None)
"""The connection whose request is being handled; None on HTTP."""


def wants_plain_names(default: bool) -> bool:
    """Return whether the current client sees tools under their own names, without the prefix of
    their extension. `default` is the setting of the gateway, for clients that have not chosen."""
    stream = CURRENT_STREAM.get()
    return default if stream is None or stream.plain_names is None else stream.plain_names
