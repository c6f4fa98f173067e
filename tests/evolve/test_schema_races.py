"""Four writers insert while the schema changes: nothing is lost, nothing invalid is published."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from omnigraph import errors
from omnigraph.errors import OmnigraphError, SchemaRefused, ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph_testing import workloads
from omnigraph_testing.crash import start
from omnigraph_testing.graph_helpers import meanwhile, rival_of
from omnigraph_testing.invariants import assert_at_rest

W = "omnigraph_testing.workloads:"
WRITERS, COMMITS = 4, 12

NOTE = "node Note { text: String }\n"
KNOWS = "edge Knows: Person -> Person { since: I64? }\n"


def person(more: str, age: str = "age: I64?") -> str:
    return f"node Person {{ name: String @key  {age}  {more} }}\n{NOTE}{KNOWS}"


@dataclass(frozen=True)
class Race:
    """A change of the small graph, what the writers insert, and how late ones may fail."""

    schema: str
    row: dict[str, Any] = field(default_factory=dict)
    backfill: dict[str, Any] = field(default_factory=dict)
    type_after: str = "Person"
    late: tuple[type[OmnigraphError], ...] = ()
    may_be_refused: bool = False


RACES = {
    "add nullable": Race(person("city: String?")),
    "add unique": Race(person("", "age: I64? @unique")),
    "add unique over duplicates": Race(
        person("", "age: I64? @unique"), {"age": 5}, late=(ValidationFailed,), may_be_refused=True
    ),
    "backfill a default": Race(person("level: I64 @default(7)")),
    "backfill without a default": Race(
        person("level: I64"), backfill={"Person.level": 7}, late=(ValidationFailed,)
    ),
    "require": Race(person("", "age: I64"), backfill={"Person.age": 9}, late=(ValidationFailed,)),
    "cast": Race(person("", "age: String?")),
    "rename": Race(
        'node Human @rename_from("Person") { name: String @key  years: I64? @rename_from("age") }\n'
        + NOTE
        + "edge Knows: Human -> Human { since: I64? }\n",
        type_after="Human",
        late=(errors.NotFound, errors.InvalidArgument),
    ),
}


def insert_in_threads(uri: str, row: dict[str, Any], change: Callable[[], None]) -> list[Any]:
    reports: list[Any] = []
    opened = threading.Barrier(WRITERS + 1)

    def write(number: int) -> None:
        def report(item: Any) -> None:
            opened.wait(60) if item == "open" else reports.append(item)

        workloads.insert_people(report, uri, f"w{number}", row, COMMITS)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    opened.wait(60)
    change()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return reports


def insert_in_processes(uri: str, row: dict[str, Any], change: Callable[[], None]) -> list[Any]:
    children = [
        start(
            W + "insert_people",
            {"uri": uri, "name": f"w{n}", "row": row, "commits": COMMITS},
        )
        for n in range(WRITERS)
    ]
    for child in children:
        assert child.wait_for_report() == "open"
    change()
    reports = []
    for child in children:
        code, some, stderr = child.finish()
        assert code == 0, stderr
        reports += some
    return reports


@pytest.mark.parametrize(
    ("name", "insert"),
    [(name, insert_in_threads) for name in RACES]
    + [
        (name, insert_in_processes)
        for name in ("add nullable", "add unique", "backfill a default", "rename")
    ],
)
def test_writers_go_on(graph: Graph, uri: str, name: str, insert: Callable[..., list[Any]]) -> None:
    race = RACES[name]
    applied: list[bool] = []

    def change() -> None:
        try:
            result = graph.schema.apply(race.schema, backfill=race.backfill, message="evolve")
            applied.append(result.applied)
        except ValidationFailed:
            assert race.may_be_refused
            applied.append(False)

    reports = insert(uri, race.row, change)

    assert len(reports) == WRITERS * COMMITS
    done = {report["done"] for report in reports if "done" in report}
    failed = [report["error"] for report in reports if "failed" in report]
    late = race.late if applied == [True] else ()
    assert {error["code"] for error in failed} <= {kind.code for kind in late}
    fresh = open_graph(uri, settings=workloads.settings())
    rows = {row["name"]: row for row in fresh.read(race.type_after).to_pylist()}
    assert rows.keys() == {"ada", "bob"} | done, "an acknowledged row is lost, or a failed one kept"
    commits = [commit.message for commit in fresh.commits.list(limit=None)]
    assert commits.count("evolve") == int(applied[0])
    assert (fresh.schema.show().source == race.schema) is applied[0]
    for entity in fresh.schema.show().catalog.nodes:
        table = fresh.read(entity.name)
        for prop in entity.properties:
            assert prop.nullable or table.column(prop.name).null_count == 0
    if "unique" in name and applied[0]:
        ages = [row["age"] for row in rows.values() if row["age"] is not None]
        assert len(set(ages)) == len(ages)
    report = fresh.verify()
    assert report.ok, report
    assert_at_rest(fresh)


POINTS = ["schema_apply.before_effects", "commit.after_stage", "commit.before_arm"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", RACES)
def test_a_rival_commits_in_the_middle(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, name: str, point: str
) -> None:
    race, rival = RACES[name], rival_of(graph)
    rows = [{"name": "eve", **race.row}, {"name": "fay", **race.row}]
    meanwhile(monkeypatch, point, lambda: rival.apply({"Person": {"insert": rows}}))
    if race.may_be_refused:
        with pytest.raises(ValidationFailed) as caught:
            graph.schema.apply(race.schema, backfill=race.backfill)
        assert caught.value.violations[0]["sample_ids"] == ["eve", "fay"]
        assert graph.schema.show().catalog == rival.schema.show().catalog
        names = graph.read("Person").column("name").to_pylist()
    else:
        graph.schema.apply(race.schema, backfill=race.backfill)
        names = graph.read(race.type_after).column("name").to_pylist()
    assert sorted(names) == ["ada", "bob", "eve", "fay"]
    assert graph.verify().ok
    assert_at_rest(graph)


@pytest.mark.parametrize("point", POINTS)
def test_a_rival_changes_the_schema_in_the_middle(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The second change is planned again on the schema of the first: it drops what that added."""
    graph.branches.create("review")
    graph.schema.apply(person("city: String?"), branch="review")
    rival = rival_of(graph)
    meanwhile(monkeypatch, point, lambda: rival.merge("review"))
    with pytest.raises(SchemaRefused, match=r"Person\.city"):
        graph.schema.apply(person("town: String?"))
    assert [p.name for p in graph.schema.show().catalog.nodes[0].properties][-1] == "city"
    assert_at_rest(graph)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    "first", ["add nullable", "backfill a default"], ids=["metadata", "rewrite"]
)
def test_a_second_change_is_refused(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, first: str, point: str
) -> None:
    rival, refused = rival_of(graph), list[errors.SchemaChangeInProgress]()
    graph.branches.create("other")

    def change() -> None:
        with pytest.raises(errors.SchemaChangeInProgress, match="since") as caught:
            rival.schema.apply(person("town: String?"))
        refused.append(caught.value)
        assert rival.schema.apply(person("town: String?"), branch="other").applied

    meanwhile(monkeypatch, point, change)
    began = datetime.now(UTC)
    assert graph.schema.apply(RACES[first].schema).applied
    (error,) = refused
    assert error.retryable
    assert error.branch == "main"
    assert error.holder == f"tester on {socket.gethostname()}:{os.getpid()}"
    assert abs(datetime.fromisoformat(error.since) - began) < timedelta(seconds=30)
    with pytest.raises(SchemaRefused):  # the lease ended, so now it is planned
        rival.schema.apply(person("town: String?"))
    assert_at_rest(graph)


