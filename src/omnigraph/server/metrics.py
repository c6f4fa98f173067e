"""Measurements of the server in the form of Prometheus."""

from __future__ import annotations

import threading
from typing import Any

from omnigraph.graph.admission import Admission
from omnigraph.server.served_graphs import ServedGraph, ServedGraphs

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters of one worker. With several workers they add up through files of one directory."""

    def __init__(self, directory: str | None = None) -> None:
        # Imported here, because the library reads the variable of the directory at its import.
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram  # noqa: PLC0415

        self._directory = directory
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "omnigraph_http_requests",
            "Requests by route, method, status and graph.",
            ("route", "method", "status", "graph"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "omnigraph_http_request_seconds",
            "Time from the first byte of a request to the last byte of its answer.",
            ("route", "method"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._inflight = Gauge(
            "omnigraph_http_inflight",
            "Calls that run now.",
            ("kind",),
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._refused = Counter(
            "omnigraph_http_admission_rejected",
            "Calls that a limit refused.",
            ("reason",),
            registry=self.registry,
        )
        self._commits = Counter(
            "omnigraph_http_commits",
            "Commits that requests made.",
            ("graph", "operation"),
            registry=self.registry,
        )
        self._conflicts = Counter(
            "omnigraph_http_conflicts",
            "Writes that lost against another one.",
            ("kind",),
            registry=self.registry,
        )
        self._denied = Counter(
            "omnigraph_http_policy_denied",
            "Requests that the policy refused.",
            ("action",),
            registry=self.registry,
        )
        self._up = Gauge(
            "omnigraph_http_graph_up",
            "1 for a graph that is served, 0 for one that is quarantined.",
            ("graph",),
            registry=self.registry,
            multiprocess_mode="livemin",
        )
        self._recoveries = Counter(
            "omnigraph_http_recoveries",
            "Dead writers whose work was finished or undone.",
            ("outcome",),
            registry=self.registry,
        )
        self._children: dict[Any, Any] = {}
        self._seen_refusals: dict[str, int] = {}
        self._seen_recoveries: dict[tuple[str, str], int] = {}
        self._gathering = threading.Lock()

    def observe(
        self, route: str, method: str, status: int, graph: str | None, seconds: float
    ) -> None:
        """Count one finished request."""
        key = (route, method, status, graph)
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = (
                self._requests.labels(route, method, str(status), graph or ""),
                self._seconds.labels(route, method),
            )
        found[0].inc()
        found[1].observe(seconds)

    def committed(self, graph_id: str, operation: str) -> None:
        self._commits.labels(graph_id, operation).inc()

    def conflicted(self, kind: str) -> None:
        self._conflicts.labels(kind).inc()

    def denied(self, action: str) -> None:
        self._denied.labels(action).inc()

    def text(self, admission: Admission, graphs: ServedGraphs) -> bytes:
        """The measurements of all workers."""
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415
        from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415

        self.gather(admission, graphs)
        if self._directory is None:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=self._directory)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def gather(self, admission: Admission, graphs: ServedGraphs) -> None:
        """Bring the numbers of admission and of the graphs up to date.

        A worker does so before it answers, and now and then for the answers of other workers.
        """
        with self._gathering:
            for kind, count in admission.inflight.items():
                self._inflight.labels(kind).set(count)
            for reason, count in list(admission.refused.items()):
                new = count - self._seen_refusals.get(reason, 0)
                self._seen_refusals[reason] = count
                self._refused.labels(reason).inc(new)
            for served in graphs:
                self._up.labels(served.graph_id).set(1)
                self._count_recoveries(served)
            for graph_id in graphs.quarantined:
                self._up.labels(graph_id).set(0)

    def _count_recoveries(self, served: ServedGraph) -> None:
        for outcome, count in list(served.graph.engine.recovery.outcomes.items()):
            key = (served.graph_id, outcome)
            seen = self._seen_recoveries.get(key, 0)
            # A graph that was opened again begins to count anew.
            self._recoveries.labels(outcome).inc(count - seen if count >= seen else count)
            self._seen_recoveries[key] = count
