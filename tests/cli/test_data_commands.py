"""`load`, `export`, `blob`: data in and out."""

from __future__ import annotations

import base64
import json
import os
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

import omnigraph
from omnigraph.cli.main import app

ROWS = """{"type":"Person","data":{"name":"Dan","age":5}}
{"type":"Note","data":{"id":"n1","text":"hello","photo":"base64:%s"}}
{"edge":"Knows","from":"Dan","to":"Ada"}
"""
DIRTY = Path(__file__).parents[1] / "fixtures" / "dirty"
PHOTO = bytes(range(256)) * 10


@pytest.fixture
def rows(tmp_path):
    file = tmp_path / "rows.ndjson"
    file.write_text(ROWS % base64.b64encode(PHOTO).decode())
    return file


def test_load(cli, people, rows) -> None:
    loaded = cli("load", "--data", rows, people.uri, "-m", "more", "--as", "eve", "--json").json
    assert (loaded["mode"], loaded["total_entities"]) == ("append", 3)
    (knows,) = loaded["edges"]
    assert (knows["name"], knows["entities_loaded"], knows["inserted"]) == ("Knows", 1, 1)
    assert loaded["commit"] == people.commits.list()[0].to_dict()
    assert (loaded["commit"]["message"], loaded["commit"]["actor_id"]) == ("more", "eve")
    again = cli("load", "--data", rows, people.uri, "--mode", "merge")
    assert again.code == 0
    assert "Person: 1 unchanged\n" in again.out
    refused = cli("load", "--data", rows, people.uri)
    assert refused.code == 1
    assert f"{rows}:1: Person 'Dan'" in refused.err
    assert f"{rows}:2: Note 'n1'" in refused.err


def test_a_mess_is_cleaned_in_one_round(cli, tmp_path) -> None:
    store, bad = tmp_path / "g.omni", tmp_path / "bad.ndjson"
    assert cli("init", "--schema", DIRTY / "schema.pg", store).code == 0
    words = ("load", "--data", DIRTY, store, "--rejects", bad)
    refused = cli(*words)
    assert refused.code == 1
    assert f"{bad} lists the rejected rows" in refused.err
    assert len(bad.read_text().splitlines()) == 17  # without edges that only have a bad node
    few = cli(*words, "--on-error", "skip", "--max-errors", 23)
    assert few.code == 1
    assert "24 rows would be rejected, more than max_errors=23 allows" in few.err
    done = cli(*words, "--on-error", "skip")
    assert done.code == 0
    assert f"24 rows rejected, listed in {bad}\n" in done.out
    assert "12 entities loaded into main" in done.out
    again = cli(*words, "--on-error", "skip", "--json").json
    assert (again["rejected"], again["total_entities"], again["commit"]) == (36, 0, None)


def test_no_rows(cli, people, tmp_path) -> None:
    file = tmp_path / "Person.csv"
    file.write_text("name,age\n")
    assert cli("load", "--data", file, people.uri).out == "no rows in the data, main is unchanged\n"
    missing = cli("load", "--data", tmp_path / "none.csv", people.uri)
    assert (missing.code, "no such file" in missing.err) == (1, True)


def test_load_from_stdin(cli, people, rows) -> None:
    loaded = cli("load", "--data", "-", people.uri, "--json", input=rows.read_text()).json
    assert loaded["total_entities"] == 3
    refused = cli("load", "--data", "-", people.uri, input='\n{"type":"Person","data":{}}')
    assert refused.code == 1
    assert ">:2: Person" in refused.err
    assert cli("load", "--data", "-", "--data", "-", people.uri).code == 2
    assert cli("load", "--data", rows, "--engine", "hadoop", people.uri).code == 2


def test_a_load_with_a_key_of_before(cli, people, rows) -> None:
    words = ("load", "--data", rows, people.uri, "--idempotency-key", "k")
    first = cli(*words, "--json").json
    assert first["repeated"] is False
    assert cli(*words, "--json").json == {**first, "repeated": True}
    assert cli(*words).out == f"already done by commit {first['commit']['graph_commit_id']}\n"
    assert people.read("Person").num_rows == 4


