"""`Graph.apply`: edits of several types, made into one change set and one commit."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.catalog.model import Catalog
from omnigraph.commit.request import Claims, CommitTerms, WriteReceipt
from omnigraph.embed.provider import EmbeddingProvider
from omnigraph.errors import InvalidArgument, NotFound, ValidationFailed
from omnigraph.graph.engine import Engine
from omnigraph.integrity.cascade import with_cascades
from omnigraph.integrity.edge_identity import keep_defaults, match_upserts
from omnigraph.integrity.validate import claims_of, validate_changes
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.scoping.write_scopes import WriterView
from omnigraph.values.clock import SYSTEM_CLOCK
from omnigraph.values.external_blobs import ExternalBases
from omnigraph.writes.changeset import ChangeSet
from omnigraph.writes.derived import fill_edits
from omnigraph.writes.shape import Edit, shape_edits


def apply_edits(
    engine: Engine,
    edits: Mapping[str, Edit | Mapping[str, object]],
    terms: CommitTerms,
    view: WriterView | None = None,
) -> WriteReceipt:
    """One commit; `view` says what the edits may name, None everything."""
    typed = {name: _as_edit(name, edit) for name, edit in edits.items()}
    shaped = _ShapedEdits(typed, view, engine.external)
    known, _ = engine.reader.by_known_schema(terms.branch, shaped.by, (NotFound, ValidationFailed))
    # Before the transaction, because a provider may take seconds and other writers would wait.
    shaped.filled(known, engine.provider)

    def build(snapshot: Snapshot) -> ChangeSet:
        changes = shaped.filled(snapshot.catalog, engine.provider)
        changes = match_upserts(snapshot, engine.store, changes)
        changes = keep_defaults(snapshot, engine.store, changes)
        complete = with_cascades(snapshot, engine.store, changes)
        validate_changes(snapshot, engine.store, complete, cascaded=True)
        return complete

    request = terms.request(
        "apply",
        shaped.claims(known),
        repreparable=not any(len(edit.delete) for edit in typed.values()),
        claims_by=shaped.claims,
        small=shaped.by(known).is_small(engine.settings.history.inline_ids),
    )
    return engine.transaction.run(request, build)


def _as_edit(type_name: str, edit: Edit | Mapping[str, object]) -> Edit:
    if isinstance(edit, Edit):
        return edit
    if not isinstance(edit, Mapping):
        raise InvalidArgument(f"{type_name}: expected an Edit or a dict of insert, upsert, delete")
    unknown = set(edit) - {"insert", "upsert", "delete"}
    if unknown:
        raise InvalidArgument(f"{type_name}: {sorted(unknown)} is none of insert, upsert, delete")
    return Edit(**edit)  # type: ignore[arg-type]


class _ShapedEdits:
    """Edits as changes under a schema; the result for the last schema is kept.

    A transaction asks several times, and the schema seldom changes in between.
    """

    def __init__(
        self, edits: Mapping[str, Edit], view: WriterView | None, external: ExternalBases
    ) -> None:
        self._edits = edits
        self._view = view
        self._external = external
        self._now_millis = SYSTEM_CLOCK.now_micros() // 1000
        self._shaped: tuple[Catalog, ChangeSet] | None = None
        self._filled: tuple[Catalog, ChangeSet] | None = None

    def by(self, catalog: Catalog) -> ChangeSet:
        if self._shaped is None or self._shaped[0] is not catalog:
            named = catalog if self._view is None else self._view.named(catalog)
            if named is not catalog:  # what is hidden must look as if it did not exist
                self._under(named)
            self._shaped = catalog, self._under(catalog)
        return self._shaped[1]

    def _under(self, catalog: Catalog) -> ChangeSet:
        new_id, now = SYSTEM_CLOCK.new_ulid, self._now_millis
        return shape_edits(catalog, self._edits, new_id, now, self._external)

    def filled(self, catalog: Catalog, provider: EmbeddingProvider) -> ChangeSet:
        """With the vectors that the provider makes of the texts."""
        if self._filled is None or self._filled[0] is not catalog:
            self._filled = catalog, fill_edits(catalog, self.by(catalog), provider)
        return self._filled[1]

    def claims(self, catalog: Catalog) -> Claims:
        return claims_of(catalog, self.by(catalog))
