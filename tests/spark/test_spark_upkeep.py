"""Upkeep with `engine="spark"`: executors rewrite and index, the driver commits, answers stay."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.lance_store.search import vector_search
from omnigraph.lance_store.search.text_search import text_matches
from omnigraph.lance_store.search.vector_search import nearest
from omnigraph.lance_store.staging import index_builds
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph.values.identifiers import node_table
from omnigraph.writes.shape import Edit
from omnigraph_testing.graph_helpers import with_parts
from omnigraph_testing.invariants import assert_at_rest

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.timeout(900),
]
SCHEMA = """
node P { name: String @key  n: I32  text: String @index }
edge K: P -> P
"""
DOCS = """
node Doc {
  slug: String @key
  title: String @index
  pages: I32 @index
  tags: [String] @index
  vec: Vector(4) @index
  body: String
  @index(body, contains=true)
}
edge Cites: Doc -> Doc
"""
UNATTENDED = Settings(maintenance=MaintenanceSettings(automatic=False))
ALL = "query q() { match { $p: P optional { $p k $q } } return { $p, $q.name } }"


@pytest.fixture
def scattered(tmp_path: Path) -> Graph:
    """Many small fragments, some rows replaced and deleted."""
    graph = init(tmp_path / "g", SCHEMA)
    for n in range(12):
        person = {"name": f"p{n}", "n": n, "text": f"word{n}"}
        graph.apply({"P": Edit(insert=[person]), "K": Edit(insert=[{"from": f"p{n}", "to": "p0"}])})
    graph.apply({"P": Edit(upsert=[{"name": "p3", "n": 33, "text": "other"}])})
    graph.apply({"P": Edit(delete=["p5"])})
    return graph


def fragments(graph: Graph, branch: str = "main") -> int:
    at = graph.snapshot(branch).pin(node_table("P")).at
    return len(graph.engine.store.open(at).get_fragments())


def test_the_files_are_fewer_and_nothing_else_changed(scattered: Graph) -> None:
    before, head = scattered.query(ALL).to_arrow(), scattered.snapshot().graph_commit_id
    assert fragments(scattered) > 5
    assert scattered.optimize(engine="spark") == []
    assert fragments(scattered) == 1
    assert scattered.snapshot().graph_commit_id == head
    assert scattered.query(ALL).to_arrow() == before
    assert all(row.pending_rows == 0 for row in scattered.index_status())
    assert_at_rest(scattered)
    assert scattered.optimize(engine="spark") == [], "nothing is left to do"


def test_a_branch_is_rewritten_by_itself(scattered: Graph) -> None:
    scattered.branches.create("b")
    scattered.apply({"P": Edit(insert=[{"name": "new", "n": 0, "text": "x"}])}, "b")
    many = fragments(scattered)
    before = scattered.query(ALL, branch="b").to_arrow()
    assert scattered.optimize("b", ["P"], engine="spark") == []
    assert (fragments(scattered, "b"), fragments(scattered)) == (1, many)
    assert scattered.query(ALL, branch="b").to_arrow() == before


def test_a_writer_who_changes_rows_in_between_wins(scattered: Graph, monkeypatch: Any) -> None:
    upkeep = type(scattered.engine.spark_upkeep)
    compact = upkeep.compact

    def slow(self: Any, store: Any, at: Any, tasks: Any) -> Any:
        done = compact(self, store, at, tasks)
        late = {"name": "late", "n": 1, "text": os.urandom(4).hex()}
        scattered.apply({"P": Edit(upsert=[late])})
        return done

    scattered.apply({"P": Edit(insert=[{"name": "late", "n": 0, "text": ""}])})
    monkeypatch.setattr(upkeep, "compact", slow)
    assert scattered.optimize("main", ["P"], engine="spark") == ["P"]
    late = 'query q() { match { $p: P { name: "late" } } return { $p.n } }'
    assert [list(row.values()) for row in scattered.query(late).to_pylist()] == [[1]]
    assert_at_rest(scattered)


def test_a_compaction_outlives_a_writer_who_adds_rows(scattered: Graph, monkeypatch: Any) -> None:
    upkeep = type(scattered.engine.spark_upkeep)
    compact = upkeep.compact

    def slow(self: Any, store: Any, at: Any, tasks: Any) -> Any:
        done = compact(self, store, at, tasks)
        scattered.apply({"P": Edit(insert=[{"name": "late", "n": 1, "text": ""}])})
        return done

    count = "query q() { match { $p: P } return { count($p) as n } }"
    before = scattered.query(count).to_pylist()[0]["n"]
    monkeypatch.setattr(upkeep, "compact", slow)
    assert scattered.optimize("main", ["P"], engine="spark") == []
    assert fragments(scattered) == 2, "the rewritten rows and the late one"
    assert scattered.query(count).to_pylist() == [{"n": before + 1}]
    assert_at_rest(scattered)


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    # Workers are other processes: what is patched here holds for the plan, which they are sent.
    monkeypatch.setattr(index_builds, "FLAT_ROWS", 50)
    monkeypatch.setattr(vector_search, "FLAT_ROWS", 50)
    return documents(tmp_path / "docs")


def documents(path: Path) -> Graph:
    """An index of every kind to be built, over several fragments."""
    graph = init(path, DOCS, settings=UNATTENDED)
    for start in range(0, 400, 100):
        rows = [doc(n) for n in range(start, start + 100)]
        edges = [{"from": row["slug"], "to": rows[0]["slug"]} for row in rows]
        graph.apply({"Doc": Edit(insert=rows), "Cites": Edit(insert=edges)})
    graph.apply({"Doc": Edit(upsert=[doc(7, title="changed", tags=["z"])], delete=["d0399"])})
    upkeep = replace(graph.engine.spark_upkeep, rows_per_part=1)
    return with_parts(graph, spark_upkeep=upkeep)


def doc(n: int, **more: Any) -> dict[str, Any]:
    vector = [math.cos(n / 50), math.sin(n / 50), 0.5, n % 3]
    words = {"title": f"Title {n % 7}", "body": f"body number {n}", "tags": ["a", f"t{n % 4}"]}
    return {"slug": f"d{n:04}", "pages": n % 50, "vec": vector, **words, **more}


def answers(graph: Graph) -> list[Any]:
    at = graph.snapshot().pin(node_table("Doc")).at
    dataset = graph.engine.store.open(at)
    filters = ("title = 'Title 3'", "pages < 4", "array_has(tags, 't2')", "contains(body, 'r 17')")
    found: list[Any] = []
    for text in filters:
        rows = dataset.to_table(columns=["id"], filter=text)
        found.append(sorted(rows["id"].to_pylist()))
    found.append(sorted(text_matches(dataset, "title", "search", "4").ids.to_pylist()))
    found.append(nearest(dataset, "vec", [1, 0.3, 0.5, 1], 500).ids.to_pylist())
    return found


def segments(graph: Graph) -> dict[str, int]:
    at = graph.snapshot().pin(node_table("Doc")).at
    described = graph.engine.store.open(at).describe_indices()
    return {index.field_names[0] + index.index_type: len(index.segments) for index in described}


def test_indexes_of_every_kind_are_the_local_ones(docs: Graph, tmp_path: Path) -> None:
    twin = documents(tmp_path / "twin")
    for more in (range(0), range(400, 450), range(450, 500)):
        for graph, engine in ((docs, "spark"), (twin, "local")):
            graph.apply({"Doc": Edit(insert=[doc(n) for n in more])})
            before = answers(graph)
            assert graph.ensure_indices(engine=engine) == []
            assert answers(graph) == before
        assert all(row.built and row.pending_rows == 0 for row in docs.index_status())
        assert docs.index_status() == twin.index_status()
        assert segments(docs) == segments(twin)
        assert answers(docs) == answers(twin)
    kinds = {row.kind for row in docs.index_status()}
    assert kinds == {"btree", "full_text", "ngram", "label_list", "vector"}
    assert docs.verify(full=True).ok
    before = answers(docs)
    assert docs.optimize(engine="spark") == []
    assert answers(docs) == before
    assert docs.verify(full=True).ok
    assert_at_rest(docs)


def test_an_index_outlives_a_writer_who_adds_rows(docs: Graph, monkeypatch: Any) -> None:
    upkeep = type(docs.engine.spark_upkeep)
    index = upkeep.index
    late: list[int] = []

    def slow(self: Any, store: Any, at: Any, builds: Any) -> Any:
        done = index(self, store, at, builds)
        if not late:
            late.append(900)
            docs.apply({"Doc": Edit(insert=[doc(900)])})
        return done

    monkeypatch.setattr(upkeep, "index", slow)
    assert docs.ensure_indices(types=["Doc"], engine="spark") == []
    assert late
    states = [row for row in docs.index_status() if row.type_name == "Doc"]
    assert states
    assert all(row.pending_rows <= 1 for row in states), "only the late row is left"
    assert docs.ensure_indices(types=["Doc"], engine="spark") == []
    assert all(row.pending_rows == 0 for row in docs.index_status() if row.type_name == "Doc")
    assert docs.verify(full=True).ok


def test_other_engines_are_refused(scattered: Graph) -> None:
    with pytest.raises(InvalidArgument, match="known engines: local, spark"):
        scattered.optimize(engine="flink")
