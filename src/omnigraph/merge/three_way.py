"""Three-way merge of rows, property by property, a chunk of ids at a time; no I/O.

Every row, and every column of a row, is taken from one of the three sides, or the row is deleted.
Undisputed rows are chosen with masks over the whole chunk. Only conflicts that need a decision are
visited one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import ID, EntityType
from omnigraph.diff.entity_rows import IMAGE_NAMES, AlignedRows, images
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS
from omnigraph.merge.conflicts import Conflict, ConflictKind
from omnigraph.merge.decisions import Decisions, Side, Take, given_value
from omnigraph.values.blob_values import blob_value
from omnigraph.writes.changeset import Located
from omnigraph.writes.row_compare import Mask, differing_rows, differing_values

Disputed = Mapping[str, frozenset[str]]
"""Entity id -> columns about which merged ancestors disagreed; no side equals the base there."""

_OURS, _THEIRS, _BASE, _GONE = range(4)
_CODES = {Side.OURS: _OURS, Side.THEIRS: _THEIRS, Side.BASE: _BASE, Side.DELETE: _GONE}


@dataclass(frozen=True, slots=True)
class ThreeSides:
    """The rows of some ids on all three sides; row i of each side belongs to the i-th id."""

    entity: EntityType
    ids: pa.Array
    base: AlignedRows
    ours: AlignedRows
    theirs: AlignedRows
    disputed: Disputed = field(default_factory=dict)
    whole: bool = False
    """Every row is written, into a new table."""
    completes: bool = False
    """Every row is written, because ours lacks columns that the result has."""


@dataclass(frozen=True, slots=True)
class Forced:
    """Decisions about whole entities, made because the merged graph broke a rule."""

    takes: Mapping[str, Take] = field(default_factory=dict)
    keep_from: Mapping[str, Side] = field(default_factory=dict)
    """If the merge would delete the entity, it is taken from this side instead."""

    @property
    def ids(self) -> list[str]:
        return [*self.takes, *self.keep_from]


@dataclass(frozen=True, slots=True)
class MergedRows:
    """What the merge does to our rows."""

    written: pa.Table
    is_new: Mask
    """For each row of `written`: ours does not have it."""
    deleted: pa.Array
    conflicts: list[Conflict]
    disputed: Disputed
    located: Callable[[], Located]
    """Where the changed rows of ours are stored, if the lookup returned it; only a small merge
    asks, because it copies the rows."""
    replaced: pa.ChunkedArray | None
    """Addresses of our rows that are written again or deleted, if the lookup returned them."""


class _Choice:
    """Which side each row and each of its columns comes from."""

    def __init__(self, three: ThreeSides) -> None:
        count = len(three.ids)
        self.columns = [n for n in three.ours.rows.column_names if n != ID]
        self.row = np.zeros(count, dtype=np.int8)
        self.column = {n: np.zeros(count, dtype=np.int8) for n in self.columns}
        self.values: dict[str, dict[int, Any]] = {}

    def take(self, row: int, column: str | None, code: int) -> None:
        if column is None or code == _GONE:
            self.row[row] = code
        else:
            self.column[column][row] = code

    def give(self, three: ThreeSides, row: int, column: str | None, take: Take) -> None:
        value = take.value
        if column is None:
            if not isinstance(value, Mapping):
                raise InvalidArgument(
                    f"{three.entity.name} {three.ids[row].as_py()!r} as a whole is in conflict: "
                    "its value is an object of properties"
                )
            if not three.ours.present[row]:
                self.row[row] = _THEIRS if three.theirs.present[row] else _BASE
            given = {str(name): item for name, item in value.items()}
        else:
            given = {IMAGE_NAMES.get(column, column): value}
        for name, item in given.items():
            stored, typed = given_value(three.entity, name, item, take.external)
            self.values.setdefault(stored, {})[row] = typed


def merge_rows(three: ThreeSides, decisions: Decisions | None, forced: Forced) -> MergedRows:
    """Merge a chunk.

    Without `decisions` the result is an ancestor of another merge, and disagreements are kept as
    disputed columns.
    """
    choice = _Choice(three)
    found = _Disagreements(three, choice)
    decided = set() if decisions is None else _force(three, choice, forced)
    conflicts: list[Conflict] = []
    disputed: dict[str, frozenset[str]] = {}
    uniform = decisions.uniform if decisions is not None else None
    if decisions is None:
        disputed = found.leave_open()
    elif uniform is not None:
        found.settle_all(_CODES[uniform], decided)
    else:
        for row, column, conflict in found.conflicts():
            if row in decided:
                continue
            take = decisions.decide(conflict)
            if take is None:
                conflicts.append(conflict)
            else:
                _apply(three, choice, row, column, take)
    return _result(three, choice, forced, conflicts, disputed)


class _Disagreements:
    """Makes every undisputed choice, and holds the rest as masks."""

    def __init__(self, three: ThreeSides, choice: _Choice) -> None:
        self._three, self._choice = three, choice
        base, ours, theirs = three.base, three.ours, three.theirs
        in_all = base.present & ours.present & theirs.present
        count = len(three.ids)
        by_us, by_them, apart = (np.zeros(count, dtype=bool) for _ in range(3))
        self.updates: dict[str, Mask] = {}
        for name in choice.columns:
            open_question = _disputed_rows(three, name)
            we = differing_values(base.rows[name], ours.rows[name]) | open_question
            they = differing_values(base.rows[name], theirs.rows[name]) | open_question
            unequal = differing_values(ours.rows[name], theirs.rows[name])
            choice.column[name][in_all & they & ~we] = _THEIRS
            self.updates[name] = in_all & we & they & unequal
            by_us, by_them, apart = by_us | we, by_them | they, apart | unequal
        self.inserts = ~base.present & ours.present & theirs.present & apart
        gone_there = base.present & ours.present & ~theirs.present
        gone_here = base.present & ~ours.present & theirs.present
        self.deletes = (gone_there & by_us) | (gone_here & by_them)
        choice.row[~base.present & ~ours.present & theirs.present] = _THEIRS
        choice.row[gone_there & ~by_us] = _GONE

    def conflicts(self) -> Iterator[tuple[int, str | None, Conflict]]:
        """(row, column, conflict) in the order of ids, then of columns."""
        by_row = self.inserts | self.deletes
        for mask in self.updates.values():
            by_row = by_row | mask
        for row in np.flatnonzero(by_row).tolist():
            if self.inserts[row]:
                yield row, None, self._conflict(row, ConflictKind.DIVERGENT_INSERT)
            elif self.deletes[row]:
                yield row, None, self._conflict(row, ConflictKind.DELETE_VS_UPDATE)
            for name, mask in self.updates.items():
                if mask[row]:
                    yield row, name, self._property_conflict(row, name)

    def settle_all(self, code: int, decided: set[int]) -> None:
        free = np.ones(len(self._three.ids), dtype=bool)
        free[list(decided)] = False
        for name, mask in self.updates.items():
            self._choice.column[name][mask & free] = code
        self._choice.row[(self.inserts | self.deletes) & free] = code

    def leave_open(self) -> dict[str, frozenset[str]]:
        """Entity id -> disputed columns; the value that stays in them decides nothing."""
        three, columns = self._three, frozenset(self._choice.columns)
        names: dict[int, frozenset[str]] = {}
        for row in np.flatnonzero(self.inserts | self.deletes).tolist():
            names[row] = columns
            if not three.ours.present[row]:
                self._choice.row[row] = _THEIRS
        for name, mask in self.updates.items():
            for row in np.flatnonzero(mask).tolist():
                names[row] = names.get(row, frozenset()) | {name}
        return {three.ids[row].as_py(): changed for row, changed in names.items()}

    def _conflict(self, row: int, kind: ConflictKind) -> Conflict:
        """About a whole entity."""
        three = self._three
        base, ours, theirs = (_image(side, row) for side in (three.base, three.ours, three.theirs))
        if kind is ConflictKind.DIVERGENT_INSERT:
            message = "both sides added it, with different values"
        elif ours is None:
            message = "deleted in the target, changed in the source"
        else:
            message = "changed in the target, deleted in the source"
        return self._about(row, kind, message, None, base, ours, theirs)

    def _property_conflict(self, row: int, column: str) -> Conflict:
        three = self._three
        base, ours, theirs = (
            _value(side.rows[column][row]) for side in (three.base, three.ours, three.theirs)
        )
        name = IMAGE_NAMES.get(column, column)
        message = f"{name}: {base!r} became {ours!r} in the target and {theirs!r} in the source"
        return self._about(row, ConflictKind.DIVERGENT_UPDATE, message, name, base, ours, theirs)

    def _about(
        self,
        row: int,
        kind: ConflictKind,
        message: str,
        name: str | None,
        base: Any,
        ours: Any,
        theirs: Any,
    ) -> Conflict:
        key, entity_id = self._three.entity.table_key, self._three.ids[row].as_py()
        text = f"{key.type_name} {entity_id!r}: {message}"
        return Conflict(
            key.kind.value, key.type_name, entity_id, kind.value, text, name, base, ours, theirs
        )


def _force(three: ThreeSides, choice: _Choice, forced: Forced) -> set[int]:
    decided = set()
    if forced.takes:
        for row, entity_id in enumerate(three.ids.to_pylist()):
            take = forced.takes.get(entity_id)
            if take is None:
                continue
            if take.side is not Side.VALUE:  # values leave the rest of the entity as it is merged
                for name in choice.columns:
                    choice.column[name][row] = _OURS
                choice.row[row] = _OURS
                decided.add(row)
            _apply(three, choice, row, None, take)
    return decided


def _apply(three: ThreeSides, choice: _Choice, row: int, column: str | None, take: Take) -> None:
    if take.side is Side.VALUE:
        choice.give(three, row, column, take)
    else:
        choice.take(row, column, _CODES[take.side])


def _result(
    three: ThreeSides,
    choice: _Choice,
    forced: Forced,
    conflicts: list[Conflict],
    disputed: Disputed,
) -> MergedRows:
    ours = three.ours
    present = _present(three, choice.row)
    for row, entity_id in enumerate(three.ids.to_pylist()) if forced.keep_from else ():
        side = forced.keep_from.get(entity_id)
        if side is not None and not present[row]:
            choice.row[row] = _CODES[side]
            present = _present(three, choice.row)
    schema = table_schema(three.entity)
    arrays = [three.ids] + [_pick(three, choice, f) for f in schema if f.name != ID]
    merged = pa.table(arrays, schema=schema)
    known = [n for n in schema.names if n in ours.rows.column_names]
    differs = differing_rows(ours.rows.select(known), merged.select(known))
    every = three.whole or three.completes
    written = present if every else present & (~ours.present | differs)
    deleted = ours.present & ~present & (not three.whole)
    return MergedRows(
        written=merged.filter(pa.array(written)),
        is_new=~ours.present[written] | three.whole,
        deleted=three.ids.filter(pa.array(deleted)),
        conflicts=conflicts,
        disputed=disputed,
        located=partial(_located, three, written, deleted),
        replaced=_replaced(three, written | deleted),
    )


def _located(three: ThreeSides, written: Mask, deleted: Mask) -> Located:
    ours = three.ours
    if ours.places is None:
        return Located()
    found = ours.rows
    for name in ours.places.column_names:
        found = found.append_column(name, ours.places.column(name))
    return Located(
        upserted=found.filter(pa.array(written & ours.present)),
        deleted=found.select([ID, *ours.places.column_names]).filter(pa.array(deleted)),
        absent=three.ids.filter(pa.array(written & ~ours.present)),
    )


def _replaced(three: ThreeSides, changed: Mask) -> pa.ChunkedArray | None:
    places = three.ours.places
    if places is None:
        return None
    return places.column(ROW_ADDRESS).filter(pa.array(changed & three.ours.present))


def _pick(three: ThreeSides, choice: _Choice, column: pa.Field) -> pa.ChunkedArray:
    count = len(three.ids)
    sides = [side.rows[column.name] for side in (three.ours, three.theirs, three.base)]
    codes = np.where(choice.row > 0, choice.row, choice.column[column.name]).astype(np.int64)
    codes[codes == _GONE] = _OURS
    if (codes == codes[0]).all():
        picked = sides[codes[0]]
    else:
        stacked = pa.chunked_array([chunk for side in sides for chunk in side.chunks], column.type)
        picked = stacked.take(pa.array(codes * count + np.arange(count)))
    given = choice.values.get(column.name)
    if given:
        values = picked.to_pylist()
        for row, value in given.items():
            values[row] = value
        picked = pa.chunked_array([pa.array(values, column.type)])
    return picked


def _present(three: ThreeSides, codes: npt.NDArray[np.int8]) -> Mask:
    nowhere = np.zeros(len(three.ids), dtype=bool)
    sides = [three.ours.present, three.theirs.present, three.base.present, nowhere]
    return np.asarray(np.choose(codes, sides), dtype=bool)


def _disputed_rows(three: ThreeSides, column: str) -> Mask:
    if not three.disputed:
        return np.zeros(len(three.ids), dtype=bool)
    return np.array(
        [column in three.disputed.get(i, ()) for i in three.ids.to_pylist()], dtype=bool
    )


def _value(cell: pa.Scalar) -> Any:
    """A value as users see it: a blob may be the URI of an external one."""
    value = cell.as_py()
    return blob_value(value) if isinstance(value, bytes) else value


def _image(side: AlignedRows, row: int) -> dict[str, Any] | None:
    return images(side.rows.slice(row, 1))[0] if side.present[row] else None
