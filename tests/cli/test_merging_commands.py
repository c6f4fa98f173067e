"""Merging, reverting and the change feed from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from omnigraph.cli.main import app
from omnigraph.graph.handle import Graph
from omnigraph.spark import engine_choice
from omnigraph_testing.workloads import create_small_graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = create_small_graph(str(tmp_path / "g.omni"))
    graph.branches.create("review")
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 5}]}}, "review", message="older")
    return graph


def run(graph: Graph, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*words, "--store", graph.uri])
    assert result.exit_code == code, result.output
    return result.stdout


def answer(graph: Graph, *words: str, code: int = 0) -> Any:
    return json.loads(run(graph, *words, "--json", code=code))


@pytest.mark.parametrize("engine", [(), ("--engine", "auto"), ("--engine", "local")])
def test_merge_chooses_its_engine_as_in_python(
    graph: Graph, engine: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "running_session", lambda: None)  # of other tests
    done = answer(graph, "branch", "merge", "review", *engine)
    why = "asked for" if "local" in engine else "no session is up"
    assert (done["engine"], done["engine_reason"]) == ("local", why)


def test_merge_preview_conflicts_and_resolutions(graph: Graph, tmp_path: Path) -> None:
    shown = answer(graph, "branch", "merge", "review", "--preview")
    assert (shown["outcome"], len(shown["changes"])) == ("fast_forward", 1)
    graph.apply({"Person": {"upsert": [{"name": "ada", "age": 9}]}})
    failed = answer(graph, "branch", "merge", "review", code=5)
    assert failed["code"] == "conflict"
    (conflict,) = failed["merge_conflicts"]
    assert (conflict["base"], conflict["ours"], conflict["theirs"]) == (1, 9, 5)
    assert "DivergentUpdate" in run(graph, "branch", "merge", "review", "--preview", code=5)
    previewed = answer(graph, "branch", "merge", "review", "--preview", code=5)
    assert (previewed["code"], previewed["error"]) == ("conflict", "review into main: 1 conflict")
    assert previewed["merge_conflicts"] == failed["merge_conflicts"]
    file = tmp_path / "r.yaml"
    file.write_text("- {type_name: Person, entity_id: ada, property: age, value: 7}\n")
    words = ("--resolutions", str(file), "--delete-branch")
    done = answer(graph, "branch", "merge", "review", *words)
    assert (done["outcome"], done["branch_deleted"]) == ("merged", True)
    assert done["commit"]["merged_parent_commit_id"] is not None
    drawn = run(graph, "commit", "graph")
    assert "|\\" in drawn
    assert "(review) older" in drawn


def test_conflicts_are_listed_by_entity_with_what_both_say(graph: Graph) -> None:
    names = [f"p{i:02}" for i in range(30)]
    graph.apply({"Person": {"insert": [{"name": n, "age": 1} for n in names]}}, "review")
    graph.apply({"Person": {"insert": [{"name": n, "age": 2} for n in names]}})
    result = CliRunner().invoke(app, ["branch", "merge", "review", "--store", graph.uri])
    assert result.exit_code == 5
    _, head, *lines = result.stderr.splitlines()
    assert head == "review into main: 30 conflicts, nothing was changed"
    assert lines[0] == "  30 DivergentInsert"
    assert lines[1:5] == [
        "Person p00",
        "  ! DivergentInsert  both added it, with different values",
        "      main: age: 2",
        "      review: age: 1",
    ]
    assert len(lines) == 1 + 20 * 4 + 2
    assert lines[-2].startswith("… and 10 more conflicts")
    assert "--resolutions FILE" in lines[-1]
    wrong = CliRunner().invoke(
        app, ["branch", "merge", "review", "--strategy", "mine", "--store", graph.uri]
    )
    assert wrong.exit_code == 2
    assert "'mine' is not one of" in wrong.stderr


def test_revert_cherry_pick_and_rename(graph: Graph) -> None:
    head = graph.branches.show("review").head_commit_id
    assert answer(graph, "commit", "cherry-pick", head)["commit"]["operation"] == "cherry_pick"
    assert "nothing to do" in run(graph, "commit", "cherry-pick", head)
    reverted = answer(graph, "commit", "revert", graph.commits.list()[0].graph_commit_id)
    assert reverted["commit"]["operation"] == "revert"
    assert "review is now other" in run(graph, "branch", "rename", "review", "other")


def test_the_feed(graph: Graph) -> None:
    base = answer(graph, "changes", "baseline", "--type", "Person")
    assert [c["id"] for c in base["blocks"][0]["changes"]] == ["ada", "bob"]
    graph.apply({"Person": {"delete": ["bob"]}, "Knows": {"delete": ["k0"]}})
    words = ("--type", "Person", "--cursor", base["cursor"])
    page = answer(graph, "changes", "poll", *words)
    assert [(c["op"], c["id"]) for c in page["blocks"][0]["changes"]] == [("delete", "bob")]
    assert "- Person bob" in run(graph, "changes", "poll", *words)
    assert run(graph, "changes", "poll", "--start", "later", code=1) == ""
