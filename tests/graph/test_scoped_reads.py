"""What a handle with rules sees: of states, after writes, on branches, in the past, in plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import InvalidArgument, NotFound, TypeCheckError
from omnigraph.execute.topology.scoped_states import ScopedAdjacency, ScopedContent
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.values.identifiers import edge_table, node_table
from omnigraph.writes.shape import Edit
from omnigraph_testing.scoped_gate import Rules, ScopedGate

SCHEMA = """
interface Named { title: String? }
node Person implements Named {
  name: String @key  team: String? @index  wage: I32?  bio: String?  made: Vector(2)? @embed("bio")
  @unique(team, wage)
}
node Secret implements Named { code: String @key }
edge Knows: Person -> Person { since: I32?  note: String? }
edge Holds: Person -> Secret
"""
RED: Rules = {"Person": (("wage", "bio"), 'team = "red"'), "Knows": (("note",), "since > 0")}
NAMES = "match { $p: Person } return { $p.name as n } order { n }"
FRIENDS = "match { $p: Person $p knows $f } return { $p.name as p, $f.name as f } order { p, f }"
REACHED = 'match { $p: Person { name: "a" } $p knows{1,4} $f } return { $f.name as n } order { n }'
COUNT = "match { $p: Person $p knows $f } return { count($f) as n }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g", SCHEMA)
    people = [("a", "red"), ("b", "blue"), ("c", "red"), ("d", "red"), ("e", None)]
    edges = [("a", "b", 1), ("b", "c", 1), ("a", "c", 1), ("c", "d", 0), ("c", "a", 2)]
    graph.apply(
        {
            "Person": Edit(
                insert=[{"name": n, "team": t, "wage": i} for i, (n, t) in enumerate(people)]
            ),
            "Knows": Edit(insert=[{"from": a, "to": b, "since": s} for a, b, s in edges]),
            "Secret": Edit(insert=[{"code": "s1"}]),
            "Holds": Edit(insert=[{"from": "a", "to": "s1"}]),
        }
    )
    return graph


def seen_by(graph: Graph, rules: Rules, actor: str = "someone") -> Graph:
    return graph.as_actor(actor, gate=ScopedGate(rules))


def column(graph: Graph, text: str, name: str = "n", **more: Any) -> list[Any]:
    return [row[name] for row in graph.query(text, **more)]


def test_a_snapshot_has_no_hidden_names(graph: Graph) -> None:
    found = seen_by(graph, RED).snapshot()
    person = found.catalog.node_types["Person"]
    assert [p.name for p in person.properties] == ["title", "name", "team", "made"]
    assert not any("wage" in getattr(c, "properties", ()) for c in person.constraints)
    told = repr(found.catalog)
    assert not any(word in told for word in ("wage", "bio", "note", "Secret", "Holds", "code"))
    assert [(d.type_name, d.entity_count) for d in found.datasets] == [
        ("Knows", None),
        ("Person", None),
    ]
    with pytest.raises(NotFound, match=r"no node type 'Secret' in the schema$"):
        found.pin(node_table("Secret"))


def test_counts_are_told_where_no_rule_is_about_rows(graph: Graph) -> None:
    open_types = dict.fromkeys(("Person", "Knows", "Holds"), ((), None))
    rules: Rules = {**open_types, "Secret": ((), 'code != "s"')}
    found = {d.type_name: d.entity_count for d in seen_by(graph, rules).snapshot().datasets}
    assert found == {"Person": 5, "Knows": 5, "Secret": None, "Holds": None}


def test_an_interface_has_only_what_its_visible_types_show(graph: Graph) -> None:
    hidden: Rules = {"Person": (("title",), None), "Secret": ((), None)}
    with pytest.raises(TypeCheckError, match="has no property 'title'"):
        seen_by(graph, hidden).query("match { $x: Named } return { $x.title }")
    alone: Rules = {"Secret": ((), None)}
    names = "match { $x: Named } return { $x.id as n } order { n }"
    assert column(seen_by(graph, alone), names) == ["s1"]
    with pytest.raises(TypeCheckError, match="no node type 'Named'"):
        seen_by(graph, {}).query(names)


def test_traversals_pass_only_visible_nodes_and_edges(graph: Graph) -> None:
    red = seen_by(graph, RED)
    assert column(red, NAMES) == ["a", "c", "d"]
    assert [(r["p"], r["f"]) for r in red.query(FRIENDS)] == [("a", "c"), ("c", "a")]
    assert column(red, REACHED) == ["c"]
    assert column(red, COUNT) == [2]
    assert column(graph, COUNT) == [5]
    whole = red.query('match { $p: Person { name: "a" } $p $e:knows $f } return { $p, $e }')
    assert [(sorted(row["p"]), sorted(row["e"])) for row in whole] == [
        (["id", "name", "team", "title"], ["from", "id", "since", "to"])
    ]


def test_writes_move_entities_in_and_out_of_scope(graph: Graph) -> None:
    red = seen_by(graph, RED)
    assert column(red, NAMES) == ["a", "c", "d"]
    graph.mutate('update Person set { team: "red" } where name = "b"')
    assert column(red, NAMES) == ["a", "b", "c", "d"]
    assert column(red, REACHED) == ["b", "c"]
    graph.mutate('update Person set { team: null } where name = "c"')
    assert column(red, NAMES) == ["a", "b", "d"]
    assert column(red, REACHED) == ["b"]
    graph.mutate('update Knows set { since: 0 } where from = "a" and to = "b"')
    assert column(red, REACHED) == []
    graph.optimize()
    assert column(red, NAMES) == ["a", "b", "d"]
    assert column(red, COUNT) == [0]


def test_a_branch_and_the_past_are_read_by_their_own_rows(graph: Graph) -> None:
    red = seen_by(graph, RED)
    before = graph.snapshot().graph_commit_id
    graph.branches.create("side")
    graph.mutate('update Person set { team: "red" } where name = "b"', branch="side")
    graph.mutate('delete Person where name = "c"')
    assert column(red, NAMES) == ["a", "d"]
    assert column(red, NAMES, branch="side") == ["a", "b", "c", "d"]
    assert column(red, NAMES, at=before) == ["a", "c", "d"]
    assert column(red, REACHED, at=before) == ["c"]


def test_current_names_of_an_older_state_have_no_hidden_name(graph: Graph) -> None:
    before = graph.snapshot().graph_commit_id
    renamed = SCHEMA.replace("team: String?", 'crew: String? @rename_from("team")')
    graph.schema.apply(renamed.replace("@unique(team, wage)", "@unique(crew, wage)"))
    # The rules hold for the names of each state, as they do in a policy file.
    both: Rules = {"Person": (("wage", "bio"), None), "Knows": ((), None)}
    seen = seen_by(graph, both)
    text = "match { $p: Person } return { $p.crew as n } order { n }"
    found = column(seen, text, at=before, names="current")
    assert found == [None, "blue", "red", "red", "red"]
    with pytest.raises(TypeCheckError, match="has no property 'wage'"):
        seen.query(text.replace("crew", "wage"), at=before, names="current")


def test_plans_tell_no_numbers_of_hidden_rows(graph: Graph) -> None:
    plan = seen_by(graph, RED).explain(FRIENDS)
    assert all(operator.estimated_rows is None for operator in plan.operators)
    assert all(operator.reason == "" for operator in plan.operators)
    profile = seen_by(graph, RED).profile(FRIENDS)
    assert {operator.actual_rows for operator in profile.operators} <= {2, 3}
    hidden_only: Rules = dict.fromkeys(("Person", "Knows"), ((), None))
    assert seen_by(graph, hidden_only).explain(FRIENDS).estimated_rows is not None


def test_rules_about_the_time_are_asked_again(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", "node Note { id2: String @key  shown: DateTime? }")
    graph.mutate('insert Note { id2: "old", shown: "2001-01-01T00:00:00Z" }')
    graph.mutate('insert Note { id2: "new", shown: "2999-01-01T00:00:00Z" }')
    seen = seen_by(graph, {"Note": ((), "shown <= now()")})
    assert column(seen, "match { $x: Note } return { $x.id as n }") == ["old"]
    later = seen_by(graph, {"Note": ((), "shown > now()")})
    assert column(later, "match { $x: Note } return { $x.id as n }") == ["new"]


def test_a_rule_that_fails_shows_nothing_and_tells_no_value(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", "node Note { name: String @key  code: String?  n: I32? }")
    graph.apply({"Note": Edit(insert=[{"name": "x", "code": "canary", "n": 0}, {"name": "y"}])})
    for rule in ("10 / n > 1", 'date(code) < "2020-01-01"', "n + 2147483647 > 0 and 1 / n = 1"):
        seen = seen_by(graph, {"Note": ((), rule)})
        for ask in (
            lambda seen=seen: seen.query("match { $x: Note } return { $x.name }"),
            lambda seen=seen: seen.query('match { $x: Note { name: "x" } } return { $x.name }'),
            lambda seen=seen: seen.read("Note"),
        ):
            with pytest.raises(InvalidArgument, match="has no value for some row") as caught:
                ask()
            assert "canary" not in repr(caught.value.to_dict())


def test_equal_rules_share_states_and_others_do_not(graph: Graph) -> None:
    one, same = seen_by(graph, RED, "ada"), seen_by(graph, dict(RED), "bob")
    other = seen_by(graph, {**RED, "Person": ((), 'team = "blue"')})
    for handle in (one, same, other, graph):
        handle.query(FRIENDS)
    assert one.snapshot().tables is same.snapshot().tables
    assert one.snapshot().catalog is same.snapshot().catalog
    runner = graph.engine.queries
    views = [runner._at(h.snapshot()).executor.views for h in (one, same, other, graph)]
    people = [v.table(node_table("Person")).content for v in views]
    edges = [v.adjacency("Knows") for v in views]
    assert people[0] is people[1]
    assert edges[0] is edges[1]
    assert isinstance(people[0], ScopedContent)
    assert isinstance(edges[0], ScopedAdjacency)
    assert people[0] is not people[2]
    # All of them are made of one content of the whole table.
    assert people[0].unscoped is people[2].unscoped is people[3]
    # A rule about people does not make another content of the edges.
    assert (
        views[0].table(edge_table("Knows")).content is views[2].table(edge_table("Knows")).content
    )
    assert [row["n"] for handle in (one, same, other) for row in handle.query(NAMES)] == [
        *["a", "c", "d"] * 2,
        "b",
    ]


def test_many_scopes_are_bounded(graph: Graph) -> None:
    for number in range(300):
        seen = seen_by(graph, {"Person": ((), f'name != "x{number}"')})
        assert len(seen.snapshot().tables) == 1
        if number % 8 == 0:
            assert len(seen.query(NAMES)) == 5
    engine = graph.engine
    assert len(engine.scoped_snapshots._states) <= 256
    assert len(engine.queries._heads) <= 32
    assert len(engine.queries._cache.memory) <= 2048


def test_search_ranks_visible_rows_only(tmp_path: Path) -> None:
    graph = init(
        tmp_path / "g",
        "node Doc { name: String @key  open: Bool  body: String? @index  v: Vector(2)? @index }",
    )
    rows = [
        {"name": f"d{n}", "open": n % 3 == 0, "body": f"apple {'pear ' * n}", "v": [1.0, n / 10]}
        for n in range(12)
    ]
    graph.apply({"Doc": Edit(insert=rows)})
    graph.optimize()
    seen = seen_by(graph, {"Doc": ((), "open = true")})
    alone = init(
        tmp_path / "alone",
        "node Doc { name: String @key  open: Bool  body: String? @index  v: Vector(2)? @index }",
    )
    alone.apply({"Doc": Edit(insert=[row for row in rows if row["open"]])})
    alone.optimize()
    for text in (
        'match { $d: Doc } return { $d.name, bm25($d.body, "apple pear") as s } '
        'order { bm25($d.body, "apple pear") desc } limit 2',
        "match { $d: Doc } return { $d.name, nearest($d.v, [1.0, 0.0]) as s } "
        "order { nearest($d.v, [1.0, 0.0]) } limit 2",
        'match { $d: Doc search($d.body, "pear") } return { $d.name }',
    ):
        found, expected = seen.query(text).to_pylist(), alone.query(text).to_pylist()
        assert [row["d.name"] for row in found] == [row["d.name"] for row in expected]
        scores = [[row.get("s", 0) for row in rows] for rows in (found, expected)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-5)
