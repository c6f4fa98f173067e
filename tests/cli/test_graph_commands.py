"""`init`, `snapshot`, `branch`, `tag`, `commit`, `schema show`, `optimize` and the shared flags."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph import Edit
from omnigraph.catalog.model import Catalog, NodeType, Property
from omnigraph.errors import AlreadyExists
from omnigraph.manifest.branch_state import CURRENT_FORMAT
from omnigraph.schema import catalog_text as schema_texts
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.scalars import ScalarKind, ScalarType


def test_init(cli, tmp_path) -> None:
    schema = tmp_path / "s.pg"
    schema.write_text("node P { name: String @key }\nedge E: P -> P\n")
    made = cli("init", "--schema", schema, tmp_path / "g.omni", "--as", "alice", "--json")
    assert made.code == 0
    assert (made.json["nodes"], made.json["edges"]) == (["P"], ["E"])
    graph = omnigraph.open(tmp_path / "g.omni")
    assert graph.commits.list()[0].actor_id == "alice"
    again = cli("init", "--schema", schema, tmp_path / "g.omni")
    assert again.code == 1
    assert "already" in again.err
    from_stdin = cli("init", "-s", "-", "--store", tmp_path / "h.omni", input=schema.read_text())
    assert from_stdin.code == 0
    assert "1 node type, 1 edge type" in from_stdin.out


def test_init_in_a_directory_with_other_files(cli, tmp_path) -> None:
    schema = tmp_path / "s.pg"
    schema.write_text("node P { name: String @key }\n")
    refused = cli("init", "--schema", schema, tmp_path)
    assert refused.code == 1
    assert f"{tmp_path} is not empty: it holds home, s.pg" in refused.err
    assert "--allow-non-empty" in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "s.pg"]
    with pytest.raises(AlreadyExists) as caught:
        omnigraph.init(tmp_path, schema)
    assert list(caught.value.files) == ["home", "s.pg"]
    (tmp_path / "empty").mkdir()
    assert cli("init", "--schema", schema, tmp_path / "empty").code == 0
    assert cli("init", "--schema", schema, tmp_path, "--allow-non-empty").code == 0
    assert omnigraph.open(tmp_path).read("P").num_rows == 0
    assert "already" in cli("init", "--schema", schema, tmp_path, "--allow-non-empty").err


def test_a_wrong_schema_is_shown_in_its_file_and_leaves_nothing(cli, tmp_path) -> None:
    schema = tmp_path / "s.pg"
    schema.write_text("node P {\n  name: Strin\n}\n")
    answer = cli("init", "--schema", schema, tmp_path / "g.omni")
    assert answer.code == 1
    assert f"{schema}:2:9: error" in answer.err
    assert not (tmp_path / "g.omni").exists()


def test_snapshot(cli, people) -> None:
    body = cli("snapshot", people.uri, "--json").json
    assert body["graph_branch"] == "main"
    assert body["internal_schema_version"] == CURRENT_FORMAT
    counts = {d["type_name"]: d["entity_count"] for d in body["datasets"]}
    assert counts == {"Person": 3, "Note": 0, "Knows": 2}
    assert "Person" in cli("snapshot", "--store", people.uri).out
    found = people.snapshot()
    indexes = body.pop("indexes")
    assert body == found.to_dict()
    assert {(i["type_name"], i["property"], i["status"]) for i in indexes} == {
        (i.type_name, i.property, "building" if i.pending_rows or not i.built else "ready")
        for i in people.index_status()
    }
    assert {i["status"] for i in indexes} <= {"building", "ready"}
    assert indexes
    assert [d.to_dict() for d in found.datasets] == body["datasets"]
    assert found.internal_schema_version == people.format_version == CURRENT_FORMAT
    people.tags.create("then")
    assert (
        people.snapshot(at="then").to_dict()
        == cli("snapshot", people.uri, "--at", "then", "--json").json
    )
    people.ensure_indices()
    after = cli("snapshot", people.uri, "--json").json["indexes"]
    assert {i["status"] for i in after} == {"ready"}


def test_branches(cli, people) -> None:
    made = cli("branch", "create", "review/x", "--from", "main", "--store", people.uri, "--json")
    assert made.json["forked_from"] == "main"
    listed = cli("branch", "list", people.uri, "--json").json
    assert listed["branches"] == ["main", "review/x"]
    assert [d["name"] for d in listed["details"]] == ["main", "review/x"]
    assert "review/x" in cli("branch", "list", "--store", people.uri).out
    refused = cli("branch", "delete", "review/x", "--store", people.uri)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert cli("branch", "delete", "review/x", "--yes", "--store", people.uri).code == 0
    assert [b.name for b in people.branches.list()] == ["main"]


def test_tags(cli, people) -> None:
    made = cli("tag", "create", "v1", "--store", people.uri, "--json").json
    assert made["graph_commit_id"] == people.snapshot().graph_commit_id
    people.branches.create("side")
    people.apply({"Person": Edit(delete=["Bob"])}, "side")
    assert cli("tag", "create", "v2", "side", "--store", people.uri).code == 0
    listed = cli("tag", "list", people.uri, "--json").json["tags"]
    assert [(t["name"], t["graph_branch"]) for t in listed] == [("v1", "main"), ("v2", "side")]
    assert "v2" in cli("tag", "list", people.uri).out
    assert cli("tag", "delete", "v1", "--store", people.uri, "--json").json == {
        "name": "v1",
        "deleted": True,
    }
    assert [t.name for t in people.tags.list()] == ["v2"]


def test_commits(cli, people) -> None:
    people.apply({"Person": Edit(delete=["Bob"])}, message="bye")
    listed = cli("commit", "list", people.uri, "--json").json["commits"]
    assert listed == [commit.to_dict() for commit in people.commits.list()]
    assert len(cli("commit", "list", people.uri, "-n", "1", "--json").json["commits"]) == 1
    shown = cli("commit", "show", listed[0]["graph_commit_id"], "--store", people.uri, "--json")
    assert shown.json == listed[0]
    text = cli("commit", "show", listed[0]["graph_commit_id"], "--store", people.uri).out
    assert "bye" in text
    assert "node:Person" in text
    assert "bye" in cli("commit", "list", people.uri).out
    mine = cli("commit", "list", people.uri, "--filter", "actor=maker", "--json").json["commits"]
    assert len(mine) == 3
    assert cli("commit", "list", people.uri, "--filter", "actor=x", "--json").json == {
        "commits": []
    }


def test_schema_show(cli, people, tmp_path) -> None:
    assert cli("schema", "show", people.uri, "--quiet").out == people.schema.show().source
    body = cli("schema", "show", people.uri, "--json").json
    assert [node["name"] for node in body["catalog"]["nodes"]] == ["Person", "Note"]


def test_schema_show_of_what_nobody_wrote(cli, people, tmp_path, monkeypatch) -> None:
    catalog = people.snapshot().catalog
    graph = omnigraph.init(tmp_path / "made.omni", catalog)
    shown = cli("schema", "show", graph.uri, "--quiet").out
    assert shown.startswith("node Person {\n  name: String @key\n")
    assert catalog_from_text(shown) == catalog
    wider = catalog_from_text(shown + "\nnode City { name: String @key }\n")
    graph.schema.apply(wider)
    assert catalog_from_text(graph.schema.show().source) == wider
    with monkeypatch.context() as earlier:
        earlier.setattr(schema_texts, "catalog_text", lambda _: "")
        old = omnigraph.init(tmp_path / "old.omni", catalog)
    assert cli("schema", "show", old.uri, "--json").json["schema_source"] == shown
    unsayable = Catalog((NodeType("Odd", (Property("Upper", ScalarType(ScalarKind.BOOL)),)),))
    odd = omnigraph.init(tmp_path / "odd.omni", unsayable)
    answer = cli("schema", "show", odd.uri)
    assert '"Odd"' in answer.out
    assert "this schema was made in Python and has no text" in answer.err


def test_optimize(cli, people) -> None:
    body = cli("optimize", people.uri, "--json").json
    assert body["skipped"] == []
    assert all(row["pending_rows"] == 0 for row in body["indexes"])
    assert cli("optimize", people.uri, "--type", "Person").out == (
        "optimized 1 branch: 3 indexes up to date\n"
    )
    rows = cli("optimize", people.uri, "--type", "Person", "--json").json["indexes"]
    assert [row["type_name"] for row in rows] == ["Person"] * 3
    listed = cli("optimize", people.uri, "--type", "Person", "--verbose").out.splitlines()
    assert listed[0].split()[:3] == ["graph_branch", "type_name", "property"]
    assert len(listed) == 2 + 3


def test_the_target_is_echoed_on_stderr_unless_quiet(cli, people) -> None:
    loud = cli("branch", "list", people.uri)
    assert people.uri in loud.err
    assert people.uri not in loud.out
    assert cli("branch", "list", people.uri, "--quiet").err == ""
    assert cli("--quiet", "branch", "list", people.uri).err == ""


def test_actor_and_store_of_the_config_file(cli, people, monkeypatch) -> None:
    config = Path.home() / ".omnigraph" / "config.yaml"
    config.parent.mkdir()
    config.write_text(f"operator:\n  actor: carol\ndefaults:\n  store: {people.uri}\n")
    assert cli("branch", "list").code == 0
    assert cli("branch", "list", "--json").json["branches"] == ["main"]
    cli("branch", "create", "side")
    bye = 'query bye() { delete Person where name = "Bob" }'
    assert cli("mutate", "-e", bye, "--branch", "side").code == 0
    assert people.commits.list("side")[0].actor_id == "carol"
    other = config.with_name("other.yaml")
    other.write_text("")
    monkeypatch.setenv("OMNIGRAPH_CONFIG", str(other))
    nobody = cli("branch", "list")
    assert nobody.code == 2
    assert "--store" in nobody.err


def test_as_wins_over_the_config_file(cli, tmp_path) -> None:
    config = Path.home() / ".omnigraph" / "config.yaml"
    config.parent.mkdir()
    config.write_text("operator:\n  actor: carol\n")
    schema = tmp_path / "s.pg"
    schema.write_text("node P { name: String @key }\n")
    cli("init", "-s", schema, tmp_path / "a.omni")
    cli("init", "-s", schema, tmp_path / "b.omni", "--as", "dave")
    actors = [omnigraph.open(tmp_path / n).commits.list()[0].actor_id for n in ("a.omni", "b.omni")]
    assert actors == ["carol", "dave"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operator: [", "config.yaml:1"),
        ("defaults:\n  output: xml\n", "`defaults.output` must be one of table, json"),
        ("operator:\n  actor: 5\n", "`operator.actor` must be a text"),
        ("operator: alice\n", "`operator` must hold"),
        ("- a\n", "the file must hold"),
        ("a: 1\na: 2\n", "duplicate key"),
        ("\xff", "the file must hold"),
    ],
)
def test_a_wrong_config_file_says_what_is_wrong(cli, people, text, message) -> None:
    config = Path.home() / ".omnigraph" / "config.yaml"
    config.parent.mkdir()
    config.write_text(text, encoding="utf-8")
    answer = cli("branch", "list", people.uri)
    assert answer.code == 1
    assert message in answer.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operator:\n  actr: x\n", "unknown key `operator.actr`; did you mean 'actor'? (ignored)"),
        ("oprator: {}\n", "unknown key `oprator`; did you mean 'operator'? (ignored)"),
        ("defaults: {sotre: g}\n", "unknown key `defaults.sotre`; did you mean 'store'?"),
        ("servers: {prod: {ulr: x}}\n", "unknown key `servers.prod.ulr`; did you mean 'url'?"),
    ],
)
def test_an_unknown_key_of_the_config_file_is_a_warning(cli, people, text, message) -> None:
    config = Path.home() / ".omnigraph" / "config.yaml"
    config.parent.mkdir()
    config.write_text(text, encoding="utf-8")
    answer = cli("branch", "list", people.uri, "--json")
    assert (answer.code, answer.json["branches"]) == (0, ["main"])
    assert answer.err.count(f"warning: {config}: {message}") == 1
    assert cli("branch", "list", people.uri, "--quiet").err == ""


def test_usage_errors_are_json_too(cli) -> None:
    answer = cli("branch", "create", "--json")
    assert (answer.code, answer.json["code"]) == (2, "usage")


def test_help_and_no_arguments(cli) -> None:
    answer = cli()
    assert answer.code == 0
    assert "omnigraph init --schema" in answer.out
    for title in ("Start:", "Query and change:", "Branches and history:"):
        assert title in answer.out


def test_changes_of_a_commit_and_between_states(cli, people) -> None:
    people.branches.create("side")
    people.apply({"Person": Edit(upsert=[{"name": "Ada", "age": 37}], delete=["Bob"])}, "side")
    head = people.snapshot("side").graph_commit_id
    text = cli("commit", "changes", head, "--store", people.uri, "--type", "Person").out
    assert "~ Person Ada" in text
    assert "age: 36 -> 37" in text
    assert "- Person Bob" in text
    body = cli("branch", "diff", "side", "--store", people.uri, "--json").json
    assert (body["from"], body["to"]) == ("main", "side")
    assert body["changes"] == people.diff("main", "side").to_dict()["changes"]
    assert [c["op"] for c in body["changes"][:2]] == ["update", "delete"]
    for form in (["--direct"], []):
        words = ("branch", "diff", "main", "side", *form, "--store", people.uri, "--json")
        first = cli(*words, "-n", "1").json
        assert len(first["changes"]) == 1
        rest = cli(*words, "--cursor", first["next_cursor"]).json["changes"]
        assert [*first["changes"], *rest] == body["changes"]
    reverse = cli("branch", "diff", "side", "main", "--direct", "--store", people.uri, "--json")
    assert [c["op"] for c in reverse.json["changes"][:2]] == ["update", "insert"]


def test_a_branch_is_compared_with_the_merge_base(cli, people) -> None:
    people.branches.create("side")
    people.apply({"Person": Edit(upsert=[{"name": "Ada", "age": 37}])}, "side")
    people.apply({"Person": Edit(upsert=[{"name": "Dee", "age": 1}])})
    store = ("--store", people.uri)
    shown = cli("branch", "diff", "side", *store).out
    assert "~ Person Ada" in shown
    assert "Dee" not in shown
    assert "- Person Dee" in cli("branch", "diff", "side", "--direct", *store).out
    backwards = cli("branch", "diff", "side", "main", *store, "--json").json
    assert [(c["op"], c["id"]) for c in backwards["changes"]] == [("insert", "Dee")]
    assert (backwards["from"], backwards["to"], backwards["direct"]) == ("side", "main", False)


def test_commits_that_a_merge_brought_are_listed(cli, people) -> None:
    people.branches.create("side")
    brought = people.apply({"Person": Edit(upsert=[{"name": "Dee"}])}, "side", message="on side")
    people.apply({"Person": Edit(upsert=[{"name": "Eve"}])}, message="on main")
    people.merge("side", delete_branch=True)
    listed = cli("commit", "list", people.uri, "--json").json["commits"]
    assert [c["message"] for c in listed][:3] == ["merge side into main", "on main", "on side"]
    line = cli("commit", "list", people.uri, "--first-parent", "--json").json["commits"]
    assert line == [c for c in listed if c["message"] != "on side"]
    actor = ("--filter", "actor=maker")
    assert len(cli("commit", "list", people.uri, *actor, "--json").json["commits"]) == len(listed)
    shown = cli("commit", "show", brought.commit.graph_commit_id[:14], "--store", people.uri)
    assert "on side" in shown.out


def test_commits_go_by_short_names(cli, people) -> None:
    people.apply({"Person": Edit(delete=["Bob"])}, message="bye")
    people.branches.create("side")
    people.apply({"Person": Edit(upsert=[{"name": "Dee"}])}, "side", message="hi")
    bye = people.commits.list()[0]
    store = ("--store", people.uri)
    words = ["HEAD", "main", "main~0", "side~1", bye.graph_commit_id[:20], bye.created_at_rfc3339]
    for name in words:
        found = cli("commit", "show", name, *store, "--json").json
        assert found == bye.to_dict(), name
        changes = cli("commit", "changes", name, *store, "--json").json
        assert changes["graph_commit_id"] == bye.graph_commit_id
    on_side = cli("commit", "show", "HEAD", "--branch", "side", *store)
    assert "message                  hi" in on_side.out
    assert f"created_at               {people.commits.list('side')[0].created_at_rfc3339}" in (
        on_side.out
    )
    assert cli("tag", "create", "before", "main~1", *store, "--json").json["graph_commit_id"] == (
        bye.parent_commit_id
    )
    count = (
        "-e",
        "query q() { match { $p: Person } return { count($p) as n } }",
        "--format",
        "csv",
    )
    assert cli("query", *count, "--at", "HEAD~1", *store).out == "n\n3\n"
    assert cli("query", *count, "--at", "HEAD~1", "--branch", "side", *store).out == "n\n2\n"
    assert cli("commit", "revert", "HEAD", *store).code == 0
    assert cli("query", *count, *store).out == "n\n3\n"
    assert cli("commit", "cherry-pick", "side", "--onto", "main", *store).code == 0
    guarded = ("mutate", "-e", 'query q() { delete Person where name = "Dee" }', *store)
    assert cli(*guarded, "--if-commit", bye.graph_commit_id[:20]).code == 4
    assert cli(*guarded, "--if-commit", people.snapshot().graph_commit_id[:20]).code == 0
    unknown = cli("commit", "show", "HEAD~99", *store)
    assert (unknown.code, "above the first commit" in unknown.err) == (1, True)
