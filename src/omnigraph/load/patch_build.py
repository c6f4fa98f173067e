"""The build of a load in mode patch: make whole rows of the patches, then go on as in mode merge.

`PatchInput` keeps the patches of a load. For every snapshot that the transaction offers,
`PatchBuild` finds the edges that patches without an id mean, completes all patches from the stored
rows, checks the whole rows, and gives them to a `LoadBuild`. Patches are completed again only if
another writer changed rows that they rely on. Memory is bounded: patches and whole rows are in
files, and one pass over a table completes millions of patches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, EdgeType, EntityType
from omnigraph.commit.request import Claims
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Dataset
from omnigraph.load.bulk_checks import has_repeated_ids
from omnigraph.load.commit_load import LoadBuild, load_claims, refuse_new_schema
from omnigraph.load.match_edges import EdgeMatcher
from omnigraph.load.modes import LoadModes
from omnigraph.load.parsed_rows import ParsedBlock, raw_schema
from omnigraph.load.patch_rows import (
    as_patches,
    complete_patches,
    fold_patches,
    needed_columns,
    patch_schema,
)
from omnigraph.load.prepare_rows import PLACE, RowJudge, known_ids, place_of, with_new_ids
from omnigraph.load.prepared import (
    Findings,
    PreparedFile,
    PreparedInput,
    RowsByPosition,
    in_chunks,
    placed_schema,
    prepared_input,
)
from omnigraph.load.proofs import row_hashes
from omnigraph.load.write_tables import LoadTableWriter
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.settings.models import LoadSettings
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.identifiers import TableKey
from omnigraph.values.plurals import counted
from omnigraph.writes.changeset import ChangeSet

_LOOKED_UP_PATCHES = 2000
"""So many patches are looked up by the index of the table; more are completed in a pass over it."""
_PATCHES_PER_PASS = 4 * 1024 * 1024
_BATCH_BYTES = 256 * 1024 * 1024
_SMALLEST_BATCH = 4 * 1024
_LARGEST_BATCH = 1024 * 1024
"""Stored rows. Batches are large, because every batch hashes the ids of the patches once."""
_VALUE_BYTES = 64
_BLOB_BYTES = 32 * 1024
_FOLDED_BYTES = 256 * 1024 * 1024
"""Patches of one type that are folded in memory at once."""


class PatchInput:
    """The patches of a load. Their checked columns are in the index of `prepared`.

    `prepared` may also have whole rows, of types with another mode.
    """

    def __init__(self, prepared: PreparedInput) -> None:
        self.prepared = prepared
        self._files: dict[TableKey, PreparedFile] = {}

    def keep(self, block: ParsedBlock, judge: RowJudge) -> None:
        """Add the rows of a block of the newest source, without those that break a rule."""
        before = place_of(len(self.prepared.files) - 1, 0)
        for rows in judge.patches(block, before):
            self.add(rows.entity, as_patches(rows, before + rows.lines))

    def add(self, entity: EntityType, patches: pa.Table) -> None:
        key = entity.table_key
        if key not in self._files:
            path = self.prepared.folder / f"patches-{key.kind.value}-{len(self._files)}.arrow"
            self._files[key] = PreparedFile(entity, path, patch_schema(entity))
            self.prepared.tables[key] = self._files[key]
        has_id = patches.column(ID).is_valid().to_numpy()
        self.prepared.keep(self._files[key], patches, None if has_id.all() else has_id)

    def folded(self) -> dict[TableKey, PreparedFile]:
        """The patches with at most one for each id."""
        for file in self._files.values():
            file.close()
        repeated = has_repeated_ids(self.prepared.index, self.prepared.given_ids)
        return {
            key: _folded(file, self.prepared.folder / f"folded-{number}")
            if key in repeated
            else file
            for number, (key, file) in enumerate(self._files.items())
        }


def _folded(file: PreparedFile, folder: Path) -> PreparedFile:
    """Patches in parts by the hash of their id, so that each part fits in memory."""
    folder.mkdir()
    size = sum(chunk.nbytes for chunk in file.chunks())
    count = 1 + size // _FOLDED_BYTES
    parts = [PreparedFile(file.entity, folder / f"{n}.arrow", file.schema) for n in range(count)]
    for chunk in file.chunks():
        hashes = row_hashes([pc.fill_null(chunk.column(ID), "").cast(pa.string())])
        chosen = np.zeros(len(chunk), np.uint64) if hashes is None else hashes % np.uint64(count)
        for number, part in enumerate(parts):
            part.append(chunk.filter(pa.array(chosen == number)))
    found = PreparedFile(file.entity, folder / "all.arrow", file.schema)
    for part in parts:
        part.close()
        tables = list(part.mapped(_PATCHES_PER_PASS))
        if tables:
            found.append(fold_patches(pa.concat_tables(tables)))
    found.close()
    return found


@dataclass
class PatchBuild:
    """Builds the change set of one load in mode patch."""

    patches: PatchInput
    reader: ManifestReader
    commits: CommitGraph
    provider: EmbeddingProvider
    settings: LoadSettings
    small_input: int
    modes: LoadModes
    dry_run: bool = False
    writer: type[LoadTableWriter] = LoadTableWriter
    _load: LoadBuild | None = field(default=None, init=False)
    _folded: dict[TableKey, PreparedFile] | None = field(default=None, init=False)
    _unreadable: Findings | None = field(default=None, init=False)
    """What is wrong with rows before they are completed."""
    _now_millis: int = field(init=False)
    """The `now()` of defaults."""
    _rows: ExitStack = field(default_factory=ExitStack, init=False)
    """Holds the whole rows that were made for the last snapshot."""

    def __post_init__(self) -> None:
        self._now_millis = SYSTEM_CLOCK.now_micros() // 1000

    def claims(self) -> Claims:
        prepared = self.patches.prepared
        return load_claims(prepared.catalog, frozenset(prepared.tables), self.modes)

    def build(self, snapshot: Snapshot) -> ChangeSet:
        prepared = self.patches.prepared
        refuse_new_schema(prepared, snapshot)
        if self._folded is None:
            self._folded = self.patches.folded()
        kept = self._load.kept(snapshot) if self._load is not None else None
        if kept is not None:
            return kept
        self._rows.close()
        whole = self._rows.enter_context(
            prepared_input(prepared.catalog, self.settings, prepared.rules, prepared.files)
        )
        if self._unreadable is None:
            self._unreadable = prepared.findings()
        whole.begin_with(self._unreadable)
        whole.read_again = prepared.read_again
        tell(f"completing {counted(prepared.total, 'row')}", stage="check")
        self._complete(self._folded, snapshot, whole)
        for key in prepared.tables.keys() - self._folded.keys():
            _share(prepared, whole, key)
        self._load = LoadBuild(
            whole,
            self.reader,
            self.commits,
            self.modes,
            self.small_input,
            writer=self.writer,
            dry_run=self.dry_run,
            provider=self.provider,
        )
        changes = self._load.build(snapshot)
        prepared.nulled = whole.nulled
        prepared.rejected = whole.rejected
        prepared.dropped = whole.dropped
        return changes

    def close(self) -> None:
        self._rows.close()

    def _complete(
        self, files: dict[TableKey, PreparedFile], snapshot: Snapshot, whole: PreparedInput
    ) -> None:
        """Fill `whole` with rows that keep the rules of rows, and with what the others break."""
        judge = whole.judge()
        self.patches.prepared.index.forget_stored()
        for number, (key, file) in enumerate(files.items()):
            pin = snapshot.pin(key)
            dataset = self.reader.store.open(pin.at) if pin.row_count else None
            if dataset is not None:
                self._match(file.entity, dataset)
            rows = _WholeRows(whole, file.entity, whole.folder / f"whole-{number}.arrow")
            for patches in file.mapped(_PATCHES_PER_PASS):
                named = self._named(key, patches)
                for part in _completed(file.entity, named, dataset, self._now_millis):
                    rows.add(part, judge)
            rows.close()

    def _match(self, entity: EntityType, dataset: Dataset) -> None:
        """Let the index know which stored edges the patches without an id mean."""
        prepared = self.patches.prepared
        if isinstance(entity, EdgeType) and entity.table_key in prepared.made_ids:
            matcher = EdgeMatcher(prepared, entity, dataset, partial=True)
            if matcher.match():
                prepared.index.resolve(entity.table_key)

    def _named(self, key: TableKey, patches: pa.Table) -> pa.Table:
        """The patches with the ids of the edges that they mean."""
        prepared = self.patches.prepared
        if key not in prepared.made_ids or not prepared.index.is_resolved(key):
            return patches
        ids = pc.coalesce(patches.column(ID), prepared.index.written_ids(key, patches))
        return patches.set_column(0, patches.schema.field(0), ids)


def _share(prepared: PreparedInput, whole: PreparedInput, key: TableKey) -> None:
    """Let `whole` have the rows of a type that is not patched."""
    whole.tables[key] = prepared.tables[key]
    whole.index.copy_input(prepared.index, key)
    for mine, theirs in (
        (whole.given_ids, prepared.given_ids),
        (whole.made_ids, prepared.made_ids),
        (whole.generated, prepared.generated),
    ):
        if key in theirs:
            mine.add(key)


def _completed(
    entity: EntityType, patches: pa.Table, dataset: Dataset | None, now_millis: int
) -> Iterator[pa.Table]:
    """Whole rows with places, in parts. A row without an id is new."""
    exists = np.zeros(patches.num_rows, dtype=bool)
    if dataset is not None:
        ids = patches.column(ID).combine_chunks()
        given = RowsByPosition(patches)
        for stored in _stored(entity, patches, ids, dataset):
            position = pc.index_in(stored.column(ID), value_set=ids)
            if position.null_count == len(position):
                continue
            found, position = stored.filter(position.is_valid()), position.drop_null()
            order = pc.sort_indices(position)
            at = position.take(order).to_numpy()
            exists[at] = True
            chosen = given.take(at)
            whole = complete_patches(entity, chosen, found.take(order), now_millis)
            yield whole.append_column(PLACE, chosen.column(PLACE))
    start = 0
    for chunk in in_chunks(patches.to_batches()):
        new = chunk.filter(pa.array(~exists[start : start + chunk.num_rows]))
        start += chunk.num_rows
        whole = complete_patches(entity, new, None, now_millis)
        yield whole.append_column(PLACE, new.column(PLACE))


def _stored(
    entity: EntityType, patches: pa.Table, ids: pa.Array, dataset: Dataset
) -> Iterator[pa.Table]:
    """The needed columns of stored rows that may have one of these ids."""
    columns = needed_columns(entity, patches)
    if len(ids) <= _LOOKED_UP_PATCHES:
        yield find_rows(dataset, ids.drop_null(), columns).select(columns)
        return
    schema = raw_schema(entity)
    width = sum(_width(schema.field(name).type) for name in columns)
    batch_rows = min(max(_BATCH_BYTES // width, _SMALLEST_BATCH), _LARGEST_BATCH)
    for batch in read_batches(dataset, columns, batch_rows=batch_rows):
        yield pa.Table.from_batches([batch])


def _width(kind: pa.DataType) -> int:
    """A rough number of bytes of one value."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * 4
    return _BLOB_BYTES if pa.types.is_large_binary(kind) else _VALUE_BYTES


class _WholeRows:
    """Whole rows of one type on their way into a `PreparedInput`."""

    def __init__(self, whole: PreparedInput, entity: EntityType, path: Path) -> None:
        self._whole = whole
        self._entity = entity
        self._file = PreparedFile(entity, path, placed_schema(entity))

    def add(self, rows: pa.Table, judge: RowJudge) -> None:
        """Keep the rows that keep all rules of rows."""
        if rows.num_rows == 0:
            return
        has_id = rows.column(ID).is_valid().to_numpy()
        if not has_id.all():
            ids = with_new_ids(self._entity, known_ids(self._entity, rows))
            rows = rows.set_column(0, rows.schema.field(0), ids)
        good = judge.accepted(self._entity, rows, self._whole.place)
        if good is not None:
            self._whole.dropped[self._entity.table_key] += int((~good).sum())
            rows, has_id = rows.filter(pa.array(good)), has_id[good]
        placed = pa.table(rows.columns, schema=self._file.schema)
        self._whole.keep(self._file, placed, None if has_id.all() else has_id)

    def close(self) -> None:
        self._file.close()
        if self._file.rows:
            self._whole.tables[self._entity.table_key] = self._file
