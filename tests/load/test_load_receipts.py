"""The counts of a load by type, of a dry run, and of a planned write before its commit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from omnigraph import init
from omnigraph.errors import KeyConflict, PreconditionFailed, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.load import write_tables
from omnigraph.load.options import LoadReceipt, TypeCounts
from omnigraph_testing.graph_helpers import meanwhile, rival_of
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.load_suite import stored_files

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note
"""
BASE = """
{"type":"Person","data":{"name":"ada","age":1,"city":"x"}}
{"type":"Person","data":{"name":"bob","age":2}}
{"type":"Person","data":{"name":"cy"}}
{"type":"Note","data":{"id":"n","text":"t"}}
{"edge":"Knows","from":"ada","to":"bob","data":{"id":"k1"}}
{"edge":"Knows","from":"bob","to":"cy","data":{"id":"k2"}}
{"edge":"Wrote","from":"cy","to":"n","data":{"id":"w1"}}
"""


@pytest.fixture(params=["looked up", "compared in a pass"])
def graph(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Graph:
    if request.param == "compared in a pass":
        monkeypatch.setattr(write_tables, "_LOOKED_UP_ROWS", 0)
    found = init(tmp_path / "graph.omni", SCHEMA)
    (tmp_path / "base.ndjson").write_text(BASE)
    found.load(tmp_path / "base.ndjson")
    return found


def loaded(graph: Graph, folder: Path, mode: str, text: str, **options: object) -> LoadReceipt:
    path = folder / "in.ndjson"
    path.write_text(text)
    return graph.load(path, mode, **options)  # type: ignore[arg-type]


def test_merge_counts_every_row_once(graph: Graph, tmp_path: Path) -> None:
    text = """
{"type":"Person","data":{"name":"ada","age":1}}
{"type":"Person","data":{"name":"bob","age":2}}
{"type":"Person","data":{"name":"dan","age":4}}
{"type":"Person","data":{"name":"dan","age":5}}
"""
    receipt = loaded(graph, tmp_path, "merge", text)
    assert receipt.nodes == (
        TypeCounts("Person", 4, inserted=1, updated=1, unchanged=2, properties_nulled=1),
    )
    assert receipt.edges == ()
    again = loaded(graph, tmp_path, "merge", text)
    assert again.nodes == (TypeCounts("Person", 4, unchanged=4),)
    assert again.commit is None


def test_overwrite_counts_what_it_removes(graph: Graph, tmp_path: Path) -> None:
    receipt = loaded(
        graph, tmp_path, "overwrite", '{"type":"Person","data":{"name":"bob","age":3}}\n'
    )
    assert receipt.nodes == (TypeCounts("Person", 1, updated=1, removed=2),)
    assert receipt.edges == (TypeCounts("Knows", cascaded=2), TypeCounts("Wrote", cascaded=1))
    assert (receipt.total_entities, receipt.total_removed) == (1, 5)


def test_edges_of_a_type_in_the_input_are_removed_and_not_cascaded(
    graph: Graph, tmp_path: Path
) -> None:
    text = """
{"type":"Person","data":{"name":"bob","age":2}}
{"type":"Person","data":{"name":"cy"}}
{"edge":"Knows","from":"bob","to":"cy","data":{"id":"k2"}}
"""
    receipt = loaded(graph, tmp_path, "overwrite", text)
    assert receipt.nodes == (TypeCounts("Person", 2, unchanged=2, removed=1),)
    assert receipt.edges == (TypeCounts("Knows", 1, unchanged=1, removed=1),)


def test_a_repeated_load_tells_the_counts_of_its_commit(graph: Graph, tmp_path: Path) -> None:
    text = '{"type":"Person","data":{"name":"eve"}}\n'
    first = loaded(graph, tmp_path, "append", text, idempotency_key="once")
    again = loaded(graph, tmp_path, "append", text, idempotency_key="once")
    assert (first.repeated, again.repeated) == (False, True)
    assert again.nodes == first.nodes == (TypeCounts("Person", 1, inserted=1),)


BOB_ALONE = '{"type":"Person","data":{"name":"bob"}}\n'


@pytest.mark.parametrize("mode", ["append", "merge", "patch", "overwrite"])
def test_a_dry_run_tells_the_counts_and_leaves_nothing(
    graph: Graph, tmp_path: Path, mode: str
) -> None:
    text = (
        '{"type":"Person","data":{"name":"eve","age":1}}\n'
        '{"edge":"Knows","from":"eve","to":"eve"}\n'
    )
    if mode != "append":
        text += '{"type":"Person","data":{"name":"ada","age":null}}\n'
    before, files = content(graph), stored_files(graph)
    planned = loaded(graph, tmp_path, mode, text, dry_run=True)
    assert (planned.dry_run, planned.commit, planned.to_dict()["dry_run"]) == (True, None, True)
    assert (content(graph), stored_files(graph)) == (before, files)
    receipt = loaded(graph, tmp_path, mode, text)
    assert (receipt.dry_run, receipt.nodes, receipt.edges) == (False, planned.nodes, planned.edges)
    assert planned.nodes[0].inserted == 1


def test_a_dry_run_finds_violations_and_unmet_conditions(graph: Graph, tmp_path: Path) -> None:
    files = stored_files(graph)
    dry = partial(loaded, graph, tmp_path, dry_run=True)
    with pytest.raises(KeyConflict):
        dry("append", BOB_ALONE)
    for mode in ("append", "merge", "patch", "overwrite"):
        with pytest.raises(ValidationFailed, match="no Person 'zoe'"):
            dry(mode, '{"edge":"Knows","from":"ada","to":"zoe"}\n')
    with pytest.raises(PreconditionFailed):
        dry("merge", BOB_ALONE, if_commit=graph.commits.list()[-1].graph_commit_id)
    assert stored_files(graph) == files
    loaded(graph, tmp_path, "merge", BOB_ALONE, idempotency_key="once")
    again = dry("merge", BOB_ALONE, idempotency_key="once")
    assert (again.repeated, again.commit) == (True, None)


def test_a_dry_run_does_not_create_the_branch(graph: Graph, tmp_path: Path) -> None:
    text = '{"type":"Person","data":{"name":"eve"}}\n'
    options = {"branch": "new", "from_branch": "main"}
    planned = loaded(graph, tmp_path, "append", text, dry_run=True, **options)
    assert (planned.branch, planned.base_branch, planned.branch_created) == ("new", "main", False)
    assert planned.nodes == (TypeCounts("Person", 1, inserted=1),)
    assert [branch.name for branch in graph.branches.list()] == ["main"]


def test_before_commit_sees_the_planned_write_and_can_stop_it(graph: Graph, tmp_path: Path) -> None:
    seen: list[LoadReceipt] = []
    receipt = loaded(graph, tmp_path, "merge", BOB_ALONE, before_commit=seen.append)
    (planned,) = seen
    assert (planned.commit, planned.nodes, planned.dry_run) == (None, receipt.nodes, False)
    assert planned.nodes == (TypeCounts("Person", 1, updated=1, properties_nulled=1),)

    def stop(planned: LoadReceipt) -> None:
        assert (planned.total_removed, planned.total_entities) == (5, 1)
        raise KeyboardInterrupt

    before, files = content(graph), stored_files(graph)
    with pytest.raises(KeyboardInterrupt):
        loaded(graph, tmp_path, "overwrite", BOB_ALONE, before_commit=stop)
    assert (content(graph), stored_files(graph)) == (before, files)
    assert_at_rest(graph)


def test_before_commit_is_called_again_only_if_the_counts_change(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[TypeCounts, ...]] = []
    rival = rival_of(graph)
    text = '{"type":"Person","data":{"name":"eve"}}\n'

    def look(planned: LoadReceipt) -> None:
        seen.append(planned.nodes)

    note = {"Note": {"insert": [{"text": "x"}]}}
    meanwhile(monkeypatch, "commit.after_stage", partial(rival.apply, note))
    loaded(graph, tmp_path, "merge", BOB_ALONE, before_commit=look)
    assert len(seen) == 1
    person = {"Person": {"insert": [{"name": "eve"}]}}
    meanwhile(monkeypatch, "commit.after_stage", partial(rival.apply, person))
    assert loaded(graph, tmp_path, "merge", text, before_commit=look).commit is None
    assert seen[1:] == [
        (TypeCounts("Person", 1, inserted=1),),
        (TypeCounts("Person", 1, unchanged=1),),
    ]
