"""The option `--otel` of `exthost run`: exports one OpenTelemetry span for each call of an
extension, over OTLP.

The standard `OTEL_*` environment variables configure where spans are sent. The packages of
OpenTelemetry are imported only if the option is given.
"""

import argparse
import asyncio

from exthost.faces.cli.background_service import BackgroundService, ServiceContext
from exthost.faces.cli.common import Args
from exthost.faces.cli.optional_import import import_optional

# `exthost.otel` imports the SDK and the exporter later, when it makes the tracer provider. They are
# imported at the start as well, so that a missing package is reported before the host runs.
_MODULES = (
    "exthost.otel",
    "opentelemetry.sdk.trace",
    "opentelemetry.sdk.trace.export",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
)


def add_otel_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--otel",
        action="store_true",
        help="send spans and durations of calls by OTLP over HTTP (OTEL_EXPORTER_OTLP_ENDPOINT)",
    )


def otel_services(args: Args) -> list[BackgroundService]:
    """Return the service that exports spans, or an empty list without `--otel`. Raises ConfigError
    if OpenTelemetry is not installed."""
    if not args.otel:
        return []
    # Only the first module is used. The others are imported to check that they are installed.
    otel, *_ = [
        import_optional(module, code="X0168", feature="OpenTelemetry", extra="otel")
        for module in _MODULES
    ]

    async def serve(context: ServiceContext) -> None:
        providers = otel.otlp_provider(), otel.otlp_meter_provider()
        spans = otel.CallSpans(context.host.events, *providers)
        try:
            # Spans are exported by callbacks of events, so this task only waits to be cancelled.
            await asyncio.get_running_loop().create_future()
        finally:
            spans.close()
            for provider in providers:  # sends what is still buffered
                await asyncio.to_thread(provider.shutdown)

    return [BackgroundService(serve)]
