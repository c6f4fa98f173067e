"""`mutate`."""

from __future__ import annotations

ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"


def test_mutate(cli, people, queries) -> None:
    words = ("mutate", "grow", "-q", queries, "-p", "name=Ada", "--store", people.uri)
    body = cli(*words, "-m", "birthday", "--as", "eve", "--json").json
    assert list(body) == [
        "branch",
        "query_name",
        "affected_nodes",
        "affected_edges",
        "actor_id",
        "commit",
        "repeated",
    ]
    assert (body["query_name"], body["affected_nodes"], body["actor_id"]) == ("grow", 1, "eve")
    assert body["commit"] == people.commits.list()[0].to_dict()
    assert people.read("Person", ids=["Ada"]).to_pylist()[0]["age"] == 99
    nobody = cli("mutate", "grow", "-q", queries, "-p", "name=Nobody", "--store", people.uri)
    assert nobody.code == 0
    assert "nothing changed" in nobody.out


def test_a_lost_precondition_is_exit_code_4(cli, people) -> None:
    head = people.snapshot().graph_commit_id
    words = ("mutate", "-e", ADD, "--if-commit", head, "--store", people.uri, "--json")
    assert cli(*words, "-p", "n=New").code == 0
    lost = cli(*words, "-p", "n=Newer")
    assert lost.code == 4
    assert lost.json["code"] == "precondition_failed"
    assert people.read("Person", ids=["Newer"]).num_rows == 0


def test_a_repeated_key_changes_nothing_twice(cli, people) -> None:
    words = ("mutate", "-e", ADD, "-p", "n=New", "--idempotency-key", "k1", "--store", people.uri)
    first = cli(*words, "--json").json
    assert first["repeated"] is False
    assert cli(*words, "--json").json == {**first, "repeated": True}
    assert cli(*words).out == f"already done by commit {first['commit']['graph_commit_id']}\n"


def test_cli_and_python_mutate_alike(cli, people) -> None:
    people.branches.create("a")
    people.branches.create("b")
    text = """query q() {
      update Person set { age: age + 1 } where age > 5
      insert Note { id: "n", text: "x" }
    }"""
    one = cli("mutate", "-e", text, "--branch", "a", "--store", people.uri, "--json").json
    two = people.mutate(text, branch="b")
    assert (one["affected_nodes"], one["affected_edges"]) == (
        two.affected_nodes,
        two.affected_edges,
    )
    for name in ("Person", "Note", "Knows"):
        assert people.read(name, "a").equals(people.read(name, "b"))
