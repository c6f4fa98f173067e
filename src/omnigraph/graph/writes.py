"""Writes: each builds one change set and hands it to the one write path."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.catalog.identity import with_identities
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.commit.request import Claims, CommitTerms, WriteReceipt, WriteRequest
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument, NotFound, SchemaRefused, ValidationFailed
from omnigraph.graph.engine import Engine
from omnigraph.graph.schema_source import SchemaSource, read_schema
from omnigraph.integrity.cascade import with_cascades
from omnigraph.integrity.validate import claims_of, validate_changes
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.writes.changeset import ChangeSet, SchemaChange
from omnigraph.writes.derived import fill_edits
from omnigraph.writes.shape import Edit, shape_edits


def apply(
    engine: Engine, edits: Mapping[str, Edit | Mapping[str, object]], terms: CommitTerms
) -> WriteReceipt:
    typed = {name: _as_edit(name, edit) for name, edit in edits.items()}
    shaped = _ShapedEdits(typed)
    known, _ = engine.reader.by_known_schema(terms.branch, shaped.by, (NotFound, ValidationFailed))
    # Before the transaction: a provider may take seconds, and nobody has to wait for it.
    shaped.filled(known, engine.provider)

    def build(snapshot: Snapshot) -> ChangeSet:
        changes = shaped.filled(snapshot.catalog, engine.provider)
        complete = with_cascades(snapshot, engine.store, changes)
        validate_changes(snapshot, engine.store, complete, cascaded=True)
        return complete

    request = terms.request(
        "apply",
        shaped.claims(known),
        repreparable=not any(len(edit.delete) for edit in typed.values()),
        claims_by=shaped.claims,
    )
    return engine.transaction.run(request, build)


class _ShapedEdits:
    """Edits as changes of the schema they were last asked for: it seldom changes in between."""

    def __init__(self, edits: Mapping[str, Edit]) -> None:
        self._edits = edits
        self._shaped: tuple[Catalog, ChangeSet] | None = None
        self._filled: tuple[Catalog, ChangeSet] | None = None

    def by(self, catalog: Catalog) -> ChangeSet:
        if self._shaped is None or self._shaped[0] is not catalog:
            changes = shape_edits(catalog, self._edits, SYSTEM_CLOCK.new_ulid)
            self._shaped = catalog, changes
        return self._shaped[1]

    def filled(self, catalog: Catalog, provider: EmbeddingProvider) -> ChangeSet:
        """With the vectors that the provider makes of its texts."""
        if self._filled is None or self._filled[0] is not catalog:
            self._filled = catalog, fill_edits(catalog, self.by(catalog), provider)
        return self._filled[1]

    def claims(self, catalog: Catalog) -> Claims:
        return claims_of(catalog, self.by(catalog))


def extend_schema(
    engine: Engine, schema: SchemaSource, branch: str, actor: str | None
) -> WriteReceipt:
    """Accept a schema that only adds types to the one in force."""
    catalog, text = read_schema(schema)

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
        return ChangeSet((), schema=SchemaChange(extended, text, added))

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
