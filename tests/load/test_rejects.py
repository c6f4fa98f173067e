"""Rows that a load rejects: the file that lists them, and the load that goes on without them."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph import Graph, init
from omnigraph.embed.mock import MockProvider
from omnigraph.errors import InvalidArgument, KeyConflict, ValidationFailed
from omnigraph.settings.models import EmbeddingSettings, Settings
from omnigraph_testing.graph_helpers import exported, with_parts
from omnigraph_testing.load_suite import base_graph

DIRTY = Path(__file__).parents[1] / "fixtures" / "dirty"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return init(tmp_path / "g.omni", DIRTY / "schema.pg")


def listed(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def places(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(Path(row["file"]).name, []).append(row["line"])
    return found


def test_a_mess_is_cleaned_in_one_round(graph: Graph, tmp_path: Path) -> None:
    bad = tmp_path / "bad.ndjson"
    receipt = graph.load(DIRTY, on_error="skip", rejects=bad)
    rows = listed(bad)
    assert places(rows) == {
        "Member.csv": [3, 4, 5, 6, 7, 8, 10, 13, 14],
        "Person.csv": [3, 4, 5, 6, 7, 8, 9, 13],
        "more.ndjson": [5, 6, 8, 9, 12, 13, 14],
    }
    assert receipt.rejected == len(rows) == 24
    assert sorted(graph.read("Person")["name"].to_pylist()) == [
        "Ada",
        'Gus, the "second"',
        "Hal",
        "Max",
    ]
    assert graph.read("Member").num_rows == 5
    assert graph.verify().ok
    # What is listed can be corrected and loaded.
    (bob,) = (row["row"] for row in rows if row["line"] == 3 and row["type"] == "Person")
    assert bob["email"] == "bob@x.org"
    bob |= {"age": 40, "status": "left", "born": "1915-12-10", "score": 1.5}
    member = next(row["row"] for row in rows if row["row"] == {**MEMBER, "from": "bob@x.org"})
    lines = [
        {"type": "Person", "data": bob},
        {"edge": "Member", "from": member["from"], "to": member["to"]},
    ]
    good = tmp_path / "good.ndjson"
    good.write_text("\n".join(map(json.dumps, lines)))
    assert graph.load(good).rejected == 0


MEMBER = {"to": "Core", "since": ""}


def test_every_mistake_of_a_row_is_listed(graph: Graph, tmp_path: Path) -> None:
    bad = tmp_path / "bad.ndjson"
    with pytest.raises(ValidationFailed) as caught:
        graph.load(DIRTY, rejects=bad)
    rows = listed(bad)
    bob = next(row for row in rows if row["line"] == 3 and row["type"] == "Person")
    assert {v["property"] for v in bob["violations"]} == {"age", "status", "born", "score"}
    assert bob["message"].count(";") >= 3
    # An edge is not to blame for a node that is there and broken.
    assert places(rows)["Member.csv"] == [8, 10, 13, 14]
    assert caught.value.total > len(rows)
    assert sum(entry["count"] for entry in caught.value.summary or ()) == caught.value.total
    assert graph.commits.list()[0].operation == "init"


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_nothing_to_reject(graph: Graph, tmp_path: Path, on_error: str) -> None:
    bad = tmp_path / "bad.ndjson"
    bad.write_text("of an earlier load")
    table = pa.table({"name": ["Core", "Docs"]})
    receipt = graph.load(table, type="Team", on_error=on_error, rejects=bad)
    assert (receipt.rejected, receipt.total_entities, bad.read_text()) == (0, 2, "")


def test_rows_of_tables_and_streams(tmp_path: Path) -> None:
    graph = base_graph(tmp_path)
    bad = tmp_path / "bad.ndjson"
    people = pa.table({"name": ["p", "q"], "age": [7, 999], "photo": [b"\x00\xff", b""]})
    receipt = graph.load(people, type="Person", on_error="skip", rejects=bad, max_errors=0)
    assert (receipt.rejected, receipt.commit) == (2, None)
    by_age, by_home = sorted(listed(bad), key=lambda row: row["line"], reverse=True)
    assert (by_age["line"], by_age["rule"]) == (2, "range")
    assert by_age["row"] == {"name": "q", "age": 999, "photo": "base64:"}
    assert (by_home["line"], by_home["rule"]) == (1, "cardinality")
    assert by_home["row"]["photo"] == "base64:AP8="
    once = pa.RecordBatchReader.from_batches(people.schema, people.to_batches())
    graph.load(once, type="Person", on_error="skip", rejects=bad)
    assert [row["row"] for row in listed(bad)] == [
        {"type": "Person", "data": {"name": "p", "age": 7, "photo": "base64:AP8="}},
        {"name": "q", "age": 999, "photo": "base64:"},
    ]


def test_a_merge_without_its_bad_rows(tmp_path: Path) -> None:
    graph = base_graph(tmp_path)
    before = exported(graph)
    table = pa.table({"name": ["ada", "bob"], "age": [40, -1]})
    receipt = graph.load(table, "merge", type="Person", on_error="skip")
    assert (receipt.rejected, receipt.nodes[0].updated) == (1, 1)
    assert exported(graph) != before


def test_an_overwrite_that_no_row_is_to_blame_for(tmp_path: Path) -> None:
    graph = base_graph(tmp_path)
    before = exported(graph)
    home = '{"edge":"LivesIn","from":"ada","to":"[\\"at\\",\\"1\\"]"}'
    path = tmp_path / "in.ndjson"
    path.write_text(home)
    with pytest.raises(ValidationFailed, match="Person 'bob' would have 0 edges of LivesIn"):
        graph.load(path, "overwrite", on_error="skip")
    assert exported(graph) == before


def test_existing_ids_alone_are_a_key_conflict(tmp_path: Path) -> None:
    graph = base_graph(tmp_path)
    with pytest.raises(KeyConflict) as caught:
        graph.load(pa.table({"name": ["ada", "bob"]}), type="Person", rejects=tmp_path / "bad")
    assert list(caught.value.ids) == ["ada", "bob"]
    assert [row["row"] for row in listed(tmp_path / "bad")] == [{"name": "ada"}, {"name": "bob"}]


def test_a_file_that_cannot_be_written(graph: Graph, tmp_path: Path) -> None:
    table = pa.table({"name": ["Core"]})
    for path, reason in (
        (tmp_path, "is a directory"),
        (tmp_path / "none" / "bad.ndjson", "does not exist"),
        ("s3://bucket/bad.ndjson", "local file"),
    ):
        with pytest.raises(InvalidArgument, match=reason):
            graph.load(table, type="Team", rejects=path)
    with pytest.raises(InvalidArgument, match="on_error"):
        graph.load(table, type="Team", on_error="ignore")
    with pytest.raises(InvalidArgument, match="max_errors"):
        graph.load(table, type="Team", max_errors=3)
    with pytest.raises(InvalidArgument, match="max_errors"):
        graph.load(table, type="Team", on_error="skip", max_errors=-1)
    assert graph.read("Team").num_rows == 0


def test_no_vector_is_made_for_a_load_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = """
    node Doc { name: String @key  text: String  vec: Vector(8) @embed("text", model="m") }
    edge Cites: Doc -> Doc
    """
    chosen = Settings(embedding=EmbeddingSettings(provider="mock", model="m", width=8))
    graph = init(tmp_path / "g.omni", schema, settings=chosen)
    asked: list[str] = []
    embed = MockProvider.embed

    def counting(self: MockProvider, texts: Any) -> Any:
        asked.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(MockProvider, "embed", counting)
    path = tmp_path / "in.ndjson"
    good = '{"type":"Doc","data":{"name":"a","text":"x"}}\n{"type":"Doc","data":{"name":"b"}}\n'
    path.write_text(f'{good}{{"edge":"Cites","from":"a","to":"none"}}')
    with pytest.raises(ValidationFailed) as caught:
        graph.load(path)
    # The text of `b` is missing, and so is its vector.
    assert caught.value.counts == {"required": 2, "endpoint": 1}
    assert asked == []
    assert graph.load(path, on_error="skip").rejected == 2
    assert asked == ["x"]
    assert graph.read("Doc")["vec"].null_count == 0


def test_the_summary_on_a_terminal(graph: Graph, tmp_path: Path) -> None:
    table = pa.table({"email": ["a@b", "b", "c"], "name": ["A", None, "C"], "age": [1, 2, 300]})
    with pytest.raises(ValidationFailed) as caught:
        graph.load(table, type="Person")
    pattern = (
        r"5 violations \(check of Person.email: 2, cardinality of Member: 1, .*\); the first: "
    )
    assert re.match(pattern, caught.value.message)


NAMES = st.sampled_from("abcdx")
LINES = st.one_of(
    st.builds(
        lambda name, age, code: {"type": "P", "data": {"name": name, "age": age, "code": code}},
        NAMES,
        st.sampled_from([1, 2, -1, "old", None]),
        st.sampled_from([None, None, "A", "B"]),
    ),
    st.builds(
        lambda source, target, more: {"edge": "E", "from": source, "to": target, "data": more},
        NAMES,
        NAMES,
        st.sampled_from([{}, {"w": 1}, {"w": "x"}, {"id": "e1"}, {"id": "e2"}]),
    ),
    st.builds(lambda source, target: {"edge": "O", "from": source, "to": target}, NAMES, NAMES),
)
PROPERTY_SCHEMA = """
node P { name: String @key  age: I32?  code: String?  @range(age, 0..9)  @unique(code) }
edge E: P -> P @card(0..2) { w: I32?  @unique(src, dst) }
edge O: P -> P @card(1..1)
"""


def content(graph: Graph) -> list[dict[str, Any]]:
    rows = [row for name in ("P", "E", "O") for row in graph.read(name).to_pylist()]
    made = ("src", "dst", "w")
    return [
        {name: row[name] for name in made if name in row} if len(row.get("id", "")) > 9 else row
        for row in rows
    ]


@settings(max_examples=25)
@given(
    st.lists(LINES, max_size=12),
    st.lists(LINES, max_size=12),
    st.sampled_from(["append", "merge", "overwrite"]),
    st.booleans(),
)
def test_what_is_left_loads_by_itself(
    before: list[Any], lines: list[Any], mode: str, joined: bool
) -> None:
    """A load that skips equals a load of the rows that it does not reject."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start, path, bad = (folder / f"{n}.ndjson" for n in ("start", "in", "bad"))
        start.write_text("\n".join(map(json.dumps, before)))
        graphs = [init(folder / n, PROPERTY_SCHEMA) for n in ("skips.omni", "fails.omni")]
        for graph in graphs:
            graph.load(start, on_error="skip")
        skips, fails = graphs
        if joined:
            skips = with_parts(skips, loader=replace(skips.engine.loader, small_input=-1))
        path.write_text("\n".join(map(json.dumps, lines)))
        try:
            receipt = skips.load(path, mode, on_error="skip", rejects=bad)
        except ValidationFailed:
            assert mode == "overwrite"  # it can take stored edges away, which is no row's fault
            return
        rejected = {row["line"] for row in listed(bad)}
        assert receipt.rejected == len(rejected)
        left = [line for number, line in enumerate(lines, 1) if number not in rejected]
        path.write_text("\n".join(map(json.dumps, left)))
        fails.load(path, mode)
        assert sorted(map(str, content(skips))) == sorted(map(str, content(fails)))
        assert skips.verify().ok
