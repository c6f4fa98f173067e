"""Write what a new schema needs before anything can name it: its text, its tables."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.commit.staging import record_first_rows
from omnigraph.commit.table_creation import create_table
from omnigraph.manifest.publication import Publication
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import BranchRef
from omnigraph.settings.models import HistorySettings
from omnigraph.values.clock import Clock
from omnigraph.writes.changeset import ChangeSet
from omnigraph.writes.effects import ReplaceRows


def accept_schema(
    reader: ManifestReader,
    changes: ChangeSet,
    owner: tuple[BranchRef, str],
    publication: Publication,
    settings: HistorySettings,
    clock: Clock,
) -> Publication:
    """The publication that also accepts `changes.schema`; `owner` is branch and commit id."""
    change, draft = changes.schema, publication.commit
    assert change is not None
    assert draft is not None
    store = reader.store
    rows = {e.key: e.rows for e in changes.effects if isinstance(e, ReplaceRows)}
    schema_id = clock.new_ulid()
    reader.schemas.write(schema_id, change.catalog, change.source)
    created = tuple(
        create_table(store, entity, *owner, clock, rows.get(entity.table_key))
        for entity in change.added
    )
    first = tuple(
        record_first_rows(pin.key, rows[pin.key], store, settings, clock)
        for pin in created
        if pin.row_count
    )
    draft = replace(draft, changes=(*draft.changes, *first))
    return replace(
        publication,
        commit=draft,
        schema_id=schema_id,
        created=created,
        dropped=change.replaced,
    )
