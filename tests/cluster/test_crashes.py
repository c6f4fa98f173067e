"""Kill -9 at every point of an apply; the next apply converges to the same ledger."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import failpoints
from omnigraph.cluster import commands
from omnigraph.cluster.ledger import Ledger
from omnigraph.cluster.observe import LiveGraph, RootState
from omnigraph.cluster.recovery import IntentEnd, IntentState, classify_intent, decide_intent
from omnigraph.cluster.resources import ResourceEntry
from omnigraph.cluster.root import CREATE, DELETE, SCHEMA_APPLY, ClusterIntent
from omnigraph_testing.cluster_kit import (
    BY_NAME,
    PEOPLE,
    apply,
    call,
    codes,
    declare,
    dispositions,
    plan,
    write,
)
from omnigraph_testing.crash import start

pytestmark = pytest.mark.crash

ADA = '{"type": "Person", "data": {"name": "Ada"}}\n'
INSIDE = (
    "init.after_tables",
    "init.after_schema",
    "init.after_manifest",
    "commit.before_publish",
    "commit.after_publish",
)
"""Points of the engine, inside the creation, the schema change or the load of seed data."""

ROLLED_FORWARD = "cluster_recovery_rolled_forward"
TOLD = {
    "cluster_apply.after_graph_create": {ROLLED_FORWARD},
    "cluster_apply.before_schema_apply": {ROLLED_FORWARD},
    "cluster_apply.after_schema_apply": {ROLLED_FORWARD},
    "cluster_apply.after_payload_phase": {ROLLED_FORWARD},
    "cluster_apply.before_graph_delete": {ROLLED_FORWARD, "graph_delete_incomplete"},
    "cluster_apply.after_graph_delete": {ROLLED_FORWARD},
    "cluster_apply.before_state_write": {ROLLED_FORWARD},
    "init.after_manifest": {ROLLED_FORWARD},
    "commit.before_publish": {ROLLED_FORWARD},
    "commit.after_publish": {ROLLED_FORWARD},
}
"""What the next apply tells of the work that the killed one had done."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An applied cluster whose config now creates, changes and deletes a graph."""
    folder = tmp_path_factory.mktemp("crashes") / "config"
    write(folder, people_pg=PEOPLE, people_gq=BY_NAME, seed_ndjson=ADA)
    declare(folder, "graphs:\n  people: {schema: people.pg}\n  old: {schema: people.pg}")
    assert apply(folder).body["converged"]
    write(folder, people_pg=PEOPLE.replace("age", "email: String?\n  age"))
    declare(
        folder,
        "graphs:",
        "  people: {schema: people.pg, queries: people.gq, retention: {keep: 9}}",
        "  fresh: {schema: people.pg, data: {seed: [seed.ndjson]}, retention: {keep: 3}}",
    )
    assert commands.approve(call(folder, "bob"), "graph.old").ok
    assert commands.approve(call(folder, "bob"), "retention.people").ok
    return folder