def test_load_into_a_new_branch(cli, people, rows) -> None:
    words = ("load", "--data", rows, "--branch", "in/today", "--from", "main", people.uri)
    assert cli(*words, "--json").json["branch_created"] is True
    assert people.read("Person", "in/today").num_rows == 4
    assert people.read("Person").num_rows == 3


def test_csv_with_other_headers(cli, people, tmp_path) -> None:
    file = tmp_path / "staff.csv"
    file.write_text("Full name,age\nEva,4\n")
    words = ("load", "--data", file, "--type", "Person", "--column", "Full name=name")
    assert cli(*words, people.uri).code == 0
    assert people.read("Person", ids=["Eva"]).to_pylist()[0]["age"] == 4
    edges = tmp_path / "Knows.csv"
    edges.write_text("from,to\nEva,Ada\n")
    file.rename(file := tmp_path / "Person.csv")
    two = ("load", "--data", file, "--data", edges, "--mode", "merge", people.uri)
    unmapped = cli(*two)
    assert unmapped.code == 1
    assert '--map "Full name=name"' in unmapped.err
    assert cli(*two, "--map", "Full name=name").code == 0
    assert "no file has a column 'Name'" in cli(*two, "--map", "Name=name").err


def test_files_as_people_have_them(cli, people, tmp_path) -> None:
    file = tmp_path / "staff.csv"
    file.write_bytes("Full name:age\n'J\u00f6: B':4\n".encode("cp1252"))
    words = ("load", "--data", file, "--type", "Person", "--map", "Full name=name", people.uri)
    assert "it is one character" in cli(*words, "--delimiter", "comma").err
    refused = cli(*words, "--delimiter", ":", "--quote", "'")
    assert refused.code == 1
    assert f"{file}:2: byte 0xF6 is not UTF-8" in refused.err
    assert cli(*words, "--delimiter", ":", "--quote", "'", "--encoding", "cp1252").code == 0
    rows = tmp_path / "rows.json"
    rows.write_text('[{"name": "Flat"}]')
    assert cli("load", "--data", rows, "--type", "Person", people.uri).code == 0
    assert people.read("Person", ids=["J\u00f6: B", "Flat"]).num_rows == 2
    assert "no encoding 'none'" in cli(*words, "--encoding", "none").err
    csv = cli("export", people.uri, "--type", "Person", "--format", "csv", "--quiet").out
    assert csv.splitlines()[0].startswith("name,age")
    assert cli("export", people.uri, "--format", "csv").code == 2
    assert cli("export", people.uri, "--format", "csv", "--output", tmp_path / "out").code == 0
    again = cli("load", "--data", tmp_path / "out", "--mode", "merge", people.uri, "--json")
    assert json.loads(again.out)["commit"] is None


def test_export_and_load_again_gives_the_same(cli, people, rows, tmp_path) -> None:
    cli("load", "--data", rows, people.uri)
    text = cli("export", people.uri, "--quiet").out
    (tmp_path / "out.ndjson").write_text(text, encoding="utf-8")
    schema = tmp_path / "s.pg"
    schema.write_text(cli("schema", "show", people.uri, "--quiet").out, encoding="utf-8")
    cli("init", "--schema", schema, tmp_path / "copy.omni")
    cli("load", "--data", tmp_path / "out.ndjson", tmp_path / "copy.omni")
    assert cli("export", tmp_path / "copy.omni", "--quiet").out == text
    target = tmp_path / "parquet"
    made = cli("export", people.uri, "-f", "parquet", "-o", target, "--json").json
    assert made["total_entities"] == text.count("\n")
    cli("init", "--schema", schema, tmp_path / "third.omni")
    assert cli("load", "--data", target, tmp_path / "third.omni").code == 0
    assert cli("export", tmp_path / "third.omni", "--quiet").out == text


def test_export_of_a_type_and_of_the_past(cli, people, rows, tmp_path) -> None:
    people.tags.create("before")
    cli("load", "--data", rows, people.uri)
    assert cli("export", people.uri, "--type", "Knows", "--quiet").out.count("\n") == 3
    assert cli("export", people.uri, "--at", "before", "--quiet").out.count("\n") == 5
    written = cli("export", people.uri, "-o", tmp_path / "x.ndjson")
    assert "8 entities written" in written.out


