from pathlib import Path

from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.manifest.layout import RECOVERY
from omnigraph_testing.workloads import create_small_graph


def test_status_shows_every_branch_and_type(tmp_path: Path) -> None:
    graph = create_small_graph(str(tmp_path / "g"))
    graph.branches.create("b")
    graph.apply({"Note": {"insert": [{"id": "n1", "text": "x"}], "delete": ["n0"]}}, "b")
    found = graph.status()
    assert [branch.name for branch in found.branches] == ["main", "b"]
    main, other = found.branches
    notes = {table.type_name: table for table in other.tables}
    assert notes["Note"].owned
    assert notes["Note"].entity_count == 1
    assert not notes["Person"].owned
    assert notes["Person"].bytes == 0
    assert (main.commits, other.commits) == (2, 3)
    assert found.bytes > sum(t.bytes for b in found.branches for t in b.tables) > 0
    on_disk = sum(f.stat().st_size for f in (tmp_path / "g").rglob("*") if f.is_file())
    assert found.bytes == on_disk
    assert found.to_dict()["branches"][1]["name"] == "b"


def test_an_unreadable_intent_is_shown_not_raised(tmp_path: Path) -> None:
    graph = create_small_graph(str(tmp_path / "g"))
    graph.engine.store.files.put(f"{RECOVERY}/01HZZZZZZZZZZZZZZZZZZZZZZZ.json", b"rubbish")
    assert [intent.kind for intent in graph.status().pending_intents] == ["unreadable"]


def test_the_command_prints_text_and_json(tmp_path: Path) -> None:
    uri = str(tmp_path / "g")
    create_small_graph(uri)
    text = CliRunner().invoke(app, ["status", uri])
    assert text.exit_code == 0
    assert "node Person: 2 rows" in text.output
    as_json = CliRunner().invoke(app, ["status", uri, "--json"])
    assert '"history_objects": 0' in as_json.output
