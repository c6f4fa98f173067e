"""`omnigraph cluster`: JSON fields, exit codes, and a plan that a person can read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnigraph.cli.cluster_lines import plan_lines
from omnigraph.cli.main import app
from omnigraph.cli.output import RED, plain
from omnigraph_testing.cluster_kit import BY_NAME, PEOPLE, POLICY, declare, plan, write

COMMON = {"ok", "config_dir", "diagnostics"}
FIELDS = {
    "validate": {"config_file", "resource_digests", "resources", "dependencies"},
    "plan": {
        "desired_revision",
        "resource_digests",
        "dependencies",
        "state_observations",
        "changes",
        "blast_radius",
        "approvals_required",
    },
    "apply": {
        "actor",
        "desired_revision",
        "state_observations",
        "changes",
        "applied_count",
        "deferred_count",
        "converged",
        "state_written",
        "resource_statuses",
    },
    "status": {"state_observations", "resource_digests", "resource_statuses", "observations"},
    "refresh": {"state_observations", "resource_statuses", "observations", "operation"},
    "observe": {"state_observations", "resource_statuses", "observations", "operation"},
}
OBSERVED = {
    "state_path",
    "lock_path",
    "state_found",
    "state_revision",
    "resource_count",
    "locked",
    "lock_acquired",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    write(tmp_path, people_pg=PEOPLE, people_gq=BY_NAME, devs_yaml=POLICY)
    declare(
        tmp_path,
        "graphs:\n  people: {schema: people.pg, queries: people.gq}\n  old: {schema: people.pg}",
        "policies:\n  devs: {file: devs.yaml, applies_to: [people]}",
    )
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["cluster", *words])
    assert done.exit_code == code, done.output
    return done.stdout


def test_fields_and_exit_codes(folder: Path) -> None:
    run("plan", "--detailed-exitcode", code=6)
    run("refresh", code=1)
    for name, wanted in FIELDS.items():
        actor = ("--as", "ada") if name == "apply" else ()
        found = json.loads(run(name, "--json", *actor))
        assert COMMON | wanted <= found.keys(), name
        if "state_observations" in wanted:
            assert found["state_observations"].keys() >= OBSERVED, name
    run("plan", "--detailed-exitcode")
    assert json.loads(run("import", "--json", code=1))["diagnostics"][0]["code"] == (
        "state_already_exists"
    )
    write(folder, cluster_yaml="version: 1\ngraphs: 1\n")
    for name in ("validate", "plan", "apply"):
        told = json.loads(run(name, "--json", code=1))
        assert told["diagnostics"][0]["line"] == 2
        assert not told["ok"]
    run("approve", code=2)


def test_a_plan_that_a_person_can_read(folder: Path) -> None:
    run("apply")
    write(folder, people_pg=PEOPLE.replace("age: I64?", "email: String?\n  age: I64?"))
    declare(folder, "graphs:\n  people: {schema: people.pg, queries: people.gq}")
    text = run("plan")
    assert text.splitlines() == [
        "- graph old  (waits for an approval)",
        "  - schema  (waits for an approval)",
        "~ graph people  (follows from its parts)",
        "  ~ schema",
        "      add Person.email: String?  [metadata]",
        "- policy devs",
        "needs an approval:",
        "  omnigraph cluster approve graph.old    # deletes a graph with all its data",
        "also affected:",
        "  schema.people → query.people.by_name",
        "0 to create, 1 to update, 1 to delete; 2 wait",
    ]
    report = plan(folder)
    painted = list(plan_lines(report, lambda colour, text: f"<{colour}>{text}"))
    assert painted[0].startswith(f"<{RED}>- graph old")
    assert list(plan_lines(report, plain)) == text.splitlines()


def test_a_saved_plan(folder: Path) -> None:
    run("plan", "--out", "plan.json")
    run("apply", "--plan", "plan.json", "--as", "ci")
    run("apply", "--plan", "plan.json", code=1)
    (folder / "plan.json").write_text("[]")
    run("apply", "--plan", "plan.json", code=1)
    run("plan", "--no-refresh")
    run("plan", "--target", "graph.nothing", code=1)


def test_a_root_instead_of_a_directory(folder: Path) -> None:
    declare(folder, "graphs:\n  people: {schema: people.pg}", storage="elsewhere")
    run("apply")
    for name in ("status", "observe"):
        found = json.loads(run(name, "--config", "elsewhere", "--json"))
        assert found["state_observations"]["state_revision"] == 1
    run("force-unlock", "x", "--config", "elsewhere", code=1)


def test_a_graph_of_a_cluster_has_its_applied_queries(folder: Path) -> None:
    run("apply")
    write(folder, people_gq="query other() { match { $p: Person } return { count($p) as n } }\n")
    words = ["queries", "list", "--cluster", ".", "--graph", "people", "--json"]
    found = CliRunner().invoke(app, words)
    assert [each["name"] for each in json.loads(found.stdout)["queries"]] == ["by_name"]
    run("apply")
    found = CliRunner().invoke(app, words)
    assert [each["name"] for each in json.loads(found.stdout)["queries"]] == ["other"]
