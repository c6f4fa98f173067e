"""Whether a write stays in its scope: every row that it touches, before and after it.

The transaction asks a `WriteJudge` about every change set that it is about to stage, so also about
one that was built again after a lost race. A write that leaves its scope is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import default_column
from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, EntityType, generated_defaults
from omnigraph.errors import PolicyDenied
from omnigraph.ir.data_scope import DataScope, TypeScope
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.staging.written_fragments import written_dataset
from omnigraph.lance_store.store import Store
from omnigraph.manifest.changed_ids import Op
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.scoping.visible_rows import NO_IDS, TableRule, VisibleRows
from omnigraph.scoping.write_scopes import WriteScopes
from omnigraph.values.identifiers import TableKey, node_table
from omnigraph.writes.changeset import AdoptRows, ChangeSet, EditRows, Effect, ReplaceRows
from omnigraph.writes.row_compare import differing_values

_ROWS_AT_ONCE = 16 * 1024


def is_whole(scope: TypeScope) -> bool:
    """Whether a type is in scope with all properties and rows."""
    return not scope.hidden and scope.rows is None


@dataclass(frozen=True, slots=True)
class WriteJudge:
    """Refuses change sets that leave the scope of a writer."""

    store: Store
    scopes_of: Callable[[Snapshot], WriteScopes]
    refuse: Callable[[str | None], PolicyDenied]
    """The error about a type; None: about one that the writer may not name."""
    needs_whole: Callable[[str], bool] = lambda _: False
    """Whether the write may touch a type only if the whole type is in scope."""
    seen: frozenset[str] | None = None
    """The types that the writer sees whole, whose entities errors may show; None: all."""

    def __call__(self, snapshot: Snapshot, changes: ChangeSet) -> None:
        scopes = self.scopes_of(snapshot)
        if scopes.change is None:
            return
        work = _Judgement(self, snapshot, scopes.change, scopes, changes)
        for effect in changes.effects:
            work.judge(effect)

    def require_whole(self, snapshot: Snapshot, type_names: Iterable[str]) -> None:
        """Refuse a write that touches one of these types and may not change all of it."""
        scopes = self.scopes_of(snapshot)
        if scopes.change is None:
            return
        for name in type_names:
            scoped = scopes.change.types.get(name)
            if scoped is None or not is_whole(scoped):
                raise self.refusal(scopes, name)

    def require_seen(self, snapshot: Snapshot, type_names: Iterable[str]) -> None:
        """Refuse to tell about types that the writer does not see whole."""
        if self.seen is None:
            return
        for name in sorted({*type_names} - self.seen):
            raise self.refusal(self.scopes_of(snapshot), name)

    def refusal(self, scopes: WriteScopes, type_name: str) -> PolicyDenied:
        return self.refuse(type_name if scopes.may_name(type_name) else None)


class _Judgement:
    """One change set on one snapshot."""

    def __init__(
        self,
        judge: WriteJudge,
        snapshot: Snapshot,
        scope: DataScope,
        scopes: WriteScopes,
        changes: ChangeSet,
    ) -> None:
        self._judge = judge
        self._store = judge.store
        self._snapshot = snapshot
        self._scope = scope
        self._scopes = scopes
        self._visible = VisibleRows(judge.store, snapshot, _with_ends(scope, scopes.read, snapshot))
        self._effects = {effect.key: effect for effect in changes.effects}

    def judge(self, effect: Effect) -> None:
        if not isinstance(effect, EditRows | ReplaceRows | AdoptRows):
            return  # no row changes
        key = effect.key
        scoped = self._scope.types.get(key.type_name)
        if scoped is None or not self._visible.has_type(key):
            raise self._refusal(key.type_name)
        if is_whole(scoped) and self._visible.shows_all(key):
            return
        if isinstance(effect, ReplaceRows) or self._judge.needs_whole(key.type_name):
            raise self._refusal(key.type_name)
        entity = self._snapshot.catalog.entity_type(key)
        for ids in _gone(effect):
            self._judge_stored(key, ids)
        for rows in self._written(effect, scoped, entity):
            self._judge_stored(key, rows.column(ID).combine_chunks())
            self._judge_written(entity, rows)
            self._judge_properties(scoped, entity, rows)

    def _refusal(self, type_name: str) -> PolicyDenied:
        return self._judge.refusal(self._scopes, type_name)

    def _judge_stored(self, key: TableKey, ids: pa.Array) -> None:
        """The before images: stored rows with these ids are in scope."""
        dataset = self._store.open(self._snapshot.pin(key).at)
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            some = ids.slice(start, _ROWS_AT_ONCE)
            found = find_rows(dataset, some, [ID, *self._visible.rule(key).columns])
            if self._visible.keep(key, found).num_rows < found.num_rows:
                raise self._refusal(key.type_name)

    def _judge_written(self, entity: EntityType, rows: pa.Table) -> None:
        """The after images: the written rows, and the ends of edges as the write leaves them."""
        key = entity.table_key
        alone = TableRule(self._visible.rule(key).rows)
        if alone.keep(rows).num_rows < rows.num_rows:
            raise self._refusal(entity.name)
        if not isinstance(entity, EdgeType):
            return
        for column, name in ((SOURCE, entity.source), (TARGET, entity.target)):
            end = node_table(name)
            if self._visible.shows_all(end):
                continue
            wanted = pc.unique(rows.column(column).combine_chunks())
            others = wanted.filter(pc.invert(pc.is_in(wanted, value_set=self._written_ids(end))))
            if len(self._visible.among(end, others)) < len(others):
                raise self._refusal(entity.name)

    def _judge_properties(self, scoped: TypeScope, entity: EntityType, rows: pa.Table) -> None:
        """Hidden properties keep their values; new rows have the default or NULL in them."""
        hidden = [p.name for p in entity.properties if p.name in scoped.hidden]
        if not hidden:
            return
        dataset = self._store.open(self._snapshot.pin(entity.table_key).at)
        ids = rows.column(ID).combine_chunks()
        stored = find_rows(dataset, ids, [ID, *hidden])
        position = pc.index_in(ids, value_set=stored.column(ID).combine_chunks())
        known = position.is_valid()
        replaced, rewrites = stored.take(position.drop_null()), rows.filter(known)
        additions = rows.filter(pc.invert(known))
        generated = generated_defaults(entity)
        for name in hidden:
            if differing_values(replaced.column(name), rewrites.column(name)).any():
                raise self._refusal(entity.name)
            given = additions.column(name)
            if name in generated or given.null_count == len(given):
                continue  # the write makes the value, or has none
            default = default_column(entity, additions.schema.field(name), len(given))
            if differing_values(pa.chunked_array([default]), given).any():
                raise self._refusal(entity.name)

    def _written(
        self, effect: EditRows | ReplaceRows | AdoptRows, scoped: TypeScope, entity: EntityType
    ) -> Iterator[pa.Table]:
        """The columns to judge of every row that the effect writes, a batch at a time."""
        hidden = [p.name for p in entity.properties if p.name in scoped.hidden]
        ends = [SOURCE, TARGET] if isinstance(entity, EdgeType) else []
        rule = self._visible.rule(entity.table_key)
        columns = list(dict.fromkeys([ID, *rule.columns, *ends, *hidden]))
        if isinstance(effect, EditRows):
            for table in (effect.inserts, effect.upserts):
                if table is not None:
                    yield table.select(columns)
        elif isinstance(effect, AdoptRows) and effect.fragments:
            pin = self._snapshot.pin(effect.key)
            with written_dataset(self._store, pin.at, effect.fragments) as dataset:
                for batch in read_batches(dataset, columns):
                    yield pa.Table.from_batches([batch])

    def _written_ids(self, key: TableKey) -> pa.Array:
        """The ids of the nodes that the same write leaves in scope, because they are judged."""
        effect = self._effects.get(key)
        parts = [NO_IDS]
        if isinstance(effect, EditRows):
            for table in (effect.inserts, effect.upserts):
                parts += table.column(ID).chunks if table is not None else []
        elif isinstance(effect, AdoptRows):
            parts += effect.changes.batches(Op.INSERT, Op.UPDATE)
        return pa.concat_arrays([part.cast(pa.string()) for part in parts])


def _gone(effect: EditRows | ReplaceRows | AdoptRows) -> Iterator[pa.Array]:
    """The ids of rows that an effect deletes, and those that it changes without new rows."""
    if isinstance(effect, EditRows) and effect.deletes is not None:
        yield effect.deletes
    elif isinstance(effect, AdoptRows):
        yield from effect.changes.batches(Op.UPDATE, Op.DELETE)


def _with_ends(change: DataScope, read: DataScope | None, snapshot: Snapshot) -> DataScope:
    """The scope of changes, and the nodes that the writer sees: it may put edges between them."""
    nodes = snapshot.catalog.node_types
    seen = dict.fromkeys(nodes, TypeScope()) if read is None else read.types
    ends = {name: scoped for name, scoped in seen.items() if name in nodes}
    return DataScope(change.key, {**ends, **change.types})
