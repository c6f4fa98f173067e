"""The driver's side of a write through the format: opens the graph, begins, commits."""

from __future__ import annotations

from collections.abc import Sequence

import omnigraph
from omnigraph.load.options import LoadMode, LoadOptions, LoadReceipt
from omnigraph.manifest.records import StreamBatch
from omnigraph.settings.config_file import read_config
from omnigraph.spark.load import land_handoff
from omnigraph.spark.load.handoff import Handoff
from omnigraph.spark.load.load_tasks import TaskResult
from omnigraph.spark.source.options import SaveRequest


def begin_write(request: SaveRequest) -> Handoff:
    graph = _open(request)
    return land_handoff.begin(graph.engine.spark_loader, _options(request))


def commit_write(
    request: SaveRequest,
    handoff: Handoff,
    results: Sequence[TaskResult],
    batch: tuple[str, int] | None = None,
) -> LoadReceipt:
    """Commit what the tasks wrote; a batch that its stream's mark has reached changes nothing."""
    graph = _open(request)
    options = _options(request, StreamBatch(*batch) if batch else None)
    return land_handoff.land(graph.engine.spark_loader, handoff, results, options)


def _open(request: SaveRequest) -> omnigraph.Graph:
    settings = read_config(request.config).settings if request.config else None
    return omnigraph.open(request.uri, actor=request.actor, settings=settings)


def _options(request: SaveRequest, batch: StreamBatch | None = None) -> LoadOptions:
    message = request.message
    if batch is not None and message is None:
        message = f"stream {batch.stream}, batch {batch.batch}"
    return LoadOptions(
        mode=LoadMode.parse(request.mode),
        branch=request.branch,
        actor=request.actor,
        message=message,
        if_commit=request.if_commit,
        idempotency_key=request.idempotency_key,
        type_name=request.type_name,
        stream_batch=batch,
    )
