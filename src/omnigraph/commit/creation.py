"""Create a graph: tables, schema object, then the manifest, whose first version decides."""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.catalog.identity import with_identities
from omnigraph.catalog.model import Catalog
from omnigraph.commit.table_creation import create_table
from omnigraph.errors import AlreadyExists
from omnigraph.lance_store.dataset_branches import create_dataset
from omnigraph.lance_store.store import Store
from omnigraph.manifest.branch_state import BranchState, state_to_rows
from omnigraph.manifest.format_stamp import CURRENT
from omnigraph.manifest.layout import MANIFEST
from omnigraph.manifest.publication import CommitDraft, Publication, apply_publication
from omnigraph.manifest.records import MAIN_REF
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
    pins = tuple(create_table(store, t, MAIN_REF, commit_id, clock) for t in catalog.entity_types())
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


def _taken(store: Store) -> AlreadyExists:
    uri = store.location.uri
    return AlreadyExists(f"there is a graph at {uri} already: open it instead", uri=uri)
