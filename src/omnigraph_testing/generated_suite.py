"""What every load engine must do with `@default(now())` and `@default(uuid())`.

Each function loads into a new graph with an engine, given as the value of `engine=`.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph

SCHEMA = """
node Person {
  name: String @key
  made: DateTime @default(now())
  token: String @unique @default(uuid())
  day: Date? @default(now())
  level: I32? @default(1)
  age: I32?
}
node Ticket { number: String @key @default(uuid())  text: String? }
edge Knows: Person -> Person { at: DateTime? @default(now())  note: String? }
edge Likes: Person -> Person { at: DateTime @default(now())  weight: I32?  @unique(src, dst) }
edge Saw: Person -> Person { at: DateTime @default(now())  @unique(src, dst, at) }
"""

OLD = "2020-01-01T00:00:00Z"
OLD_MOMENT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
TOKEN = "11111111-1111-4111-8111-111111111111"

INPUT: list[dict[str, Any]] = [
    {"type": "Person", "data": {"name": "ada"}},
    {"type": "Person", "data": {"name": "bob", "made": OLD, "token": TOKEN, "day": None}},
    {"type": "Person", "data": {"name": 'c\\"', "age": 3}},
    {"edge": "Knows", "from": "ada", "to": "bob"},
    {"edge": "Knows", "from": "ada", "to": "bob", "data": {"note": "x", "at": OLD}},
    {"edge": "Knows", "from": "ada", "to": "bob", "data": {"at": None}},
    {"edge": "Knows", "from": "ada", "to": "bob"},
    {"edge": "Likes", "from": "ada", "to": "bob", "data": {"weight": 1}},
    {"edge": "Saw", "from": "ada", "to": "bob"},
]

Rows = list[dict[str, Any]]
TYPES = ("Person", "Ticket", "Knows", "Likes", "Saw")


def content(graph: Graph) -> dict[str, Rows]:
    return {t: sorted(graph.read(t).to_pylist(), key=lambda row: row["id"]) for t in TYPES}


def write_lines(path: Path, rows: Rows) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def is_uuid(text: str) -> bool:
    return uuid.UUID(text).version == 4 and str(uuid.UUID(text)) == text


def check_new_entities(graph: Graph, folder: Path, engine: str) -> None:
    """One moment for the whole load, one uuid for each row; a null stays NULL."""
    before = dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=1)
    tickets: Rows = [{"type": "Ticket", "data": {"text": str(n)}} for n in range(50)]
    graph.load(write_lines(folder / "in.ndjson", INPUT + tickets), engine=engine)
    found = content(graph)
    ada, bob, other = found["Person"]
    assert ada["made"] == other["made"]
    assert before <= ada["made"] <= dt.datetime.now(dt.UTC)
    assert ada["made"].microsecond % 1000 == 0
    assert ada["day"] == other["day"] == ada["made"].date()
    assert is_uuid(ada["token"])
    assert is_uuid(other["token"])
    assert ada["token"] != other["token"]
    assert (bob["made"], bob["token"], bob["day"]) == (OLD_MOMENT, TOKEN, None)
    assert len({row["number"] for row in found["Ticket"]}) == 50
    assert all(is_uuid(row["number"]) and row["id"] == row["number"] for row in found["Ticket"])
    moments = [row["at"] for row in found["Knows"]]
    assert sorted(moments, key=str) == sorted([ada["made"], OLD_MOMENT, None, ada["made"]], key=str)


def check_every_format(graph: Graph, folder: Path, engine: str) -> None:
    (folder / "Person.csv").write_text(f"name,made,age\na,{OLD},1\nb,{OLD},2\n")
    pq.write_table(pa.table({"name": ["p", "q"], "age": [1, 2]}), folder / "Person.parquet")
    flat = write_lines(folder / "flat.ndjson", [{"name": "f"}, {"name": "g", "day": None}])
    graph.load(folder / "Person.csv", engine=engine)
    graph.load(folder / "Person.parquet", engine=engine)
    graph.load(flat, engine=engine, type="Person")
    graph.load([{"name": "r"}], engine=engine, type="Person")
    graph.load(pa.table({"name": ["t"]}), engine=engine, type="Person")
    rows = content(graph)["Person"]
    assert [row["name"] for row in rows] == ["a", "b", "f", "g", "p", "q", "r", "t"]
    assert len({row["token"] for row in rows}) == 8
    assert [row["day"] is None for row in rows] == [row["name"] == "g" for row in rows]
    assert {row["level"] for row in rows} == {1}
    assert {row["made"] for row in rows if row["name"] in "ab"} == {OLD_MOMENT}


def check_the_same_input_again(graph: Graph, folder: Path, engine: str) -> None:
    """In mode merge, overwrite and patch it changes nothing and makes no commit."""
    file = write_lines(folder / "in.ndjson", INPUT)
    graph.load(file, engine=engine)
    before = content(graph)
    for mode in ("merge", "patch"):
        assert graph.load(file, mode, engine=engine).commit is None
        assert content(graph) == before
    people = write_lines(folder / "people.ndjson", [r for r in INPUT if r.get("type") == "Person"])
    assert graph.load(people, "overwrite", engine=engine).commit is None
    assert content(graph) == before


def check_replaced_entities_keep_their_values(graph: Graph, folder: Path, engine: str) -> None:
    graph.load(write_lines(folder / "in.ndjson", INPUT), engine=engine)
    ada, bob, _ = content(graph)["Person"]
    like = content(graph)["Likes"][0]
    changed: Rows = [
        {"type": "Person", "data": {"name": "ada", "age": 5}},
        {"type": "Person", "data": {"name": "bob", "token": TOKEN, "day": None, "age": 6}},
        {"type": "Person", "data": {"name": "dora", "age": 7}},
        {"edge": "Likes", "from": "ada", "to": "bob", "data": {"weight": 9}},
    ]
    graph.load(write_lines(folder / "again.ndjson", changed), "merge", engine=engine)
    now = {row["name"]: row for row in content(graph)["Person"]}
    assert now["ada"] == {**ada, "age": 5}
    assert now["bob"] == {**bob, "age": 6}
    assert now["dora"]["made"] > ada["made"]
    assert content(graph)["Likes"] == [{**like, "weight": 9}]
    new: Rows = [{"name": "eva", "age": 1}, {"name": "ada", "age": 8, "day": None}]
    graph.load(write_lines(folder / "patch.ndjson", new), "patch", engine=engine, type="Person")
    now = {row["name"]: row for row in content(graph)["Person"]}
    assert now["ada"] == {**ada, "age": 8, "day": None}
    assert is_uuid(now["eva"]["token"])
    assert now["eva"]["made"] > ada["made"]


def check_rules_hold_for_kept_values(graph: Graph, folder: Path, engine: str) -> None:
    """Ada keeps her token, so that no other row may take it."""
    graph.load(write_lines(folder / "in.ndjson", INPUT), engine=engine)
    before = content(graph)
    token = before["Person"][0]["token"]
    rows: Rows = [{"name": "ada", "age": 9}, {"name": "thief", "token": token}]
    file = write_lines(folder / "bad.ndjson", rows)
    counts = None
    try:
        graph.load(file, "merge", engine=engine, type="Person")
    except ValidationFailed as error:
        counts = error.counts
    assert counts == {"unique": 1}
    assert content(graph) == before


def check_broken_rows_miss_no_generated_value(graph: Graph, folder: Path, engine: str) -> None:
    rows: Rows = [{"name": "a", "age": "old"}, {"name": "b"}, {"name": "c", "made": None}]
    file = write_lines(folder / "bad.ndjson", rows)
    counts = None
    try:
        graph.load(file, engine=engine, type="Person")
    except ValidationFailed as error:
        counts = error.counts
    assert counts == {"type": 1, "required": 1}


CHECKS: tuple[Callable[[Graph, Path, str], None], ...] = (
    check_new_entities,
    check_every_format,
    check_the_same_input_again,
    check_replaced_entities_keep_their_values,
    check_rules_hold_for_kept_values,
    check_broken_rows_miss_no_generated_value,
)
