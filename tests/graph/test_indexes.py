"""Declared indexes: built by the one write path, always lagging at most, never changing answers."""

from __future__ import annotations

import datetime as dt
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.search import vector_search
from omnigraph.lance_store.search.text_search import text_matches
from omnigraph.lance_store.search.vector_search import nearest
from omnigraph.lance_store.staging import index_builds
from omnigraph.lance_store.staging.index_builds import build_segment
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.maintain.table_upkeep import LocalWork, Pace, index_table
from omnigraph.spark.upkeep import cut_build
from omnigraph.values.indexes import BuiltIndex, IndexBuild
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.invariants import assert_at_rest, content

SCHEMA = """
node Doc {
  slug: String @key
  title: String @index
  status: enum(draft, done) @index
  pages: I32? @index
  day: Date? @index
  tags: [String]? @index
  levels: [I64]? @index
  body: String?
  vec: Vector(4)? @index
  @index(body, contains=true)
}
edge Cites: Doc -> Doc { why: String? @index }
"""
W = "omnigraph_testing.workloads:"


def doc(number: int, **more: Any) -> dict[str, Any]:
    angle = number / 50
    return {
        "slug": f"d{number:04d}",
        "title": f"Title {number % 7} o'clock" if number % 5 else f"Été {number % 3}",
        "status": "draft" if number % 2 else "done",
        "pages": number if number % 3 else None,
        "day": dt.date(2026, 1, number % 28 + 1),
        "tags": ["a", f"t{number % 4}"] if number % 3 else None,
        "levels": [number % 5] if number % 2 else None,
        "body": f"body number {number}" if number % 4 else None,
        "vec": [np.cos(angle), np.sin(angle), 0.5, number % 3] if number % 9 else None,
        **more,
    }


def changed(number: int) -> dict[str, Any]:
    """No property keeps a value that any of the answers below looked for."""
    return doc(
        number,
        title="Title 9 changed",
        status="draft",
        pages=-1,
        day=dt.date(2027, 1, 1),
        tags=["zz"],
        levels=[77],
        body="else",
        vec=[-1, -1, -1, -1],
    )


