"""Create a graph: tables, schema object, then the manifest, whose first version decides."""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.catalog.arrow_schema import ID, SOURCE, TARGET, table_schema
from omnigraph.catalog.identity import with_identities
from omnigraph.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.errors import AlreadyExists
from omnigraph.lance_store.dataset_branches import create_dataset
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import BranchState, state_to_rows
from omnigraph.manifest.format_stamp import CURRENT
from omnigraph.manifest.layout import MANIFEST, table_location
from omnigraph.manifest.publication import CommitDraft, Publication, apply_publication
from omnigraph.manifest.records import MAIN_REF, TablePin
from omnigraph.manifest.schemas import SchemaStore
from omnigraph.values.clock import Clock


def create_graph(
    store: Store, catalog: Catalog, source: str, actor_id: str | None, clock: Clock
) -> None:
    """Of several creators one wins; the others leave only unused directories behind."""
    if store.exists(MANIFEST, None):
        raise _taken(store)
    catalog = with_identities(catalog)
    commit_id = clock.new_ulid()
    pins = tuple(_create_table(store, t, commit_id, clock) for t in catalog.entity_types())
    failpoints.hit("init.after_tables")
    schema_id = clock.new_ulid()
    SchemaStore(store.files).write(schema_id, catalog, source)
    failpoints.hit("init.after_schema")
    empty = BranchState(version=0, tables={}, schema_id=schema_id, commits=())
    publication = Publication(
        clock.new_ulid(), 0, commit=CommitDraft(commit_id, "init", actor_id), created=pins
    )
    state, _ = apply_publication(empty, publication, MAIN_REF, clock.now_micros())
    store.flush_to_disk()
    try:
        create_dataset(store, MANIFEST, state_to_rows(state, CURRENT))
    except AlreadyExists:
        raise _taken(store) from None
    store.flush_to_disk()
    failpoints.hit("init.after_manifest")


def _create_table(store: Store, entity: EntityType, commit_id: str, clock: Clock) -> TablePin:
    indexed = (ID, SOURCE, TARGET) if isinstance(entity, EdgeType) else (ID,)
    rows = table_schema(entity).empty_table()
    location = table_location(entity.table_key)
    try:
        created = create_dataset(store, location, rows, indexed)
    except AlreadyExists:
        # A crashed or racing creation left its directory; the manifest decides what is true.
        created = create_dataset(store, f"{location}-{clock.new_ulid()}", rows, indexed)
    return TablePin(
        key=entity.table_key,
        location=created.location,
        branch=created.branch,
        version=created.version,
        row_count=0,
        owner=MAIN_REF.incarnation,
        content_epoch=commit_id,
    )


def _taken(store: Store) -> AlreadyExists:
    uri = store.location.uri
    return AlreadyExists(f"there is a graph at {uri} already: open it instead", uri=uri)
