"""Which stored edge an upserted or merged edge without an id means.

An edge type with a key derives the id. Without a key, the first `@unique` that contains both ends
and has no NULL in this edge decides. Without such a tuple the content decides: the graph then has
each edge at least as often as the input. So writing the same edges again changes nothing.

`match_upserts` does this for edits in memory, `load.match_edges` for loads of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, Unique, embedding_of
from omnigraph.lance_store.reads.row_lookup import find_candidates, find_rows
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.conditions import LONGEST_LIST
from omnigraph.writes.changeset import ChangeSet, EditRows
from omnigraph.writes.kept_defaults import Marks, keep_stored


def identifying_tuples(edge: EdgeType) -> tuple[tuple[str, ...], ...]:
    """The columns of each `@unique` that contains both ends, in the order of declaration."""
    unique = (c.properties for c in edge.constraints if isinstance(c, Unique))
    return tuple(columns for columns in unique if {SOURCE, TARGET} <= {*columns})


def content_columns(edge: EdgeType) -> tuple[str, ...]:
    """The columns that make two edges the same; a vector made of a text says no more than it."""
    own = (p.name for p in edge.properties if embedding_of(p) is None)
    return (SOURCE, TARGET, *own)


def has_made_vectors(edge: EdgeType) -> bool:
    return any(embedding_of(p) is not None for p in edge.properties)


def match_upserts(snapshot: Snapshot, store: Store, changes: ChangeSet) -> ChangeSet:
    """The change set in which upserted edges with a made id have the id of the edge they mean.

    `Located.absent` names the ids that were made. An edge that equals a stored one is left out.
    """
    effects = (
        _matched(snapshot, store, effect)
        if isinstance(effect, EditRows) and effect.located.absent is not None
        else effect
        for effect in changes.effects
    )
    return replace(changes, effects=tuple(e for e in effects if e is not None))


def keep_defaults(snapshot: Snapshot, store: Store, changes: ChangeSet) -> ChangeSet:
    """The change set in which upserted rows keep the stored values of generated defaults."""
    return replace(
        changes,
        effects=tuple(
            _with_kept(snapshot, store, effect)
            if isinstance(effect, EditRows) and effect.marks and effect.upserts is not None
            else effect
            for effect in changes.effects
        ),
    )


def _with_kept(snapshot: Snapshot, store: Store, effect: EditRows) -> EditRows:
    pin = snapshot.pin(effect.key)
    if effect.upserts is None or pin.row_count == 0:
        return effect
    rows = effect.upserts
    rows, _ = keep_stored(store.open(pin.at), rows, rows.column(ID), effect.marks)
    return replace(effect, upserts=rows, marks={})


def _matched(snapshot: Snapshot, store: Store, effect: EditRows) -> EditRows | None:
    edge = snapshot.catalog.entity_type(effect.key)
    pin = snapshot.pin(effect.key)
    if effect.upserts is None or not isinstance(edge, EdgeType) or pin.row_count == 0:
        return effect
    stored = _stored_between(store.open(pin.at), effect.upserts)
    stored = stored.filter(pc.invert(pc.is_in(stored.column(ID), value_set=_other_ids(effect))))
    meant = _with_stored_ids(edge, effect, stored)
    if meant.rows.num_rows == 0 and effect.inserts is None and effect.deletes is None:
        return None
    located = replace(effect.located, absent=meant.made)
    upserts = meant.rows if meant.rows.num_rows else None
    return replace(effect, upserts=upserts, located=located, marks=meant.marks)


def _stored_between(dataset: Dataset, rows: pa.Table) -> pa.Table:
    """Stored edges that may have the ends of one of these rows."""
    ends = {name: pc.unique(rows.column(name)) for name in (SOURCE, TARGET)}
    if any(len(values) > LONGEST_LIST for values in ends.values()):
        found = find_rows(dataset, ends[SOURCE], rows.column_names, key=SOURCE)
        return found.select(rows.column_names)
    return find_candidates(dataset, ends, rows.column_names)


def _other_ids(effect: EditRows) -> pa.Array:
    """Ids that the edit itself inserts or deletes; such an edge is not meant by another row."""
    parts = [pa.array([], pa.string())]
    if effect.inserts is not None:
        parts += effect.inserts.column(ID).chunks
    if effect.deletes is not None:
        parts.append(effect.deletes.cast(pa.string()))
    return pa.concat_arrays(parts)


def _with_stored_ids(edge: EdgeType, effect: EditRows, stored: pa.Table) -> _MeantEdges:
    rows, marks = effect.upserts, effect.marks
    assert rows is not None
    known = _KnownEdges(edge, stored)
    ids: list[str | None] = []
    still_made: list[str] = []
    is_made = pc.is_in(rows.column(ID), value_set=effect.located.absent).to_pylist()
    left_out = _left_out(marks, rows.num_rows)
    for own, row, names in zip(is_made, hashable_rows(rows), left_out, strict=True):
        found = known.take(row, names) if own else None
        if found is None:
            ids.append(row[ID])
            still_made += [row[ID]] if own else []
        else:
            ids.append(found.id if found.may_differ else None)
    position = rows.schema.get_field_index(ID)
    written = pa.array(ids, pa.string())
    kept = rows.filter(written.is_valid())
    kept = kept.set_column(position, rows.schema.field(position), written.drop_null())
    left = {name: mark.filter(written.is_valid()) for name, mark in marks.items()}
    return _MeantEdges(kept, pa.array(still_made, pa.string()), left)


def _left_out(marks: Marks, rows: int) -> Iterator[frozenset[str]]:
    """The generated properties that each row leaves out."""
    columns = [mark.to_pylist() for mark in marks.values()]
    if not columns:
        return repeat(frozenset(), rows)
    return (frozenset(compress(marks, row)) for row in zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class _MeantEdges:
    """The rows that may change something, the made ids that they still have, and their marks."""

    rows: pa.Table
    made: pa.Array
    marks: Marks


@dataclass(frozen=True, slots=True)
class _FoundEdge:
    id: str
    may_differ: bool


class _KnownEdges:
    """Stored edges by what identifies them; each is found once."""

    def __init__(self, edge: EdgeType, stored: pa.Table) -> None:
        self._tuples = identifying_tuples(edge)
        self._content = content_columns(edge)
        self._content_may_differ = has_made_vectors(edge)
        self._by_tuple: dict[tuple[Any, ...], str] = {}
        self._by_content: dict[frozenset[str], dict[tuple[Any, ...], list[str]]] = {}
        self._taken: set[str] = set()
        self._rows = list(hashable_rows(stored.sort_by(ID)))
        for row in self._rows:
            for number, columns in enumerate(self._tuples):
                self._by_tuple[number, *(row[name] for name in columns)] = row[ID]

    def take(self, row: dict[str, Any], left_out: frozenset[str]) -> _FoundEdge | None:
        """A property that the row leaves out tells nothing about it if its default was made."""
        for number, columns in enumerate(self._tuples):
            values = [None if name in left_out else row[name] for name in columns]
            if None not in values:
                return self._free([self._by_tuple.get((number, *values))], may_differ=True)
        content = tuple(row[name] for name in self._content if name not in left_out)
        same = self._edges_by_content(left_out).get(content, [])
        return self._free(same, may_differ=self._content_may_differ)

    def _edges_by_content(self, left_out: frozenset[str]) -> dict[tuple[Any, ...], list[str]]:
        known = self._by_content.get(left_out)
        if known is None:
            known = self._by_content[left_out] = {}
            for row in self._rows:
                content = tuple(row[name] for name in self._content if name not in left_out)
                known.setdefault(content, []).append(row[ID])
        return known

    def _free(self, ids: Sequence[str | None], *, may_differ: bool) -> _FoundEdge | None:
        """The first of these edges that no row has taken yet."""
        for identity in ids:
            if identity is not None and identity not in self._taken:
                self._taken.add(identity)
                return _FoundEdge(identity, may_differ)
        return None


def hashable_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows as values that can be keys; days and moments are numbers, because any may occur here."""
    columns = [_hashable(rows.column(name)) for name in rows.column_names]
    for values in zip(*columns, strict=True):
        yield dict(zip(rows.column_names, values, strict=True))


def _hashable(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    item = kind.value_type if pa.types.is_list(kind) else kind
    numbers = pa.int32() if pa.types.is_date(item) else pa.int64()
    if pa.types.is_temporal(item):
        column = column.cast(pa.list_(numbers) if pa.types.is_list(kind) else numbers)
    values: list[Any] = column.to_pylist()
    if not pa.types.is_nested(kind):
        return values
    return [None if value is None else tuple(value) for value in values]
