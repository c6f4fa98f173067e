"""Rows that do not name their type: flat NDJSON, JSON arrays, Python objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidArgument, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.load import json_arrays
from omnigraph.load.json_arrays import array_blocks, is_json_array
from omnigraph.load.json_lines import JsonLines
from omnigraph.load.parsed_rows import BlobBases, FlatRows, ParsedBlock
from omnigraph.schema.build import catalog_from_text

SCHEMA = """
node Person { name: String @key  age: I32? @default(7)  born: Date?  tags: [String]?  photo: Blob? }
node Thing { type: String @key  data: [String]?  n: I64? }
edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
"""
CATALOG = catalog_from_text(SCHEMA)
MEMBERS = [
    *('"name":"x"', '"name":null', '"name":1', '"full name":"y"', '"age":3', '"age":null'),
    *('"age":4.0', '"age":1.5', '"agee":1', '"born":"2020-01-01"', '"tags":["a"]', '"tags":[1]'),
    *('"type":"Person"', '"type":"t"', '"type":1', '"edge":"Knows"', '"data":{"name":"z"}'),
    *('"data":["d"]', '"data":"s"', '"n":5', '"from":"a"', '"to":"b"', '"src":"a"', '"id":"i"'),
    *('"since":"2020-01-01"', '"since":5', r'"na\u006de":"w"', '"photo":"base64:AAE="'),
]
LINES = st.lists(st.sampled_from(MEMBERS), max_size=4).map(lambda found: f"{{{','.join(found)}}}")
OTHERS = st.sampled_from(["", "// c", "[]", "{", "}", '{"name":"x"} {"name":"y"}', ' {"name":"s"}'])


def rows_of(block: ParsedBlock) -> tuple[list[Any], list[Any]]:
    rows = [
        (int(line), part.entity.name, json.dumps(row, default=repr))
        for part in block.rows
        for line, row in zip(part.lines, part.table.to_pylist(), strict=True)
    ]
    return sorted(rows), sorted((p.line, p.rule, p.message) for p in block.problems)


@given(
    st.lists(LINES | OTHERS, max_size=8),
    st.sampled_from(["Person", "Thing", "Knows"]),
    st.sampled_from([{}, {"full name": "name"}, {"src": "from", "n": "type"}]),
)
@settings(max_examples=400)
def test_flat_lines_as_slow_reading_gives_them(
    lines: list[str], name: str, columns: dict[str, str]
) -> None:
    parser = JsonLines(CATALOG, BlobBases(), FlatRows(CATALOG.resolve(name), columns))
    data = "\n".join(lines).encode()
    assert rows_of(parser.parse(data, 1, "f")) == rows_of(parser.parse_slowly(data, 1, "f"))


@given(st.lists(LINES, max_size=8), st.sampled_from(["", " ", "\n", "\r\n  "]), st.integers(1, 40))
def test_an_array_gives_the_rows_of_its_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], space: str, part: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.json"
    comma = f"{space},{space}"
    path.write_bytes(f"{space}[{space}{comma.join(lines)}{space}]{space}".encode())
    parser = JsonLines(CATALOG, BlobBases(), FlatRows(CATALOG.resolve("Person"), {}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_arrays, "_CHARACTERS_AT_ONCE", part)
        patch.setattr(json_arrays, "_BLOCK_CHARACTERS", 50)
        assert is_json_array(path, None)
        found = [rows_of(block) for block in array_blocks(path, parser, None)]
    wanted = rows_of(parser.parse_slowly("\n".join(lines).encode(), 1, "f"))
    assert (sorted(r for rows, _ in found for r in rows)) == wanted[0]
    assert (sorted(p for _, problems in found for p in problems)) == wanted[1]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "g.omni", SCHEMA)


def ages(graph: Graph) -> dict[str, int]:
    table = graph.read("Person")
    return dict(zip(table["name"].to_pylist(), table["age"].to_pylist(), strict=True))


@pytest.mark.parametrize("name", ["in.ndjson", "in.json"])
@pytest.mark.parametrize("engine", ["local"])
def test_flat_lines_of_a_file(graph: Graph, tmp_path: Path, name: str, engine: str) -> None:
    path = tmp_path / name
    path.write_text(
        '{"Name": "Ada", "age": 36}\n{"Name": "Bob"}\n'
        '{"edge": "Knows", "from": "Ada", "to": "Bob"}\n'
    )
    graph.load(path, type="Person", map={"Name": "name"}, engine=engine)
    assert ages(graph) == {"Ada": 36, "Bob": 7}
    assert graph.read("Knows").num_rows == 1
    with pytest.raises(ValidationFailed, match=r"did you mean 'name'\? .*--map \"Name=name\""):
        graph.load(path, "merge", type="Person")
    with pytest.raises(ValidationFailed, match=r":1: .*--type \(type=\)"):
        graph.load(path, "merge")
    with pytest.raises(InvalidArgument, match="no file has a column 'Name'"):
        graph.load(path, "merge", map={"Name": "name"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"name": "a"}, {"name": "b"', ":2: not JSON: .*line 1"),
        ('[{"name": "a"}\n,{"name": oops}]', ":2: not JSON: Expecting value .*line 2, column 11"),
        ('[{"name": "a"} {"name": "b"}]', ":2: not JSON: ',' or ']' is missing"),
        ('[{"name": "a"}] x', ":2: not JSON: text follows the list"),
        ('[{"name": "a"}, 5]', ":2: a line is an object, not 5"),
        ('[{"name": "a"}, {"name": "b", "age": "old"}]', ":2: Person: 'age'"),
        ("[" * 100_000, ":1: not JSON"),
        ('[{"name": NaN}]', ":1: .*NaN"),
    ],
)
def test_mistakes_in_an_array(graph: Graph, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(ValidationFailed, match=f"rows.json{message}"):
        graph.load(path, type="Person")


def test_python_objects(graph: Graph) -> None:
    graph.load(
        [{"name": "Ada", "age": np.int64(36)}, {"name": "Bob", "photo": b"x"}], type="Person"
    )
    edges = [{"from": "Ada", "to": "Bob", "since": pd.Timestamp("2020-01-01")}]
    graph.load({"Person": [{"name": "Cy", "age": float("nan")}], "Knows": edges})
    assert ages(graph) == {"Ada": 36, "Bob": 7, "Cy": None}
    graph.load(({"name": f"p{n}", "age": n} for n in range(3)), type="Person")
    graph.load([{"type": "Person", "data": {"name": "Dot"}}])
    graph.load({"Person": pa.table({"name": ["Eve"]}), "Knows": []})
    assert len(ages(graph)) == 8
    frame = graph.read("Person").to_pandas()
    assert graph.load(frame.to_dict("records"), "merge", type="Person").commit is None
    assert graph.load({"Person": frame}, "merge").commit is None


def test_python_objects_that_are_refused(graph: Graph) -> None:
    with pytest.raises(ValidationFailed, match="<rows>:2: Person: 'age'"):
        graph.load([{"name": "a"}, {"name": "b", "age": "old"}], type="Person")
    with pytest.raises(ValidationFailed, match=r"<rows>:1: .*give --type"):
        graph.load([{"name": "a"}])
    with pytest.raises(InvalidArgument, match="put one row into a list"):
        graph.load({"name": "a", "age": 3}, type="Person")
    with pytest.raises(InvalidArgument, match="no type 'Persn'"):
        graph.load({"Persn": [{"name": "a"}]})
    with pytest.raises(InvalidArgument, match="empty"):
        graph.load([], type="Person")