@pytest.fixture(scope="module")
def undisturbed(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = Path(shutil.copytree(template, tmp_path_factory.mktemp("whole") / "config"))
    assert apply(folder).body["converged"]
    return ledger(folder)


def ledger(folder: Path) -> dict[str, Any]:
    """The ledger without revision, records and moments."""
    found = json.loads((folder / "__cluster" / "state.json").read_text())
    found["state_revision"] = 0
    found.pop("recovery_records", None)
    found["approval_records"] = sorted(found["approval_records"])
    for seen in found["observations"].values():
        seen.pop("deleted_at", None)
    return found


def kill_at(folder: Path, point: str) -> None:
    code, _, stderr = start(
        "omnigraph_testing.cluster_kit:apply_in_child",
        {"directory": str(folder)},
        failpoints=f"{point}=kill",
    ).finish()
    assert code == -signal.SIGKILL, f"{point} was not reached (exit {code}): {stderr}"


@pytest.mark.parametrize("point", [*failpoints.CLUSTER_POINTS, *INSIDE])
def test_a_killed_apply_is_finished_by_the_next(
    template: Path, undisturbed: dict[str, Any], tmp_path: Path, point: str
) -> None:
    folder = Path(shutil.copytree(template, tmp_path / "config"))
    kill_at(folder, point)
    if point in ("init.after_tables", "init.after_schema"):
        commands.refresh(call(folder))
    else:
        assert "lock.json" in {each.name for each in (folder / "__cluster").iterdir()}
    report = apply(folder)
    assert report.body["converged"], [str(each) for each in report.diagnostics]
    told = {code for code in codes(report) if code in ("graph_delete_incomplete", ROLLED_FORWARD)}
    assert told == TOLD.get(point, set())
    assert ledger(folder) == undisturbed
    assert not list((folder / "__cluster" / "recoveries").iterdir())
    assert not (folder / "graphs" / "old.omni").exists()
    with omnigraph.open(folder / "graphs" / "fresh.omni", read_only=True) as graph:
        rows = graph.query("match { $p: Person } return { $p.name as name }")
        assert [row["name"] for row in rows] == ["Ada"], "the seed data, once"
    assert plan(folder).changes == []


def test_a_kept_intent_blocks_only_its_graph(template: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(template, tmp_path / "config"))
    kill_at(folder, "cluster_apply.before_schema_apply")
    # Another program changes the schema, so the live schema is neither the old nor the new one.
    from omnigraph.cluster.config_reader import read_config_directory
    from omnigraph.cluster.graph_work import change_schema
    from omnigraph.settings.models import Settings
    from omnigraph.syntax.source_text import SourceText

    config = read_config_directory(folder, {}).config
    assert config is not None
    change_schema(
        str(folder / "graphs" / "people.omni"),
        SourceText(PEOPLE.replace("age", "nick: String?\n  age"), "x.pg"),
        config.graphs["people"],
        Settings(),
        actor=None,
        lossy=True,
    )
    report = apply(folder)
    assert "cluster_recovery_pending" in codes(report)
    found = dispositions(report)
    assert found["schema.people"][1:] == ("blocked", "cluster_recovery_pending")
    assert found["graph.old"][1] == "applied"
    state = json.loads((folder / "__cluster" / "state.json").read_text())
    status = state["resource_statuses"]["graph.people"]
    assert status["conditions"] == ["actual_applied_state_pending"]
    assert commands.approve(call(folder, "bob"), "graph.people").ok
    assert apply(folder).body["converged"]


OPEN, ABSENT = RootState.OPEN, RootState.ABSENT
TABLE = [
    # kind, live state, live schema, ledger schema, intended -> state, end
    (CREATE, ABSENT, None, None, "new", IntentState.NOTHING_DONE, IntentEnd.RETIRE),
    (CREATE, OPEN, "new", "new", "new", IntentState.RECORDED, IntentEnd.RETIRE),
    (CREATE, OPEN, "new", None, "new", IntentState.DONE, IntentEnd.ROLL_FORWARD),
    (CREATE, RootState.INCOMPLETE, None, None, "new", IntentState.NOTHING_DONE, IntentEnd.RETIRE),
    (CREATE, RootState.INCOMPLETE, None, "old", "new", IntentState.NOT_OPEN, IntentEnd.KEEP),
    (CREATE, RootState.UNREADABLE, None, None, "new", IntentState.NOT_OPEN, IntentEnd.KEEP),
    (CREATE, OPEN, "else", None, "new", IntentState.OTHER_SCHEMA, IntentEnd.KEEP),
    (SCHEMA_APPLY, OPEN, "old", "old", "new", IntentState.RECORDED, IntentEnd.RETIRE),
    (SCHEMA_APPLY, OPEN, "new", "old", "new", IntentState.DONE, IntentEnd.ROLL_FORWARD),
    (SCHEMA_APPLY, OPEN, "else", "old", "new", IntentState.OTHER_SCHEMA, IntentEnd.KEEP),
    (SCHEMA_APPLY, RootState.UNREADABLE, None, "old", "new", IntentState.NOT_OPEN, IntentEnd.KEEP),
    (SCHEMA_APPLY, ABSENT, None, "old", "new", IntentState.NOT_OPEN, IntentEnd.KEEP),
    (DELETE, OPEN, "old", "old", "", IntentState.PARTLY_DELETED, IntentEnd.RETIRE),
    (DELETE, RootState.INCOMPLETE, None, "old", "", IntentState.PARTLY_DELETED, IntentEnd.RETIRE),
    (DELETE, ABSENT, None, "old", "", IntentState.DONE, IntentEnd.ROLL_FORWARD),
    (DELETE, ABSENT, None, None, "", IntentState.RECORDED, IntentEnd.RETIRE),
]


@pytest.mark.parametrize(("kind", "state", "live", "known", "intended", "expected", "end"), TABLE)
def test_the_table_of_recovery(
    kind: str,
    state: RootState,
    live: str | None,
    known: str | None,
    intended: str,
    expected: IntentState,
    end: IntentEnd,
) -> None:
    intent = ClusterIntent("1", "now", kind, "g", "uri", intended, observed_manifest_version=3)
    ledger = Ledger()
    if known is not None:
        ledger.resources = {"schema.g": ResourceEntry(known), "graph.g": ResourceEntry("")}
    graph = LiveGraph("g", "uri", state, live, 7)
    assert classify_intent(intent, graph, ledger) is expected
    assert decide_intent(expected, released=False) is end
    if live == "else":
        untouched = LiveGraph("g", "uri", state, live, 3)
        assert classify_intent(intent, untouched, ledger) is IntentState.NOTHING_DONE
        assert decide_intent(expected, released=True) is IntentEnd.RETIRE
