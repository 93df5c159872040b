"""What Prometheus collects: requests by route and status, their times, and the size of things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

__all__ = ["METRICS_MEDIA", "Metrics"]

METRICS_MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 30)


class Metrics:
    """The metrics of a server.

    Parameters
    ----------
    sizes
        Called for each scrape: yields the name of a figure, its collection and its value.
    """

    def __init__(self, sizes: Callable[[], Iterable[tuple[str, str, float]]]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tamis_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "tamis_request_seconds",
            "The time from the header of a request to the end of its answer.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.streams = Gauge(
            "tamis_streams",
            "Open connections of subscribers and followers.",
            registry=self._registry,
        )
        self.waiting = Gauge(
            "tamis_waiting_requests",
            "Requests that wait for or use a thread.",
            registry=self._registry,
        )
        self._cached: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._registry.register(_Sizes(sizes))

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = (method, route, status)
        found = self._cached.get(key)
        if found is None:
            found = self._cached[key] = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(method, route),
            )
        found[0].inc()
        found[1].observe(seconds)

    def render(self) -> bytes:
        """All metrics in the text format."""
        return generate_latest(self._registry)


class _Sizes:
    """Figures that are looked up when they are wanted."""

    def __init__(self, sizes: Callable[[], Iterable[tuple[str, str, float]]]) -> None:
        self._sizes = sizes

    def collect(self) -> Iterator[Metric]:
        """Yield a gauge for each figure, with a value for each collection."""
        gauges: dict[str, GaugeMetricFamily] = {}
        for name, collection, value in self._sizes():
            if name not in gauges:
                text = f"The {name} of a collection."
                gauges[name] = GaugeMetricFamily(f"tamis_{name}", text, labels=["collection"])
            gauges[name].add_metric([collection], value)
        yield from gauges.values()
