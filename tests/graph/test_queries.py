"""Queries through the Graph: branches, time travel, limits, explain, concurrent writes."""

from __future__ import annotations

import datetime as dt
import sys
import threading
from pathlib import Path

import pytest

from omnigraph.embed.local import LocalProvider
from omnigraph.errors import (
    InvalidArgument,
    NotFound,
    OmnigraphError,
    PackageMissing,
    ParseError,
    ResourceLimit,
    TypeCheckError,
)
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init, open_graph
from omnigraph.settings.models import ReadSettings, Settings

NAMES = "query names() { match { $p: Person } return { $p.name, $p.age } }"
FRIENDS = (
    "query friends($who: String) { match { $p: Person { name: $who } $p knows $f } "
    "return { $f.name } }"
)


def names(graph: Graph, **where: str) -> list[str]:
    return [row["p.name"] for row in graph.query(NAMES, **where).to_pylist()]


def test_a_query_sees_one_branch_and_one_commit(graph: Graph) -> None:
    before = graph.commits.list()[0].graph_commit_id
    graph.branches.create("review")
    graph.apply({"Person": {"upsert": [{"name": "eve"}]}}, "review")
    graph.tags.create("v1", "review")
    graph.apply({"Person": {"delete": ["bob"]}})
    assert names(graph) == ["ada"]
    assert names(graph, branch="review") == ["ada", "bob", "eve"]
    assert names(graph, at=before) == ["ada", "bob"]
    assert names(graph, at="v1") == ["ada", "bob", "eve"]
    result = graph.query(NAMES)
    assert result.graph_commit_id == graph.commits.list()[0].graph_commit_id
    assert (result.query_name, result.columns, result.row_count) == (
        "names",
        ["p.name", "p.age"],
        1,
    )


def test_updates_of_nodes_and_edges_show_at_once(graph: Graph) -> None:
    def friends() -> list[str]:
        return [r["f.name"] for r in graph.query(FRIENDS, params={"who": "ada"}).to_pylist()]

    assert friends() == ["bob"]
    graph.apply(
        {
            "Person": {"insert": [{"name": "aaa"}]},
            "Knows": {"insert": [{"id": "k9", "from": "ada", "to": "aaa"}]},
        }
    )
    assert friends() == ["aaa", "bob"]
    graph.apply({"Knows": {"delete": ["k0"]}})
    assert friends() == ["aaa"]
    graph.optimize()
    assert friends() == ["aaa"]


def test_a_query_in_flight_is_not_disturbed_by_writers(graph: Graph) -> None:
    """Every answer is the state of some commit: the pair is always updated together."""
    stop = threading.Event()
    torn: list[object] = []
    pair = "query pair() { match { $p: Person } return { $p.age } }"

    def read() -> None:
        while not stop.is_set():
            ages = {row["p.age"] for row in graph.query(pair).to_pylist()}
            if len(ages) != 1:
                torn.append(ages)

    graph.apply({"Person": {"upsert": [{"name": n, "age": 0} for n in ("ada", "bob")]}})
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for age in range(1, 25):
        graph.apply({"Person": {"upsert": [{"name": n, "age": age} for n in ("ada", "bob")]}})
        if age % 8 == 0:
            graph.optimize(types=["Person"])
    stop.set()
    for reader in readers:
        reader.join()
    assert torn == []


def test_batches_and_arrow(graph: Graph) -> None:
    result = graph.query(NAMES)
    assert [b.num_rows for b in result.batches(rows=1)] == [1, 1]
    assert result.to_arrow().column_names == ["p.name", "p.age"]


def test_data_frames(graph: Graph) -> None:
    result = graph.query(NAMES)
    assert result.to_pandas().to_dict("records") == result.to_pylist()
    assert result.to_polars().to_dicts() == result.to_pylist()


def test_a_mutation_is_not_a_query(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="mutate"):
        graph.query('query m() { insert Person { name: "x" } }')
    with pytest.raises(ParseError):
        graph.query("query q( {")


