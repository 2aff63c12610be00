"""The metrics of a host for Prometheus, in the text format of the package `prometheus-client`, such
as `exthost_calls_total{extension="weather",outcome="result"} 3.0`. `probes` serves them at
`/metrics`.

`CallSeconds` subscribes to the event bus, and counts how long calls took. All other metrics are
read from the host at each scrape. Extensions that were removed have no metrics.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from exthost._version import __version__
from exthost.events import CallEnded
from exthost.host.host import Host

if TYPE_CHECKING:
    from prometheus_client.core import Metric

# The upper bounds of the histogram's buckets, in seconds: from a fast local call to the usual
# timeout.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# How a call can end. "gone" means that the process ended before it replied.
_OUTCOMES = ("result", "error", "timeout", "cancelled", "gone")


class MetricsText(NamedTuple):
    """The response to a scrape."""

    content_type: str
    body: bytes


class CallSeconds:
    """A histogram of the duration of calls, for each extension. `close` ends the subscription."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._counts: dict[str, list[int]] = {}  # by bucket; the last is above all bounds
        self._sums: dict[str, float] = {}  # seconds
        self.close = host.events.subscribe(CallEnded, self._on_call_ended)

    def _on_call_ended(self, ended: CallEnded) -> None:
        counts = self._counts.get(ended.extension)
        if counts is None:
            counts = self._counts[ended.extension] = [0] * (len(BOUNDS) + 1)
            self._sums[ended.extension] = 0.0
        counts[bisect_left(BOUNDS, ended.seconds)] += 1
        self._sums[ended.extension] += ended.seconds

    def rows(self) -> Iterator[tuple[str, list[tuple[str, float]], float]]:
        """Yield for each extension its id, the cumulative counts by upper bound, and the sum of the
        seconds. Extensions that were removed are forgotten."""
        for extension in [name for name in self._counts if name not in self._host]:
            del self._counts[extension], self._sums[extension]
        for extension, counts in self._counts.items():
            buckets, total = [], 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
                total += count
                buckets.append((bound, float(total)))
            yield extension, buckets, self._sums[extension]


class Metrics:
    """The metrics of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._call_seconds = CallSeconds(host)

    def close(self) -> None:
        """Stop counting."""
        self._call_seconds.close()

    def text(self) -> MetricsText:
        """Return all metrics as text. Raises ImportError without `prometheus-client`."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return MetricsText(CONTENT_TYPE_LATEST, generate_latest(registry))

    def collect(self) -> "Iterator[Metric]":
        """Yield each metric. A `CollectorRegistry` calls this method."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        extensions = self._host.extensions
        yield GaugeMetricFamily("exthost_up", "1 while the host runs.", value=1)
        version = GaugeMetricFamily("exthost_info", "The version of exthost.", labels=["version"])
        version.add_metric([__version__], 1)
        yield version
        states = GaugeMetricFamily("exthost_extensions", "Extensions by state.", labels=["state"])
        for state, count in sorted(
            Counter(str(extension.state) for extension in extensions).items()
        ):
            states.add_metric([state], count)
        yield states

        # The metrics below have a value for each extension, with its id as a label.
        label = ["extension"]
        ready = GaugeMetricFamily("exthost_extension_ready", "1 if it is ready.", labels=label)
        calls = CounterMetricFamily(
            "exthost_calls", "Calls that ended, by outcome.", labels=["extension", "outcome"]
        )
        families_by_field: dict[str, Any] = {  # by the name of the field in `Stats`
            "in_flight": GaugeMetricFamily(
                "exthost_calls_in_flight", "Calls that were sent and not answered.", labels=label
            ),
            "waiting": GaugeMetricFamily(
                "exthost_calls_waiting", "Calls that wait for a process.", labels=label
            ),
            "processes": GaugeMetricFamily(
                "exthost_processes", "Processes that serve.", labels=label
            ),
            "restarts": CounterMetricFamily(
                "exthost_restarts", "Processes that replaced one that ended.", labels=label
            ),
            "crashes": CounterMetricFamily(
                "exthost_crashes", "Processes that ended by themselves.", labels=label
            ),
        }
        nodes = GaugeMetricFamily(
            "exthost_node_processes",
            "Processes that serve on another node.",
            labels=["extension", "node"],
        )
        for extension in extensions:
            stats = extension.stats
            for node, count in stats.nodes.items():
                nodes.add_metric([extension.id, node], count)
            ready.add_metric([extension.id], extension.state == "ready")
            for outcome in _OUTCOMES:
                calls.add_metric([extension.id, outcome], stats[outcome])
            for name, family in families_by_field.items():
                family.add_metric([extension.id], stats[name])
        yield ready
        yield calls
        yield from families_by_field.values()
        yield nodes
        seconds = HistogramMetricFamily(
            "exthost_call_seconds", "How long calls took.", labels=label
        )
        for name, buckets, seconds_sum in self._call_seconds.rows():
            seconds.add_metric([name], buckets, seconds_sum)
        yield seconds
