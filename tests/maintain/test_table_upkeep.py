from __future__ import annotations

import pickle
import random
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.errors import NotFound
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.reads.scan import TableShape
from omnigraph.lance_store.staging.compaction import run_compaction
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.maintain.table_upkeep import Layout, LocalWork, Pace, is_due, optimize_table
from omnigraph.settings.models import MaintenanceSettings, Settings
from omnigraph.values.identifiers import node_table
from omnigraph.values.indexes import BuiltIndex, IndexBuild, IndexKind
from omnigraph_testing.invariants import assert_at_rest, content

SLOW = pytest.mark.slow


@pytest.fixture
def grown(graph: Graph) -> Graph:
    graph.branches.create("b")
    graph.branches.create("lazy")
    for number in range(6):
        for branch in ("main", "b"):
            edits = {"Note": {"insert": [{"id": f"{branch}{number}", "text": "x"}]}}
            graph.apply(edits, branch)
    return graph


def fragments(graph: Graph, type_name: str = "Note") -> dict[str, int]:
    return {
        branch.name: table.fragments
        for branch in graph.status().branches
        for table in branch.tables
        if table.type_name == type_name
    }


def test_all_branches_are_optimized_and_none_is_forked(grown: Graph) -> None:
    wanted = {branch: content(grown, branch) for branch in ("main", "b", "lazy")}
    assert fragments(grown)["b"] == 7
    assert grown.optimize() == []
    assert fragments(grown) == {"main": 1, "b": 1, "lazy": 1}
    assert {branch: content(grown, branch) for branch in wanted} == wanted
    lazy = {b.name: b for b in grown.status().branches}["lazy"]
    assert not any(table.owned for table in lazy.tables)
    assert grown.verify().ok
    assert_at_rest(grown)


def test_one_branch_or_one_type(grown: Graph) -> None:
    assert grown.optimize("b") == []
    assert fragments(grown) == {"main": 7, "b": 1, "lazy": 1}
    assert grown.optimize(types=["Person"]) == []
    assert fragments(grown)["main"] == 7
    assert grown.optimize(types=["Note"]) == []
    assert fragments(grown)["main"] == 1
    with pytest.raises(NotFound):
        grown.optimize(types=["Nobody"])
    with pytest.raises(NotFound):
        grown.optimize("nowhere")


def test_the_command(grown: Graph) -> None:
    done = CliRunner().invoke(app, ["optimize", grown.uri])
    assert done.exit_code == 0, done.output
    assert fragments(grown) == {"main": 1, "b": 1, "lazy": 1}


def _run_elsewhere(uri: str, at: bytes, task: str) -> str:
    version: DatasetVersion = pickle.loads(at)
    return run_compaction(Store(parse_location(uri, {})), version, task)


def test_tasks_may_run_in_other_processes(grown: Graph) -> None:
    """What a Spark job does: plan here, rewrite there, commit here."""
    before = content(grown, "b")
    ran: list[str] = []

    class Elsewhere(LocalWork):
        def compact(
            self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]
        ) -> tuple[str, ...]:
            ran.extend(tasks)
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                uris, ats = [store.location.uri] * len(tasks), [pickle.dumps(at)] * len(tasks)
                return tuple(pool.map(_run_elsewhere, uris, ats, tasks))

    pace = Pace(work=Elsewhere())
    for branch in ("main", "b"):
        assert optimize_table(grown.engine.transaction, branch, node_table("Note"), None, pace)
    assert len(ran) >= 2
    assert fragments(grown) == {"main": 1, "b": 1, "lazy": 1}
    assert content(grown, "b") == before
    assert grown.verify().ok


