"""Commands, flags and the config file of the original OmniGraph mean what its users expect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Edit

THEIR_CONFIG = """
operator:
  actor: act-andrew
servers:
  prod: {url: "https://graph.example.com"}
clusters:
  brain: {root: "s3://bucket/brain"}
profiles:
  prod: {server: prod, default_graph: main}
  local: {store: ./local.omni}
defaults:
  store: people.omni
  default_graph: main
  output: jsonl
  table_max_column_width: 80
  table_cell_layout: truncate
aliases:
  who: {server: prod, graph: main, query: everybody, args: [name], params: {limit: 3}, format: kv}
"""


@pytest.fixture
def store(people) -> tuple[str, str]:
    return ("--store", people.uri)


def test_read_is_query(cli, queries, store) -> None:
    words = ("named", "--query", queries, "--params", '{"name": "Ada"}', *store)
    assert cli("read", *words) == cli("query", *words)
    assert cli("--json", "read", *words).json == cli("query", *words, "--json").json
    assert (
        cli("read", "fmt", "--check", queries).code == cli("query", "fmt", "--check", queries).code
    )


def test_change_is_mutate(cli, people, queries, store) -> None:
    words = ("grow", "--query", queries, "-p", "name=Ada", *store)
    changed = cli("change", *words)
    assert (changed.code, changed.out.split(", commit")[0]) == (0, "1 node, 0 edges affected")
    assert people.read("Person", ids=["Ada"])["age"].to_pylist() == [99]
    wrong = ("-e", "insert Person { nme: 1 }", *store)
    assert cli("change", *wrong) == cli("mutate", *wrong)


def test_ingest_is_a_load_that_merges_and_makes_a_missing_branch(cli, people, tmp_path) -> None:
    data = tmp_path / "d.ndjson"
    data.write_text('{"type": "Person", "data": {"name": "Ada", "age": 37}}\n')
    done = cli("ingest", "--data", data, people.uri, "--branch", "review", "--json")
    assert done.code == 0, done.err
    receipt = done.json
    assert (receipt["mode"], receipt["base_branch"], receipt["branch_created"]) == (
        "merge",
        "main",
        True,
    )
    again = cli("load", "--data", data, "--mode", "merge", "--branch", "review", people.uri)
    assert cli("ingest", "--data", data, "--branch", "review", people.uri) == again
    refused = ("--data", data, "--mode", "append", people.uri)
    assert cli("ingest", *refused) == cli("load", *refused)
    assert cli("ingest", *refused).code == 1


def test_check_is_lint(cli, queries, tmp_path) -> None:
    schema = tmp_path / "s.pg"
    schema.write_text("node Person { name: String @key }\n")
    words = ("--query", queries, "--schema", schema, "--json")
    assert cli("check", *words) == cli("lint", *words)
    assert cli("check", *words).json["errors"] > 0


def test_help_of_another_name_is_the_help_of_the_command(cli) -> None:
    for other, name in (("change", "mutate"), ("ingest", "load"), ("check", "lint")):
        assert cli(other, "--help") == cli(name, "--help") == cli("help", other)


def test_snapshot_is_at(cli, people, queries, store) -> None:
    before = people.snapshot().graph_commit_id
    people.apply({"Person": Edit(delete=["Bob"])})
    words = ("everybody", "--query", queries, *store)
    past = cli("query", *words, "--snapshot", before)
    assert past == cli("query", *words, "--at", before)
    assert "Bob" in past.out
    assert "Bob" not in cli("query", *words).out


def test_query_string_and_params_file(cli, queries, store, tmp_path) -> None:
    text = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
    file = tmp_path / "ada.json"
    file.write_text('{"n": "Ada"}')
    theirs = cli("query", "--query-string", text, "--params-file", file, *store)
    assert theirs == cli("query", "-e", text, "--params", f"@{file}", *store)
    assert "36" in theirs.out
    both = cli("query", "-e", text, "--params-file", file, "--params", "{}", *store)
    assert (both.code, "not both" in both.err) == (2, True)
    planned = ("-e", text, "--params-file", tmp_path / "none.json", *store)
    missing = cli("explain", *planned)
    assert (missing.code, "none.json" in missing.err) == (1, True)


def test_the_metadata_line_of_jsonl(cli, people, queries, store) -> None:
    words = ("named", "--query", queries, "-p", "name=Ada", *store)
    plain = cli("query", *words, "--format", "jsonl").out
    first, rest = cli("query", *words, "--format", "jsonl", "--metadata").out.split("\n", 1)
    assert rest == plain
    assert json.loads(first) == {
        "kind": "metadata",
        "query_name": "named",
        "target": {"branch": "main"},
        "graph_commit_id": people.snapshot().graph_commit_id,
        "row_count": 1,
        "columns": ["age"],
    }
    refused = cli("query", *words, "--metadata")
    assert (refused.code, "--format jsonl" in refused.err) == (2, True)


def test_a_blob_with_the_kind_of_its_entity(cli, people, store, tmp_path) -> None:
    people.apply({"Note": Edit(insert=[{"id": "n", "text": "t", "photo": b"\x00\x01"}])})
    for verb in (("get", "-o", tmp_path / "a"), ("stat",), ("stat", "--json")):
        ours = cli("blob", *verb, "Note", "n", "photo", *store)
        assert ours.code == 0, ours.err
        assert cli("blob", *verb, "node", "Note", "n", "photo", *store) == ours
    assert cli("blob", "get", "Note", "n", "photo", "--out", tmp_path / "b", *store).code == 0
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes() == b"\x00\x01"
    wrong = cli("blob", "stat", "edge", "Note", "n", "photo", *store)
    assert (wrong.code, "Note is no edge type: write node Note" in wrong.err) == (1, True)
    for few in (("Note", "n"), ("edges", "Note", "n", "photo")):
        short = cli("blob", "stat", *few, *store)
        assert (short.code, "give TYPE ID PROPERTY" in short.err) == (2, True)


def test_a_commit_with_a_positional_graph_and_with_uri(cli, people) -> None:
    head = people.snapshot().graph_commit_id
    for verb in ("show", "changes"):
        ours = cli("commit", verb, head, "--store", people.uri)
        assert ours.code == 0, ours.err
        assert cli("commit", verb, head, people.uri) == ours
        assert cli("commit", verb, "--uri", people.uri, head) == ours
    listed = cli("branch", "list", "--store", people.uri)
    assert cli("branch", "list", "--uri", people.uri) == listed
    two = cli("commit", "show", head, people.uri, "--store", "other.omni")
    assert (two.code, "two graphs are named" in two.err) == (2, True)


def test_lint_against_a_graph(cli, people, queries, tmp_path) -> None:
    schema = tmp_path / "s.pg"
    schema.write_text(omnigraph.open(people.uri).schema.show().source)
    words = ("lint", "--query", queries, "--json")
    by_file = cli(*words, "--schema", schema)
    assert cli(*words, people.uri).json == by_file.json
    assert cli(*words, "--store", people.uri, "--branch", "main").out == by_file.out
    queries.write_text("query q() { match { $p: Persn } return { $p.name } }\n")
    wrong = cli("lint", "--query", queries, people.uri)
    assert (wrong.code, "did you mean 'Person'" in wrong.out) == (1, True)
    both = cli(*words, "--schema", schema, people.uri)
    assert (both.code, "two schemas are named" in both.json["error"]) == (2, True)
    neither = cli(*words)
    assert (neither.code, "no schema is named" in neither.json["error"]) == (2, True)


def test_their_config_file(cli, people, queries, tmp_path, monkeypatch) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(THEIR_CONFIG)
    monkeypatch.setenv("OMNIGRAPH_CONFIG", str(config))
    listed = cli("branch", "list")
    assert (listed.code, listed.err) == (0, f"graph {people.uri}\n")
    words = ("query", "everybody", "--query", queries)
    assert cli(*words).out == cli(*words, "--format", "jsonl").out
    assert cli(*words, "--format", "csv").out.startswith("p.name,")
    assert cli(*words, "--json").json["row_count"] == 3
    assert cli(*words, "--metadata").out.startswith('{"kind":')
    assert cli("mutate", "-e", 'insert Person { name: "Eve" }').code == 0
    assert people.commits.list(limit=1)[0].actor_id == "act-andrew"
    config.write_text("defaults: {server: prod}\n")
    served = cli("branch", "list")
    assert (served.code, "no server is called 'prod'" in served.err) == (2, True)


def test_omnigraph_home_is_the_directory_of_the_config_file(cli, people, monkeypatch) -> None:
    folder = Path.home() / "elsewhere"
    folder.mkdir()
    (folder / "config.yaml").write_text(f"defaults: {{store: {people.uri}}}\n")
    monkeypatch.setenv("OMNIGRAPH_HOME", "~/elsewhere")
    assert cli("branch", "list", "--json").json["branches"] == ["main"]
    monkeypatch.setenv("OMNIGRAPH_HOME", str(folder / "none"))
    assert cli("branch", "list").code == 2
