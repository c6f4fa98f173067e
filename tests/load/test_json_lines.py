"""The fast reading of NDJSON equals the slow one, which is the definition."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.load.json_columns import typed_column
from omnigraph.load.json_lines import JsonLines
from omnigraph.load.parsed_rows import BlobBases, ParsedBlock, ParsedRows
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.scalars import ScalarKind, ScalarType
from omnigraph.values.temporal import parse_date, parse_moment

CATALOG = catalog_from_text(
    """
node T {
  s: String? @default(uuid())
  b: Bool?
  i: I32? @default(7)
  l: I64?
  u: U32?
  w: U64?
  f: F32?
  d: F64?
  day: Date?
  at: DateTime? @default(now())
  e: enum(x, y)?
  v: Vector(2)?
  ls: [String]?
  li: [I64]?
  lf: [F64]?
  lg: [F32]?
  ld: [Date]?
  blob: Blob?
  type: String? @default("t")
}
edge E: T -> T { since: Date? @default("2020-02-03")  n: I64? }
"""
)
PARSER = JsonLines(CATALOG, BlobBases())
OF_PATCHES = JsonLines(CATALOG, BlobBases(), partial=True)

SCALARS = [
    *[
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-1",
        "1.5",
        "30.0",
        "1e3",
        "1e999",
        "-1e999",
        "1e308",
        "3.5e38",
        "1e-400",
        "-0.0",
        "0.1",
        "16777217.0",
    ],
    *[
        "2147483647",
        "2147483648",
        "-2147483649",
        "4294967296",
        "9223372036854775808",
        "18446744073709551615",
    ],
    *[
        "-9223372036854775808",
        "18446744073709551616",
        "NaN",
        "Infinity",
        "1.00000017881393432617187499",
    ],
    "1" + "0" * 305,
    "1" + "0" * 400,
    '""',
    '"x"',
    '"z"',
    '"12"',
    '"a\\u0000b"',
    '"\\ud83d\\ude00"',
    '"\\udc00"',
    '"\\ud83d"',
    '"é\\n"',
    '"2024-02-29"',
    '"2023-02-29"',
    '"0000-01-01"',
    '"0001-01-01"',
    '"9999-12-31"',
    '"2024-1-1"',
    '" 2024-01-01"',
    '"2024-01-01T00:00:00Z"',
    '"1969-12-31T23:59:59.9999Z"',
    '"2024-01-01T00:00:00.123456789+02:30"',
    '"2024-01-01 00:00:00.5-23:59"',
    '"2024-01-01t00:00:00z"',
    '"2024-01-01T24:00:00Z"',
    '"2024-01-01T00:00:60Z"',
    '"2024-01-01T00:00:00"',
    '"2024-01-01T00:00:00+24:00"',
    '"0001-01-01T00:00:00+01:00"',
    '"9999-12-31T23:59:59.999Z"',
    '"9999-12-31T23:59:59.999-01:00"',
    '"base64:aGVsbG8="',
    '"base64:?"',
    '"/etc/passwd"',
    "{}",
    "[]",
]
VALUES = st.sampled_from(SCALARS)
LISTS = st.lists(VALUES, max_size=3).map(lambda items: f"[{','.join(items)}]")
GOOD: dict[str, list[str]] = {
    "s": ['"x"', '"é"'],
    "i": ["1", "-5"],
    "d": ["0.5", "7"],
    "f": ["0.1", "16777217"],
    "day": ['"2024-02-29"'],
    "at": ['"2024-01-01T00:00:00.5+02:00"', '"2024-01-01T00:00:00Z"'],
    "v": ["[1,2.5]", "[0.1,3]"],
    "ls": ['["a"]', "[]"],
    "l": ["1"],
}
NAMES = [p.name for p in CATALOG.node_types["T"].properties]


@st.composite
def members(draw: Any) -> str:
    good = draw(st.booleans())
    name = draw(st.sampled_from(list(GOOD) if good else [*NAMES, "id", "zz"]))
    value = draw(st.sampled_from(GOOD[name]) if good else VALUES | LISTS)
    return f'"{name}":{value}'


@st.composite
def line(draw: Any) -> str:
    space = draw(st.sampled_from(["", " "]))
    data = f"{{{','.join(draw(st.lists(members(), max_size=4)))}}}"
    data = draw(st.sampled_from([data, data, data, data, "null", "[]", "1"]))
    shapes = [
        f'{{"type":{space}"T",{space}"data":{space}{data}}}',
        f'{{"type":{space}"T",{space}"data":{space}{data}}}',
        f'{{"type":"T","id":"i","data":{data}}}',
        f'{{"data":{data},"type":"T"}}',
        f'{{"edge":"E","id":"i","from":"a","to":"b","data":{data}}}',
        '{"type":"T","id":"i","data":{"id":"i"}}',
        '{"type":"T","id":"i","data":{"id":"j"}}',
        '{"type":"T","id":null,"data":{"id":"j"}}',
        '{"edge":"E","id":1,"from":"a","to":"b"}',
        f'{{"edge":"E","from":"a","to":"b","data":{data}}}',
        '{"edge":"E","from":"a","to":"b","data":{"since":"2020-01-01","n":5}}',
        '{"edge":"E","from":1,"to":"b"}',
        '{"edge":"E","to":"b"}',
        '{"type":"T"}',
        '{"type":"T"} ',
        '{"type":"T"}{"type":"T"}',
        '{"type":"T","data":',
        '{"type":"T"}}',
        '{"type":"E"}',
        '{"type":"Nope","data":{}}',
        '{"type":"T","type":"T"}',
        '{"type":"T","extra":1}',
        '{"type":"T","data":{}}\r',
        "",
        "   ",
        "// comment",
        " // comment",
        "rubbish",
        "[1]",
    ]
    return str(draw(st.sampled_from([*shapes[:3] * 8, *shapes])))


def content(parsed: ParsedBlock) -> tuple[list[Any], list[Any]]:
    rows = [
        (number, part.entity.name, repr(row), absent)
        for part in parsed.rows
        for number, row, absent in zip(
            part.lines.tolist(), part.table.to_pylist(), absent_of(part), strict=True
        )
    ]
    problems = [(p.line, p.rule, p.message, p.property) for p in parsed.problems]
    return sorted(rows), sorted(problems, key=repr)


def absent_of(rows: ParsedRows) -> list[str]:
    return [""] * len(rows.lines) if rows.absent is None else rows.absent.to_pylist()


def assert_same(data: bytes) -> None:
    for parser in (PARSER, OF_PATCHES):
        assert content(parser.parse(data, 5, "f")) == content(parser.parse_slowly(data, 5, "f"))


@settings(max_examples=120)
@given(st.lists(line(), max_size=12), st.booleans())
def test_fast_equals_slow(lines: list[str], newline: bool) -> None:
    assert_same(("\n".join(lines) + ("\n" if newline else "")).encode())


@pytest.mark.slow
@settings(max_examples=5000)
@given(st.lists(line(), max_size=40), st.booleans())
def test_fast_equals_slow_long(lines: list[str], newline: bool) -> None:
    assert_same(("\n".join(lines) + ("\n" if newline else "")).encode())


@pytest.mark.parametrize("name", NAMES)
def test_every_value_in_every_property(name: str) -> None:
    values = [*SCALARS, *(f"[{v}]" for v in SCALARS), *(f"[1,{v}]" for v in SCALARS)]
    # Alone, so that one refused by Arrow does not take the others to the slow way.
    for value in values:
        assert_same(f'{{"type":"T","data":{{"{name}":{value}}}}}\n'.encode())


@settings(max_examples=80)
@given(st.binary(max_size=200))
def test_rubbish(data: bytes) -> None:
    assert_same(data)
    assert_same(b'{"type":"T","data":{"s":"' + data + b'"}}\n{"type":"T"}\n')


def test_numbers_round_as_in_python() -> None:
    chance = random.Random(3)
    texts = [repr(chance.uniform(-1, 1) * 10.0 ** chance.randint(-45, 38)) for _ in range(3000)]
    texts += [f"{chance.getrandbits(70)}.{chance.getrandbits(60)}" for _ in range(500)]
    lines = [f'{{"type":"T","data":{{"f":{t},"d":{t},"v":[{t},{t}]}}}}' for t in texts]
    assert_same("\n".join(lines).encode())


def test_a_bad_line_among_many() -> None:
    lines = [json.dumps({"type": "T", "data": {"i": i, "s": str(i)}}) for i in range(3000)]
    lines[1234] = '{"type": "T", "data": {"i": "old"}}'
    lines[2000] = '{"type": "T", "data": {"l": "77"}}'
    data = "\n".join(lines).encode()
    assert_same(data)
    assert [p.line for p in PARSER.parse(data, 1, "f").problems] == [1235]


def test_a_null_id_is_no_id() -> None:
    assert_same(
        b'{"type":"T","data":{"id":null}}\n{"edge":"E","from":"a","to":"b","data":{"id":null}}'
    )


TIMES = [
    "2024-02-29",
    "2024-02-29T03:04:05Z",
    "2024-02-29 03:04:05.1Z",
    "2024-02-29T03:04:05.123456Z",
    "2024-02-29T03:04:05.123+01:30",
    "2024-02-29T03:04Z",
]
PLACES = st.integers(0, max(map(len, TIMES)))
CHANGES = st.lists(
    st.tuples(PLACES, st.booleans(), st.sampled_from([*"0123456789-+:.,TZz /e", ""]))
)


@settings(max_examples=2000, deadline=None)
@given(st.sampled_from(TIMES), CHANGES)
def test_a_time_that_is_read_at_once_is_what_the_slow_reader_reads(
    text: str, changes: list[tuple[int, bool, str]]
) -> None:
    """The shape of the text is not compared with a pattern if Arrow's cast implies it."""
    for place, replaces, character in changes[:3]:
        text = text[:place] + character + text[place + replaces :]
    moment = parse_moment(text)
    wanted = {
        ScalarKind.DATE: parse_date(text),
        ScalarKind.DATETIME: moment and moment.replace(tzinfo=None),
    }
    for kind, value in wanted.items():
        column, doubtful = typed_column(ScalarType(kind), pa.array([text, None]))
        assert doubtful is not None or value is not None
        assert column.to_pylist() == [value if doubtful is None else None, None]


def test_one_strange_time_does_not_make_all_others_doubtful() -> None:
    texts = pa.array(["2024-02-29T03:04:05Z", None, "2024-02-29X03:04:05Z", "soon"])
    _, doubtful = typed_column(ScalarType(ScalarKind.DATETIME), texts)
    assert doubtful is not None
    assert doubtful.tolist() == [False, False, True, True]
    days, doubtful = typed_column(ScalarType(ScalarKind.DATE), pa.array(["2024-02-29", "2024-2-9"]))
    assert doubtful is not None
    assert (days.null_count, doubtful.tolist()) == (1, [False, True])
