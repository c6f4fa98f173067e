"""Inserting without a lookup must never let an existing id in twice."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.commit import staging
from omnigraph.errors import KeyConflict
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.records import TablePin
from omnigraph.settings.models import HistorySettings, Settings
from omnigraph.values.identifiers import node_table
from omnigraph_testing.invariants import assert_at_rest, content


def note(entity_id: str) -> dict[str, object]:
    return {"Note": {"insert": [{"id": entity_id, "text": entity_id}]}}


def warm(graph: Graph) -> None:
    """Enough inserts for this process to know the ids of the table by heart."""
    for number in range(6):
        graph.apply(note(f"warm-{graph.actor}-{number}"))


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ids each write looked up."""
    counted: list[int] = []
    real = staging.find_rows

    def find_rows(dataset, ids, columns=()):
        counted.append(len(ids))
        return real(dataset, ids, columns)

    monkeypatch.setattr(staging, "find_rows", find_rows)
    return counted


def test_new_ids_need_no_lookup_once_the_table_is_known(graph: Graph, lookups: list[int]) -> None:
    warm(graph)
    lookups.clear()
    graph.apply(note("fresh"))
    assert lookups == []
    with pytest.raises(KeyConflict):
        graph.apply(note("fresh"))
    assert lookups == [1], "a known id is looked up before it is refused"


def test_a_table_is_read_when_its_lookups_took_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_ROWS_PER_LOOKUP", 10)
    known, scans = staging.KnownIds(), []
    pin = pin_of("Large", rows=200)
    for _ in range(20):
        assert ask(known, pin, scans) == ["new"], "it is not known yet"
    assert scans == []
    assert ask(known, pin, scans) == []
    assert scans == ["Large"]


def test_tables_that_drop_each_other_are_read_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers to a large and a small table read all ids of both for every row once."""
    monkeypatch.setattr(staging, "_LARGEST_TOTAL", 201)
    monkeypatch.setattr(staging, "_ROWS_PER_LOOKUP", 10)
    known, scans = staging.KnownIds(), []
    for _ in range(100):
        ask(known, pin_of("Large", rows=200), scans)
        ask(known, pin_of("Small", rows=40), scans)
    assert len(scans) <= 100 // 20 + 100 // 4


def pin_of(name: str, rows: int) -> TablePin:
    return TablePin(node_table(name), name, None, 1, rows, "main", "epoch")


def ask(known: staging.KnownIds, pin: TablePin, scans: list[str]) -> list[str]:
    """What the table may hold of one new id."""

    def scan() -> list[str]:
        scans.append(pin.location)
        return [f"{pin.location}-{number}" for number in range(pin.row_count)]

    return known.may_exist(pin, pa.array(["new"]), (), scan).to_pylist()


@pytest.mark.parametrize("inline_ids", [1000, 0])
@pytest.mark.parametrize("others", [1, 3, 12])
def test_ids_of_other_processes_are_learnt(graph: Graph, inline_ids: int, others: int) -> None:
    """From the commits since; from a lookup when they are too many or their lists are in files."""
    warm(graph)
    history = HistorySettings(window_low=2, window_high=6, inline_ids=inline_ids)
    rival = open_graph(graph.uri, actor="rival", settings=Settings(history=history))
    for number in range(others):
        rival.apply(note(f"theirs-{number}"))
    for number in range(others):
        with pytest.raises(KeyConflict):
            graph.apply(note(f"theirs-{number}"))
    graph.apply(note("mine"))
    assert len(content(graph)["Note"]) == 1 + 6 + others + 1
    assert_at_rest(graph)


def test_a_deleted_id_can_come_back(graph: Graph) -> None:
    warm(graph)
    graph.apply({"Note": {"delete": ["n0"]}})
    graph.apply(note("n0"))
    with pytest.raises(KeyConflict):
        graph.apply(note("n0"))
    assert_at_rest(graph)


def test_branches_do_not_mix_what_they_know(graph: Graph) -> None:
    warm(graph)
    graph.branches.create("review")
    graph.apply(note("only-main"))
    graph.apply(note("only-main"), "review")
    with pytest.raises(KeyConflict):
        graph.apply(note("only-main"), "review")
    graph.apply(note("only-review"), "review")
    graph.apply(note("only-review"))
    assert_at_rest(graph)


def test_compaction_changes_nothing(graph: Graph) -> None:
    warm(graph)
    graph.optimize()
    with pytest.raises(KeyConflict):
        graph.apply(note("n0"))
    graph.apply(note("after"))
    assert_at_rest(graph)
