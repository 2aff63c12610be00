"""One connection, from its first byte to its last: chooses a loop for the handlers, and ends it."""

import os
import sys
from collections.abc import Callable

from exthost.sdk.dialects import endpoint_type
from exthost.sdk.dialects.endpoint import Endpoint, Identity
from exthost.sdk.dialects.first_message import dialect_of
from exthost.sdk.serving.blocking_loop import finish_blocking, serve_blocking
from exthost.sdk.serving.server import Server
from exthost.sdk.types.function import Execution
from exthost.sdk.wire.descriptors import Wire
from exthost.sdk.wire.writer import BlockingWriter

READ_BYTES = 65536

# After the end of input: how long calls under way may take to end, and after that how long they may
# take to be cancelled. Hosts kill an extension a few seconds later.
GRACE_SECONDS = 1.0
CANCEL_SECONDS = 0.5


def serve(
    identity: Identity,
    dialect: str,
    wire: Wire,
    *,
    max_threads: int,
    on_stuck: Callable[[], None],
    first: bytes = b"",
) -> None:
    """Serve a host until it ends the connection.

    `on_stuck` is called if calls do not end even when they are cancelled. `first` is what was read
    already. Raises UsageError.
    """
    found = endpoint_type(dialect)
    _tell_gaps(identity, found)
    functions = identity.registry.functions
    if any(function.execution is Execution.ASYNC for function in functions):
        # Imported here: an event loop takes longer to import than the rest of the SDK.
        from exthost.sdk.serving.async_loop import run_async

        run_async(
            lambda server: found(identity, server),
            wire,
            max_threads=max_threads,
            grace_seconds=GRACE_SECONDS,
            cancel_seconds=CANCEL_SECONDS,
            on_stuck=on_stuck,
            first=first,
        )
        return
    server = Server(BlockingWriter(wire.writer), max_threads=max_threads)
    server.endpoint = endpoint = found(identity, server)
    serve_blocking(server, wire.reader, endpoint.framing(), endpoint.receive, first)
    if not finish_blocking(server, GRACE_SECONDS, CANCEL_SECONDS):
        on_stuck()


def read_dialect(wire: Wire) -> tuple[str, bytes]:
    """Read the first message of the host; return its dialect and the bytes that were read. The
    dialect is "" if there is no message, or one of no dialect."""
    first = b""
    while (dialect := dialect_of(first)) is None:
        data = os.read(wire.reader, READ_BYTES)
        if not data:
            return "", first
        first += data
    return dialect, first


def _tell_gaps(identity: Identity, found: type[Endpoint]) -> None:
    """Write to stderr which features of the extension the dialect does not support."""
    for kind, names in identity.registry.names().items():
        if names and kind not in found.offers:
            listed = ", ".join(names)
            print(
                f"exthost.sdk: {found.name} has no {kind}, so not offered: {listed}",
                file=sys.stderr,
            )
