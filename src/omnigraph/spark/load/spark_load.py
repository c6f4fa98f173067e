"""A load on Spark: workers parse, check and write; the driver joins, judges and commits."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from omnigraph.catalog.model import Catalog, embedding_of
from omnigraph.commit.request import Claims
from omnigraph.commit.transaction import Transaction
from omnigraph.errors import ExpectedVersionMismatch, InvalidArgument
from omnigraph.integrity.validate import claims
from omnigraph.lance_store.staging.written_fragments import write_target
from omnigraph.load.commit_load import SMALL_INPUT, LoadBuild, Recheck, commit_load
from omnigraph.load.options import LoadMode, LoadOptions, LoadReceipt
from omnigraph.load.parsed_rows import BlobBases
from omnigraph.load.prepared import PreparedInput, Progress, prepared_input
from omnigraph.load.progress import Watch
from omnigraph.load.sources import (
    ReadOptions,
    Source,
    entity_of,
    find_sources,
    refuse_unused_columns,
)
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.settings.models import EmbeddingSettings, Settings
from omnigraph.spark.engine_choice import holds_spark_frames
from omnigraph.spark.jobs import run_job
from omnigraph.spark.load.load_tasks import (
    RESULT,
    InputPiece,
    LoadPlan,
    TaskResult,
    cut,
    run_frame,
    run_tasks,
)
from omnigraph.spark.load.written_tables import AdoptingWriter, Placed, in_order, take_written
from omnigraph.spark.session import Session, parallelism, spark_session
from omnigraph.values.identifiers import EntityKind, TableKey
from omnigraph.values.known_names import SPARK
from omnigraph.writes.changeset import ChangeSet


@dataclass(frozen=True, slots=True)
class SparkInput:
    """What is loaded: sources cut into pieces, or Spark DataFrames, one of each type."""

    sources: tuple[Source, ...]
    frames: tuple[Any, ...] = ()
    """With frames: one for each source."""

    def types(self, catalog: Catalog) -> list[TableKey]:
        """Types that may occur; NDJSON may hold any."""
        if any(source.type_name is None for source in self.sources):
            return [entity.table_key for entity in catalog.entity_types()]
        return sorted({entity_of(source, catalog).table_key for source in self.sources})


@dataclass(frozen=True, slots=True)
class SparkLoader:
    """The parts of an open graph that a load on Spark uses."""

    reader: ManifestReader
    commits: CommitGraph
    transaction: Transaction
    settings: Settings
    small_input: int = SMALL_INPUT

    def load(
        self,
        data: Any,
        options: LoadOptions,
        watch: Watch,
    ) -> LoadReceipt:
        """Read `data`, check all of it, and commit it as one."""
        given = _input(data, options.type_name)
        if not given.frames:
            refuse_unused_columns(given.sources, options.columns)
        tell("starting Spark")
        session = (
            given.frames[0].sparkSession if given.frames else spark_session(self.settings.pipeline)
        )
        ref, state = self.reader.branch(options.branch)
        catalog = self.reader.snapshot(ref, state).catalog
        names = [source.name for source in given.sources]
        with prepared_input(catalog, self.settings.load, names) as prepared:
            progress = watch(given.sources)
            return _LoadJob(self, session, given, options, prepared, progress).run()

    def landing(self, prepared: PreparedInput, mode: LoadMode) -> LoadBuild:
        """For rows that workers wrote."""
        return LoadBuild(
            prepared,
            self.reader.store,
            mode,
            Recheck(self.reader, self.commits),
            self.small_input,
            writer=AdoptingWriter,
        )


def _input(data: Any, type_name: str | None) -> SparkInput:
    if not holds_spark_frames(data):
        sources = tuple(find_sources(data, type_name))
        for source in sources:
            if source.stream is not None:
                raise InvalidArgument(
                    f"{source.name}: workers cannot share a stream; give a file, or engine 'local'"
                )
        return SparkInput(sources)
    if isinstance(data, Mapping):
        sources = tuple(Source("arrow", f"<{name}>", name) for name in data)
        return SparkInput(sources, tuple(data.values()))
    if type_name is None:
        raise InvalidArgument("a DataFrame needs type=: which type do its rows have?")
    return SparkInput((Source("arrow", "<DataFrame>", type_name),), (data,))


def load_plan(
    loader: SparkLoader, snapshot: Snapshot, keys: Sequence[TableKey], options: LoadOptions
) -> LoadPlan:
    """What workers must know to write rows of these types for this snapshot."""
    store, settings = loader.reader.store, loader.settings
    return LoadPlan(
        snapshot.catalog,
        {key: write_target(store, snapshot.pin(key).at) for key in keys},
        ReadOptions(options.columns, BlobBases(settings.load.blob_bases)),
        settings.embedding if _wants_vectors(snapshot.catalog) else EmbeddingSettings(),
    )


@dataclass
class _LoadJob:
    """One load on its way: the workers run once, the judgement as often as needed."""

    loader: SparkLoader
    session: Session
    given: SparkInput
    options: LoadOptions
    prepared: PreparedInput
    progress: Progress
    landing: LoadBuild | None = None

    def run(self) -> LoadReceipt:
        return commit_load(
            self.loader.transaction,
            self.prepared,
            self.options,
            self._claims(),
            self._build,
            SPARK,
        )

    def _claims(self) -> Claims:
        """Which types occur is known only when all is read, so every one that may is claimed."""
        written = self.given.types(self.prepared.catalog)
        replaced = written if self.options.mode is LoadMode.OVERWRITE else []
        nodes = [key for key in replaced if key.kind is EntityKind.NODE]
        return claims(self.prepared.catalog, written, nodes, replaced)

    def _build(self, snapshot: Snapshot) -> ChangeSet:
        if snapshot.catalog != self.prepared.catalog:
            raise ExpectedVersionMismatch(
                "the schema changed while this load was prepared; repeat it", table="schema"
            )
        if self.landing is None:
            self._write_rows(snapshot)
            self.landing = self.loader.landing(self.prepared, self.options.mode)
        return self.landing.build(snapshot)

    def _write_rows(self, snapshot: Snapshot) -> None:
        store = self.loader.reader.store
        keys = self.given.types(self.prepared.catalog)
        plan = load_plan(self.loader, snapshot, keys, self.options)
        homes = {key: snapshot.pin(key).at for key in keys}
        # A frame names its type also when it has no rows: overwritten, the type is empty then.
        named = keys if self.given.frames and self.options.mode is LoadMode.OVERWRITE else ()
        take_written(self.prepared, store, homes, self._run_workers(plan), named)

    def _run_workers(self, plan: LoadPlan) -> list[Placed]:
        """Results in input order, each with the place before its first line."""
        if self.given.frames:
            return [
                placed
                for number, (source, frame) in enumerate(
                    zip(self.given.sources, self.given.frames, strict=True)
                )
                for placed in in_order(
                    self._collect(frame.mapInArrow(run_frame(plan, source), RESULT), 0), number
                )
            ]
        task_bytes = self.loader.settings.pipeline.task_bytes
        pieces = cut(self.given.sources, task_bytes, parallelism(self.session))
        numbers = self.session.range(0, len(pieces), 1, len(pieces))
        rows = numbers.mapInArrow(run_tasks(plan, pieces), RESULT)
        return _placed(self._collect(rows, len(pieces)), pieces)

    def _collect(self, rows: Any, tasks: int) -> list[TaskResult]:
        size = sum(source.size for source in self.given.sources)
        told = 0

        def watch(done: int, total: int) -> None:
            nonlocal told
            now = size * done // max(tasks or total, 1)
            self.progress(now - told, 0)
            told = now

        collected = run_job(self.session, "load", rows.collect, watch)
        found: list[TaskResult] = [pickle.loads(row.result) for row in collected]
        self.progress(size - told, sum(part.rows for result in found for part in result.parts))
        return sorted(found, key=lambda result: result.task)


def _wants_vectors(catalog: Catalog) -> bool:
    properties = (p for entity in catalog.entity_types() for p in entity.properties)
    return any(embedding_of(declared) is not None for declared in properties)


def _placed(results: list[TaskResult], pieces: tuple[InputPiece, ...]) -> list[Placed]:
    by_file = groupby(results, key=lambda result: pieces[result.task].file)
    return [placed for file, found in by_file for placed in in_order(found, file)]
