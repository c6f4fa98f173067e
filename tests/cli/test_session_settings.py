"""The `settings:` part of the config file applies to every command."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.lance_store.store import Store

EMBEDDED = 'node Doc { text: String @key  vec: Vector(4)? @embed("text", model="tiny") }\n'


@pytest.fixture
def config() -> Path:
    file = Path.home() / ".omnigraph" / "config.yaml"
    file.parent.mkdir()
    return file


def test_commands_embed_with_the_provider_of_the_file(cli, config, tmp_path) -> None:
    schema, data = tmp_path / "s.pg", tmp_path / "d.ndjson"
    schema.write_text(EMBEDDED)
    data.write_text('{"type":"Doc","data":{"text":"hello"}}\n')
    config.write_text("settings:\n  embedding: {provider: mock, model: tiny, width: 4}\n")
    store = tmp_path / "g.omni"
    assert cli("init", "-s", schema, store).code == 0
    done = cli("load", "--data", data, store)
    assert done.code == 0, done.err
    (row,) = omnigraph.open(store).read("Doc").to_pylist()
    assert len(row["vec"]) == 4
    wanted = (
        "query q($t: String) { match { $d: Doc } return { $d.text } "
        "order { nearest($d.vec, $t) } limit 1 }"
    )
    assert cli("query", "-e", wanted, "-p", "t=hello", "--store", store, "--json").json["row_count"]
    config.write_text("")
    other = cli("load", "--data", data, "--mode", "merge", store)
    assert other.code == 1
    assert "tiny" in other.err


def test_commands_sync_to_disk_by_the_file(cli, config, people, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(Store, "flush_to_disk", lambda store: asked.append(store.sync))
    change = "query q($name: String) { insert Person { name: $name } }"
    assert cli("mutate", "-e", change, "-p", "name=Eve", "--store", people.uri).code == 0
    assert True not in asked
    config.write_text("settings:\n  write: {durability: fsync}\n")
    assert cli("mutate", "-e", change, "-p", "name=Zoe", "--store", people.uri).code == 0
    assert True in asked


def test_a_query_of_the_cli_has_the_deadline_of_the_file(cli, config, people) -> None:
    config.write_text("settings:\n  read: {timeout_seconds: 0.000001}\n")
    wanted = "query q() { match { $p: Person } return { $p.name } }"
    late = cli("query", "-e", wanted, "--store", people.uri, "--json")
    assert (late.code, late.json["code"]) == (1, "resource_limit")


def test_a_wrong_file_stops_every_command_before_it_does_anything(cli, config, tmp_path) -> None:
    config.write_text("settings: {write: {durability: maybe}}\n")
    schema = tmp_path / "s.pg"
    schema.write_text("node P { name: String @key }\n")
    answer = cli("init", "-s", schema, tmp_path / "g.omni", "--json")
    assert (answer.code, answer.json["key"]) == (1, "settings.write.durability")
    assert not (tmp_path / "g.omni").exists()
