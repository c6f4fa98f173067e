"""`policy validate|test|explain|who-can`, and `--policy` on stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from omnigraph.cli.commands import pipeline
from omnigraph.cli.main import app
from omnigraph_testing.cluster_kit import PEOPLE, apply, declare, write
from omnigraph_testing.workloads import create_small_graph

RULES = """
version: 1
groups: {devs: [ada], ops: [cleo]}
protected_branches: [main]
rules:
  - id: dev-read
    allow: {actors: {group: devs}, actions: [read]}
  - id: dev-change
    allow: {actors: {group: devs}, actions: [change], branch_scope: unprotected}
  - id: ops-merge
    allow: {actors: {group: ops}, actions: [branch_merge, schema_apply]}
"""
SERVER = """
version: 1
rules:
  - id: list
    allow: {actors: {any: true}, actions: [graph_list]}
"""
CASES = """
version: 1
cases:
  - {id: reads, actor: ada, action: read, branch: main, expect: allow}
  - {id: merges, actor: cleo, action: branch-merge, branch: x, target_branch: main, expect: deny}
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMNIGRAPH_POLICY", raising=False)
    for name, text in (("rules.yaml", RULES), ("server.yaml", SERVER), ("cases.yaml", CASES)):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, done.output
    return done.stdout


def told(*words: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--json", code=code))
    return found


def test_validate(desk: Path) -> None:
    assert run("policy", "validate", "-f", "rules.yaml") == "rules.yaml: valid, 2 actors, 3 rules\n"
    found = told("policy", "validate", "--file", "rules.yaml")
    assert found == {
        "ok": True,
        "bundle": "rules.yaml",
        "kind": "graph",
        "actors": 2,
        "rules": 3,
        "diagnostics": [],
    }
    (desk / "rules.yaml").write_text(RULES.replace("branch_scope", "branch_scop"))
    found = told("policy", "validate", "-f", "rules.yaml", code=1)
    (mistake,) = found["diagnostics"]
    assert (mistake["code"], mistake["line"]) == ("unknown_key", 9)
    assert "9:" in run("policy", "validate", "-f", "rules.yaml", code=1)
    assert told("policy", "validate", "-f", "none.yaml", code=1)["ok"] is False
    assert "server bundle" in run("policy", "validate", "-f", "server.yaml", code=1)
    assert told("policy", "validate", "-f", "server.yaml", "--server-scope")["kind"] == "server"


def test_validate_with_a_schema(desk: Path) -> None:
    (desk / "people.pg").write_text("node Person { name: String @key  age: I64? }")
    rule = "where: {Person: 'aeg > 3'}"
    (desk / "rows.yaml").write_text(
        "version: 1\nrules:\n- id: r\n  allow:\n    actors: {any: true}\n    actions: [read]\n"
        f"    {rule}\n"
    )
    assert told("policy", "validate", "-f", "rows.yaml")["ok"]
    found = told("policy", "validate", "-f", "rows.yaml", "--schema", "people.pg", code=1)
    assert found["diagnostics"][0]["code"] == "wrong_predicate"


def test_tests(desk: Path) -> None:
    words = ("policy", "test", "-f", "rules.yaml", "--tests", "cases.yaml")
    assert "merges: expected deny but got allow\npassed: 1 of 2" in run(*words, code=1)
    found = told(*words, code=1)
    assert (found["ok"], found["total"], found["failed"]) == (False, 2, 1)
    assert found["cases"][1] == {
        "id": "merges",
        "expect": "deny",
        "got": "allow",
        "rule": "ops-merge",
    }
    (desk / "cases.yaml").write_text(CASES.replace("expect: deny", "expect: allow"))
    assert run(*words) == "passed: 2 of 2\n"
    (desk / "cases.yaml").write_text(CASES.replace("expect: deny", "expects: deny"))
    assert told(*words, code=1)["code"] == "policy_invalid"


def test_explain(desk: Path) -> None:
    words = ("policy", "explain", "-f", "rules.yaml", "--actor", "ada")
    found = told(*words, "--action", "change", "--branch", "review/x")
    assert (found["decision"], found["matched_rule"]) == ("allow", "dev-change")
    assert {each["rule"]: each["matched"] for each in found["considered"]} == {
        "dev-change": True,
        "dev-read": False,
        "ops-merge": False,
    }
    denied = run(*words, "--action", "change", "--branch", "main")
    assert "decision: deny" in denied
    assert "the branch main is protected" in denied
    run(*words, "--action", "change", "--branch", "main", "--exit-code", code=3)
    run(*words, "--action", "schema-apply", "--target-branch", "main", "--exit-code", code=3)
    run(*words, "--action", "raed", code=2)
    server = ("policy", "explain", "-f", "server.yaml", "--actor", "zed", "--action", "graph-list")
    assert told(*server)["decision"] == "allow"
    run("policy", "explain", "--actor", "ada", "--action", "read", code=2)


def test_who_can(desk: Path) -> None:
    words = ("policy", "who-can", "-f", "rules.yaml", "--action")
    assert told(*words, "read", "--branch", "main")["actors"] == [
        {"actor": "ada", "rule": "dev-read"}
    ]
    server = told("policy", "who-can", "-f", "server.yaml", "--action", "graph_list")
    assert server["actors"] == [{"actor": "*", "rule": "list"}]


def test_the_rules_of_a_cluster(desk: Path) -> None:
    folder = desk / "config"
    write(folder, people_pg=PEOPLE, rules_yaml=RULES, server_yaml=SERVER)
    bindings = (
        "policies:\n  rules: {file: rules.yaml, applies_to: [people]}\n"
        "  server: {file: server.yaml, applies_to: [cluster]}"
    )
    declare(folder, "graphs:\n  people: {schema: people.pg}", bindings)
    assert apply(folder).ok
    (folder / "rules.yaml").write_text("version: 1\n")  # what is applied counts
    place = ("--cluster", str(folder))
    assert told("policy", "validate", *place, "--graph", "people")["rules"] == 3
    asked = ("--actor", "ada", "--action", "read", "--branch", "main")
    assert told("policy", "explain", *place, *asked)["matched_rule"] == "dev-read"
    listed = ("--actor", "zed", "--action", "graph-list")
    assert told("policy", "explain", *place, *listed)["matched_rule"] == "list"
    assert told("policy", "test", *place, "--tests", "cases.yaml", code=1)["failed"] == 1
    run("policy", "validate", *place, "--graph", "other", code=2)


def test_a_policy_on_a_store(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_small_graph(desk / "graph.omni").close()
    rules = ("--store", "graph.omni", "--policy", "rules.yaml")
    query = ("query", "-e", "match { $n: Note } return { $n.text }", *rules)
    run(*query, "--as", "ada")
    assert told(*query, "--as", "cleo", code=1)["code"] == "forbidden"
    assert told(*query, code=2)["code"] == "usage"
    change = ("mutate", "-e", 'insert Note { text: "x" }', *rules)
    found = told(*change, "--as", "ada", code=1)
    assert (found["code"], found["action"], found["actor_id"]) == ("forbidden", "change", "ada")
    monkeypatch.setenv("OMNIGRAPH_POLICY", "rules.yaml")
    run("branch", "list", "--store", "graph.omni", "--as", "ada")
    assert told("status", "--store", "graph.omni", "--as", "ada", code=1)["code"] == "forbidden"
    monkeypatch.delenv("OMNIGRAPH_POLICY")
    run("status", "--store", "graph.omni")


@pytest.mark.parametrize("how", ["flag", "variable"])
@pytest.mark.parametrize(
    "name", ["validate", "plan", "run", "status", "list", "runs", "quarantine"]
)
def test_pipelines_are_refused_under_a_policy(
    desk: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    """A pipeline opens storage without rules, so no command of it runs beside them."""
    file = [] if name == "list" else ["pipeline.yaml"]
    given = ["--policy", "rules.yaml"] if how == "flag" else []
    if how == "variable":
        monkeypatch.setenv("OMNIGRAPH_POLICY", "rules.yaml")
    found = told("pipeline", name, *file, "--store", "graph.omni", "--as", "ada", *given, code=2)
    assert (found["code"], "no policy holds" in found["error"]) == ("usage", True)


def test_every_command_of_pipelines_but_infer_is_refused_under_a_policy() -> None:
    tested = {"validate", "plan", "run", "status", "list", "runs", "quarantine"}
    assert {command.name for command in pipeline.group.registered_commands} == {*tested, "infer"}