def test_a_deadline_and_a_budget_are_errors(graph: Graph, uri: str) -> None:
    with pytest.raises(ResourceLimit, match="time") as late:
        graph.query(NAMES, timeout=-1)
    assert late.value.limit == "timeout"
    tight = open_graph(uri, read_only=True, settings=Settings(read=ReadSettings(memory_bytes=16)))
    product = "query q() { match { $a: Person $b: Person } return { $a.name, $b.name } }"
    with pytest.raises(ResourceLimit, match="budget") as large:
        tight.query(product)
    assert (large.value.limit, large.value.rows) == ("memory", 4)


def test_explain_and_profile_name_every_operator(graph: Graph) -> None:
    explained = graph.explain(FRIENDS)
    plan = str(explained).splitlines()
    assert [line.split()[0] for line in plan] == [
        "LookUp",
        "Expand",
        "Keep",
        "OrderBy",
        "Project",
    ]
    assert graph.explain(FRIENDS, None, {"who": "ada"}, "main") == explained
    with pytest.raises(InvalidArgument, match=r"\$who"):
        graph.explain(FRIENDS, params={"who": 5})
    measured = graph.profile(FRIENDS, params={"who": "ada"})
    profile = str(measured).splitlines()
    assert len(profile) == len(plan)
    assert all(" rows " in line and " ms " in line for line in profile)


def test_plans_are_data_too(graph: Graph) -> None:
    plan = graph.explain(FRIENDS)
    assert repr(plan) == str(plan)
    first = plan.operators[0]
    assert (first.name, first.depth, first.estimated_rows) == ("LookUp", 0, 1)
    assert first.details.startswith("$p")
    assert first.reason.startswith("found by name, of ")
    assert (first.actual_rows, first.seconds, plan.seconds, plan.actual_rows) == (None,) * 4
    measured = graph.profile(FRIENDS, params={"who": "ada"})
    assert [op.name for op in measured.operators] == [op.name for op in plan.operators]
    assert [op.estimated_rows for op in measured.operators] == [
        op.estimated_rows for op in plan.operators
    ]
    assert measured.actual_rows == 1
    spent = [op.seconds for op in measured.operators]
    assert all(seconds is not None and seconds >= 0 for seconds in spent)
    assert measured.seconds is not None
    assert measured.seconds >= sum(seconds or 0 for seconds in spent) * 0.99
    body = measured.to_dict()
    assert body["total"] == {
        "estimated_rows": plan.estimated_rows,
        "actual_rows": 1,
        "seconds": measured.seconds,
    }
    assert body["operators"][0] == measured.operators[0].to_dict()
    assert body["plan"] == str(measured).splitlines()


def test_operators_of_blocks_are_deeper(graph: Graph) -> None:
    plan = graph.explain("match { $p: Person optional { $p knows $f } } return { $p, $f }")
    assert [op.depth for op in plan.operators if op.name == "Expand"] == [1]
    assert any(line.startswith("  Expand") for line in str(plan).splitlines())


@pytest.mark.parametrize("kind", [str, Path])
def test_a_query_may_be_a_path(graph: Graph, tmp_path: Path, kind: type) -> None:
    file = tmp_path / "people.gq"
    file.write_text(f'\ufeff{NAMES}\n{FRIENDS}\nquery add() {{ insert Person {{ name: "eve" }} }}')
    path = kind(file)
    assert graph.query(path, "names").to_pylist() == graph.query(NAMES).to_pylist()
    assert graph.explain(path, "names") == graph.explain(NAMES)
    assert graph.profile(path, "names").actual_rows == 2
    assert graph.mutate(path, "add").affected_nodes == 1
    file.write_text("query q() { match { $p: Person } return { $p.nam } }")
    with pytest.raises(TypeCheckError, match=r"people\.gq:1:46"):
        graph.query(path)
    with pytest.raises(NotFound, match=r"there is no file .*none\.gq"):
        graph.query(kind(tmp_path / "none.gq"))
    with pytest.raises(InvalidArgument, match="cannot read"):
        graph.query(Path(tmp_path))


