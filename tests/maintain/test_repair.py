from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.commit.arming import IntentHold, hold_intent
from omnigraph.errors import CorruptIntent, RecoveryRequired
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.layout import QUARANTINE, RECOVERY
from omnigraph.manifest.records import MAIN_REF
from omnigraph.settings.models import WriteSettings
from omnigraph_testing.invariants import assert_at_rest, content
from omnigraph_testing.workloads import leave_orphan_head

INTENT = "01HZZZZZZZZZZZZZZZZZZZZZZZ"


def test_a_sound_graph(graph: Graph) -> None:
    assert graph.repair().clean
    assert graph.repair(confirm=True).clean


@pytest.mark.parametrize("branch", ["main", "b"])
def test_drift_is_shown_then_put_right(graph: Graph, branch: str) -> None:
    graph.branches.create("b")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "b"}]}}, "b")
    before = content(graph, branch)
    leave_orphan_head(graph, branch)
    files = {p: p.stat().st_mtime_ns for p in Path(graph.uri).rglob("*")}
    (table,) = open_graph(graph.uri, read_only=True).repair().drift
    assert (table.graph_branch, table.table) == (branch, "node:Note")
    assert table.head_rows == table.pinned_rows + 1
    assert {p: p.stat().st_mtime_ns for p in Path(graph.uri).rglob("*")} == files
    graph.repair(confirm=True)
    assert graph.repair().clean
    assert content(open_graph(graph.uri), branch) == before
    assert_at_rest(graph)
    graph.apply({"Note": {"insert": [{"id": "n2", "text": "after"}]}}, branch)
    assert graph.verify().ok


def test_an_unreadable_intent_needs_force_and_is_kept(graph: Graph) -> None:
    graph.engine.store.files.put(f"{RECOVERY}/{INTENT}.json", b"rubbish")
    assert graph.repair().unreadable == (f"{RECOVERY}/{INTENT}.json",)
    with pytest.raises(CorruptIntent):
        graph.repair(confirm=True)
    report = graph.repair(confirm=True, force=True)
    assert report.quarantined == (f"{RECOVERY}/{INTENT}.json",)
    assert graph.engine.store.files.get(f"{QUARANTINE}/{INTENT}.json") == b"rubbish"
    graph.apply({"Note": {"insert": [{"id": "n9", "text": "x"}]}})
    assert_at_rest(graph)


def test_writers_in_flight_are_not_disturbed(graph: Graph) -> None:
    leave_orphan_head(graph)
    hold = hold_intent(MAIN_REF, None, INTENT, WriteSettings())
    with IntentHold(graph.engine.board, hold):
        assert len(graph.repair().pending) == 1
        with pytest.raises(RecoveryRequired):
            graph.repair(confirm=True)
    graph.repair(confirm=True)
    assert graph.repair().clean


def test_the_command(graph: Graph) -> None:
    leave_orphan_head(graph)
    graph.engine.store.files.put(f"{RECOVERY}/{INTENT}.json", b"rubbish")
    shown = CliRunner().invoke(app, ["repair", graph.uri])
    assert shown.exit_code == 0
    assert "unreadable" in shown.output
    refused = CliRunner().invoke(app, ["repair", graph.uri, "--confirm"])
    assert refused.exit_code == 1
    done = CliRunner().invoke(app, ["repair", graph.uri, "--confirm", "--force", "--json"])
    assert done.exit_code == 0, done.output
    assert open_graph(graph.uri).repair().clean
