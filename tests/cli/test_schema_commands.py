"""`schema plan`, `apply`, `diff`, `history`, `show --format ir` and the steps of `commit show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Edit, Graph

SCHEMA = """node Person {
  name: String @key
  age: I32?
  born: DateTime?
  bio: String?
  tags: [String]?
}
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
"""
EMAIL = "  age: I32?\n  email: String @unique\n"
WITH_EMAIL = SCHEMA.replace("  age: I32?\n", EMAIL)
WITH_CITY = SCHEMA + "node City { name: String @key }\n"
NO_BIO = SCHEMA.replace("  bio: String?\n", "")
FROM_NAME = "Person.email=lower(name)"

Run = Callable[..., Any]


@pytest.fixture
def people(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "people.omni", SCHEMA, actor="maker")
    rows = [{"name": "Ada", "age": 36, "bio": "x"}, {"name": "Bob"}, {"name": "Čen 陳", "age": 7}]
    graph.apply({"Person": Edit(insert=rows)}, message="people")
    return graph


@pytest.fixture
def pg(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a schema text to a file."""

    def write(text: str) -> Path:
        file = tmp_path / f"new{len(list(tmp_path.glob('new*.pg')))}.pg"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def heads(graph: Graph) -> list[str]:
    return [commit.graph_commit_id for commit in graph.commits.list(limit=None)]


# plan


def test_plan_prints_a_line_for_each_step(cli: Run, people: Graph, pg) -> None:
    before = heads(people)
    answer = cli("schema", "plan", "-s", pg(WITH_EMAIL), people.uri, "--backfill", FROM_NAME)
    assert answer.code == 0
    assert answer.out == (
        "  add Person.email: String  [metadata, OG-MF-103]\n"
        "~ fill Person.email with lower(name)  [rewrite, 3 entities]\n"
        "? add @unique(email) to Person  [validated, 3 entities, OG-MF-101]\n"
    )
    assert heads(people) == before


def test_plan_as_json(cli: Run, people: Graph, pg) -> None:
    answer = cli("schema", "plan", "--schema", pg(WITH_CITY), "--store", people.uri, "--json")
    body = answer.json
    assert (answer.code, body["supported"], body["step_count"]) == (0, True, 1)
    assert body["uri"] == people.uri
    assert body["steps"][0] == {
        "kind": "add_type",
        "type_kind": "node",
        "name": "City",
        "text": "add node City",
        "class": "metadata",
        "codes": [],
        "entities": 0,
        "bytes_estimate": 0,
    }
    assert body["base_commit_id"] == people.snapshot().graph_commit_id
    assert body["base_schema_hash"] == people.schema.show().schema_hash
    assert body["target_schema_hash"] != body["base_schema_hash"]
    assert (body["requires"], body["violations"], body["stored_queries"]) == ([], [], [])
    assert body["cost"]["entities_written"] == 0


def test_plan_without_a_change(cli: Run, people: Graph, pg) -> None:
    answer = cli("schema", "plan", "-s", pg(SCHEMA), people.uri, "--detailed-exitcode")
    assert (answer.code, answer.out) == (0, "no change\n")


def test_a_changed_comment_is_a_change(cli: Run, people: Graph, pg) -> None:
    file = pg("// people\n" + SCHEMA)
    answer = cli("schema", "plan", "-s", file, people.uri, "--detailed-exitcode")
    assert (answer.code, answer.out.strip()) == (
        6,
        "new text of the schema: comments, layout or order  [metadata]",
    )
    assert cli("schema", "apply", "-s", file, people.uri, "--json").json["applied"]
    assert not cli("schema", "apply", "-s", file, people.uri, "--json").json["applied"]


def test_exit_codes_of_plan(cli: Run, people: Graph, pg) -> None:
    assert cli("schema", "plan", "-s", pg(WITH_CITY), people.uri).code == 0
    assert cli("schema", "plan", "-s", pg(WITH_CITY), people.uri, "--detailed-exitcode").code == 6
    refused = ("schema", "plan", "-s", pg(WITH_EMAIL), people.uri, "--detailed-exitcode")
    assert cli(*refused).code == 1
    assert cli(*refused, "--json").code == 1


