from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.schema.build import catalog_from_text
from omnigraph.spark.column_types import spark_arrow_schema, spark_schema, to_spark_batches

SCHEMA = """
node Everything {
  name: String @key
  flag: Bool?  small: I32?  big: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
  day: Date?  moment: DateTime?  mood: enum(good, bad)?  words: [String]?  huge: [U64]?
  place: Vector(3)?  photo: Blob?
}
edge Likes: Everything -> Everything { since: Date }
"""
CATALOG = catalog_from_text(SCHEMA)


def test_every_type_has_its_spark_type() -> None:
    found = spark_schema(CATALOG.resolve("Everything")).simpleString()
    assert found == (
        "struct<id:string,name:string,flag:boolean,small:int,big:bigint,u32:bigint,"
        "u64:decimal(20,0),f32:float,f64:double,day:date,moment:timestamp,mood:string,"
        "words:array<string>,huge:array<decimal(20,0)>,place:array<float>,photo:binary>"
    )


def test_required_columns_are_not_nullable() -> None:
    fields = {f.name: f.nullable for f in spark_schema(CATALOG.resolve("Likes")).fields}
    assert fields == {"id": False, "src": False, "dst": False, "since": False}


EXTREMES: dict[str, list[Any]] = {
    "flag": [True, False, None],
    "small": [-(2**31), 2**31 - 1, None],
    "big": [-(2**63), 2**63 - 1, None],
    "u32": [0, 2**32 - 1, None],
    "u64": [0, 2**64 - 1, None],
    "f32": [-3.4028234663852886e38, 1.401298464324817e-45, None],
    "f64": [-1.7976931348623157e308, 5e-324, None],
    "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    "moment": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999000), None],
    "mood": ["good", "bad", None],
    "words": [[], ["", "\x00", "ü" * 1000], None],
    "huge": [[2**64 - 1, 0], [], None],
    "place": [[1.0, -0.0, 3.4028234663852886e38], [0.0, 0.0, 0.0], None],
    "photo": [b"", b"\x00\xff" * 100, None],
}


@pytest.mark.parametrize("column", EXTREMES)
def test_extreme_values_survive_on_the_way_to_spark(column: str) -> None:
    entity = CATALOG.resolve("Everything")
    stored = table_schema(entity).field(column)
    table = pa.table({column: pa.array(EXTREMES[column], stored.type)})
    schema = spark_schema(entity)
    wanted = spark_arrow_schema(type(schema)([schema[column]]))
    (batch,) = list(to_spark_batches(table, wanted))
    assert batch.schema.equals(wanted)

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, Decimal):
            return int(value)
        return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value

    assert [plain(v) for v in batch.column(0).to_pylist()] == table.column(0).to_pylist()
