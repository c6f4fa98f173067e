from __future__ import annotations

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.lance_store.reads import indexes
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


@pytest.mark.parametrize("full", [False, True])
def test_an_index_that_finds_other_rows_is_found(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """The index of another table lies where this one's should: only a comparison shows it."""
    monkeypatch.setattr(indexes, "_CHEAP_VALUES", 5)
    graph.apply({"Note": {"insert": [{"id": f"m{n:02}", "text": "x"} for n in range(30)]}})
    graph.optimize()
    store = graph.engine.store
    pin = next(p for k, p in graph.snapshot().tables.items() if k.type_name == "Note")
    ids = store.open(pin.at).to_table(columns=["id"], with_row_id=True)
    order = ids.sort_by("_rowid")["id"].to_pylist()
    assert ids["_rowid"].to_pylist() == list(range(31)), "as in the dataset below"
    first, second = order.index("m07"), order.index("m22")
    order[first], order[second] = order[second], order[first]
    swapped = lance.write_dataset(
        pa.table({"id": order}), str(tmp_path / "swapped"), enable_stable_row_ids=True
    )
    swapped.create_scalar_index("id", "BTREE")
    copy = tmp_path / "copy"
    shutil.copytree(graph.uri, copy)  # another address: nothing of it is in memory yet
    (good,) = (i for i in store.open(pin.at).describe_indices() if i.field_names == ["id"])
    (bad,) = swapped.describe_indices()
    (segment,) = (s for s in good.segments if s.fragment_ids)
    for file in (copy / pin.location / "_indices" / str(segment.uuid)).iterdir():
        other = tmp_path / "swapped" / "_indices" / str(bad.segments[0].uuid) / file.name
        file.write_bytes(other.read_bytes())
    report = open_graph(copy, read_only=True).verify(0, full=full)
    assert report.checked["indexes_sampled"] == (0 if full else 1)
    wrong = {finding.message.split("'")[-2] for finding in report.findings}
    assert ({"m07", "m22"} <= wrong) if full else (0 < len(wrong) <= 5)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 99, 100, 101])
def test_no_two_values_share_both_of_their_groups(count: int) -> None:
    groups = [set(g) for g in indexes._groups(count)]
    for one in range(count):
        together = [g for g in groups if one in g]
        assert len(together) == 2
        assert together[0] & together[1] == {one}


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
    body = json.loads(bad.stdout)
    assert body["ok"] is False
    assert (body["code"], body["error"]) == ("verify_findings", "2 findings")
