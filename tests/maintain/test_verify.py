from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.manifest.layout import RECOVERY


def folder(graph: Graph, type_name: str) -> Path:
    pins = graph.snapshot().tables
    return Path(graph.uri) / next(p.location for k, p in pins.items() if k.type_name == type_name)


@pytest.fixture
def grown(graph: Graph) -> Graph:
    graph.branches.create("b")
    for number in range(4):
        rows = [{"name": f"p{number}", "age": number}, {"name": "ada", "age": number + 50}]
        graph.apply({"Person": {"upsert": rows}})
        graph.apply({"Person": {"upsert": rows}, "Note": {"delete": ["n0"]}}, "b")
    graph.optimize()
    graph.tags.create("t", "b")
    return graph


def test_a_sound_graph_has_no_findings(grown: Graph) -> None:
    report = grown.verify()
    assert report.findings == ()
    assert report.ok
    assert report.checked["branches"] == 2
    assert report.checked["changes"] >= 8
    assert report.checked["indexes"] >= 6


def test_a_foreign_writer_is_found(grown: Graph) -> None:
    rows = pa.table({"id": ["n9", "n9"], "text": ["x", "y"]})
    lance.write_dataset(rows, str(folder(grown, "Note")), mode="append")
    report = open_graph(grown.uri, read_only=True).verify()
    assert not report.ok
    assert report.counts == {"drift": 1}


def test_missing_files_are_found(grown: Graph) -> None:
    for file in folder(grown, "Knows").glob("data/*"):
        file.unlink()
    report = open_graph(grown.uri, read_only=True).verify()
    assert report.counts["files"] == 2


def test_a_broken_rule_is_found(grown: Graph) -> None:
    """Rows that came past every check, with a manifest that shows them."""
    note = folder(grown, "Knows")
    rows = pa.table(
        {"id": ["k9"], "src": ["ada"], "dst": ["nobody"], "since": pa.array([None], pa.int64())}
    )
    lance.write_dataset(rows, str(note), mode="append")
    _, state = grown.engine.reader.branch("main")
    key, pin = next((k, p) for k, p in state.tables.items() if k.type_name == "Knows")
    state.tables[key] = pin.changed_to(pin.version + 1, pin.row_count + 1, "x")  # type: ignore[index]
    report = grown.verify()
    assert any(check.startswith("rule:") for check in report.counts), report.counts


def test_an_unreadable_intent_is_found(grown: Graph) -> None:
    grown.engine.store.files.put(f"{RECOVERY}/01HZZZZZZZZZZZZZZZZZZZZZZZ.json", b"rubbish")
    report = open_graph(grown.uri, read_only=True).verify()
    assert report.counts["intent"] == 1
    assert report.pending_intents == 1


def test_a_broken_log_is_found(grown: Graph) -> None:
    state = grown.engine.reader.branch("main")[1]
    shorter = [c for c in state.commits if c is not state.commits[2]]
    object.__setattr__(state, "commits", tuple(shorter))
    assert grown.verify().counts["commit_graph"] == 1


def test_the_command(grown: Graph) -> None:
    good = CliRunner().invoke(app, ["verify", grown.uri])
    assert good.exit_code == 0, good.output
    assert "no findings" in good.output
    grown.engine.store.files.put(f"{RECOVERY}/01HZZZZZZZZZZZZZZZZZZZZZZZ.json", b"rubbish")
    bad = CliRunner().invoke(app, ["verify", grown.uri, "--json"])
    assert bad.exit_code == 1
    assert json.loads(bad.stdout)["ok"] is False