def test_a_refused_plan_names_the_flag(cli: Run, people: Graph, pg) -> None:
    answer = cli("schema", "plan", "-s", pg(NO_BIO), people.uri)
    assert answer.code == 1
    assert "x node:Person.bio: dropping Person.bio loses its values" in answer.out
    assert "this change is refused without --allow-data-loss" in answer.err
    assert cli("schema", "plan", "-s", pg(NO_BIO), people.uri, "--allow-data-loss").code == 0
    body = cli("schema", "plan", "-s", pg(NO_BIO), people.uri, "--json").json
    assert (body["supported"], body["requires"]) == (False, ["allow_data_loss"])


def test_plan_counts_the_entities_that_break_it(cli: Run, people: Graph, pg) -> None:
    file = pg(SCHEMA.replace("age: I32?", "age: I32"))
    answer = cli("schema", "plan", "-s", file, people.uri, "--json")
    (violation,) = answer.json["violations"]
    assert answer.code == 1
    assert (violation["type_name"], violation["count"], violation["sample_ids"]) == (
        "Person",
        1,
        ["Bob"],
    )
    assert cli("schema", "plan", "-s", file, people.uri, "--backfill", "Person.age=0").code == 0


@pytest.mark.parametrize("given", ["email=1", "Person.email", "Person", ""])
def test_backfills_that_are_none(cli: Run, people: Graph, pg, given: str) -> None:
    answer = cli("schema", "plan", "-s", pg(WITH_EMAIL), people.uri, "--backfill", given)
    assert answer.code == 2
    assert f"--backfill {given!r} is not TYPE.PROPERTY=EXPRESSION" in answer.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("Person.emial=1", "the new schema has no property Person.emial"),
        ("Person.age=1", "Person.age needs no backfill"),
        ("Person.email=lower(nme)", "nme"),
        ("Person.email=age", "Person"),
        ("Person.email=lower(", "Person"),
    ],
)
def test_backfills_that_do_not_fit(cli: Run, people: Graph, pg, given: str, said: str) -> None:
    before = heads(people)
    words = ("-s", pg(WITH_EMAIL), people.uri, "--backfill", given)
    planned = cli("schema", "plan", *words)
    assert planned.code == 1
    assert said in planned.out + planned.err
    assert cli("schema", "apply", *words).code == 1
    assert heads(people) == before


def test_the_schema_comes_from_standard_input(cli: Run, people: Graph) -> None:
    answer = cli("schema", "plan", "--schema", "-", people.uri, input=WITH_CITY)
    assert (answer.code, answer.out.strip()) == (0, "add node City  [metadata]")
    assert cli("schema", "apply", "--schema", "-", people.uri, input=WITH_CITY).code == 0
    assert people.schema.show().source == WITH_CITY


def test_bad_schemas_name_the_file_and_the_line(cli: Run, people: Graph, pg) -> None:
    file = pg("node Person { name: Strng }\n")
    for verb in ("plan", "apply"):
        answer = cli("schema", verb, "--schema", file, people.uri)
        assert answer.code == 1
        assert f"{file}:1:21: error S003" in answer.err
    missing = cli("schema", "plan", "--schema", "nowhere.pg", people.uri, "--json")
    assert (missing.code, missing.json["code"]) == (1, "not_found")


