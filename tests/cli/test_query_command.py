"""`query`: texts, parameters, targets and formats."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import Edit


def test_formats_hold_the_same_rows(cli, people, queries) -> None:
    words = ("query", "everybody", "-q", queries, "--store", people.uri)
    as_json = cli(*words, "--json")
    assert as_json.code == 0
    body = as_json.json
    assert list(body) == [
        "query_name",
        "target",
        "graph_commit_id",
        "row_count",
        "columns",
        "rows",
    ]
    assert body["target"] == {"branch": "main"}
    assert body["graph_commit_id"] == people.snapshot().graph_commit_id
    assert body["rows"][0] == {
        "p.name": "Ada",
        "p.age": 36,
        "p.born": "1815-12-10T10:00:00Z",
        "p.bio": "",
        "p.tags": ["a", "b"],
    }
    assert cli(*words, "--format", "json").out == as_json.out
    lines = cli(*words, "--format", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == body["rows"]
    records = list(csv.reader(io.StringIO(cli(*words, "-f", "csv").out)))
    assert records[0] == body["columns"]
    assert records[3] == ["Čen 陳", "7", "", 'one, "two"\nthree', ""]


def test_null_is_not_the_empty_text_in_any_format(cli, people, queries) -> None:
    words = ("query", "everybody", "-q", queries, "--store", people.uri, "-f")
    ada, bob = cli(*words, "csv").out.splitlines()[1:3]
    assert ada == 'Ada,36,1815-12-10T10:00:00Z,"","[""a"",""b""]"'
    assert bob == "Bob,,,NULL,"
    table = cli(*words, "table").out.splitlines()
    assert table[2].split() == ["Ada", "36", "1815-12-10T10:00:00Z", '""', '["a",', '"b"]']
    assert table[3].split() == ["Bob", "NULL", "NULL", '"NULL"', "NULL"]
    records = cli(*words, "kv").out
    assert 'p.bio   ""\n' in records
    assert "p.age   NULL\n" in records


def test_plain_tables_are_aligned_by_what_a_terminal_shows(cli, people, queries) -> None:
    table = cli("query", "everybody", "-q", queries, "--store", people.uri).out
    header, rule, *rows = table.splitlines()
    assert header.startswith("p.name  p.age")
    assert rule.startswith("------  -----")
    assert rows[2].startswith("Čen 陳      7")
    assert r"one, \"two\"\nthree" not in table
    assert r'one, "two"\nthree' in table
    assert "\x1b" not in table


def test_long_values_are_cut_in_tables_only(cli, people, queries) -> None:
    people.apply({"Person": Edit(upsert=[{"name": "Ada", "bio": "x" * 100_000}])})
    words = ("query", "everybody", "-q", queries, "--store", people.uri)
    table = cli(*words)
    assert max(len(line) for line in table.out.splitlines()) < 500
    assert "…" in table.out
    assert "long values cut" in table.err
    for format in ("json", "jsonl", "csv", "kv"):
        assert "x" * 100_000 in cli(*words, "-f", format).out


def test_data_cannot_steer_the_terminal(cli, people, queries) -> None:
    people.apply({"Person": Edit(upsert=[{"name": "Ada", "bio": "\x1b[31mred\r\n\x07"}])})
    words = ("query", "everybody", "-q", queries, "--store", people.uri)
    for format in ("table", "kv"):
        out = cli(*words, "-f", format).out
        assert "\x1b" not in out
        assert r"\x1b[31mred\r\n\x07" in out


def test_arrow(cli, people, queries, tmp_path, monkeypatch) -> None:
    from typer.testing import CliRunner

    from omnigraph.cli.main import app

    words = ["query", "everybody", "-q", str(queries), "--store", people.uri, "-f", "arrow"]
    data = CliRunner().invoke(app, words).stdout_bytes
    table = pa.ipc.open_stream(data).read_all()
    assert table.equals(people.query(queries.read_text(), "everybody").to_arrow())


def test_the_only_query_needs_no_name_and_a_wrong_name_lists_them(cli, people, queries) -> None:
    one = "query q() { match { $p: Person } return { count($p) as n } }"
    assert cli("query", "-e", one, "--store", people.uri, "--json").json["rows"] == [{"n": 3}]
    assert cli("query", "q", "-e", one, "--store", people.uri, "--json").json["row_count"] == 1
    several = cli("query", "-q", queries, "--store", people.uri)
    assert several.code == 1
    assert "name the one to run: everybody, named, older, grow" in several.err
    wrong = cli("query", "namd", "-q", queries, "--store", people.uri)
    assert wrong.code == 1
    assert "did you mean 'named'? the text holds: everybody, named, older, grow" in wrong.err


def test_queries_come_from_standard_input_too(cli, people, queries) -> None:
    text = queries.read_text()
    answer = cli("query", "everybody", "-q", "-", "--store", people.uri, "--json", input=text)
    assert answer.json["row_count"] == 3


@pytest.mark.parametrize(
    ("given", "age"),
    [
        (["--params", '{"name": "Ada"}'], 36),
        (["--params", '{"$name": "Ada"}'], 36),
        (["-p", "name=Ada"], 36),
        (["--param", "$name=Čen 陳"], 7),
        (["--params", "@params.json"], 7),
    ],
)
def test_parameters(cli, people, queries, tmp_path, monkeypatch, given, age) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.json").write_text('{"name": "Čen 陳"}', encoding="utf-8")
    answer = cli("query", "named", "-q", queries, *given, "--store", people.uri, "--json")
    assert answer.json["rows"] == [{"age": age}]


def test_parameters_are_read_by_their_declared_type(cli, people, queries) -> None:
    words = ("query", "older", "-q", queries, "--store", people.uri, "--json")
    assert cli(*words, "-p", "than=8").json["rows"] == [{"name": "Ada"}]
    assert cli(*words, "-p", "than=8", "-p", "at=2020-01-01T00:00:00Z").code == 0
    assert cli(*words, "-p", "than=8", "-p", "at=null").code == 0
    wrong = cli(*words, "-p", "than=eight")
    assert wrong.code == 1
    assert wrong.json["parameter"] == "than"
    text = "query q($t: String) { match { $p: Person { name: $t } } return { $p.name } }"
    people.apply({"Person": Edit(insert=[{"name": "8"}, {"name": "null"}])})
    for name in ("8", "null"):
        answer = cli("query", "-e", text, "-p", f"t={name}", "--store", people.uri, "--json")
        assert answer.json["rows"] == [{"p.name": name}]


def test_the_past_and_other_branches(cli, people, queries) -> None:
    before = people.snapshot().graph_commit_id
    people.tags.create("v1")
    people.branches.create("side")
    people.apply({"Person": Edit(delete=["Bob"])}, "side")
    people.apply({"Person": Edit(insert=[{"name": "Dan"}])})
    words = ("query", "everybody", "-q", queries, "--store", people.uri, "--json")
    assert cli(*words).json["row_count"] == 4
    assert cli(*words, "--branch", "side").json["row_count"] == 2
    for moment in (before, "v1"):
        body = cli(*words, "--at", moment).json
        assert (body["row_count"], body["target"]) == (3, {"snapshot": moment})
    for branch, rows in (("main", 4), ("side", 2)):
        assert cli(*words, "--at", branch).json["row_count"] == rows


def test_mistakes_are_shown_in_the_file_of_the_user(cli, people, tmp_path) -> None:
    file = tmp_path / "wrong.gq"
    file.write_text("query q() {\n  match { $p: Persn }\n  return { $p }\n}\n")
    answer = cli("query", "-q", file, "--store", people.uri)
    assert answer.code == 1
    assert f"{file}:2:15: error T1" in answer.err
    body = cli("query", "-q", file, "--store", people.uri, "--json").json
    assert body["diagnostics"][0]["line"] == 2


def test_explain_and_profile(cli, people, queries) -> None:
    words = ("named", "-q", queries, "--store", people.uri)
    plan = cli("explain", *words)
    assert plan.code == 0
    assert plan.out.splitlines() == str(people.explain(queries, "named")).splitlines()
    assert cli("explain", *words, "--json").json["plan"] == plan.out.splitlines()
    for given in (("-p", "name=Ada"), ("--params", '{"name": "Ada"}')):
        assert cli("explain", *words, *given).out == plan.out
    for wrong in (("-p", "nam=Ada"), ("--params", '{"name": 5}'), ("--params", "{}")):
        refused = cli("explain", *words, *wrong)
        assert refused.code == 1
        assert "$nam" in refused.err
    profile = cli("profile", *words, "-p", "name=Ada")
    assert profile.code == 0
    assert " rows " in profile.out
    assert "1 row in " in profile.err
    body = cli("profile", *words, "-p", "name=Ada", "--json").json
    assert (body["query_name"], body["total"]["actual_rows"]) == ("named", 1)
    assert [op["name"] for op in body["operators"]] == [
        op.name for op in people.explain(queries, "named").operators
    ]
    assert sum(op["seconds"] for op in body["operators"]) <= body["total"]["seconds"] * 1.01


def test_ad_hoc_texts_need_no_declaration(cli, people) -> None:
    store = ("--store", people.uri)
    text = "match { $p: Person } return { $p.name as name } order { $p.name } limit 1"
    assert cli("query", "-e", text, *store, "--json").json["rows"] == [{"name": "Ada"}]
    assert "Project" in cli("explain", "-e", text, *store).out
    assert cli("mutate", "-e", 'insert Person { name: "Dee" }', *store).code == 0
    assert cli("mutate", "-e", 'delete Person where name = "Dee"', *store).code == 0
    wrong = cli("query", "-e", "match { $p: Persn } return { $p }", *store)
    assert (wrong.code, "-e:1:13" in wrong.err) == (1, True)


def test_explain_and_profile_of_the_past(cli, people, queries) -> None:
    then = people.commits.list()[0].graph_commit_id
    people.mutate('query q() { delete Person where name = "Ada" }')
    words = ("named", "-q", queries, "--store", people.uri, "--at", then)
    assert cli("explain", *words).code == 0
    assert " 1 rows" in cli("profile", *words, "-p", "name=Ada").out
    assert cli("explain", *words[:-1], "nothing").code == 1


def test_cli_and_python_give_equal_answers(cli, people, queries) -> None:
    result = people.query(queries.read_text(), "everybody")
    body = cli("query", "everybody", "-q", queries, "--store", people.uri, "--json").json
    expected = [
        {**row, "p.born": row["p.born"] and "1815-12-10T10:00:00Z"} for row in result.to_pylist()
    ]
    assert (body["columns"], body["rows"]) == (result.columns, expected)
    assert body["graph_commit_id"] == result.graph_commit_id
    assert body == result.to_dict()
    assert (result.target, list(body)[-1]) == ({"branch": "main"}, "rows")
    words = ("query", "everybody", "-q", queries, "--store", people.uri, "--json", "--at")
    past = people.query(queries.read_text(), "everybody", at=result.graph_commit_id)
    assert past.target == {"snapshot": result.graph_commit_id}
    assert cli(*words, result.graph_commit_id).json == past.to_dict()
