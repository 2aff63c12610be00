"""Exports each call of a host as an OpenTelemetry span. `CallSpans` subscribes to its events.

    spans = exthost.otel.CallSpans(host.events)
    await host.call_tool("ext_weather_forecast", {}, context=exthost.otel.trace_context())

The parent of a span is the span that is current where the call is made. If there is none, it is the
span that `traceparent` in the call's context names. `trace_context` returns the current span as W3C
Trace Context; dialects that have a field for it (mcp: `_meta`) send it to the extension.

Needs the package `opentelemetry-api`, and the OpenTelemetry SDK if spans are to be exported; both
come with the extra `otel`. A host without `CallSpans` does not create the events, so it costs
nothing there.
"""

import time
from collections.abc import Mapping
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from exthost._version import __version__
from exthost.events import Bus, CallEnded, CallStarted

__all__ = ["CallSpans", "otlp_provider", "trace_context"]

# The largest number of open calls whose parent is remembered. If there are more, the oldest is
# forgotten, and its span has no parent.
MAX_OPEN_CALLS = 100_000


def trace_context() -> dict[str, str]:
    """Return the current span as W3C Trace Context, for the `context` of a call."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


def otlp_provider() -> Any:
    """Return a tracer provider that sends spans by OTLP over HTTP.

    The environment variables of OpenTelemetry configure it. Its `shutdown` sends the spans that are
    still buffered. Raises ImportError if the SDK is not installed.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # A name in OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES takes precedence.
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "unknown")).startswith("unknown"):
        resource = resource.merge(Resource({SERVICE_NAME: "exthost"}))
    provider = SdkTracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class CallSpans:
    """Makes a span for each call, until `close` is called."""

    def __init__(self, events: Bus, tracer_provider: TracerProvider | None = None) -> None:
        """The default of `tracer_provider` is OpenTelemetry's global provider."""
        self._tracer = trace.get_tracer("exthost", __version__, tracer_provider)
        # The OpenTelemetry context in which each open call was made, by the key of the call.
        self._parents: dict[int, otel_context.Context] = {}
        self._unsubscribes = (
            events.subscribe(CallStarted, self._on_call_started),
            events.subscribe(CallEnded, self._on_call_ended),
        )

    def close(self) -> None:
        """Make no more spans."""
        for unsubscribe in self._unsubscribes:
            unsubscribe()

    def _on_call_started(self, started: CallStarted) -> None:
        # CallStarted is published synchronously in the task that makes the call, so the current
        # span is the caller's.
        current = otel_context.get_current()
        if not trace.get_current_span(current).get_span_context().is_valid:
            current = _extract_context(started.context, current)
        if len(self._parents) >= MAX_OPEN_CALLS:
            del self._parents[next(iter(self._parents))]
        self._parents[started.key] = current

    def _on_call_ended(self, ended: CallEnded) -> None:
        parent = self._parents.pop(ended.key, None)
        end = time.time_ns()
        span: Span = self._tracer.start_span(
            f"{ended.extension} {ended.method}",
            context=parent,
            kind=SpanKind.CLIENT,
            attributes={
                "exthost.extension": ended.extension,
                "exthost.method": ended.method,
                "exthost.outcome": ended.outcome,
            },
            start_time=end - int(ended.seconds * 1e9),
        )
        if ended.outcome != "result":
            span.set_status(Status(StatusCode.ERROR, ended.outcome))
        span.end(end)


def _extract_context(values: Any, current: otel_context.Context) -> otel_context.Context:
    """Return the context that `traceparent` in a call's context names, or else `current`."""
    if not isinstance(values, Mapping) or "traceparent" not in values:
        return current
    carrier = {key: value for key, value in values.items() if isinstance(value, str)}
    return propagate.extract(carrier, current)