def test_severities(cli: Run, people: Graph, pg) -> None:
    file = pg(NO_BIO)
    lossy = ("schema", "plan", "-s", file, people.uri, "--allow-data-loss")
    refused = cli(*lossy, "--severity", "OG-DS-104=error")
    assert refused.code == 1
    assert (
        "x node:Person.bio: drop Person.bio: a property is dropped, and the severity of OG-DS-104 "
        "is error  [refused, OG-DS-104]" in refused.out
    )
    applied = cli("schema", "apply", *lossy[2:], "--severity", "OG-DS-104=error")
    assert (applied.code, "OG-DS-104" in applied.err) == (1, True)
    body = cli(*lossy, "--severity", "OG-DS-104=warn", "--json").json
    assert (body["supported"], body["steps"][0]["codes"]) == (True, ["OG-DS-104"])
    assert body["severity"] == {"OG-DS-104": "warn"}
    wide = pg(SCHEMA.replace("age: I32?", "age: I64?"))
    quiet = cli("schema", "plan", "-s", wide, people.uri, "--severity", "OG-MF-106=off", "--json")
    assert quiet.json["steps"][0]["codes"] == []


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("OG-DS-104", 2, "is not CODE=LEVEL"),
        ("OG-DS-104=off", 1, "OG-DS-104 cannot be off"),
        ("OG-DS-104=loud", 1, "'loud' is no severity of OG-DS-104; it is one of error, warn, off"),
        ("OG-DS-140=warn", 1, "there is no code 'OG-DS-140' with a severity; did you mean"),
    ],
)
def test_wrong_severities(cli: Run, people: Graph, pg, given: str, code: int, said: str) -> None:
    answer = cli("schema", "plan", "-s", pg(SCHEMA), people.uri, "--severity", given)
    assert answer.code == code
    assert said in answer.err


def test_plan_lists_the_queries_that_break(cli: Run, people: Graph, pg, queries: Path) -> None:
    other = queries.with_name("other.gq")
    other.write_text("query broken() { match { $p: Persn } return { $p } }\n", encoding="utf-8")
    words = ("schema", "plan", "-s", pg(NO_BIO), people.uri, "--allow-data-loss")
    checked = (*words, "--query", queries, "-q", other)
    answer = cli(*checked)
    assert answer.code == 0
    assert f"! {queries}:3: query everybody would break: " in answer.out
    assert "[OG-BC-102]" in answer.out
    assert f"note: query broken of {other} has errors with both schemas" in answer.out
    (broken,) = cli(*checked, "--json").json["stored_queries"]
    assert (broken["code"], broken["name"]) == ("OG-BC-102", "everybody")
    assert (broken["file"], broken["line"]) == (str(queries), 3)
    assert "bio" in broken["message"]
    assert cli(*checked, "--severity", "OG-BC-102=off", "--json").json["stored_queries"] == []


