"""Create a graph, the tables of new types, and a branch's own copies of tables.

Each creation first writes under names that are not in use. The new data exists for readers only
once the manifest names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.identity import carry_identities
from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, EdgeType, EntityType
from omnigraph.commit.staging import record_first_rows
from omnigraph.errors import AlreadyExists
from omnigraph.lance_store.dataset_branches import create_branch, create_dataset, physical_name
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import CURRENT_FORMAT, BranchState, state_to_schema
from omnigraph.manifest.layout import MANIFEST, reclaimed_marker, table_location
from omnigraph.manifest.publication import CommitDraft, Publication, TableMove, apply_publication
from omnigraph.manifest.publisher import Published, Publisher
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import MAIN_REF, BranchRef, TablePin
from omnigraph.manifest.schemas import SchemaStore
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import Clock
from omnigraph.values.identifiers import TableKey
from omnigraph.writes.changeset import ChangeSet


def create_graph(
    store: Store, catalog: Catalog, source: str, actor_id: str | None, clock: Clock
) -> None:
    """Create tables, schema object and manifest, in this order.

    Of several processes that create the graph, the one that writes the manifest wins. The others
    leave only unused directories.
    """
    if store.exists(MANIFEST, None):
        raise _taken(store)
    catalog = carry_identities(Catalog(), catalog)
    commit_id = clock.new_ulid()
    pins = tuple(create_table(store, t, MAIN_REF, commit_id, clock) for t in catalog.entity_types())
    failpoints.hit("init.after_tables")
    schema_id = clock.new_ulid()
    SchemaStore(store.files).write(schema_id, catalog, source, commit_id)
    failpoints.hit("init.after_schema")
    empty = BranchState(version=0, tables={}, schema_id=schema_id, commits=())
    publication = Publication(
        clock.new_ulid(), 0, commit=CommitDraft(commit_id, "init", actor_id), created=pins
    )
    state, _ = apply_publication(empty, publication, MAIN_REF, clock.now_micros())
    store.flush_to_disk()
    try:
        manifest = state_to_schema(state, CURRENT_FORMAT)
        create_dataset(store, MANIFEST, manifest.empty_table())
    except AlreadyExists:
        raise _taken(store) from None
    store.flush_to_disk()
    failpoints.hit("init.after_manifest")


def _taken(store: Store) -> AlreadyExists:
    uri = store.location.uri
    return AlreadyExists(f"a graph exists already at {uri}: open it instead", uri=uri)


def create_table(
    store: Store,
    entity: EntityType,
    owner: BranchRef,
    commit_id: str,
    clock: Clock,
    rows: pa.Table | None = None,
) -> TablePin:
    """Create the dataset of a type, with `rows` or empty; its pin."""
    indexed = (ID, SOURCE, TARGET) if isinstance(entity, EdgeType) else (ID,)
    rows = table_schema(entity).empty_table() if rows is None else rows
    location = table_location(entity.table_key)
    try:
        if store.files.get(reclaimed_marker(location)) is not None:
            raise AlreadyExists(f"dataset {location} existed", dataset=location)
        created = create_dataset(store, location, rows, indexed)
    except AlreadyExists:
        # The plain path is or was in use: by a creation that crashed or runs now, by another
        # branch, or by a dropped type. Old commits name versions there.
        created = create_dataset(store, f"{location}-{clock.new_ulid()}", rows, indexed)
    return TablePin(
        key=entity.table_key,
        location=created.location,
        branch=created.branch,
        version=created.version,
        row_count=rows.num_rows,
        owner=owner.incarnation,
        content_epoch=commit_id,
    )


def accept_schema(
    reader: ManifestReader,
    changes: ChangeSet,
    publication: Publication,
    tables: Mapping[TableKey, TablePin],
    *,
    ref: BranchRef,
    commit_id: str,
    settings: HistorySettings,
    clock: Clock,
) -> Publication:
    """Write the schema object and the tables of new types; the publication that names them."""
    change, draft = changes.schema, publication.commit
    assert change is not None
    assert draft is not None
    store = reader.store
    rows = {first.key: first.rows for first in change.first_rows}
    schema_id = clock.new_ulid()
    reader.schemas.write(schema_id, change.catalog, change.source, commit_id, change.steps)
    created = tuple(
        create_table(store, entity, ref, commit_id, clock, rows.get(entity.table_key))
        for entity in change.added
    )
    first = tuple(
        record_first_rows(pin.key, rows[pin.key], store, settings, clock)
        for pin in created
        if pin.row_count
    )
    names = dict(change.renamed)
    changed = tuple(replace(c, key=names.get(c.key, c.key)) for c in draft.changes)
    draft = replace(draft, changes=(*changed, *first))
    return replace(
        publication,
        commit=draft,
        schema_id=schema_id,
        created=created,
        dropped=change.dropped,
        moves=renamed_moves(publication.moves, change.renamed, tables),
    )


def renamed_moves(
    moves: tuple[TableMove, ...],
    renamed: tuple[tuple[TableKey, TableKey], ...],
    tables: Mapping[TableKey, TablePin],
) -> tuple[TableMove, ...]:
    """The moves with the new names of types; a table that does not move is renamed in its place."""
    names = dict(renamed)
    moved = {move.expected.key for move in moves}
    found = [
        replace(m, after=replace(m.after, key=names.get(m.after.key, m.after.key))) for m in moves
    ]
    for old, new in renamed:
        if old not in moved:
            found.append(TableMove(tables[old], replace(tables[old], key=new)))
    return tuple(found)


def fork_unowned(
    store: Store,
    publisher: Publisher,
    clock: Clock,
    ref: BranchRef,
    state: BranchState,
    tables: Iterable[TableKey],
) -> BranchState:
    """Give a branch its own physical branch of each table; the state in which it owns `tables`.

    This is published before the write itself. Of two first writers of a table one wins the swap
    of the manifest, and cleanup removes the physical branch of the other.
    """
    unowned = [p for k in tables if (p := state.tables.get(k)) and p.owner != ref.incarnation]
    if not unowned:
        return state
    moves = tuple(TableMove(pin, _fork(store, clock, ref, pin)) for pin in unowned)
    failpoints.hit("commit.after_fork_branch")
    publication = Publication(clock.new_ulid(), state.version, moves=moves)
    published = publisher.publish(ref, publication)
    failpoints.hit("commit.after_fork_publish")
    assert isinstance(published, Published)
    return published.state


def _fork(store: Store, clock: Clock, ref: BranchRef, pin: TablePin) -> TablePin:
    forked = create_branch(store, pin.at, physical_name(ref.name, clock.new_ulid()))
    return replace(pin, branch=forked.branch, version=forked.version, owner=ref.incarnation)
