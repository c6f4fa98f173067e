"""Reading CSV column by column equals reading it cell by cell, which is the definition."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.load.csv_files import CsvRecords, parse_records, parse_records_slowly
from omnigraph.load.parsed_rows import BlobBases, ParsedBlock
from omnigraph.schema.build import catalog_from_text

CATALOG = catalog_from_text(
    """
node T {
  s: String?  b: Bool?  i: I32? @default(7)  l: I64?  u: U32?  w: U64?  f: F32?  d: F64?
  day: Date?  at: DateTime?  e: enum(x, y)?  v: Vector(2)?  ls: [String]?  li: [I64]?  lf: [F64]?
  blob: Blob?
}
edge E: T -> T { n: I64? }
"""
)
CELLS = [
    *("", " ", "x", "true", "false", "True", "null", "0", "-0", "1", "-1", "+1", "01", " 5", "5 "),
    *("TRUE", "yes", "No", " yes", "1.0", "-1.0", "1.00", "1e0", "1,5", "1.000,5", "18262", "-5"),
    *("1.5", ".5", "5.", "1e3", "1e999", "-1e308", "0.1", "-0.0", "NaN", "Infinity", '"5"', "1_0"),
    *("2147483647", "2147483648", "-2147483648", "4294967295", "4294967296", "9223372036854775807"),
    *("9223372036854775808", "18446744073709551615", "18446744073709551616", "1" * 40, "1" * 400),
    *("123456789.123456789123456789", "3.4028235e38", "3.5e38", "1e-320", "16777217"),
    *("2024-02-29", "2023-02-29", "0001-01-01", "10000-01-01", "2024-02-29T01:02:03Z"),
    *("2024-02-29T01:02:03.123456+02:00", "2024-02-29 01:02:03", "2024-02-30T00:00:00Z"),
    *("[]", "[1,2]", "[1, 2.5]", '["a","b"]', "[1,null]", "[1,2,3]", "[[1]]", "{}", "[1,\n2]"),
    *("[1e400,1]", "[1}", '[1]}\n{"v":[2]', "base64:AAE=", "base64:!", "http://x", "é\u2028\x00"),
]
NAMES = ["s", "b", "i", "l", "u", "w", "f", "d", "day", "at", "e", "v", "ls", "li", "lf", "blob"]


def rows_of(block: ParsedBlock) -> tuple[list[Any], list[Any]]:
    rows = [
        (int(line), json.dumps(row, default=repr))
        for typed in block.rows
        for line, row in zip(typed.lines, typed.table.to_pylist(), strict=True)
    ]
    problems = [(p.line, p.rule, p.message, p.property) for p in block.problems]
    return sorted(rows), sorted(problems)


def check(type_name: str, names: list[str], records: list[list[str]]) -> None:
    entity = CATALOG.resolve(type_name)
    lines = list(range(2, 2 + len(records)))
    blank = {
        n: {c for c, cell in enumerate(cells) if cell == ""} for n, cells in enumerate(records)
    }
    for batch in (CsvRecords(records, lines), CsvRecords(records, lines, blank)):
        found = parse_records("f.csv", entity, names, batch, BlobBases())
        slowly = parse_records_slowly("f.csv", entity, names, batch, BlobBases())
        assert rows_of(found) == rows_of(slowly)


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_of_every_type(name: str) -> None:
    check("T", [name], [[cell] for cell in CELLS])
    for cell in CELLS:
        check("T", [name], [[cell], [""]])


@given(st.lists(st.lists(st.sampled_from(CELLS), min_size=3, max_size=4), max_size=6), st.data())
def test_records_of_any_shape(records: list[list[str]], data: st.DataObject) -> None:
    names = data.draw(
        st.lists(st.sampled_from(["id", *NAMES]), min_size=3, max_size=3, unique=True)
    )
    check("T", names, records)


def test_edges() -> None:
    check("E", ["src", "dst", "n"], [["a", "b", "1"], ["", "b", "x"], ["a"], ["a", "", ""]])