def test_queries_can_refuse_a_plan_and_its_application(
    cli: Run, people: Graph, pg, queries: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    words = ("schema", "plan", "-s", pg(NO_BIO), people.uri, "--allow-data-loss", "-q", queries)
    answer = cli(*words, "--severity", "OG-BC-102=error", "--out", saved)
    assert answer.code == 1
    assert f"x {queries}:3: query everybody would break" in answer.out
    applied = cli("schema", "apply", "--plan", saved, people.uri, "--json")
    assert (applied.code, applied.json["code"]) == (1, "schema_refused")
    assert applied.json["refusal"] == "OG-BC-102"


def test_query_files_with_a_syntax_error_or_none(cli: Run, people: Graph, pg, queries) -> None:
    queries.write_text("query q {", encoding="utf-8")
    for file, code in ((queries, "parse_error"), ("nowhere.gq", "not_found")):
        answer = cli("schema", "plan", "-s", pg(NO_BIO), people.uri, "-q", file, "--json")
        assert (answer.code, answer.json["code"]) == (1, code)


def test_plan_tells_which_branches_could_follow(cli: Run, people: Graph, pg) -> None:
    people.branches.create("fine")
    people.branches.create("young")
    people.apply({"Person": Edit(insert=[{"name": "Dee", "age": -1}])}, "young")
    file = pg(SCHEMA.replace("  bio: String?\n", "  bio: String?\n  @range(age, 0..150)\n"))
    words = ("schema", "plan", "-s", file, people.uri)
    answer = cli(*words, "--all-branches")
    assert answer.code == 0
    assert answer.out.splitlines()[1:] == [
        "  branch fine could follow",
        "! branch young: Person: 1 entity breaks @range(age, 0..150) ('Dee'): stored values must "
        "keep a new @range or @check  [OG-MF-102]  [OG-NL-101]",
    ]
    fine, young = cli(*words, "--all-branches", "--json").json["branches"]
    assert fine == {"name": "fine", "supported": True, "codes": [], "reasons": []}
    assert (young["name"], young["supported"], young["codes"]) == ("young", False, ["OG-NL-101"])
    assert cli(*words, "--json").json["branches"] == []


# apply


def test_apply_makes_one_commit(cli: Run, people: Graph, pg) -> None:
    before = heads(people)
    words = ("-s", pg(WITH_EMAIL), people.uri, "--backfill", FROM_NAME)
    answer = cli("schema", "apply", *words, "-m", "emails", "--as", "eve")
    assert answer.code == 0
    commit, *older = people.commits.list(limit=None)
    assert [c.graph_commit_id for c in older] == before
    assert answer.out.endswith(f"applied as commit {commit.graph_commit_id}\n")
    assert (commit.message, commit.actor_id, commit.operation) == (
        "emails",
        "eve",
        "schema_apply",
    )
    emails = people.query("match { $p: Person } return { $p.email as e } order { e }")
    assert [row["e"] for row in emails] == ["ada", "bob", "čen 陳"]


def test_apply_as_json_and_once_more(cli: Run, people: Graph, pg) -> None:
    words = ("schema", "apply", "--schema", pg(WITH_CITY), "--store", people.uri, "--json")
    body = cli(*words).json
    assert (body["applied"], body["supported"], body["step_count"]) == (True, True, 1)
    assert body["commit"]["graph_commit_id"] == people.snapshot().graph_commit_id
    assert body["graph_manifest_version"] == body["commit"]["graph_manifest_version"]
    again = cli(*words).json
    assert (again["applied"], again["commit"], again["steps"]) == (False, None, [])
    assert cli(*words[:-1]).out == "the schema is in force already\n"


def test_a_refused_apply_changes_nothing(cli: Run, people: Graph, pg) -> None:
    before = heads(people)
    answer = cli("schema", "apply", "-s", pg(NO_BIO), people.uri, "--json")
    assert (answer.code, answer.json["code"]) == (1, "schema_refused")
    assert (answer.json["refusal"], answer.json["requires"]) == ("OG-DS-104", ["allow_data_loss"])
    required = pg(SCHEMA.replace("age: I32?", "age: I32"))
    answer = cli("schema", "apply", "-s", required, people.uri, "--json")
    assert (answer.code, answer.json["code"]) == (1, "validation_failed")
    assert answer.json["violations"][0]["sample_ids"] == ["Bob"]
    assert heads(people) == before


def test_the_reason_of_an_allowed_loss_is_kept(cli: Run, people: Graph, pg) -> None:
    text = NO_BIO.replace("node Person {", 'node Person @allow(OG-DS-104, "moved to the wiki") {')
    text = text.replace("age: I32?", 'age: Bool? @allow(OG-MF-106, "only a flag is left")')
    answer = cli("schema", "apply", "-s", pg(text), people.uri, "-m", "less", "--json")
    assert answer.code == 0
    assert answer.json["commit"]["message"] == (
        "less\n\n"
        "Allowed: OG-MF-106 node:Person.age: only a flag is left\n"
        "Allowed: OG-DS-104 node:Person.bio: moved to the wiki"
    )
    steps = cli("commit", "show", "HEAD", people.uri, "--json").json["schema_steps"]
    assert {step["kind"]: step.get("allowed") for step in steps} == {
        "change_property_type": "only a flag is left",
        "drop_property": "moved to the wiki",
    }
    lines = cli("schema", "history", people.uri, "--quiet").out.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("2 steps: less")


def test_apply_on_a_branch(cli: Run, people: Graph, pg) -> None:
    people.branches.create("review")
    file = pg(WITH_CITY)
    assert cli("schema", "plan", "-s", file, people.uri, "--branch", "review").code == 0
    body = cli("schema", "apply", "-s", file, people.uri, "--branch", "review", "--json").json
    assert body["graph_branch"] == "review"
    assert "City" not in people.schema.show().source
    assert "City" in people.schema.show("review").source
    assert cli("schema", "show", people.uri, "-b", "review", "--quiet").out == WITH_CITY
    missing = cli("schema", "apply", "-s", file, people.uri, "--branch", "nope", "--json")
    assert (missing.code, missing.json["code"]) == (1, "not_found")


def test_apply_if_the_head_is_still_the_same(cli: Run, people: Graph, pg) -> None:
    newest, older, *_ = heads(people)
    words = ("schema", "apply", "-s", pg(WITH_CITY), people.uri, "--json", "--if-commit")
    lost = cli(*words, older)
    assert (lost.code, lost.json["code"]) == (4, "precondition_failed")
    assert heads(people)[0] == newest
    assert cli(*words, newest).json["applied"]


def test_an_idempotency_key_repeats_the_answer(cli: Run, people: Graph, pg) -> None:
    words = ("schema", "apply", "-s", pg(WITH_CITY), people.uri, "--idempotency-key", "k1")
    first = cli(*words, "--json").json
    again = cli(*words, "--json").json
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["commit"] == first["commit"]
    assert len(heads(people)) == 3
    text = cli(*words)
    assert text.out == f"already done by commit {first['commit']['graph_commit_id']}\n"


def test_engines_of_apply(cli: Run, people: Graph, pg) -> None:
    wide = pg(SCHEMA.replace("age: I32?", "age: I64?"))
    words = ("schema", "apply", "-s", wide, people.uri, "--engine")
    assert cli(*words, "abacus").code == 2
    assert cli(*words, "local", "--json").json["applied"]


def test_a_dry_run_is_a_plan(cli: Run, people: Graph, pg, tmp_path: Path) -> None:
    before = heads(people)
    good, bad = pg(WITH_CITY), pg(NO_BIO)
    answer = cli("schema", "apply", "-s", good, people.uri, "--dry-run")
    assert (answer.code, answer.out.strip()) == (0, "add node City  [metadata]")
    assert cli("schema", "apply", "-s", bad, people.uri, "--dry-run").code == 1
    assert cli("schema", "apply", "-s", good, people.uri, "--dry-run", "--json").json["supported"]
    saved = cli("schema", "apply", "--plan", "p.json", people.uri, "--dry-run")
    assert (saved.code, "a saved plan was a dry run already" in saved.err) == (2, True)
    assert heads(people) == before


def test_a_saved_plan_is_applied_with_its_grants(
    cli: Run, people: Graph, pg, tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    planned = cli(
        *("schema", "plan", "-s", pg(WITH_EMAIL), people.uri, "--backfill", FROM_NAME),
        *("--out", saved, "--detailed-exitcode", "--json"),
    )
    assert planned.code == 6
    assert json.loads(saved.read_text(encoding="utf-8")) == planned.json
    body = cli("schema", "apply", "--plan", saved, people.uri, "--json").json
    assert body["applied"]
    assert body["steps"] == planned.json["steps"]
    assert people.schema.show().source == WITH_EMAIL
    again = cli("schema", "apply", "--plan", saved, people.uri, "--json")
    assert (again.code, again.json["code"]) == (4, "precondition_failed")
    assert "plan again" in again.json["error"]


def test_a_saved_plan_fits_one_graph_and_branch(
    cli: Run, people: Graph, pg, tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    assert cli("schema", "plan", "-s", pg(WITH_CITY), people.uri, "--out", saved).code == 0
    other = omnigraph.init(tmp_path / "other.omni", SCHEMA)
    answer = cli("schema", "apply", "--plan", saved, other.uri)
    assert (answer.code, "made for another graph" in answer.err) == (4, True)
    people.branches.create("review")
    answer = cli("schema", "apply", "--plan", saved, people.uri, "--branch", "review")
    assert answer.code == 4
    assert len(heads(people)) == 2


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"format": 99}'])
def test_files_that_are_no_plan(cli: Run, people: Graph, tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="utf-8")
    answer = cli("schema", "apply", "--plan", file, people.uri, "--json")
    assert (answer.code, answer.json["code"]) == (1, "invalid_argument")
    assert "plan" in answer.json["error"]


def test_apply_takes_either_a_schema_or_a_plan(cli: Run, people: Graph, pg) -> None:
    for words in ((), ("--schema", pg(SCHEMA), "--plan", "p.json")):
        answer = cli("schema", "apply", *words, people.uri)
        assert answer.code == 2
        assert "give either --schema FILE or --plan FILE" in answer.err


def test_a_plan_that_cannot_be_saved(cli: Run, people: Graph, pg, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "plan.json"
    answer = cli("schema", "plan", "-s", pg(WITH_CITY), people.uri, "--out", target, "--json")
    assert (answer.code, answer.json["code"]) == (1, "invalid_argument")
    assert str(target) in answer.json["error"]


# diff and history


@pytest.fixture
def changed(people: Graph) -> Graph:
    people.tags.create("v1")
    people.schema.apply(WITH_CITY, message="cities")
    people.schema.apply(
        WITH_CITY.replace("age: I32?", "age: I64?"), message="older people", idempotency_key="k"
    )
    return people


def test_diff(cli: Run, changed: Graph) -> None:
    answer = cli("schema", "diff", "v1", "main", "--store", changed.uri, "--quiet")
    assert (answer.code, answer.out.splitlines()) == (
        0,
        ["change Person.age from I32? to I64? (lossless)", "add node City"],
    )
    assert cli("schema", "diff", "v1", "--store", changed.uri, "--quiet").out == answer.out
    back = cli("schema", "diff", "main", "v1", "--store", changed.uri, "--json").json
    assert [step["kind"] for step in back["steps"]] == ["change_property_type", "drop_type"]
    assert back["step_count"] == 2
    assert back["from_commit_id"] == changed.snapshot().graph_commit_id
    same = cli("schema", "diff", "main", "main", "--store", changed.uri, "--quiet")
    assert same.out == "no difference\n"
    assert cli("schema", "diff", "v1", "nope", "--store", changed.uri).code == 1


def test_history(cli: Run, changed: Graph) -> None:
    lines = cli("schema", "history", changed.uri, "--quiet").out.splitlines()
    newest, middle, _, first = heads(changed)
    assert [line.split()[0] for line in lines] == [newest, middle, first]
    assert lines[0].endswith("1 step: older people")
    assert lines[1].endswith("1 step: cities")
    assert lines[2].endswith("the first schema")
    body = cli("schema", "history", "--store", changed.uri, "--json").json["schemas"]
    assert [schema["commit"]["graph_commit_id"] for schema in body] == [newest, middle, first]
    assert body[0]["schema_hash"] == changed.schema.show().schema_hash
    assert [step["kind"] for step in body[0]["steps"]] == ["change_property_type"]
    assert body[2]["steps"] == []
    assert len(cli("schema", "history", changed.uri, "-n", "1", "--quiet").out.splitlines()) == 1
    assert cli("schema", "history", changed.uri, "--branch", "nope").code == 1


def test_history_of_a_branch(cli: Run, changed: Graph, pg) -> None:
    changed.branches.create("review")
    back = ("schema", "apply", "-s", pg(SCHEMA), changed.uri, "-b", "review", "--allow-data-loss")
    assert cli(*back).code == 0
    body = cli("schema", "history", changed.uri, "-b", "review", "--json").json["schemas"]
    assert [len(schema["steps"]) for schema in body] == [2, 1, 1, 0]
    assert len(cli("schema", "history", changed.uri, "--json").json["schemas"]) == 3


def test_history_has_merges_and_reverts(cli: Run, changed: Graph) -> None:
    changed.branches.create("review")
    changed.schema.apply(WITH_CITY, branch="review", allow_data_loss=True)
    changed.apply({"Note": Edit(insert=[{"text": "x"}])})
    changed.merge("review", message="merged")
    changed.revert("HEAD", message="undone")
    lines = cli("schema", "history", changed.uri, "--quiet").out.splitlines()
    assert [line.split("  ")[-1] for line in lines] == [
        "1 step: undone",
        "1 step: merged",
        "1 step: older people",
        "1 step: cities",
        "the first schema",
    ]
    body = cli("schema", "history", changed.uri, "--json").json["schemas"]
    assert [step["text"] for schema in body[:2] for step in schema["steps"]] == [
        "change Person.age from I32? to I64? (lossless)",
        "change Person.age from I64? to I32? (cast)",
    ]


# show


def test_show_tells_hash_and_version(cli: Run, changed: Graph) -> None:
    body = cli("schema", "show", changed.uri, "--json").json
    assert body["schema_version"] == changed.snapshot().graph_commit_id
    changed.tags.create("v3")
    old = cli("schema", "show", changed.uri, "--at", "v1", "--json").json
    assert old["schema_version"] == heads(changed)[-1]
    assert old["schema_hash"] != body["schema_hash"]
    assert old["schema_source"] == SCHEMA
    assert "types" not in body


def test_the_same_schema_has_the_same_hash_in_every_graph(
    cli: Run, people: Graph, tmp_path: Path
) -> None:
    other = omnigraph.init(tmp_path / "other.omni", SCHEMA)
    ours, theirs = (cli("schema", "show", g.uri, "--json").json for g in (people, other))
    assert ours["schema_hash"] == theirs["schema_hash"]
    assert ours["schema_version"] != theirs["schema_version"]


def test_show_types(cli: Run, changed: Graph) -> None:
    body = cli("schema", "show", changed.uri, "--format", "ir").json
    assert cli("schema", "show", changed.uri, "-f", "ir", "--json").json == body
    types = {declared["name"]: declared for declared in body["types"]}
    assert [(t["type_kind"], t["name"]) for t in body["types"]] == [
        ("node", "Person"),
        ("node", "Note"),
        ("node", "City"),
        ("edge", "Knows"),
    ]
    person = types["Person"]
    assert person["constraints"] == [{"Key": ["name"]}]
    age = next(p for p in person["properties"] if p["name"] == "age")
    assert age["property_type"] == {"scalar": "I64", "nullable": True, "list": False}
    assert (types["Knows"]["from"], types["Knows"]["to"]) == ("Person", "Person")
    old = cli("schema", "show", changed.uri, "--format", "ir", "--at", "v1").json["types"]
    before = next(p for p in old[0]["properties"] if p["name"] == "age")
    assert (old[0]["id"], before["id"]) == (person["id"], age["id"])
    assert cli("schema", "show", changed.uri, "--format", "xml").code == 2


def test_ids_survive_a_rename(cli: Run, people: Graph, pg) -> None:
    def note() -> dict[str, str]:
        types = cli("schema", "show", people.uri, "--format", "ir").json["types"]
        return next(t for t in types if t["type_kind"] == "node" and t["name"] != "Person")

    before = note()
    renamed = SCHEMA.replace("node Note {", 'node Remark @rename_from("Note") {')
    assert cli("schema", "apply", "-s", pg(renamed), people.uri).code == 0
    after = note()
    assert (before["name"], after["name"]) == ("Note", "Remark")
    assert before["id"] == after["id"]


# commit show


def test_commit_show_lists_the_steps_of_a_schema_commit(cli: Run, changed: Graph) -> None:
    answer = cli("commit", "show", "HEAD", changed.uri, "--quiet")
    assert answer.out.splitlines()[-1].split(maxsplit=1) == [
        "schema_step",
        "change Person.age from I32? to I64? (lossless)",
    ]
    body = cli("commit", "show", "HEAD~1", changed.uri, "--json").json
    assert [step["text"] for step in body["schema_steps"]] == ["add node City"]


def test_commit_show_of_other_commits_has_no_steps(cli: Run, changed: Graph) -> None:
    changed.apply({"Person": Edit(insert=[{"name": "Dee"}])})
    for commit in ("HEAD", "HEAD~3", "HEAD~4"):
        assert "schema_steps" not in cli("commit", "show", commit, changed.uri, "--json").json
    assert "schema_step" not in cli("commit", "show", "HEAD", changed.uri).out


def test_commit_show_of_a_merge_that_brought_a_schema(cli: Run, people: Graph) -> None:
    people.branches.create("review")
    people.schema.apply(WITH_CITY, branch="review")
    people.apply({"Person": Edit(insert=[{"name": "Dee"}])})
    people.merge("review")
    body = cli("commit", "show", "HEAD", people.uri, "--json").json
    assert [step["text"] for step in body["schema_steps"]] == ["add node City"]