def test_tasks_that_run_while_the_table_moves_are_not_adopted(grown: Graph) -> None:
    class Late(LocalWork):
        def compact(
            self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]
        ) -> tuple[str, ...]:
            results = super().compact(store, at, tasks)
            grown.apply({"Note": {"upsert": [{"id": "main0", "text": "meanwhile"}]}})
            return results

    key, pace = node_table("Note"), Pace(work=Late())
    assert not optimize_table(grown.engine.transaction, "main", key, None, pace)
    assert content(grown)["Note"]["main0"]["text"] == "meanwhile"
    assert_at_rest(grown)


def test_rows_that_are_added_while_a_table_is_compacted_do_not_stop_it(grown: Graph) -> None:
    class Slow(LocalWork):
        def compact(
            self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]
        ) -> tuple[str, ...]:
            results = super().compact(store, at, tasks)
            grown.apply({"Note": {"insert": [{"id": "new", "text": "meanwhile"}]}})
            return results

    wanted = set(content(grown)["Note"]) | {"new"}
    key, pace = node_table("Note"), Pace(work=Slow())
    assert optimize_table(grown.engine.transaction, "main", key, None, pace)
    assert fragments(grown)["main"] == 2
    assert set(content(grown)["Note"]) == wanted
    assert grown.verify().ok
    assert_at_rest(grown)


INDEXED = """
node Doc {
  name: String @key
  place: String @index
  text: String @index
  tags: [String] @index
  @index(text, contains=true)
}
"""
QUESTIONS = """
query by_key($x: String) { match { $d: Doc { name: $x } } return { $d.name as name } }
query by_place($x: String) { match { $d: Doc { place: $x } } return { $d.name as name } }
query by_word($x: String) { match { $d: Doc  search($d.text, $x) } return { $d.name as name } }
query by_part($x: String) { match { $d: Doc  $d.text contains $x } return { $d.name as name } }
query by_tag($x: String) { match { $d: Doc  $d.tags contains $x } return { $d.name as name } }
"""


class Meddling(LocalWork):
    """Upkeep during which rows are added, changed and deleted, as a seed says."""

    def __init__(self, graph: Graph, chance: random.Random) -> None:
        self.graph = graph
        self.chance = chance
        self.docs: dict[str, tuple[str, str, str]] = {}

    def write(self, most: int) -> None:
        for _ in range(self.chance.randrange(most + 1)):
            name = f"d{self.chance.randrange(40)}"
            if name in self.docs and self.chance.random() < 0.4:
                self.graph.apply({"Doc": {"delete": [name]}})
                del self.docs[name]
                continue
            place, word, tag = (f"{kind}{self.chance.randrange(4)}" for kind in ("p", "w", "t"))
            row = {"name": name, "place": place, "text": f"a {word}", "tags": [tag]}
            self.graph.apply({"Doc": {"upsert": [row]}})
            self.docs[name] = (place, word, tag)

    def compact(self, store: Store, at: DatasetVersion, tasks: tuple[str, ...]) -> tuple[str, ...]:
        results = super().compact(store, at, tasks)
        self.write(2)
        return results

    def index(
        self, store: Store, at: DatasetVersion, builds: tuple[IndexBuild, ...]
    ) -> tuple[BuiltIndex, ...]:
        built = super().index(store, at, builds)
        self.write(3)
        return built


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(n, marks=SLOW) for n in range(2, 40))])
def test_writes_during_upkeep_are_found_through_every_index(uri: str, seed: int) -> None:
    upkeep = MaintenanceSettings(automatic=False)
    graph = init(uri, INDEXED, settings=Settings(maintenance=upkeep))
    work = Meddling(graph, random.Random(seed))
    adopted = 0
    for _ in range(6):
        work.write(8)
        pace = Pace(work=work)
        adopted += optimize_table(graph.engine.transaction, "main", node_table("Doc"), None, pace)
        with open_graph(uri, settings=Settings(maintenance=upkeep)) as fresh:
            for number in range(4):
                for question, kind, column in FOUND_BY:
                    value = f"{kind}{number}"
                    found = fresh.query(QUESTIONS, question, params={"x": value}).to_pylist()
                    wanted = {n for n, values in work.docs.items() if values[column] == value}
                    assert {row["name"] for row in found} == wanted, (question, value)
            for name in (f"d{n}" for n in range(40)):
                found = fresh.query(QUESTIONS, "by_key", params={"x": name}).to_pylist()
                assert bool(found) == (name in work.docs), name
    assert adopted
    assert graph.verify().ok
    assert_at_rest(graph)


