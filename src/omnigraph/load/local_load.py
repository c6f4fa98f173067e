"""A load by this process: prepare all rows on local disk, then check and write them in one commit.

Rows are prepared before the transaction begins, because that needs only the schema. A transaction
that has to build its changes again does not parse again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.commit.arming import IntentHold
from omnigraph.commit.transaction import Transaction
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.load.commit_load import SMALL_INPUT, LoadBuild, commit_load
from omnigraph.load.found_ends import StoredNodes
from omnigraph.load.modes import LoadMode
from omnigraph.load.options import LoadOptions, LoadReceipt
from omnigraph.load.parsed_rows import AbsentColumns, BlobBases, Blocks, ParsedBlock, widen
from omnigraph.load.patch_build import PatchBuild, PatchInput
from omnigraph.load.prepare_rows import PreparedRows, place_of
from omnigraph.load.prepared import (
    AppendedRows,
    PreparedFile,
    PreparedInput,
    prepared_input,
    prepared_schema,
)
from omnigraph.load.rejected_input import read_again, refuse_too_many
from omnigraph.load.sources import (
    Progress,
    ReadOptions,
    Source,
    find_sources,
    mirrored_types,
    read_source,
    reading_progress,
    refuse_unused_columns,
)
from omnigraph.load.streamed_rows import STREAMED_ROWS, RowStreams
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.settings.models import LoadSettings
from omnigraph.values.external_blobs import NONE_ALLOWED, ExternalBases
from omnigraph.values.identifiers import TableKey
from omnigraph.values.known_names import LOCAL
from omnigraph.writes.changeset import ChangeSet


@dataclass(frozen=True, slots=True)
class LocalLoader:
    """The parts of an open graph that a load by this process uses."""

    reader: ManifestReader
    commits: CommitGraph
    transaction: Transaction
    provider: EmbeddingProvider
    settings: LoadSettings
    external: ExternalBases = NONE_ALLOWED
    small_input: int = SMALL_INPUT
    most_prepared: int = STREAMED_ROWS

    def load(self, data: Any, options: LoadOptions, progress: Progress | None) -> LoadReceipt:
        """Read `data`, check all of it, and commit it as one."""
        options.reject_rules()  # refuses wrong options before anything is read
        ref, state = self.reader.branch(options.branch)
        sources = find_sources(data, options.type_name)
        blobs = BlobBases(self.settings.blob_bases, self.external)
        reading = options.reading(blobs)
        refuse_unused_columns(sources, reading)
        snapshot = self.reader.snapshot(ref, state)
        catalog = snapshot.catalog
        named = catalog if options.view is None else options.view.named(catalog)
        rules = options.rules_for(catalog)
        options.modes.check(named, [source.type_name for source in sources])
        with (
            prepared_input(catalog, self.settings, rules) as prepared,
            self._streams(snapshot, ref.incarnation, options, prepared) as streams,
        ):
            watch = progress or reading_progress(sources)
            prepared.read_again = functools.partial(read_again, sources, named, reading)
            patches = PatchInput(prepared)
            _prepare(patches, streams, sources, options, blobs, watch, named)
            failpoints.hit("load.after_prepare")
            options = options.with_content(sources)
            with closing(self._build(patches, options)) as build:

                def guarded(newest: Snapshot) -> ChangeSet:
                    changes = build.build(newest)
                    streams.check()
                    return changes

                return commit_load(
                    self.transaction, prepared, options, build.claims(), guarded, LOCAL
                )

    def _streams(
        self, snapshot: Snapshot, branch: str, options: LoadOptions, prepared: PreparedInput
    ) -> RowStreams:
        """Streams for types of which this load writes every row; `branch` is an incarnation."""
        # A bucket gets rows that were checked, because a wasted upload costs more than a file.
        streams = self.reader.store.location.is_local and not options.dry_run

        def appended(key: TableKey) -> bool:
            is_own = snapshot.pin(key).owner == branch
            return streams and is_own and options.modes.of(key) is LoadMode.APPEND

        def hold() -> IntentHold:
            return self.transaction.cleanup_hold(options.branch, options.actor)

        store = self.reader.store
        index = prepared.index
        nodes = StoredNodes(store, snapshot, index)
        return RowStreams(store, snapshot, appended, hold, index, nodes, self.most_prepared)

    def _build(self, patches: PatchInput, options: LoadOptions) -> LoadBuild | PatchBuild:
        if options.modes.may_be(LoadMode.PATCH):
            return PatchBuild(
                patches,
                self.reader,
                self.commits,
                self.provider,
                self.settings,
                self.small_input,
                options.modes,
                options.dry_run,
            )
        return LoadBuild(
            patches.prepared,
            self.reader,
            self.commits,
            options.modes,
            self.small_input,
            provider=self.provider,
            dry_run=options.dry_run,
        )


def _prepare(
    patches: PatchInput,
    streams: RowStreams,
    sources: Sequence[Source],
    options: LoadOptions,
    blobs: BlobBases,
    progress: Progress,
    named: Catalog,
) -> None:
    """Take the rows that keep the rules of rows, the patches, and what the others break."""
    prepared = patches.prepared
    files: dict[TableKey, AppendedRows] = {}
    judge = prepared.judge()

    def take(block: ParsedBlock) -> None:
        for rows in judge.prepare(block, place_of(len(prepared.files) - 1, 0)):
            _keep(prepared, files, streams, rows)

    for source in sources:
        reading = options.reading(blobs, source.type_name)
        keep = functools.partial(patches.keep, judge=judge) if reading.partial else take
        _read(prepared, source, reading, progress, keep, named)
    for key in mirrored_types(sources, named, options.modes) - files.keys():
        _file_of(prepared, files, prepared.catalog.entity_type(key))
    for file in files.values():
        file.close()


def _read(
    prepared: PreparedInput,
    source: Source,
    options: ReadOptions,
    progress: Progress,
    take: Callable[[ParsedBlock], None],
    named: Catalog,
) -> None:
    """Let `take` have all blocks of a source; fails if too much of them is wrong.

    `named` is the part of the catalog that the input may name.
    """
    prepared.files.append(source.name)
    unread = source.size
    for block in _read_ahead(read_source(source, named, options)):
        if named is not prepared.catalog:
            widen(block, prepared.catalog, partial=options.partial)
        take(block)
        size = min(block.bytes_read, unread) if source.path is not None else block.bytes_read
        unread -= size
        progress(size, sum(len(rows.lines) for rows in block.rows))
        if prepared.rules.is_hopeless(len(prepared.rejected.rows), prepared.report.total):
            refuse_too_many(prepared, unread=True)
    if unread > 0:  # of formats that do not say how much they read
        progress(unread, 0)


def _file_of(
    prepared: PreparedInput, files: dict[TableKey, AppendedRows], entity: EntityType
) -> AppendedRows:
    key = entity.table_key
    if key not in files:
        path = prepared.folder / f"{key.kind.value}-{len(files)}.arrow"
        files[key] = PreparedFile(entity, path, prepared_schema(entity))
        prepared.tables[key] = files[key]
    return files[key]


def _keep(
    prepared: PreparedInput,
    files: dict[TableKey, AppendedRows],
    streams: RowStreams,
    rows: PreparedRows,
) -> None:
    """Append rows of the newest source to those of their type."""
    key = rows.entity.table_key
    file = _file_of(prepared, files, rows.entity)
    if isinstance(file, PreparedFile) and streams.wants(file, rows.table.num_rows):
        ids = prepared.folder / f"streamed-{key.kind.value}-{key.type_name}.arrow"
        file = prepared.tables[key] = files[key] = streams.begin(file, ids)
    places = place_of(len(prepared.files) - 1, 0) + rows.lines
    absent = [] if rows.absent is None else [rows.absent]
    schema = prepared_schema(rows.entity)
    placed = pa.table([*rows.table.columns, *absent, pa.array(places)], schema=schema)
    prepared.keep(file, placed, rows.has_id)
    if rows.absent is not None and AbsentColumns(rows.absent).names:
        prepared.generated.add(key)


def _read_ahead(blocks: Blocks) -> Iterator[ParsedBlock]:
    """The same blocks; a thread parses the next one while the caller checks this one."""
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        waiting = pool.submit(next, blocks, None)
        while (block := waiting.result()) is not None:
            waiting = pool.submit(next, blocks, None)
            yield block
