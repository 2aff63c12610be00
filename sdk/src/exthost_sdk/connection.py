"""Runs one connection to a host: detects its dialect (protocol), and serves it in a blocking loop,
or on an event loop if a handler is an `async def`. `Extension.run` calls this module."""

import os
import sys
from collections.abc import Callable

from exthost_sdk.dialects import load_dialect
from exthost_sdk.endpoints.endpoint import Endpoint, Identity
from exthost_sdk.first_message import detect_dialect
from exthost_sdk.serving.blocking_loop import finish_blocking, serve_blocking
from exthost_sdk.serving.server import Server
from exthost_sdk.types.function import Execution
from exthost_sdk.wire.descriptors import Wire
from exthost_sdk.wire.writer import BlockingWriter

READ_BYTES = 65536

# After the end of input, running calls have GRACE_SECONDS to end. Then they are cancelled, and have
# CANCEL_SECONDS to react. Together that is less than the time after which hosts kill an extension.
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

    `on_stuck` is called if calls do not end even when they are cancelled. `first` are bytes that
    were read already. Raises SdkUsageError.
    """
    endpoint_class = load_dialect(dialect).endpoint
    report_unsupported(identity, endpoint_class)
    functions = identity.registry.functions
    if any(function.execution is Execution.ASYNC for function in functions):
        # Imported here: an event loop takes longer to import than the rest of the SDK.
        from exthost_sdk.serving.async_loop import run_async

        run_async(
            lambda server: endpoint_class(identity, server),
            wire,
            max_threads=max_threads,
            grace_seconds=GRACE_SECONDS,
            cancel_seconds=CANCEL_SECONDS,
            on_stuck=on_stuck,
            first=first,
        )
        return
    server = Server(BlockingWriter(wire.writer), max_threads=max_threads)
    endpoint = endpoint_class(identity, server)
    server.endpoint = endpoint
    serve_blocking(server, wire.reader, endpoint.framing(), endpoint.receive, first)
    if not finish_blocking(server, GRACE_SECONDS, CANCEL_SECONDS):
        on_stuck()


def read_dialect(wire: Wire) -> tuple[str, bytes]:
    """Read until the dialect of the host is detected. Return the dialect and the bytes that were
    read. The dialect is "" if the input ends before that, or if no dialect recognises it."""
    first = b""
    while (dialect := detect_dialect(first)) is None:
        data = os.read(wire.reader, READ_BYTES)
        if not data:
            return "", first
        first += data
    return dialect, first


def report_unsupported(identity: Identity, endpoint_class: type[Endpoint]) -> None:
    """Write to stderr which registered handlers the dialect does not support."""
    known = endpoint_class.supported_hooks
    unknown = [name for name in identity.registry.hooks if known and name not in known]
    if unknown:
        print(
            f"exthost.sdk: the hooks of {endpoint_class.name} are {', '.join(known)}, "
            f"so not offered: {', '.join(unknown)}",
            file=sys.stderr,
        )
    for kind, names in identity.registry.names_by_kind().items():
        if names and kind not in endpoint_class.supported_kinds:
            listed = ", ".join(names)
            print(
                f"exthost.sdk: {endpoint_class.name} has no {kind}, so not offered: {listed}",
                file=sys.stderr,
            )
