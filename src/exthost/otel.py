"""Exports each call of a host as an OpenTelemetry span, and its duration as a metric. `CallSpans`
subscribes to the events of a host.

    spans = exthost.otel.CallSpans(host.events)
    await host.call_tool("ext_weather_forecast", {}, context=exthost.otel.trace_context())

The parent of a span is the span that is current where the call is made. If there is none, it is the
span that `traceparent` in the call's context names. `trace_context` returns the current span as W3C
Trace Context; dialects that have a field for it (mcp: `_meta`) send it to the extension.

The call of a tool follows the conventions of OpenTelemetry for MCP and generative AI, in every
dialect: its span is named `tools/call NAME` with the tool's own name, and its duration is recorded
in the histogram `mcp.client.operation.duration`. Attributes that begin with `exthost.` have what
the conventions do not: the extension, the method of the request, and the outcome.

Needs the package `opentelemetry-api`, and the OpenTelemetry SDK if spans are to be exported; both
come with the extra `otel`. A host without `CallSpans` does not create the events, so it costs
nothing there.
"""

import time
from collections.abc import Mapping
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from exthost._version import __version__
from exthost.events import Bus, CallEnded, CallStarted

__all__ = ["CallSpans", "otlp_meter_provider", "otlp_provider", "trace_context"]

# The largest number of open calls whose parent is remembered. If there are more, the oldest is
# forgotten, and its span has no parent. This bounds the memory.
MAX_OPEN_CALLS = 100_000

# The context of a span without a parent. With None, the parent would be the span that is current
# when the call ends, which may belong to another caller.
_NO_PARENT = otel_context.Context()

# The boundaries that the conventions advise, in seconds. Those of the SDK are for milliseconds.
DURATION_BOUNDARIES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

# The values of the attribute `error.type` for tool calls, by outcome (`CallEnded.outcome`). The
# conventions prescribe "tool_error"; the others are the outcomes themselves.
ERROR_TYPES = {
    "error": "tool_error",
    "timeout": "timeout",
    "cancelled": "cancelled",
    "gone": "gone",
}


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
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # The user of the provider calls `shutdown`, so the SDK need not do that when Python exits.
    provider = SdkTracerProvider(resource=_resource(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def otlp_meter_provider() -> Any:
    """Return a meter provider that sends metrics by OTLP over HTTP, as `otlp_provider` does for
    spans."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return SdkMeterProvider([reader], resource=_resource(), shutdown_on_exit=False)


def _resource() -> Any:
    """Return the resource (the description of this program) that the environment variables of
    OpenTelemetry define. Its service name is exthost if they define none."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    # A name in OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES takes precedence.
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "unknown")).startswith("unknown"):
        resource = resource.merge(Resource({SERVICE_NAME: "exthost"}))
    return resource


class CallSpans:
    """Makes a span for each call, and records its duration, until `close` is called.

    A span is made when its call ends, and dated back to the beginning of the call. Until then a
    call is an entry in a dictionary, which can be forgotten; a span that was started would have to
    be ended.
    """

    def __init__(
        self,
        events: Bus,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        """The defaults are OpenTelemetry's global providers."""
        self._tracer = trace.get_tracer("exthost", __version__, tracer_provider)
        meter = metrics.get_meter("exthost", __version__, meter_provider)
        self._durations = meter.create_histogram(
            "mcp.client.operation.duration",
            unit="s",
            description="The duration of tool calls, from the request to the reply.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDARIES,
        )
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
        """Remember the context in which a call is made: it is the parent of the call's span."""
        # CallStarted is published synchronously in the task that makes the call, so the current
        # span is the caller's.
        current = otel_context.get_current()
        if not trace.get_current_span(current).get_span_context().is_valid:
            current = _extract_context(started.context, current)
        if len(self._parents) >= MAX_OPEN_CALLS:
            del self._parents[next(iter(self._parents))]
        self._parents[started.key] = current

    def _on_call_ended(self, ended: CallEnded) -> None:
        """Make the span of a call, and record the duration of a tool call."""
        parent = self._parents.pop(ended.key, _NO_PARENT)
        end = time.time_ns()
        name = f"{ended.extension} {ended.method}"
        attributes: dict[str, str] = {}
        if ended.tool:
            name = f"tools/call {ended.tool}"
            attributes = _tool_attributes(ended)
            self._durations.record(ended.seconds, attributes, parent)
        elif ended.outcome != "result":
            attributes = {"error.type": ended.outcome}
        span: Span = self._tracer.start_span(
            name,
            context=parent,
            kind=SpanKind.CLIENT,
            attributes={
                **attributes,
                "exthost.extension": ended.extension,
                "exthost.method": ended.method,
                "exthost.outcome": ended.outcome,
            },
            start_time=end - int(ended.seconds * 1e9),
        )
        if ended.outcome != "result":
            span.set_status(Status(StatusCode.ERROR, ended.outcome))
        span.end(end)


def _tool_attributes(ended: CallEnded) -> dict[str, str]:
    """Return the attributes of the conventions, which the span and the metric share."""
    attributes = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": ended.tool,
        "network.transport": "pipe",
    }
    if ended.outcome != "result":
        attributes["error.type"] = ERROR_TYPES.get(ended.outcome, ended.outcome)
    return attributes


def _extract_context(values: Any, current: otel_context.Context) -> otel_context.Context:
    """Return the context that `traceparent` in a call's context names, or else `current`."""
    if not isinstance(values, Mapping) or "traceparent" not in values:
        return current
    carrier = {key: value for key, value in values.items() if isinstance(value, str)}
    return propagate.extract(carrier, current)
