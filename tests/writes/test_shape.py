from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import Catalog, EdgeType, Key, NodeType, Property
from omnigraph.errors import NotFound, ValidationFailed
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.scalars import ScalarKind, ScalarType, VectorType
from omnigraph.values.temporal import FIRST_MILLI, LAST_MILLI
from omnigraph.writes.shape import Edit, shape_edits, shape_rows

TEXT, NUMBER = ScalarType(ScalarKind.STRING), ScalarType(ScalarKind.I32)
PERSON = NodeType(
    "Person", (Property("name", TEXT), Property("age", NUMBER, nullable=True)), (Key(("name",)),)
)
NOTE = NodeType("Note", (Property("text", TEXT), Property("v", VectorType(2), nullable=True)))
DAY = NodeType(
    "Day",
    (Property("on", ScalarType(ScalarKind.DATE)), Property("n", NUMBER)),
    (Key(("on", "n")),),
)
KNOWS = EdgeType("Knows", "Person", "Person", (Property("since", NUMBER, nullable=True),))
CATALOG = Catalog((PERSON, NOTE, DAY), (KNOWS,))
NOW = 1_700_000_000_123


def counter():
    numbers = iter(range(1000))
    return lambda: f"fresh-{next(numbers)}"


def test_dicts_become_exactly_the_table() -> None:
    rows = shape_rows(PERSON, [{"age": 3, "name": "ada"}, {"name": "bob"}], counter(), NOW)
    assert rows.schema == table_schema(PERSON)
    assert rows.to_pylist() == [
        {"id": "ada", "name": "ada", "age": 3},
        {"id": "bob", "name": "bob", "age": None},
    ]


def test_a_table_with_other_order_and_width_is_cast() -> None:
    table = pa.table({"age": pa.array([3], pa.int64()), "name": pa.array(["a"], pa.large_string())})
    rows = shape_rows(PERSON, table, counter(), NOW)
    assert rows.schema == table_schema(PERSON)
    assert rows.to_pylist() == [{"id": "a", "name": "a", "age": 3}]


@pytest.mark.parametrize("rows", [None, [], pa.table({"name": pa.array([], pa.string())})])
def test_no_rows_is_none(rows: object) -> None:
    assert shape_rows(PERSON, rows, counter(), NOW) is None


def test_edges_take_both_spellings_of_their_ends() -> None:
    by_words = shape_rows(KNOWS, [{"from": "a", "to": "b"}], counter(), NOW)
    by_columns = shape_rows(KNOWS, [{"src": "a", "dst": "b"}], counter(), NOW)
    assert by_words.to_pylist() == by_columns.to_pylist()
    assert by_words.to_pylist() == [{"id": "fresh-0", "src": "a", "dst": "b", "since": None}]


def test_ids_of_unkeyed_types_are_given_or_fresh() -> None:
    assert shape_rows(NOTE, [{"text": "x"}] * 2, counter(), NOW)["id"].to_pylist() == [
        "fresh-0",
        "fresh-1",
    ]
    assert shape_rows(NOTE, [{"id": "n", "text": "x"}], counter(), NOW)["id"].to_pylist() == ["n"]


def test_rows_without_a_key_are_rows() -> None:
    task = catalog_from_text("node Task { title: String?  level: I32? @default(1) }").nodes[0]
    rows = shape_rows(task, [{}, {}], counter(), NOW).to_pylist()
    assert rows == [{"id": f"fresh-{n}", "title": None, "level": 1} for n in range(2)]


def test_ids_of_keyed_types_are_the_key() -> None:
    rows = shape_rows(DAY, [{"on": dt.date(1970, 1, 3), "n": 4}], counter(), NOW)
    assert rows["id"].to_pylist() == ['["2","4"]']
    given = shape_rows(PERSON, [{"id": "ada", "name": "ada"}], counter(), NOW)
    assert given["id"].to_pylist() == ["ada"]