@pytest.fixture
def docs(uri: str, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setattr(index_builds, "FLAT_ROWS", 50)
    monkeypatch.setattr(vector_search, "FLAT_ROWS", 50)
    graph = init(uri, SCHEMA, settings=workloads.settings())
    insert(graph, range(200))
    return graph


def insert(graph: Graph, numbers: range, branch: str = "main") -> None:
    edges = [
        {"id": f"c{n}", "from": f"d{n:04d}", "to": f"d{numbers[0]:04d}", "why": f"w {n % 3}"}
        for n in numbers
    ]
    rows = [doc(n) for n in numbers]
    graph.apply({"Doc": {"upsert": rows}, "Cites": {"upsert": edges}}, branch)


def pending(graph: Graph, branch: str = "main") -> dict[tuple[str, str], int]:
    return {
        (s.property, s.kind): s.pending_rows
        for s in graph.index_status(branch)
        if s.pending_rows or not s.built
    }


def answers(graph: Graph, branch: str = "main") -> list[Any]:
    """What filters and searches find, in every way the indexes could serve them."""
    snapshot = graph.snapshot(branch)
    pin = snapshot.pin(snapshot.catalog.resolve("Doc").table_key)
    dataset = graph.engine.store.open(pin.at)
    filters = [
        "title = 'Title 3 o''clock'",
        "starts_with(title, 'Title 4')",
        "status = 'done' AND pages > 100",
        "pages IS NULL",
        "day < date '2026-01-05'",
        "array_has(tags, 't2')",
        "array_has(levels, 3)",
        "contains(body, 'number 17')",
        "contains(body, '%')",
    ]
    found: list[Any] = []
    for text in filters:
        rows = dataset.to_table(columns=["id"], filter=text)
        found.append(sorted(rows["id"].to_pylist()))
    for function, query in (("search", "ÉTÉ 4"), ("match_text", "title 2"), ("fuzzy", "titel")):
        found.append(sorted(text_matches(dataset, "title", function, query).ids.to_pylist()))
    ranked = nearest(dataset, "vec", [1, 0.3, 0.5, 1], 400)
    found.append((ranked.ids.to_pylist(), ranked.scores.tolist()))
    wanted = graph.read("Doc", branch, columns=["id"])["id"].combine_chunks()
    found.append(find_rows(dataset, wanted).num_rows)
    return found


def test_everything_declared_is_built_and_changes_no_answer(docs: Graph) -> None:
    before = answers(docs)
    assert docs.ensure_indices() == []
    assert pending(docs) == {}
    assert answers(docs) == before
    kinds = {(s.type_name, s.property): s.kind for s in docs.index_status()}
    assert (kinds["Doc", "vec"], kinds["Doc", "tags"]) == ("vector", "label_list")
    assert kinds["Cites", "src"] == "btree"
    assert_at_rest(docs)
    head = docs.commits.list()[0].graph_commit_id
    versions = {k: p.version for k, p in docs.snapshot().tables.items()}
    assert docs.ensure_indices() == []
    assert {k: p.version for k, p in docs.snapshot().tables.items()} == versions
    assert docs.commits.list()[0].graph_commit_id == head


def test_calibration_leaves_no_detached_version(docs: Graph, uri: str) -> None:
    docs.branches.create("review")
    docs.ensure_indices()
    insert(docs, range(300, 800), "review")
    docs.ensure_indices("review")
    assert {s.built for s in docs.index_status("review")} == {True}
    assert list(Path(uri).rglob("_versions/d*.manifest")) == []


def test_coverage_follows_inserts_updates_deletes_and_compaction(docs: Graph) -> None:
    docs.ensure_indices()
    insert(docs, range(200, 230))
    status = {(s.property, s.kind): s for s in docs.index_status() if s.type_name == "Doc"}
    assert status["vec", "vector"].covered_rows == 200
    assert status["title", "full_text"].pending_rows == 30
    docs.apply({"Doc": {"upsert": [changed(n) for n in range(10)]}})
    docs.apply({"Doc": {"delete": [f"d{n:04d}" for n in range(50, 60)]}})
    lagging = answers(docs)
    docs.ensure_indices()
    assert pending(docs) == {}
    assert answers(docs) == lagging
    assert docs.optimize() == []
    assert pending(docs) == {}
    assert answers(docs) == lagging
    assert_at_rest(docs)


def test_many_segments_are_gathered_into_one(docs: Graph) -> None:
    for start_at in range(200, 300, 10):
        docs.ensure_indices()
        insert(docs, range(start_at, start_at + 10))
    docs.apply({"Doc": {"upsert": [changed(n) for n in range(20)]}})
    before = answers(docs)
    docs.ensure_indices()
    pin = docs.snapshot().pin(docs.snapshot().catalog.resolve("Doc").table_key)
    described = docs.engine.store.open(pin.at).describe_indices()
    assert max(len(index.segments) for index in described) <= 8
    assert pending(docs) == {}
    assert answers(docs) == before


def test_branches_index_what_they_own(docs: Graph) -> None:
    docs.ensure_indices()
    docs.branches.create("review")
    assert pending(docs, "review") == {}
    insert(docs, range(300, 320), "review")
    before, main = answers(docs, "review"), answers(docs)
    assert pending(docs, "review")["title", "full_text"] == 20
    assert pending(docs) == {}
    assert docs.ensure_indices("review") == []
    assert pending(docs, "review") == {}
    assert (answers(docs, "review"), answers(docs)) == (before, main)
    assert_at_rest(docs)


def test_small_vector_columns_need_no_index(uri: str) -> None:
    graph = init(uri, SCHEMA, settings=workloads.settings())
    insert(graph, range(100))
    graph.ensure_indices()
    assert pending(graph) == {("vec", "vector"): 100}
    graph.ensure_indices(types=["Doc"])
    assert_at_rest(graph)


@pytest.mark.crash
@pytest.mark.parametrize(
    "point",
    ["commit.after_stage", "commit.after_arm", "commit.after_advance", "publish.after_swap"],
)
def test_killed_build(docs: Graph, uri: str, point: str) -> None:
    before, rows = answers(docs), content(docs)
    child = start(W + "index_all", {"uri": uri}, failpoints=f"{point}=kill")
    assert child.finish()[0] == -signal.SIGKILL
    reopened = open_graph(uri, settings=workloads.settings())
    assert content(reopened) == rows
    assert answers(reopened) == before
    assert_at_rest(reopened)
    assert reopened.ensure_indices() == []
    assert pending(reopened) == {}
    assert answers(reopened) == before
    assert_at_rest(reopened)


def test_racing_writer(docs: Graph, uri: str) -> None:
    child = start(W + "index_while_told", {"uri": uri, "rounds": 6})
    child.wait_for_report()
    written = 0
    while child.process.poll() is None and written < 200:
        insert(docs, range(1000 + written, 1001 + written))
        written += 1
    code, _, errors = child.finish()
    assert code == 0, errors
    assert docs.read("Doc", columns=["id"]).num_rows == 200 + written
    before = answers(docs)
    docs.ensure_indices()
    assert pending(docs) == {}
    assert answers(docs) == before
    assert_at_rest(docs)


class _InParts(LocalWork):
    """What executors do: an index in as many parts as there are fragments."""

    def index(
        self, store: Store, at: DatasetVersion, builds: tuple[IndexBuild, ...]
    ) -> tuple[BuiltIndex, ...]:
        found = []
        for build in builds:
            parts = [build_segment(store, at, part) for part in cut_build(build, 100)]
            found.append(BuiltIndex(build, tuple(part for part in parts if part is not None)))
        return tuple(found)


def test_an_index_built_in_parts_is_the_one_built_at_once(docs: Graph) -> None:
    pace = Pace(work=_InParts())
    keys = [entity.table_key for entity in docs.snapshot().catalog.entity_types()]
    for numbers in (range(200, 260), range(260, 300), range(30, 60)):
        insert(docs, numbers)
    docs.apply({"Doc": {"upsert": [changed(7)], "delete": ["d0201"]}})
    before = answers(docs)
    for key in keys:
        assert index_table(docs.engine.transaction, "main", key, None, pace)
    assert pending(docs) == {}
    assert answers(docs) == before
    insert(docs, range(300, 340))
    docs.apply({"Doc": {"upsert": [changed(301)]}})
    before = answers(docs)
    for key in keys:
        assert index_table(docs.engine.transaction, "main", key, None, pace)
    assert pending(docs) == {}
    assert answers(docs) == before
    assert docs.verify(full=True).ok
