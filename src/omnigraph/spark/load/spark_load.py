"""A load on Spark: workers parse, prepare and write rows; the driver checks and commits them.

The workers run inside the transaction (`_LoadJob._build`), because cleanup keeps the files of a
transaction that is under way. They run once. If another writer commits first, only the checks are
repeated.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from omnigraph.catalog.model import Catalog, embedding_of
from omnigraph.commit.transaction import Transaction
from omnigraph.embed.choose import choose_provider
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.store import DatasetVersion
from omnigraph.load.commit_load import (
    SMALL_INPUT,
    LoadBuild,
    commit_load,
    load_claims,
    refuse_new_schema,
)
from omnigraph.load.modes import LoadMode
from omnigraph.load.options import LoadOptions, LoadReceipt
from omnigraph.load.parsed_rows import BlobBases
from omnigraph.load.patch_build import PatchBuild, PatchInput
from omnigraph.load.prepared import PreparedInput, prepared_input
from omnigraph.load.rejected_input import read_again
from omnigraph.load.sources import (
    Progress,
    Source,
    check_source_columns,
    entity_of,
    find_sources,
    mirrored_types,
    reading_progress,
    refuse_unused_columns,
)
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.settings.models import EmbeddingSettings, Settings
from omnigraph.spark.engine_choice import holds_spark_frames
from omnigraph.spark.jobs import TaskRun, collect_tasks, run_job
from omnigraph.spark.load.load_tasks import (
    RESULT,
    LoadPlan,
    TaskResult,
    cut,
    run_frame,
    run_tasks,
)
from omnigraph.spark.load.written_tables import (
    AdoptingWriter,
    in_order,
    patched_homes,
    remove_written,
    take_results,
)
from omnigraph.spark.session import Session, parallelism, spark_session
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases
from omnigraph.values.identifiers import TableKey
from omnigraph.values.known_names import SPARK
from omnigraph.writes.changeset import ChangeSet


@dataclass(frozen=True, slots=True)
class SparkLoader:
    """The parts of an open graph that a load on Spark uses."""

    reader: ManifestReader
    commits: CommitGraph
    transaction: Transaction
    settings: Settings
    external: ExternalBases = NONE_ALLOWED
    small_input: int = SMALL_INPUT

    @property
    def blobs(self) -> BlobBases:
        """What blob values may be."""
        return BlobBases(self.settings.load.blob_bases, self.external)

    def load(self, data: Any, options: LoadOptions, progress: Progress | None) -> LoadReceipt:
        """Read `data`, check all of it, and commit it as one."""
        options.reject_rules()  # refuses wrong options before anything is read
        given = _input(data, options.type_name)
        reading = options.reading(self.blobs)
        if not given.frames:
            refuse_unused_columns(given.sources, reading)
        tell("starting Spark")
        session = (
            given.frames[0].sparkSession if given.frames else spark_session(self.settings.pipeline)
        )
        ref, state = self.reader.branch(options.branch)
        catalog = self.reader.snapshot(ref, state).catalog
        options.refuse_hidden_names(catalog)
        rules = options.rules_for(catalog)
        options.modes.check(catalog, [source.type_name for source in given.sources])
        for source, frame in zip(given.sources, given.frames, strict=False):
            # Before the first task, because a task would find the same mistake minutes later.
            check_source_columns(source, catalog, frame.columns, reading)
        names = [source.name for source in given.sources]
        with prepared_input(catalog, self.settings.load, rules, names) as prepared:
            if not given.frames:
                prepared.read_again = partial(read_again, given.sources, catalog, reading)
            watch = progress or (_quiet if given.frames else reading_progress(given.sources))
            return _LoadJob(self, session, given, options, prepared, watch).run()

    def plan(self, snapshot: Snapshot, keys: Sequence[TableKey], options: LoadOptions) -> LoadPlan:
        """What workers must know to write rows of these types for this snapshot."""
        store, settings = self.reader.store, self.settings
        return LoadPlan(
            snapshot.catalog,
            {key: store.address(snapshot.pin(key).at) for key in keys},
            {key.type_name: options.reading(self.blobs, key.type_name) for key in keys},
            options.reading(self.blobs),
            settings.embedding if _wants_vectors(snapshot.catalog) else EmbeddingSettings(),
            SYSTEM_CLOCK.now_micros() // 1000,
            options.reject_rules(),
        )

    def build(self, prepared: PreparedInput, options: LoadOptions) -> LoadBuild:
        """For rows that workers wrote."""
        return LoadBuild(
            prepared,
            self.reader,
            self.commits,
            options.modes,
            self.small_input,
            writer=AdoptingWriter,
            dry_run=options.dry_run,
        )

    def patch_build(self, patches: PatchInput, options: LoadOptions) -> PatchBuild:
        """For patches that workers wrote; the driver completes them and writes whole rows."""
        return PatchBuild(
            patches,
            self.reader,
            self.commits,
            choose_provider(self.settings.embedding, os.environ, SYSTEM_CLOCK),
            self.settings.load,
            self.small_input,
            options.modes,
            options.dry_run,
            AdoptingWriter,
        )


@dataclass(frozen=True, slots=True)
class _SparkInput:
    """The input of a load: sources that are cut into pieces, or Spark DataFrames, one of a type."""

    sources: tuple[Source, ...]
    frames: tuple[Any, ...] = ()
    """If there are any: one for each source."""

    def types(self, catalog: Catalog) -> list[TableKey]:
        """Types that may occur; JSON rows may name any."""
        if any(source.is_json for source in self.sources):
            return [entity.table_key for entity in catalog.entity_types()]
        return sorted({entity_of(source, catalog).table_key for source in self.sources})


def _input(data: Any, type_name: str | None) -> _SparkInput:
    if not holds_spark_frames(data):
        sources = tuple(find_sources(data, type_name))
        for source in sources:
            if source.stream is not None:
                raise InvalidArgument(
                    f"{source.name}: workers cannot share a stream; give a file, or engine 'local'"
                )
        return _SparkInput(sources)
    if isinstance(data, Mapping):
        sources = tuple(Source("arrow", f"<{name}>", name) for name in data)
        return _SparkInput(sources, tuple(data.values()))
    if type_name is None:
        raise InvalidArgument("a DataFrame needs type=, the type of its rows")
    return _SparkInput((Source("arrow", "<DataFrame>", type_name),), (data,))


def _wants_vectors(catalog: Catalog) -> bool:
    properties = (p for entity in catalog.entity_types() for p in entity.properties)
    return any(embedding_of(declared) is not None for declared in properties)


@dataclass
class _LoadJob:
    """One load: the workers run once, the checks as often as the transaction needs them."""

    loader: SparkLoader
    session: Session
    given: _SparkInput
    options: LoadOptions
    prepared: PreparedInput
    progress: Progress
    load: LoadBuild | PatchBuild | None = None
    """Set when the workers are done."""
    homes: Mapping[TableKey, DatasetVersion] = field(default_factory=dict)
    """The datasets for which the workers wrote."""
    results: Sequence[TaskResult] = ()

    def run(self) -> LoadReceipt:
        try:
            return self._run()
        finally:
            if isinstance(self.load, PatchBuild):
                self.load.close()
            if self.options.dry_run:
                patched = patched_homes(self.homes, self.options.modes)  # removed already
                homes = {k: home for k, home in self.homes.items() if k not in patched}
                remove_written(self.loader.reader.store, homes, self.results)

    def _run(self) -> LoadReceipt:
        # Which types occur is known only after the input is read, so all that may are claimed.
        types = self.given.types(self.prepared.catalog)
        return commit_load(
            self.loader.transaction,
            self.prepared,
            self.options,
            load_claims(self.prepared.catalog, types, self.options.modes),
            self._build,
            SPARK,
        )

    def _build(self, snapshot: Snapshot) -> ChangeSet:
        refuse_new_schema(self.prepared, snapshot)
        if self.load is None:
            self.load = self._write_rows(snapshot)
        return self.load.build(snapshot)

    def _write_rows(self, snapshot: Snapshot) -> LoadBuild | PatchBuild:
        keys = self.given.types(self.prepared.catalog)
        plan = self.loader.plan(snapshot, keys, self.options)
        self.homes = homes = {key: snapshot.pin(key).at for key in keys}
        modes, patches = self.options.modes, PatchInput(self.prepared)
        # A frame names its type even if it has no rows: to overwrite with it empties the type.
        whole = (LoadMode.OVERWRITE,) if self.given.frames else ()
        named = modes.with_mode(keys, whole) | mirrored_types(
            self.given.sources, self.prepared.catalog, modes
        )
        self.results = results = self._run_workers(plan)
        take_results(patches, self.loader.reader.store, homes, results, modes, named)
        if modes.may_be(LoadMode.PATCH):
            return self.loader.patch_build(patches, self.options)
        return self.loader.build(self.prepared, self.options)

    def _run_workers(self, plan: LoadPlan) -> list[TaskResult]:
        """Results in input order, each with the place before its first line."""
        if self.given.frames:
            pairs = zip(self.given.sources, self.given.frames, strict=True)
            return [
                result
                for number, (source, frame) in enumerate(pairs)
                for result in in_order(self._run_frame(plan, source, frame), number)
            ]
        task_bytes = self.loader.settings.pipeline.task_bytes
        pieces = cut(self.given.sources, plan.options, task_bytes, parallelism(self.session))
        results = self._collect(run_tasks(plan, pieces), len(pieces))
        by_file = groupby(results, key=lambda result: pieces[result.task].file)
        return [result for file, found in by_file for result in in_order(found, file)]

    def _run_frame(self, plan: LoadPlan, source: Source, frame: Any) -> list[TaskResult]:
        """Compute and write one frame; its type is a stage of the progress."""
        name = source.type_name or source.name
        context = getattr(self.session, "_sc", None)
        counter = None if context is None else context.accumulator(0)
        tell(f"computing {name}", unit="rows", stage=name)

        def watch(_done: int, _total: int) -> None:
            if counter is not None:
                tell(f"computing {name}", counter.value, unit="rows", stage=name)

        rows = frame.mapInArrow(run_frame(plan, source, counter), RESULT)
        found = _results(run_job(self.session, "load", rows.collect, watch))
        written = sum(part.rows for result in found for part in result.parts)
        tell(f"computed {name}", written, written, "rows", name)
        self.progress(0, written)
        return found

    def _collect(self, run: TaskRun, tasks: int) -> list[TaskResult]:
        """The results by task number."""
        size = sum(source.size for source in self.given.sources)
        told = 0

        def watch(done: int, _total: int) -> None:
            nonlocal told
            now = size * done // max(tasks, 1)
            self.progress(now - told, 0)
            told = now

        def action() -> list[Any]:
            return collect_tasks(self.session, tasks, run, RESULT)

        found = _results(run_job(self.session, "load", action, watch))
        self.progress(size - told, sum(part.rows for result in found for part in result.parts))
        return found


def _results(collected: Sequence[Any]) -> list[TaskResult]:
    found: list[TaskResult] = [pickle.loads(row.result) for row in collected]
    return sorted(found, key=lambda result: result.task)


def _quiet(_bytes: int, _rows: int) -> None:
    """No progress of reading: each frame has its own."""
