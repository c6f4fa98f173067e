"""`queries`, and `query NAME` and `mutate NAME` without a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_testing.http_server import ThreadServer


@pytest.fixture
def stored(people, queries: Path) -> tuple[str, ...]:
    return ("--queries", str(queries.parent), "--store", people.uri)


def test_list_and_validate(cli, people, queries: Path, stored) -> None:
    listed = cli("queries", "list", *stored)
    assert listed.out.splitlines() == [
        "read      everybody()",
        "mutation  grow(name: String)",
        "read      named(name: String)",
        "read      older(than: I32, at: DateTime?)",
    ]
    entries = cli("queries", "list", *stored, "--json").json["queries"]
    first = entries[0]
    assert (first["name"], first["graph_id"], first["mcp_expose"]) == ("everybody", None, True)
    assert [(p["name"], p["type"], p["nullable"]) for p in entries[3]["params"]] == [
        ("than", "I32", False),
        ("at", "DateTime", True),
    ]
    assert cli("queries", "validate", *stored).out == "4 stored queries: all fit the schema\n"
    queries.write_text("query odd() { match { $p: Persn } return { $p.name } }")
    broken = cli("queries", "validate", *stored)
    assert broken.code == 1
    assert f"{queries}:1: odd: there is no node type 'Persn'" in broken.out
    found = cli("queries", "validate", *stored, "--json")
    assert (found.code, found.json["ok"], found.json["breakages"][0]["query"]) == (1, False, "odd")
    assert cli("query", "odd", *stored).code == 1


def test_a_name_without_a_text_is_a_stored_query(cli, people, queries, stored) -> None:
    assert cli("query", "named", "-p", "name=Ada", *stored).out.split() == ["age", "---", "36"]
    grown = cli("mutate", "grow", "-p", "name=Ada", "-m", "older", *stored)
    assert "1 node, 0 edges affected" in grown.out
    assert people.commits.list()[0].message == "older"
    assert cli("query", "named", "-p", "name=Ada", "--at", "HEAD~1", *stored, "--json").json[
        "rows"
    ] == [{"age": 36}]
    typed = cli("query", "older", "-p", "than=5", *stored, "--json").json
    assert typed["query_name"] == "older"


def test_wrong_names_and_verbs(cli, people, stored) -> None:
    wrong = cli("query", "namd", *stored)
    assert (wrong.code, "did you mean 'named'?" in wrong.err) == (1, True)
    assert "run it with `mutate`" in cli("query", "grow", "-p", "name=Ada", *stored).err
    assert "run it with `query`" in cli("mutate", "named", "-p", "name=Ada", *stored).err
    assert "--queries DIR" in cli("query", "named", "--store", people.uri).err
    assert cli("query", "--store", people.uri).code == 2
    assert cli("query", "named", "--engine", "spark", *stored).code == 2


def test_stored_queries_of_a_server(cli, people, queries: Path) -> None:
    with ThreadServer({"people": people.uri}, queries=(("people", str(queries.parent)),)) as there:
        words = ("--server", there.url, "--graph", "people")
        entries = cli("queries", "list", *words, "--json").json["queries"]
        assert (entries[0]["name"], entries[0]["graph_id"]) == ("everybody", "people")
        assert cli("queries", "validate", *words).code == 0
        assert cli("query", "named", "-p", "name=Ada", *words, "--json").json["rows"] == [
            {"age": 36}
        ]
        assert "1 node" in cli("mutate", "grow", "-p", "name=Bob", *words).out
        assert "run it with `mutate`" in cli("query", "grow", "-p", "name=Bob", *words).err
        assert cli("query", "named", "--queries", queries, *words).code == 2
        local = cli("queries", "validate", "--queries", queries, *words)
        assert (local.code, local.out) == (0, "4 stored queries: all fit the schema\n")


def test_stored_queries_of_a_cluster(cli, people, queries: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "people.pg").write_text(people.schema.show().source)
    (folder / "cluster.yaml").write_text(
        f"version: 1\ngraphs:\n  people: {{schema: people.pg, queries: {queries}}}\n"
    )
    assert cli("cluster", "apply", "--config", folder, "--yes").code == 0
    entries = cli("queries", "list", "--cluster", folder, "--json").json["queries"]
    assert [(e["name"], e["graph_id"]) for e in entries[:2]] == [
        ("everybody", "people"),
        ("grow", "people"),
    ]
    assert cli("queries", "validate", "--cluster", folder, "--graph", "people").code == 0
    assert cli("queries", "list", "--cluster", folder, "--graph", "other").code == 2
