"""Tests of `exthost.otel`, which makes OpenTelemetry spans and metrics of calls.

A span is the record of one call: its time, its outcome, and its parent, which is the span that was
current when the call was made. The trace context (`traceparent`) tells the extension which span its
call belongs to. `--otel` sends the spans of a host to a collector.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import exthost
from exthost.events import Bus, CallEnded, CallStarted
from exthost.otel import CallSpans, trace_context
from tests.faces.cli.cli_process import RUN_SECONDS, extension, host_process, run_json, write_config

MCP_CHILD = Path(__file__).parent / "extensions" / "mcp_child.py"
FRAGILE = Path(__file__).parents[1] / "examples" / "morphir" / "fragile.py"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Keeps the finished spans."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    """A provider whose finished spans are in `exporter.get_finished_spans()`."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


def config_entry(name: str, dialect: str, *arguments: str) -> dict[str, Any]:
    """Return the config of an extension that is a Python program with these arguments."""
    source = {"type": "process", "command": sys.executable, "args": ["-S", "-E", *arguments]}
    return {"name": name, "dialect": dialect, "source": source}


async def test_the_span_of_a_call_has_the_current_span_of_the_caller_as_parent(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = provider.get_tracer("test")
    config = {"extensions": [config_entry("fragile", "morphir", str(FRAGILE))]}
    host = exthost.Host.from_config(config)
    spans = CallSpans(host.events, provider)
    async with host:

        async def call(number: int) -> None:
            with tracer.start_as_current_span(f"parent {number}"):
                await host.call_tool("ext_fragile_divide", {"a": number, "b": 1})

        await asyncio.gather(*map(call, range(5)))
        # A division by zero ends the extension. This call has no parent.
        with pytest.raises(exthost.errors.ExtensionGone):
            await host.call_tool("ext_fragile_divide", {"a": 1, "b": 0})
        spans.close()
        await host["fragile"].restart()
        await host.call_tool("ext_fragile_divide", {"a": 1, "b": 1})
    finished = exporter.get_finished_spans()
    parents = {span.context.span_id: span for span in finished if span.name.startswith("parent")}
    calls = [span for span in finished if not span.name.startswith("parent")]
    assert len(calls) == 6, "five calls and a crash; no span is made after `spans.close()`"
    assert {parents[span.parent.span_id].name for span in calls if span.parent is not None} == {
        f"parent {number}" for number in range(5)
    }
    (crashed,) = [span for span in calls if span.parent is None]
    assert crashed.status.status_code is StatusCode.ERROR
    assert crashed.name == "tools/call divide"
    assert dict(crashed.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "divide",
        "network.transport": "pipe",
        "error.type": "gone",
        "exthost.extension": "fragile",
        "exthost.method": "divide",
        "exthost.outcome": "gone",
    }


def test_calls_that_end_in_another_order_keep_their_parents(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    bus = Bus()
    CallSpans(bus, provider)
    tracer = provider.get_tracer("test")
    for key, name in enumerate("abc"):
        with tracer.start_as_current_span(name):
            bus.publish(CallStarted("x", f"of {name}", key=key))
    for name in "bca":
        bus.publish(CallEnded("x", f"of {name}", "result", 1.0, key="abc".index(name)))
    # A call that began before the subscription has no parent, whatever span is current at its end.
    with tracer.start_as_current_span("of another caller"):
        bus.publish(CallEnded("x", "never begun", "result", 0.5, key=7))
    finished = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in finished}
    parents = {
        span.name: names[span.parent.span_id] for span in finished if span.parent is not None
    }
    assert parents == {"x of a": "a", "x of b": "b", "x of c": "c"}


async def test_the_trace_context_of_a_call_is_sent_where_its_dialect_has_a_place_for_it(
    provider: TracerProvider, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    log = tmp_path / "received"
    child = config_entry("child", "mcp", str(MCP_CHILD), json.dumps({"heard": str(log)}))
    host = exthost.Host.from_config({"extensions": [child]})
    CallSpans(host.events, provider)
    async with host:
        with provider.get_tracer("test").start_as_current_span("caller"):
            context = trace_context()
        await host.call_tool("ext_child_echo", {"text": "hi"}, context=context)
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    (call,) = [message for message in messages if message.get("method") == "tools/call"]
    assert call["params"]["_meta"]["traceparent"] == context["traceparent"]
    assert "progressToken" in call["params"]["_meta"]
    caller_span, call_span = exporter.get_finished_spans()
    assert call_span.parent is not None
    assert call_span.parent.span_id == caller_span.context.span_id


def read_durations(reader: InMemoryMetricReader) -> list[Any]:
    """Return the points of the histogram of durations."""
    data = reader.get_metrics_data()
    assert data is not None
    [metric] = data.resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit) == ("mcp.client.operation.duration", "s")
    return list(metric.data.data_points)


async def test_tool_calls_of_each_dialect_follow_the_conventions_of_opentelemetry(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    config = {
        "extensions": [
            config_entry("fragile", "morphir", str(FRAGILE)),
            config_entry("painter", "mcp", str(MCP_CHILD.with_name("painter.py"))),
        ]
    }
    host = exthost.Host.from_config(config)
    CallSpans(host.events, provider, meters)
    began_at = time.monotonic()
    async with host:
        await host.call_tool("ext_fragile_divide", {"a": 1, "b": 2})
        await host.call_tool("ext_painter_paint", {"text": "x"})
        await host.call_tool("ext_painter_fail", check=False)
        with pytest.raises(exthost.errors.CallTimeout):
            await host.call_tool("ext_painter_hang", timeout=0.1)
        await host["painter"].call("tools/list", {})
    spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    assert {*spans} == {
        "tools/call divide",
        "tools/call paint",
        "tools/call fail",
        "tools/call hang",
        "painter tools/list",
    }
    for name in ("divide", "paint"):
        attributes = spans[f"tools/call {name}"]
        assert attributes["gen_ai.tool.name"] == name and "error.type" not in attributes
        assert (
            attributes["mcp.method.name"] == "tools/call"
            and attributes["network.transport"] == "pipe"
        )
    assert spans["tools/call fail"]["error.type"] == "tool_error"
    assert spans["tools/call hang"]["error.type"] == "timeout"
    assert not [key for key in spans["painter tools/list"] if not key.startswith("exthost.")]
    points = read_durations(reader)
    assert {point.attributes["gen_ai.tool.name"] for point in points} == {
        *("divide", "paint", "fail", "hang")
    }
    assert all(point.count == 1 and point.sum > 0 for point in points)
    # The calls were made one after the other, so this shows that the unit is the second.
    assert sum(point.sum for point in points) < time.monotonic() - began_at
    assert points[0].explicit_bounds[0] == 0.01  # in seconds, as the conventions recommend
    meters.shutdown()


@pytest.mark.more
def test_the_span_of_a_blocking_call_has_the_name_of_the_tool(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    config = {"extensions": [config_entry("fragile", "morphir", str(FRAGILE))]}
    with exthost.SyncHost.from_config(config) as host:
        CallSpans(host.events, provider)
        host.call_tool("ext_fragile_divide", {"a": 1, "b": 2})
    [span] = exporter.get_finished_spans()
    assert span.name == "tools/call divide"


class Collector(BaseHTTPRequestHandler):
    """An HTTP handler that appends each request body to `bodies`, which a subclass defines."""

    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.more
def test_a_host_sends_its_spans_to_a_collector(tmp_path: Path) -> None:
    write_config(tmp_path, extension("fragile", sys.executable, "-S", "-E", str(FRAGILE)))
    bodies: list[bytes] = []
    handler = type("Handler", (Collector,), {"bodies": bodies})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_address[1]}"
            variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "NO_PROXY": "127.0.0.1"}
            with host_process(tmp_path, "--otel", **variables) as host:
                assert run_json(tmp_path, "call", "fragile", "divide", "a=1", "b=2") == 0.5
                host.terminate()
                host.communicate(timeout=RUN_SECONDS)
        finally:
            server.shutdown()
            thread.join()
    assert any(b"tools/call divide" in body for body in bodies)
    assert any(b"mcp.client.operation.duration" in body for body in bodies)