def test_a_query_may_be_a_bare_text(graph: Graph) -> None:
    result = graph.query("match { $p: Person } return { $p.name as name }")
    assert (result.query_name, list(result)) == ("ad_hoc", [{"name": "ada"}, {"name": "bob"}])
    assert graph.mutate('insert Person { name: "eve" }').query_name == "ad_hoc"
    with pytest.raises(InvalidArgument, match="only reads"):
        graph.mutate("match { $p: Person } return { $p.name }")
    with pytest.raises(InvalidArgument, match="changes the graph"):
        graph.query('delete Person where name = "eve"')
    with pytest.raises(InvalidArgument, match=r"a query is a text or the path of a \.gq file"):
        graph.query(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_frames_need_their_package_and_say_which(
    graph: Graph, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = graph.query(NAMES)
    assert len(getattr(result, f"to_{name}")()) == result.row_count
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PackageMissing, match=r"pip install 'omnigraph\[frames\]'") as missing:
        getattr(result, f"to_{name}")()
    assert (missing.value.package, missing.value.extra) == (name, "frames")


def test_nearest_by_text_uses_the_provider(tmp_path: Path) -> None:
    """No key, no configuration: the local model makes the query's vector."""
    provider = LocalProvider()
    schema = f'node Doc {{ name: String @key\n vec: Vector({provider.width})? @embed("name") }}'
    graph = init(tmp_path / "docs.omni", schema)
    texts = ["a recipe for apple pie", "tides of the northern sea", "how engines burn fuel"]
    rows = [{"name": t, "vec": v} for t, v in zip(texts, provider.embed(texts), strict=True)]
    graph.apply({"Doc": {"insert": rows}})
    source = (
        "query q($q: String) { match { $d: Doc } return { $d.name } "
        "order { nearest($d.vec, $q) } limit 1 }"
    )
    found = graph.query(source, params={"q": "baking a pie with apples"}).to_pylist()
    assert found == [{"d.name": "a recipe for apple pie"}]


def test_nearest_by_text_refuses_another_model(tmp_path: Path) -> None:
    schema = 'node Doc { name: String @key\n vec: Vector(8)? @embed("name", model="other") }'
    graph = init(tmp_path / "docs.omni", schema)
    source = (
        "query q($q: String) { match { $d: Doc } return { $d.name } "
        "order { nearest($d.vec, $q) } limit 1 }"
    )
    with pytest.raises(OmnigraphError, match="other"):
        graph.query(source, params={"q": "x"})


def test_moments_of_a_result_can_be_given_back(uri: str) -> None:
    graph = init(uri, "node N { k: String @key  t: DateTime?  ts: [DateTime]? }")
    moment = dt.datetime(2026, 4, 14, 10, 0, 0, 123_000, dt.timezone(dt.timedelta(hours=2)))
    graph.apply({"N": {"insert": [{"k": "a", "t": moment, "ts": [moment]}]}})
    every = "query q() { match { $n: N } return { $n.t, $n.ts } }"
    (row,) = graph.query(every).to_pylist()
    again = {"k": "b", "t": row["n.t"], "ts": row["n.ts"]}
    graph.mutate(
        "query m($k: String, $t: DateTime, $ts: [DateTime]) { insert N { k: $k, t: $t, ts: $ts } }",
        params=again,
    )
    graph.apply({"N": {"insert": [{**again, "k": "c"}]}})
    assert graph.query(every).to_pylist() == [row] * 3
    found = "query q($t: DateTime) { match { $n: N $n.t = $t } return { $n.k } }"
    for given in (row["n.t"], moment, "2026-04-14T08:00:00.123Z"):
        assert len(graph.query(found, params={"t": given}).to_pylist()) == 3
