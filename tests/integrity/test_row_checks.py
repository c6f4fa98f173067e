from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.integrity.row_checks import check_rows, failing_rows
from omnigraph.integrity.rules import Between, DerivedId, Matches
from omnigraph.integrity.violations import Place, Report
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.entity_ids import entity_id
from omnigraph.writes.derived import derived_ids

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64?
  grade: enum(a, b)?
  born: Date?
  seen: DateTime?
  tags: [F32]?
  vec: Vector(2)?
  big: U64?
  @range(age, 0..150)
  @range(born, "1900-01-01"..)
  @range(seen, "2000-01-01T00:00:00Z".."2030-01-01T00:00:00Z")
  @range(big, ..18446744073709551610)
  @check(name, "^[a-z]+$")
}
edge Knows: Person -> Person { since: I32 }
"""
CATALOG = catalog_from_text(SCHEMA)
PERSON = CATALOG.node_types["Person"]
KNOWS = CATALOG.edge_types["Knows"]


def broken(entity, rows, places=None):
    schema = table_schema(entity)
    columns = [pa.array([r.get(f.name) for r in rows], f.type) for f in schema]
    report = Report()
    check_rows(entity, pa.table(columns, names=schema.names), report, places)
    return report


def person(**values):
    return {"id": values.get("name", "x"), "name": "x"} | values


@pytest.mark.parametrize(
    ("values", "rule", "column"),
    [
        ({"age": -1}, "range", "age"),
        ({"age": 151}, "range", "age"),
        ({"score": float("inf")}, "finite", "score"),
        ({"score": float("nan")}, "finite", "score"),
        ({"grade": "c"}, "enum", "grade"),
        ({"born": -30000}, "range", "born"),
        ({"seen": 0}, "range", "seen"),
        ({"seen": 1893456000001}, "range", "seen"),
        ({"tags": [1.0, None]}, "list", "tags"),
        ({"tags": [float("nan")]}, "finite", "tags"),
        ({"vec": [1.0, float("inf")]}, "vector", "vec"),
        ({"vec": [1.0, None]}, "vector", "vec"),
        ({"big": 2**64 - 1}, "range", "big"),
        ({"name": "Ada"}, "check", "name"),
        ({"name": "a1"}, "check", "name"),
        ({"id": "other"}, "key", "id"),
    ],
)
def test_each_rule_finds_its_row(values, rule, column) -> None:
    fine = person(age=0, score=-0.0, grade="a", born=0, tags=[], vec=[0.0, 1.0])
    report = broken(PERSON, [fine, person(), person(**values)])
    (found,) = report.violations
    assert (found.rule, found.property, report.total) == (rule, column, 1)
    assert found.entity_id == values.get("id", values.get("name", "x"))


def test_bounds_are_inclusive_and_nulls_pass() -> None:
    rows = [person(age=0), person(age=150), person(big=2**64 - 6), person(seen=946684800000)]
    assert broken(PERSON, rows).total == 0


def test_ids_in_the_memory_of_a_key_are_compared_where_rows_differ() -> None:
    names = pa.chunked_array([["a", "b", "c"]])
    rule = DerivedId(("name",))
    for ids, wrong in ((names, []), (names.slice(1), [0, 1]), (names.slice(0, 2), [])):
        rows = pa.table({"id": ids, "name": names.slice(0, len(ids))})
        assert list(failing_rows(rule, rows)) == wrong


def test_a_value_outside_is_found_beside_null_and_nan() -> None:
    rule = Between("score", 0.0, 5.0)
    for values, wrong in (
        ([None, float("nan"), 6.0], [2]),
        ([float("nan"), None, -1.0, 5.0], [2]),
        ([float("nan")], []),
        ([None], []),
        ([], []),
    ):
        rows = pa.table({"score": pa.chunked_array([values], pa.float64())})
        assert list(failing_rows(rule, rows)) == wrong


def test_a_missing_end_is_required() -> None:
    rows = [{"id": "e", "src": "a", "dst": None, "since": None}]
    found = {(v.rule, v.property) for v in broken(KNOWS, rows).violations}
    assert found == {("required", "to"), ("required", "since")}


def test_all_are_counted_and_the_first_are_shown_with_their_place() -> None:
    rows = [person(grade="z") for _ in range(50)] + [person(age=-1)]
    report = broken(PERSON, rows, places=lambda row: Place("f.ndjson", row + 1))
    assert (report.total, dict(report.counts)) == (51, {"enum": 50, "range": 1})
    assert len(report.violations) == 20
    assert str(report.violations[0]) == "f.ndjson:1: Person 'x': 'grade' is \"z\", not one of a, b"
    assert report.violations[3].to_dict() == {
        "rule": "enum",
        "type": "Person",
        "entity_id": "x",
        "property": "grade",
        "message": "'grade' is \"z\", not one of a, b",
        "file": "f.ndjson",
        "line": 4,
    }


PATTERNS = [
    "^a+$",
    "a|b",
    r"^\d+$",
    "[^@]+@[^@]+",
    r"\.com$",
    "(?i)ab",
    "^x{,2}$",
    "[:alpha:]",
    "^$",
    "a.b",
]


@given(st.lists(st.text("ab@.\n1٣x{,2}[:alph]", max_size=6)), st.sampled_from(PATTERNS))
def test_check_is_python_search(texts, pattern) -> None:
    table = pa.table({"t": pa.array(texts, pa.string())})
    expected = [i for i, t in enumerate(texts) if not re.search(pattern, t)]
    assert failing_rows(Matches("t", pattern), table).tolist() == expected


KEYS = st.one_of(
    st.tuples(st.just(pa.string()), st.text()),
    st.tuples(st.just(pa.int64()), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(pa.float64()), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just(pa.bool_()), st.booleans()),
    st.tuples(st.just(pa.date32()), st.dates()),
)


@given(st.lists(KEYS, min_size=1, max_size=3))
def test_ids_are_spelled_as_one_by_one(members) -> None:
    columns = [pa.chunked_array([pa.array([value], kind)]) for kind, value in members]
    assert derived_ids(columns).to_pylist() == [entity_id([value for _, value in members])]


CALENDAR = catalog_from_text(
    """node N { k: String @key  d: Date?  t: DateTime?  ds: [Date]?  ts: [DateTime]?
    @range(d, "1900-01-01"..) }"""
).nodes[0]
DAY, MOMENT = (pa.int32(), pa.date32()), (pa.int64(), pa.timestamp("ms"))


@pytest.mark.parametrize(
    ("name", "types", "first", "last"),
    [
        ("t", MOMENT, -62_135_596_800_000, 253_402_300_799_999),
        ("d", DAY, -25567, 2_932_896),
        ("ds", DAY, -719_162, 2_932_896),
        ("ts", MOMENT, -62_135_596_800_000, 253_402_300_799_999),
    ],
)
def test_days_and_moments_are_those_of_the_calendar(name, types, first, last) -> None:
    numbers, kind = types
    furthest = 2 ** (numbers.bit_width - 1) - 1
    before = -800_000 if name == "d" else first - 1
    values = pa.array([0, first, last, None, before, last + 1, furthest], numbers).view(kind)
    if name.endswith("s"):
        ends = pa.array([0, 1, 2, None, 3, 4, 5, 6], pa.int32())
        values = pa.ListArray.from_arrays(ends, values.drop_null())
    names = [f"k{row}" for row in range(len(values))]
    report = Report()
    check_rows(CALENDAR, pa.table({"id": names, "k": names, name: values}), report)
    found = sorted(v.entity_id for v in report.violations if v.rule == "calendar")
    assert found == ["k4", "k5", "k6"]
    assert report.violations[-1].message