def test_export_into_a_pipe_leaves_it_a_pipe(cli, people, tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert cli("export", people.uri, "-o", pipe).code == 0
    reader.join(30)
    assert pipe.is_fifo()
    assert read == [cli("export", people.uri, "--quiet").out]


def test_export_to_a_full_disk(cli, people, tmp_path) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    answer = cli("export", people.uri, "-o", full)
    assert answer.code == 1
    assert "No space left" in answer.err


def test_blobs(cli, people, rows, tmp_path) -> None:
    cli("load", "--data", rows, people.uri)
    words = ["Note", "n1", "photo", "--store", people.uri]
    assert cli("blob", "stat", *words, "--json").json["size"] == len(PHOTO)
    assert "2,560 bytes" in cli("blob", "stat", *words).out
    assert CliRunner().invoke(app, ["blob", "get", *words]).stdout_bytes == PHOTO
    some = CliRunner().invoke(app, ["blob", "get", *words, "--offset", "5", "--length", "3"])
    assert some.stdout_bytes == PHOTO[5:8]
    file = tmp_path / "photo"
    assert cli("blob", "get", *words, "-o", file).code == 0
    assert file.read_bytes() == PHOTO


def test_external_blobs(cli, people, tmp_path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.jpg").write_bytes(PHOTO)
    base = f"file://{tmp_path}/files"
    line = {"type": "Note", "data": {"id": "n7", "text": "x", "photo": f"{base}/a.jpg"}}
    (tmp_path / "notes.ndjson").write_text(json.dumps(line))
    load = ["load", "--data", tmp_path / "notes.ndjson", people.uri]
    denied = cli(*load)
    assert denied.code == 1
    assert "does not allow" in denied.err
    assert cli(*load, "--external-blobs", base).code == 0
    words = ["Note", "n7", "photo", "--store", people.uri]
    told = cli("blob", "stat", *words, "--json").json
    assert told["uri"] == f"{base}/a.jpg"
    assert "size" not in told
    assert f"external, {base}/a.jpg" in cli("blob", "stat", *words).out
    assert "2,560 bytes" in cli("blob", "stat", *words, "--external-blobs", base).out
    closed = cli("blob", "get", *words, "-o", tmp_path / "out")
    assert closed.code == 1
    assert "--external-blobs" in closed.err
    assert not (tmp_path / "out").exists()
    got = CliRunner().invoke(app, ["blob", "get", *words, "--external-blobs", base])
    assert got.stdout_bytes == PHOTO
    update = ["mutate", "-e", f'update Note set {{ photo: "{base}/b" }} where text = "x"']
    assert "does not allow" in cli(*update, "--store", people.uri).err
    assert cli(*update, "--store", people.uri, "--external-blobs", base).code == 0
    assert cli("blob", "stat", *words, "--json").json["uri"] == f"{base}/b"
    wrong = cli(*update, "--store", people.uri, "--external-blobs", "ftp://x/y")
    assert "scheme" in wrong.err


def test_embed(cli, tmp_path, monkeypatch) -> None:
    schema = """node Doc {
      name: String @key
      text: String
      vec: Vector(256)? @embed("text", model="wordllama-l2-supercat-256")
    }"""
    graph = omnigraph.init(tmp_path / "docs.omni", schema)
    # As a row is that was there before the property.
    monkeypatch.setattr("omnigraph.graph.edits.fill_edits", lambda _, changes, __: changes)
    graph.apply({"Doc": {"insert": [{"name": "a", "text": "a cat"}]}})
    assert cli("embed", graph.uri, "--json").json["embedded"] == 1
    assert cli("embed", graph.uri).out == "nothing to do: no @embed property lacks a vector\n"
    graph.apply({"Doc": {"insert": [{"name": "b", "text": "a dog"}]}})
    assert cli("embed", graph.uri).out.startswith("1 vector made, commit 01")
