"""Rows of three sides whose properties have different types, brought to the merged types.

A side that only changed the type of a property did not change its values. So values are compared
with the base in the type of the side, and an unchanged value is the value of the base.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EntityType, Property
from omnigraph.diff.entity_rows import AlignedRows
from omnigraph.errors import SchemaRefused
from omnigraph.evolve.conversion import ConvertedValues, convert
from omnigraph.schema.evolve import has_other_storage
from omnigraph.values.arrow_types import arrow_type
from omnigraph.values.scalars import ValueType, VectorType
from omnigraph.writes.row_compare import Mask, differing_values

Three = tuple[AlignedRows, AlignedRows, AlignedRows]
_SIDES = ("ancestor", "target", "source")


def own_types(schema: pa.Schema, merged: EntityType, side: EntityType | None) -> pa.Schema:
    """The columns of `schema` in the types in which a side stores them."""
    if side is None or side.properties == merged.properties:
        return schema
    stored = table_schema(side)
    own = {p.name for p in _other_types(merged, side)}
    return pa.schema(
        [stored.field(f.name).with_nullable(True) if f.name in own else f for f in schema]
    )


def in_one_type(
    merged: EntityType,
    ids: pa.Array,
    declared: tuple[EntityType | None, ...],
    sides: Three,
) -> Three:
    """The rows of base, ours and theirs in the types of `merged`; `declared` are their types."""
    names = {p.name for d in declared if d is not None for p in _other_types(merged, d)}
    if not names:
        return sides
    base, ours, theirs = sides
    for prop in merged.properties:
        if prop.name in names:
            kinds = [_type_of(d, prop.name) for d in declared]
            converted = _ConvertedProperty(merged, prop, ids, kinds, (base, ours, theirs))
            base, ours, theirs = converted.base(), converted.side(1), converted.side(2)
    return base, ours, theirs


def _other_types(merged: EntityType, side: EntityType) -> list[Property]:
    """Properties of the result that a side stores in another type."""
    known = {p.name: p.type for p in side.properties}
    return [
        p for p in merged.properties if p.name in known and has_other_storage(known[p.name], p.type)
    ]


def _type_of(declared: EntityType | None, name: str) -> ValueType | None:
    found = declared.properties if declared is not None else ()
    return next((p.type for p in found if p.name == name), None)


class _ConvertedProperty:
    """One property of three sides."""

    def __init__(
        self,
        merged: EntityType,
        prop: Property,
        ids: pa.Array,
        kinds: list[ValueType | None],
        sides: Three,
    ) -> None:
        self._merged, self._prop, self._ids = merged, prop, ids
        self._kinds, self._sides = kinds, sides
        self._type = table_schema(merged).field(prop.name).type

    def base(self) -> AlignedRows:
        return self._with(self._sides[0], self._to_merged(0).values)

    def side(self, place: int) -> AlignedRows:
        """Ours (1) or theirs (2)."""
        rows, kind, before = self._sides[place], self._kinds[place], self._kinds[0]
        if rows is self._sides[0]:
            return self.base()
        converted = self._to_merged(place)
        if kind is None or not has_other_storage(kind, self._prop.type):
            return self._with(rows, converted.values)
        base, other = self._sides[0], self._sides[3 - place]
        changed = np.ones(len(self._ids), dtype=bool)
        values = converted.values
        if before is not None:
            was = _convert(self._column(0), before, kind).values
            changed = differing_values(_chunked(was), self._column(place)) | ~base.present
            values = pc.if_else(pa.array(changed), values, self._to_merged(0).values)
        # A value that did not change has become what the other side made of it, if it has the row.
        lost = converted.failed & rows.present & (changed | ~other.present)
        self._refuse(lost & (changed | self._row_changed(place)), place)
        return self._with(rows, values)

    def _row_changed(self, place: int) -> Mask:
        """Rows whose other properties a side changed."""
        base, rows = self._sides[0].rows, self._sides[place].rows
        found = np.zeros(len(self._ids), dtype=bool)
        for name in rows.column_names:
            if name != self._prop.name and rows.schema.field(name) == base.schema.field(name):
                found = found | differing_values(base[name], rows[name])
        return found

    def _refuse(self, lost: Mask, place: int) -> None:
        if not lost.any():
            return
        first = int(np.flatnonzero(lost)[0])
        value, more = self._column(place)[first].as_py(), int(lost.sum()) - 1
        entity_id, name = self._ids[first].as_py(), f"{self._merged.name}.{self._prop.name}"
        rest = f" and of {more} more" if more else ""
        raise SchemaRefused(
            f"{name} is {self._prop.type} after the merge, and the value {value!r} of {entity_id!r}"
            f"{rest} in the {_SIDES[place]} does not convert to it: change the value or the type "
            "there, then merge",
            types=[self._merged.name],
            step=name,
            reason=f"{value!r} does not convert to {self._prop.type}",
        )

    def _column(self, place: int) -> pa.ChunkedArray:
        return self._sides[place].rows[self._prop.name]

    def _to_merged(self, place: int) -> ConvertedValues:
        kind = self._kinds[place]
        if kind is None or not has_other_storage(kind, self._prop.type):
            return ConvertedValues(self._column(place), np.zeros(len(self._ids), dtype=bool))
        return _convert(self._column(place), kind, self._prop.type)

    def _with(self, rows: AlignedRows, values: pa.Array | pa.ChunkedArray) -> AlignedRows:
        place = rows.rows.schema.get_field_index(self._prop.name)
        column = pa.field(self._prop.name, self._type)
        table = rows.rows.set_column(place, column, _chunked(values).cast(self._type))
        return replace(rows, rows=table)


def _convert(values: pa.ChunkedArray, before: ValueType, after: ValueType) -> ConvertedValues:
    if isinstance(before, VectorType) or isinstance(after, VectorType):
        # Vectors of another width are made anew; their loss was decided with the schemas.
        nothing = np.zeros(len(values), dtype=bool)
        return ConvertedValues(pa.nulls(len(values), arrow_type(after)), nothing)
    return convert(values.combine_chunks(), before, after)


def _chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
