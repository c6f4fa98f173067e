"""`Graph.load` and `Graph.export`: entities in and out in bulk, in this process or on Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import GeneratorType
from typing import TYPE_CHECKING, Any, BinaryIO

from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.export.export_graph import Exporter, ExportReceipt
from omnigraph.graph.engine import Engine
from omnigraph.graph.managed import marked_export
from omnigraph.manifest.publication import REQUEST
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import shown, terminal_is_watched
from omnigraph.values.known_names import LOCAL, SPARK, require_engine

_FORKS = "forks"
"""The member of `REQUEST` that says that the branch was made for the load."""

if TYPE_CHECKING:
    from omnigraph.load.options import LoadOptions, LoadReceipt


def load(
    parts: Engine,
    data: Any,
    options: LoadOptions,
    *,
    from_branch: str | None,
    engine: str,
    progress: bool | Callable[[int, int], None] | None,
) -> LoadReceipt:
    """One load, one commit; `from_branch` forks a missing branch and takes it back on failure."""
    from omnigraph.spark.engine_choice import choose_engine

    if isinstance(data, GeneratorType):
        data = list(data)  # read twice: to choose the engine and to load
    choice = choose_engine(engine, data, options.type_name, parts.settings.pipeline)
    target = options.branch
    created = from_branch is not None and is_missing(parts, target)
    branch: AbstractContextManager[object] = nullcontext()
    if from_branch is not None and created:
        if options.dry_run:  # a new branch has the same entities
            options, created = replace(options, branch=from_branch), False
        else:
            branch = parts.lifecycle.fresh(target, from_branch, options.actor)
            if options.idempotency_key is not None:
                details = {**options.details, REQUEST: {_FORKS: True}}
                options = replace(options, details=details)
    visible = progress is True or (progress is None and terminal_is_watched())
    with branch, shown("loading") if visible else nullcontext():
        loader = parts.loader if choice.engine == LOCAL else parts.spark_loader
        receipt = loader.load(data, options, progress if callable(progress) else None)
    if receipt.repeated and receipt.commit is not None:
        created = bool(receipt.commit.details.get(REQUEST, {}).get(_FORKS))
    return replace(
        receipt,
        branch=target,
        base_branch=from_branch,
        branch_created=created,
        engine_reason=choice.reason,
    )


def estimate(data: Any) -> int:
    """The size of an input that is in memory; others count as nothing."""
    size = getattr(data, "nbytes", None)
    return size if isinstance(size, int) else 0


def is_missing(parts: Engine, branch: str) -> bool:
    try:
        parts.reader.branch(branch)
    except NotFound:
        return True
    return False


def export(
    parts: Engine,
    snapshot: Snapshot,
    target: str | os.PathLike[str] | BinaryIO | None,
    types: Sequence[str] | None,
    *,
    file_format: str,
    engine: str,
    actor: str | None,
) -> ExportReceipt:
    """Write a snapshot to a path or a stream; None is stdout."""
    require_engine(engine, "export")
    with marked_export(parts, actor):
        return _export(parts, snapshot, target, types, file_format, engine)


def _export(
    parts: Engine,
    snapshot: Snapshot,
    target: str | os.PathLike[str] | BinaryIO | None,
    types: Sequence[str] | None,
    file_format: str,
    engine: str,
) -> ExportReceipt:
    if engine == SPARK:
        if not isinstance(target, str | os.PathLike):
            raise InvalidArgument("Spark exports to a directory; give a path")
        from omnigraph.spark.export import SparkExporter

        on_spark = SparkExporter(parts.store, snapshot, parts.settings.pipeline, types)
        return on_spark.to_directory(os.fspath(target), file_format)
    exporter = Exporter(parts.store, snapshot, parts.settings.load, types)
    if isinstance(target, str | os.PathLike):
        return exporter.to_path(target, file_format)
    return exporter.to_stream(sys.stdout.buffer if target is None else target, file_format)