FOUND_BY = (("by_place", "p", 0), ("by_word", "w", 1), ("by_part", "w", 1), ("by_tag", "t", 2))


class Interrupted(LocalWork):
    """Upkeep during which rows are written once, after its first indexes; it notes its builds."""

    def __init__(self, graph: Graph, edits: list[Mapping[str, Any]]) -> None:
        self.graph = graph
        self.edits = edits
        self.builds: list[IndexBuild] = []

    def index(
        self, store: Store, at: DatasetVersion, builds: tuple[IndexBuild, ...]
    ) -> tuple[BuiltIndex, ...]:
        built = super().index(store, at, builds)
        self.builds += builds
        while self.edits:
            self.graph.apply({"Doc": self.edits.pop()})
        return built


def doc(number: int, word: str) -> dict[str, object]:
    return {"name": f"d{number}", "place": "p", "text": f"a {word}", "tags": [word]}


@pytest.mark.parametrize("changes", [False, True])
def test_no_index_starts_over_for_rows_that_come_during_upkeep(uri: str, changes: bool) -> None:
    """They are compacted before they are indexed. A changed row is another one for an index."""
    upkeep = MaintenanceSettings(automatic=False)
    graph = init(uri, INDEXED, settings=Settings(maintenance=upkeep))
    first = 0 if changes else 30
    later = [{"upsert": [doc(number, "new")]} for number in range(first, first + 3)]
    work = Interrupted(graph, [])
    for number in range(5):
        rows = [doc(n, "old") for n in range(number * 4, number * 4 + 4)]
        graph.apply({"Doc": {"insert": rows}})
    key, transaction = node_table("Doc"), graph.engine.transaction
    assert optimize_table(transaction, "main", key, None, Pace(work=work))
    graph.apply({"Doc": {"insert": [doc(20, "old")]}})
    work.edits, work.builds = later, []
    assert optimize_table(transaction, "main", key, None, Pace(work=work))
    assert {build.spec.kind for build in work.builds} > {IndexKind.FULL_TEXT, IndexKind.LIST}
    each = len(work.builds) // 2
    assert [sum(build.rows) for build in work.builds] == [1] * each + [3] * each
    with open_graph(uri, settings=Settings(maintenance=upkeep)) as fresh:
        for word, numbers in (
            ("old", set(range(21)) - set(range(first, first + 3))),
            ("new", set(range(first, first + 3))),
        ):
            for question in ("by_word", "by_part", "by_tag"):
                found = fresh.query(QUESTIONS, question, params={"x": word}).to_pylist()
                assert {row["name"] for row in found} == {f"d{n}" for n in numbers}, question
    assert graph.verify().ok


LIMITS = MaintenanceSettings(fragments=10, deleted_share=0.5, unindexed_rows=100)


@pytest.mark.parametrize(
    ("small", "deleted", "stored", "unindexed", "due"),
    [
        (0, 0, 0, 0, False),
        (9, 0, 100, 99, False),
        (10, 0, 100, 0, True),
        (1, 0, 100, 100, True),
        (1, 900, 1000, 0, False),  # so few are not worth a pass, even if their share is large
        (1, 1001, 1500, 0, True),
        (1, 1001, 3000, 0, False),
    ],
)
def test_when_upkeep_is_due(
    small: int, deleted: int, stored: int, unindexed: int, due: bool
) -> None:
    shape = TableShape(small, small, deleted, stored, stored * 10)
    assert is_due(Layout(shape, 1, unindexed), LIMITS) is due
