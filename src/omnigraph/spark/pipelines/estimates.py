"""What a run would read and write, estimated without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph
from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.load.csv_files import csv_header
from omnigraph.load.input_files import TextForm, open_unpacked
from omnigraph.spark.pipelines.files import FoundFile, find_files
from omnigraph.spark.pipelines.flow import Flow
from omnigraph.spark.pipelines.model import Pipeline, PipelineSource
from omnigraph.spark.pipelines.positions import LastRun, SourceIncrement, branch_exists
from omnigraph.spark.pipelines.results import PlannedSource, PlannedTarget
from omnigraph.spark.pipelines.sources import delimiter, has_header

_SHOWN_FILES = 5
_SAMPLED_FILES = 20
_SAMPLE_BYTES = 64 * 1024


def known_columns(pipeline: Pipeline) -> dict[str, Sequence[str]]:
    """The columns of sources that can be told from a file, by source."""
    found: dict[str, Sequence[str]] = {}
    for name, source in pipeline.sources.items():
        columns = _columns(pipeline.name, source)
        if columns is not None:
            found[name] = columns
    return found


def _columns(pipeline: str, source: PipelineSource) -> Sequence[str] | None:
    if source.schema is not None or not source.files:
        return None
    try:
        first = next((f for f in find_files(pipeline, source) if f.object is None), None)
        if first is None:
            return None
        if source.format == "parquet":
            return list(pq.read_schema(first.path).names)
        if source.format == "csv" and has_header(source.options):
            return csv_header(Path(first.path), TextForm(None, delimiter(source.options), None))
    except (OmnigraphError, OSError, pa.ArrowInvalid):
        return None  # the run reports it, with its place
    return None


def planned_sources(
    found: Mapping[str, SourceIncrement], last: LastRun
) -> tuple[PlannedSource, ...]:
    planned = []
    for name, each in found.items():
        source = each.source
        is_files = bool(source.files)
        size = sum(file.size for file in each.files)
        kind = "files" if is_files else "graph" if source.graph is not None else source.format
        planned.append(
            PlannedSource(
                name=name,
                kind=kind or "",
                incremental=source.incremental.value if source.incremental else None,
                new_files=len(each.files) if is_files else None,
                known_files=each.known_files if is_files else None,
                bytes=size if is_files else None,
                rows_estimated=_rows(each, last, size),
                first_files=tuple(file.path for file in each.files[:_SHOWN_FILES]),
            )
        )
    return tuple(planned)


def _rows(each: SourceIncrement, last: LastRun, size: int) -> int | None:
    if each.is_empty:
        return 0
    source = each.source
    if source.files:
        return _rows_of_files(source, each.files, size)
    if source.graph is not None and source.type is not None and each.since_commit is None:
        try:
            with omnigraph.open(source.graph, read_only=True) as other:
                snapshot = other.snapshot(at=each.commit)
                key = snapshot.catalog.resolve(source.type).table_key
                return snapshot.pin(key).row_count
        except OmnigraphError:
            return None
    known = last.source(source.name).get("rows")
    return int(known) if known is not None else None


def _rows_of_files(source: PipelineSource, files: Sequence[FoundFile], size: int) -> int | None:
    """From the footers of Parquet files, or from the length of the first lines of some files."""
    local = [file for file in files if file.object is None][:_SAMPLED_FILES]
    sampled_bytes = rows = 0.0
    for file in local:
        try:
            if source.format == "parquet":
                rows += pq.read_metadata(file.path).num_rows
                sampled_bytes += file.size
                continue
            with open_unpacked(Path(file.path)) as opened:
                sample = opened.read(_SAMPLE_BYTES)
        except (OSError, pa.ArrowInvalid):
            continue
        lines = sample.count(b"\n")
        if sample and not sample.endswith(b"\n"):
            lines += 1
        header = source.format == "csv" and has_header(source.options)
        share = file.size / max(len(sample), 1) if len(sample) == _SAMPLE_BYTES else 1.0
        rows += max(lines * share - header, 0)
        sampled_bytes += file.size
    if not sampled_bytes:
        return None
    return round(rows * size / sampled_bytes)


def planned_targets(
    pipeline: Pipeline,
    flow: Flow,
    sources: Sequence[PlannedSource],
    last: LastRun,
    graph: omnigraph.Graph | None,
) -> tuple[PlannedTarget, ...]:
    """Rows by the share of the last run, else as many as the largest source of a target has."""
    rows = {each.name: each.rows_estimated for each in sources}
    planned = []
    for target in pipeline.targets:
        upstream = [n for n in flow.upstream(target.origin) if n in rows]
        known = [n for name in upstream if (n := rows[name]) is not None]
        before = [int(last.source(n).get("rows") or 0) for n in upstream]
        written = last.details.get("targets", {}).get(target.type)
        estimate = max(known) if known else None
        if estimate is not None and written is not None and max(before, default=0):
            estimate = round(estimate * written / max(before))
        planned.append(
            PlannedTarget(
                type=target.type,
                origin=target.origin,
                mode=target.mode.value,
                rows_estimated=estimate,
                stored=_stored(pipeline, graph, target.type),
            )
        )
    return tuple(planned)


def _stored(pipeline: Pipeline, graph: omnigraph.Graph | None, type_name: str) -> int | None:
    if graph is None:
        return None
    branch = pipeline.publish.branch
    snapshot = graph.snapshot(branch if branch_exists(graph, branch) else "main")
    try:
        return snapshot.pin(snapshot.catalog.resolve(type_name).table_key).row_count
    except NotFound:
        return None
