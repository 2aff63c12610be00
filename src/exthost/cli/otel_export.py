"""`--otel`: a span of each call, sent by OTLP to where the usual variables of OpenTelemetry say.

The packages are imported only if it is wanted.
"""

import argparse
import asyncio
import importlib

from exthost.cli.common import Args
from exthost.cli.host_service import HostService, ServiceHost
from exthost.errors import ConfigError


def otel_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--otel",
        action="store_true",
        help="send a span of each call by OTLP over HTTP (see OTEL_EXPORTER_OTLP_ENDPOINT)",
    )


def otel_services(args: Args) -> list[HostService]:
    """Return the service that exports spans, if `--otel` is given. Raises ConfigError."""
    if not args.otel:
        return []
    try:
        otel = importlib.import_module("exthost.otel")
        for name in ("sdk.trace", "sdk.trace.export", "exporter.otlp.proto.http.trace_exporter"):
            importlib.import_module(f"opentelemetry.{name}")
    except ImportError as error:
        raise ConfigError(
            "X0168",
            f"OpenTelemetry is not installed: {error.name or error} is missing",
            help="pip install 'exthost[otel]'",
        ) from None

    async def serve(served: ServiceHost) -> None:
        loop = asyncio.get_running_loop()
        provider = otel.otlp_provider()
        spans = otel.CallSpans(served.host.events, provider)
        try:
            await loop.create_future()
        finally:
            spans.close()
            await asyncio.to_thread(provider.shutdown)  # sends what is left

    return [HostService(serve)]
