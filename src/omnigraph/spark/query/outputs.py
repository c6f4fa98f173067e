"""Results in the Arrow types the local engine gives."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, spelled
from omnigraph.execute.evaluation.value_arrays import as_arrow_type
from omnigraph.ir import expressions as ex
from omnigraph.spark.query.needed_columns import shown_columns
from omnigraph.spark.query.rows import SparkRows
from omnigraph.values.arrow_types import arrow_type


def output_type(expression: ex.Expression, rows: SparkRows, catalog: Catalog) -> pa.DataType:
    match expression:
        case ex.ColumnRef(name):
            return rows.outputs[name].arrow
        case ex.AggregateCall("collect", operand):
            assert operand is not None
            return pa.list_(as_arrow_type(operand.type))
        case ex.Whole(_, ex.EntityType() as kind):
            return _entity_type(kind, catalog)
        case _:
            return as_arrow_type(expression.type)


def as_output(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as Spark gives it, in the type of the result."""
    if pa.types.is_null(kind):
        return pa.nulls(len(column))
    if pa.types.is_struct(kind):
        return _entities(column, kind)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp(kind.unit, "UTC")).cast(kind)
    return column.cast(kind)


def _entity_type(kind: ex.EntityType, catalog: Catalog) -> pa.DataType:
    return pa.struct(
        [
            (spelled(name), _stored_type(kind, name, catalog))
            for name in shown_columns(kind, catalog)
        ]
    )


def _stored_type(kind: ex.EntityType, name: str, catalog: Catalog) -> pa.DataType:
    for type_name in kind.types:
        for declared in catalog.resolve(type_name).properties:
            if declared.name == name:
                return arrow_type(declared.type)
    return pa.string()


def _entities(column: pa.StructArray, kind: pa.DataType) -> pa.Array:
    """`id` and the properties; the type between them served to tell entities apart."""
    id_column, _, *rest = column.flatten()
    fields = [as_output(c, f.type) for c, f in zip((id_column, *rest), kind, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pc.is_null(column))
