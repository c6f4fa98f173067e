"""Writes: each builds one change set and hands it to the one write path."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.catalog.identity import with_identities
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.changes.changeset import ChangeSet, SchemaChange
from omnigraph.changes.fill_embeddings import fill_edits
from omnigraph.changes.shape import Edit, shape_edits
from omnigraph.commit.request import CommitTerms, WriteReceipt, WriteRequest
from omnigraph.errors import InvalidArgument, NotFound, SchemaRefused, ValidationFailed
from omnigraph.graph.engine import Engine
from omnigraph.integrity.cascade import with_cascades
from omnigraph.integrity.validate import claims_of, validate_changes
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.clock import SYSTEM_CLOCK


def apply(
    engine: Engine, edits: Mapping[str, Edit | Mapping[str, object]], terms: CommitTerms
) -> WriteReceipt:
    typed = {name: _as_edit(name, edit) for name, edit in edits.items()}
    catalog, shaped = _shape(engine, terms.branch, typed)
    # Before the transaction: a provider may take seconds, and nobody has to wait for it.
    changes = fill_edits(catalog, shaped, engine.provider)

    def build(snapshot: Snapshot) -> ChangeSet:
        shaped = changes
        if snapshot.catalog is not catalog:
            again = shape_edits(snapshot.catalog, typed, SYSTEM_CLOCK.new_ulid)
            shaped = fill_edits(snapshot.catalog, again, engine.provider)
        complete = with_cascades(snapshot, engine.store, shaped)
        validate_changes(snapshot, engine.store, complete, cascaded=True)
        return complete

    claimed = claims_of(catalog, changes)
    only_adds = not any(len(edit.delete) for edit in typed.values())
    request = terms.request("apply", claimed.tables, claimed.reads, repreparable=only_adds)
    return engine.transaction.run(request, build)


def _shape(engine: Engine, branch: str, edits: Mapping[str, Edit]) -> tuple[Catalog, ChangeSet]:
    def shaped(catalog: Catalog) -> ChangeSet:
        return shape_edits(catalog, edits, SYSTEM_CLOCK.new_ulid)

    return engine.reader.by_known_schema(branch, shaped, (NotFound, ValidationFailed))


def extend_schema(engine: Engine, catalog: Catalog, branch: str, actor: str | None) -> WriteReceipt:
    """Accept a catalog that only adds types to the one in force."""

    def build(snapshot: Snapshot) -> ChangeSet:
        extended = with_identities(catalog)
        changed = [t.name for t in snapshot.catalog.entity_types() if not _has(extended, t)]
        if changed:
            raise SchemaRefused(
                f"this only adds types, but the new schema changes {', '.join(changed)}",
                types=changed,
            )
        added = tuple(t for t in extended.entity_types() if t.table_key not in snapshot.tables)
        if not added:
            return ChangeSet(())
        return ChangeSet((), schema=SchemaChange(extended, "", added))

    request = WriteRequest(
        branch=branch, operation="schema_apply", tables=(), actor_id=actor, changes_schema=True
    )
    return engine.transaction.run(request, build)


def _has(catalog: Catalog, entity: EntityType) -> bool:
    return any(entity == other for other in catalog.entity_types())


def _as_edit(type_name: str, edit: Edit | Mapping[str, object]) -> Edit:
    if isinstance(edit, Edit):
        return edit
    if not isinstance(edit, Mapping):
        raise InvalidArgument(f"{type_name}: expected an Edit or a dict of insert, upsert, delete")
    unknown = set(edit) - {"insert", "upsert", "delete"}
    if unknown:
        raise InvalidArgument(f"{type_name}: {sorted(unknown)} is none of insert, upsert, delete")
    return Edit(**edit)  # type: ignore[arg-type]