@pytest.mark.parametrize(
    ("entity", "rows", "message"),
    [
        (PERSON, [{"nam": "x"}], "no property 'nam'"),
        (PERSON, [{"age": 1}], "'name' is required"),
        (PERSON, [{"name": "a"}, {"name": None}], "'name' is required, row 1"),
        (PERSON, [{"name": "a", "age": "old"}], "age"),
        (PERSON, [{"name": "a", "age": 2**40}], "age"),
        (PERSON, [{"name": 5}], "name"),
        (NOTE, [{"text": "x", "id": "a"}, {"text": "y"}], "not be null"),
        (NOTE, [{"text": "x", "v": [1.0]}], "v"),
        (KNOWS, [{"from": "a"}], "'to' is required"),
        (KNOWS, [{"from": "a", "src": "a", "to": "b"}], "twice"),
        (PERSON, [{"name": "a", "age": 1.5}], "1.5 is not an I32; write a whole number"),
        (PERSON, [{"name": "a", "age": float("nan")}], "nan is not an I32"),
        (PERSON, pa.table({"name": ["a"], "age": [1.5]}), "age"),
        (NOTE, [{"text": "\ud800"}], "text"),
        (NOTE, {"text": "x"}, "list of dicts"),
        (NOTE, ["x"], "list of dicts"),
        (NOTE, "x", "list of dicts"),
        (NOTE, [{1: "x"}], "no property '1'"),
        (PERSON, pa.table({"name": ["a"], "age": [2**40]}), "age"),
        (PERSON, pa.table({"name": ["a"], "age": [[1]]}), "age"),
        (PERSON, pa.table([["a"], ["b"]], names=["name", "name"]), "twice"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(entity, rows, message: str) -> None:
    with pytest.raises(ValidationFailed, match=message) as caught:
        shape_rows(entity, rows, counter(), NOW)
    assert caught.value.type == entity.name
    assert str(entity.table_key) in str(caught.value)


def test_edits_of_several_types() -> None:
    changes = shape_edits(
        CATALOG,
        {
            "Person": Edit(insert=[{"name": "a"}], delete=["b"]),
            "Knows": Edit(upsert=[{"from": "a", "to": "a"}]),
            "Note": Edit(),
        },
        counter(),
        NOW,
    )
    assert [str(e.key) for e in changes.effects] == ["node:Person", "edge:Knows"]
    person = changes.effects[0]
    assert (person.inserts.num_rows, person.upserts, person.deletes.to_pylist()) == (1, None, ["b"])


@pytest.mark.parametrize("ids", ["n0", [5], [None], [b"x"], ["\ud800"]])
def test_deletes_are_a_list_of_ids(ids: object) -> None:
    with pytest.raises(ValidationFailed, match="'delete'"):
        shape_edits(CATALOG, {"Person": Edit(delete=ids)}, counter(), NOW)


def test_a_whole_float_is_an_integer() -> None:
    rows = shape_rows(PERSON, [{"name": "a", "age": 3.0}], counter(), NOW)
    assert rows["age"].to_pylist() == [3]


EVERY = catalog_from_text(
    """node Every { i: I64?  a: I32?  f: F64?  d: Date?  t: DateTime?  b: Bool?  s: String?
    e: enum(x, y)?  li: [I64]?  ls: [String]?  v: Vector(2)? }"""
).nodes[0]


@pytest.mark.parametrize(
    ("name", "given", "stored"),
    [
        ("i", Decimal("2"), 2),
        ("i", Decimal("2E3"), 2000),
        ("i", np.int8(3), 3),
        ("i", np.float64(3), 3),
        ("i", "9007199254740993", 9007199254740993),
        ("a", np.uint64(7), 7),
        ("f", Decimal("0.5"), 0.5),
        ("f", 3, 3.0),
        ("f", np.float32(0.5), 0.5),
        ("d", "2026-04-14", dt.date(2026, 4, 14)),
        ("d", 1, dt.date(1970, 1, 2)),
        ("t", "2026-04-14T10:00:00+02:00", dt.datetime(2026, 4, 14, 8)),
        ("t", 1500, dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        ("b", np.bool_(True), True),
        ("li", (1, 2), [1, 2]),
        ("li", [1.0, Decimal(2), np.int64(3)], [1, 2, 3]),
        ("li", np.array([1, 2]), [1, 2]),
        ("v", np.array([0.5, 1], np.float32), [0.5, 1.0]),
        ("v", (Decimal("0.5"), 1), [0.5, 1.0]),
    ],
)
def test_python_values_are_read_as_everywhere_else(name: str, given: object, stored: object):
    rows = shape_rows(EVERY, [{name: None}, {name: given}], counter(), NOW)
    assert rows.column(name).to_pylist() == [None, stored]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("i", Decimal("1.5")),
        ("i", Decimal("Infinity")),
        ("i", Decimal("1E+999999")),
        ("i", np.float64(1.5)),
        ("i", True),
        pytest.param("i", 10**5000, id="digits"),
        ("i", {}),
        ("a", "5"),
        ("a", 3e9),
        ("f", True),
        ("f", "1"),
        ("d", dt.datetime(2026, 4, 14, 23, 59)),
        ("d", 10**9),
        ("t", dt.date(2026, 4, 14)),
        ("t", "2026-04-14T10:00:00"),
        ("b", 1),
        ("s", b"x"),
        ("s", 5),
        ("e", 5),
        ("li", [1.5]),
        ("li", [Decimal("1.5")]),
        ("li", [True]),
        ("li", "12"),
        ("li", 5),
        ("ls", ["x", b"y"]),
        ("v", [True, 1.0]),
        ("v", ["1", 1.0]),
        ("v", 1.0),
    ],
)
def test_no_python_value_is_cut_or_guessed(name: str, given: object) -> None:
    with pytest.raises(ValidationFailed, match=f"property {name!r}: ") as caught:
        shape_rows(EVERY, [{name: None}, {name: given}], counter(), NOW)
    assert len(str(caught.value)) < 300


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(NotFound, match="Persn"):
        shape_edits(CATALOG, {"Persn": Edit(delete=["a"])}, counter(), NOW)


def test_defaults_stand_for_what_is_absent_not_for_what_is_null() -> None:
    task = catalog_from_text("node Task { title: String @key  level: I32? @default(1) }").nodes[0]
    rows = [{"title": "a"}, {"title": "b", "level": None}, {"title": "c", "level": 3}]
    assert shape_rows(task, rows, counter(), NOW).column("level").to_pylist() == [1, None, 3]
    table = pa.table({"title": ["a", "b"]})
    assert shape_rows(task, table, counter(), NOW).column("level").to_pylist() == [1, 1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_a_table_are_utc_and_cut_to_milliseconds(unit: str) -> None:
    moment = dt.datetime(1969, 12, 31, 23, 59, 58, 0 if unit == "s" else 1000, dt.UTC)
    column = pa.array([moment, None], pa.timestamp("us", "Asia/Tokyo"))
    if unit == "us":
        column = pc.add(column, pa.scalar(dt.timedelta(microseconds=999)))
    column = column.cast(pa.timestamp(unit, "Asia/Tokyo"))
    rows = shape_rows(EVERY, pa.table({"t": column}), counter(), NOW)
    assert rows.column("t").to_pylist() == [moment.replace(tzinfo=None), None]


def test_a_timestamp_beyond_64_bits_of_milliseconds_is_still_beyond_the_calendar() -> None:
    far = pa.table({"t": pa.array([2**62, -(2**62)], pa.timestamp("s"))})
    rows = shape_rows(EVERY, far, counter(), NOW)
    later, earlier = rows.column("t").cast(pa.int64()).to_pylist()
    assert (later, earlier) == (LAST_MILLI + 1, FIRST_MILLI - 1000)