def test_a_killed_change_refuses_no_other(graph: Graph, uri: str) -> None:
    arguments = {"uri": uri, "schema": person("level: I64"), "backfill": {"Person.level": 1}}
    victim = start(
        W + "apply_schema", arguments, failpoints="schema_apply.after_backfill_batch=sleep:60"
    )
    assert victim.wait_for_report() == "open"
    deadline = time.monotonic() + 60
    while not any(Path(uri, "__recovery").glob("*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(errors.SchemaChangeInProgress) as caught:
        graph.schema.apply(person("city: String?"))
    assert caught.value.holder.startswith("victim on ")
    victim.kill()
    victim.finish()
    began = time.monotonic()
    assert graph.schema.apply(person("city: String?")).applied
    assert time.monotonic() - began < workloads.LEASE, "its lock proves that it is dead"
    assert_at_rest(open_graph(uri, settings=workloads.settings()))


def test_a_condition_on_the_head_is_kept(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    rival, head = rival_of(graph), graph.commits.list()[0].graph_commit_id
    meanwhile(
        monkeypatch,
        "commit.after_stage",
        lambda: rival.apply({"Note": {"insert": [{"text": "x"}]}}),
    )
    with pytest.raises(errors.PreconditionFailed):
        graph.schema.apply(person("city: String?"), if_commit=head)
    assert graph.schema.plan(person("city: String?")).has_changes
    assert_at_rest(graph)


def test_a_change_with_a_key_is_made_once(graph: Graph) -> None:
    first = graph.schema.apply(person("city: String?"), idempotency_key="k")
    again = graph.schema.apply(person("city: String?"), idempotency_key="k")
    assert again.repeated
    assert first.commit is not None
    assert again.commit is not None
    assert again.commit.graph_commit_id == first.commit.graph_commit_id
    assert [c.operation for c in graph.commits.list()].count("schema_apply") == 1
