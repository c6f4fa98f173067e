"""Spans from the request of a client down to the phases of its commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from omnigraph import tracing
from omnigraph_testing.http_server import ThreadServer, wait_until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    assert tracing.turn_on()
    yield found
    tracing.turn_off()
    provider.shutdown()


def test_a_write_is_one_trace(server: ThreadServer, spans: InMemorySpanExporter) -> None:
    with server.graph_client() as http:
        body = {"query": 'insert Person { name: "traced" }'}
        answer = http.post("/mutate", json=body, headers={"traceparent": PARENT})
    assert answer.status_code == 200

    def finished() -> dict[str, ReadableSpan]:
        return {span.name: span for span in spans.get_finished_spans()}

    wait_until(lambda: "POST /graphs/{graph_id}/mutate" in finished())  # after the answer
    found = finished()
    request = found["POST /graphs/{graph_id}/mutate"]
    assert format(request.context.trace_id, "032x") == PARENT.split("-")[1]
    assert request.attributes["http.response.status_code"] == 200
    for phase in ("commit prepare", "commit arm", "commit advance", "commit publish"):
        assert found[phase].parent.span_id == request.context.span_id, phase
