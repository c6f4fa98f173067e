"""Schemas that contradict each other: all contradictions are listed, and each can be decided."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from omnigraph import Graph, InvalidArgument, MergeConflicts, SchemaRefused, init
from omnigraph.cli.main import app
from omnigraph.graph.open import open_graph
from omnigraph.schema.build import catalog_from_text
from omnigraph_testing.workloads import settings

BASE = """
interface Named { name: String }
node P implements Named { k: String @key  x: I32?  y: String?  e: enum(a, b)? }
node Q { k: String @key  z: I32? }
edge E: P -> Q { w: I32? }
"""
ROWS: dict[str, Any] = {
    "P": [{"k": f"p{i}", "name": f"n{i}", "x": i, "y": str(i), "e": "a"} for i in range(4)],
    "Q": [{"k": f"q{i}", "z": i} for i in range(3)],
    "E": [{"id": "e0", "from": "p0", "to": "q0", "w": 1}],
}


def text(*changes: tuple[str, str]) -> str:
    found = BASE
    for old, new in changes:
        assert old in found
        found = found.replace(old, new)
    return found


@dataclass
class Work:
    """What one side did: a schema, then statements."""

    schema: str | None = None
    then: tuple[str, ...] = ()
    backfill: dict[str, str] = field(default_factory=dict)


@dataclass
class Clash:
    """Two sides, the disputes, and the declarations that each decision leads to."""

    name: str
    ours: Work
    theirs: Work
    disputes: tuple[tuple[str, ...], ...]
    take_ours: tuple[str, ...]
    """Texts that the merged schema has."""
    take_theirs: tuple[str, ...]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Side -> {"Type.id.property": value} after the merge."""


X, Y, Z = "x: I32?", "y: String?", "z: I32?"
NO_X = text(("x: I32?  ", ""))
NO_Q = text(("node Q { k: String @key  z: I32? }\n", ""), ("edge E: P -> Q { w: I32? }\n", ""))


def renamed(new: str, old: str = "P") -> str:
    return text(
        ("node P implements", f'node {new} @rename_from("{old}") implements'),
        ("E: P ->", f"E: {new} ->"),
    ).replace(f'@rename_from("{old}") implements Named', f'implements Named @rename_from("{old}")')


CLASHES = [
    Clash(
        "one name is added with two types",
        Work(text((Y, f"{Y}  n: Date?"))),
        Work(text((Y, f"{Y}  n: String?")), ('update P set { n: "2024-01-02" } where k = "p1"',)),
        (("node", "P", "n"),),
        ("n: Date?",),
        ("n: String?",),
        {"theirs": {"P.p1.n": "2024-01-02"}},
    ),
    Clash(
        "a property is dropped and its values change",
        Work(None, ('update P set { x: 50 } where k = "p1"',)),
        Work(NO_X),
        (("node", "P", "x"),),
        (X,),
        (),
        {"ours": {"P.p1.x": 50, "P.p2.x": 2}},
    ),
    Clash(
        "the target drops a property whose values the source changes",
        Work(NO_X, ('update P set { y: "ours" } where k = "p1"', 'delete P where k = "p3"')),
        Work(None, ('update P set { x: 50 } where k = "p1"', 'insert P { k: "n", name: "n" }')),
        (("node", "P", "x"),),
        (),
        (X,),
        {"theirs": {"P.p1.x": 50, "P.p2.x": 2, "P.p1.y": "ours", "P.n.x": None}},
    ),
    Clash(
        "a property is dropped and declared differently",
        Work(text((X, "x: I64?"))),
        Work(NO_X),
        (("node", "P", "x"),),
        ("x: I64?",),
        (),
        {"ours": {"P.p3.x": 3}},
    ),
    Clash(
        "a property is dropped and gets a rule with another one",
        Work(text((Y, f"{Y}  @unique(x, y)"))),
        Work(NO_X),
        (("node", "P", "x"),),
        ("@unique(x, y)",),
        (),
    ),
    Clash(
        "a type is dropped and its rows change",
        Work(None, ('update Q set { z: 9 } where k = "q1"',)),
        Work(NO_Q),
        (("node", "Q"),),
        ("node Q",),
        (),
        {"ours": {"Q.q1.z": 9, "Q.q2.z": 2}},
    ),
    Clash(
        "the target drops a type whose rows the source changes",
        Work(NO_Q),
        Work(None, ('update Q set { z: 9 } where k = "q1"',)),
        (("node", "Q"),),
        (),
        ("node Q",),
        {"theirs": {"Q.q1.z": 9, "Q.q2.z": 2}},
    ),
    Clash(
        "a new edge type ends at a dropped type",
        Work(NO_Q),
        Work(BASE + "edge F: P -> Q\n", ('insert F { from: "p1", to: "q1" }',)),
        (("node", "Q"),),
        (),
        ("node Q", "edge F: P -> Q"),
        {"theirs": {"Q.q2.z": 2}},
    ),
    Clash(
        "a type gets two new names",
        Work(renamed("A")),
        Work(renamed("B"), ('update B set { x: 7 } where k = "p1"',)),
        (("node", "A"),),
        ("node A", "edge E: A -> Q"),
        ("node B", "edge E: B -> Q"),
        {"ours": {"A.p1.x": 7}, "theirs": {"B.p1.x": 7}},
    ),
    Clash(
        "a property gets two new names",
        Work(text((X, "a: I32? @rename_from(x)"))),
        Work(text((X, "b: I32? @rename_from(x)")), ('update P set { b: 7 } where k = "p1"',)),
        (("node", "P", "a"),),
        ("a: I32?",),
        ("b: I32?",),
        {"ours": {"P.p1.a": 7}, "theirs": {"P.p1.b": 7}},
    ),
    Clash(
        "one name for two types: renamed and added",
        Work(renamed("N")),
        Work(BASE + "node N { k: String @key }\n", ('insert N { k: "new" }',)),
        (("node", "N"),),
        ("edge E: N -> Q",),
        ("edge E: P -> Q", "node P"),
        {"ours": {"N.p1.x": 1}, "theirs": {"P.p1.x": 1, "N.new.k": "new"}},
    ),
    Clash(
        "one name for two properties: renamed and added",
        Work(text((X, "n: I32? @rename_from(x)"))),
        Work(text((X, f"{X}  n: I32?")), ('update P set { n: 70 } where k = "p1"',)),
        (("node", "P", "n"),),
        ("n: I32?",),
        (X, "n: I32?"),
        {"ours": {"P.p1.n": 1}, "theirs": {"P.p1.n": 70, "P.p1.x": 1}},
    ),
    Clash(
        "a property gets two other types",
        Work(text((X, "x: String?")), ('update P set { x: "77" } where k = "p3"',)),
        Work(text((X, "x: F64?")), ('update P set { x: 2.5 } where k = "p2"',)),
        (("node", "P", "x"),),
        ("x: String?",),
        ("x: F64?",),
        {
            "ours": {"P.p0.x": "0", "P.p2.x": "2.5", "P.p3.x": "77"},
            "theirs": {"P.p0.x": 0.0, "P.p2.x": 2.5, "P.p3.x": 77.0},
        },
    ),
    Clash(
        "a property gets two ranges, and a type two cardinalities",
        Work(text((X, "x: I32? @range(x, 0..50)"), ("P -> Q", "P -> Q @card(0..2)"))),
        Work(text((X, "x: I32? @range(x, 0..60)"), ("P -> Q", "P -> Q @card(0..3)"))),
        (("node", "P", "x"), ("edge", "E")),
        ("@range(x, 0..50)", "@card(0..2)"),
        ("@range(x, 0..60)", "@card(0..3)"),
    ),
    Clash(
        "a rule of one side and a type of the other",
        Work(text((X, "x: I32? @range(x, 0..50)"))),
        Work(text((X, "x: String?"))),
        (("node", "P", "x"),),
        ("@range(x, 0..50)",),
        ("x: String?",),
        {"ours": {"P.p2.x": 2}, "theirs": {"P.p2.x": "2"}},
    ),
    Clash(
        "two defaults",
        Work(text((Y, 'y: String? @default("o")'))),
        Work(text((Y, 'y: String? @default("t")'))),
        (("node", "P", "y"),),
        ('@default("o")',),
        ('@default("t")',),
    ),
    Clash(
        "an enum loses all its values",
        Work(text(("enum(a, b)", "enum(a)"))),
        Work(text(("enum(a, b)?", "enum(b, a2)? @rename_value(a, a2)"))),
        (),
        ("enum(a2)",),
        ("enum(a2)",),
        {"ours": {"P.p0.e": "a2"}},
    ),
    Clash(
        "an interface changes on both sides",
        Work(text(("Named { name: String }", "Named { name: String  i: I32? }"))),
        Work(text(("Named { name: String }", "Named { name: String  i: String? }"))),
        (("interface", "Named", "i"), ("node", "P", "i")),
        ("i: I32?",),
        ("i: String?",),
    ),
    Clash(
        "a new type implements a dropped interface",
        Work(
            text(
                ("interface Named { name: String }\n", ""),
                ("P implements Named { k", "P { name: String  k"),
            )
        ),
        Work(BASE + "node R implements Named { k: String @key }\n"),
        (("interface", "Named"),),
        ("node R {",),
        ("node R implements Named",),
    ),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "g.omni"
    graph = init(folder, BASE, settings=settings())
    graph.apply({name: {"insert": rows} for name, rows in ROWS.items()})
    return folder


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    graph = open_graph(shutil.copytree(template, tmp_path / "g.omni"), settings=settings())
    graph.branches.create("b")
    return graph


def work(graph: Graph, branch: str, done: Work) -> None:
    if done.schema is not None:
        graph.schema.apply(done.schema, branch=branch, allow_data_loss=True, backfill=done.backfill)
    for statement in done.then:
        graph.mutate(statement, branch=branch)


def head(graph: Graph) -> str:
    return graph.snapshot().graph_commit_id


def values(graph: Graph, names: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name in names:
        type_name, entity_id, prop = name.split(".")
        rows = {row["id"]: row for row in graph.read(type_name).to_pylist()}
        found[name] = rows[entity_id][prop]
    return found


def subjects(conflicts: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (c.entity_kind, c.type_name, *([c.property] if c.property else [])) for c in conflicts
    )


@pytest.mark.parametrize("take", ["ours", "theirs"])
@pytest.mark.parametrize("clash", CLASHES, ids=lambda c: c.name.replace(" ", "_"))
def test_a_clash(graph: Graph, clash: Clash, take: str) -> None:
    work(graph, "main", clash.ours)
    work(graph, "b", clash.theirs)
    at = head(graph)
    preview = graph.preview_merge("b")
    assert subjects(preview) == clash.disputes
    assert {c.kind for c in preview} <= {"SchemaDivergence"}
    assert all(c.entity_id == "" and "entity_id" not in c.to_dict() for c in preview)
    if clash.disputes:
        with pytest.raises(MergeConflicts) as caught:
            graph.merge("b")
        assert caught.value.conflicts == preview.conflicts
    assert head(graph) == at
    resolutions = [
        {"type_name": c.type_name, "take": take} | ({"property": c.property} if c.property else {})
        for c in preview
    ]
    graph.merge("b", resolutions=resolutions)
    source = graph.schema.show().source
    wanted, other = (
        (clash.take_ours, clash.take_theirs)
        if take == "ours"
        else (clash.take_theirs, clash.take_ours)
    )
    assert all(part in source for part in wanted), source
    assert not any(part in source for part in set(other) - set(wanted)), source
    assert catalog_from_text(source)
    expected = clash.rows.get(take, {})
    assert values(graph, expected) == expected
    report = graph.verify()
    assert report.ok, report
    assert graph.merge("b").outcome == "already_up_to_date"
    graph.merge("main", "b")
    assert graph.schema.show("b").source == source
    for entity in graph.snapshot().catalog.entity_types():
        both = [graph.read(entity.name, on).sort_by("id").to_pylist() for on in ("main", "b")]
        assert both[0] == both[1]
    assert graph.verify().ok


def test_a_strategy_decides_about_schemas_too(graph: Graph) -> None:
    clash = next(c for c in CLASHES if c.name.startswith("a property gets two ranges"))
    work(graph, "main", clash.ours)
    work(graph, "b", clash.theirs)
    graph.merge("b", strategy="theirs")
    source = graph.schema.show().source
    assert all(part in source for part in clash.take_theirs)


def test_a_resolution_of_the_type_decides_all_about_it(graph: Graph) -> None:
    work(graph, "main", Work(text((X, "x: String?"), (Y, "y: Date?"), (Z, "z: String?"))))
    work(graph, "b", Work(text((X, "x: F64?"), (Y, "y: I32?"), (Z, "z: F64?"))))
    found = subjects(graph.preview_merge("b"))
    assert found == (("node", "P", "x"), ("node", "P", "y"), ("node", "Q", "z"))
    decided = [{"type_name": "P", "take": "theirs"}]
    assert subjects(graph.preview_merge("b", resolutions=decided)) == (("node", "Q", "z"),)
    more = [{"type_name": "P", "property": "k", "take": "ours"}, {"type_name": "Q", "take": "ours"}]
    with pytest.raises(InvalidArgument, match=r"no conflict for the resolution of P\.k"):
        graph.merge("b", resolutions=[*more, *decided])


def test_a_value_that_does_not_convert_is_named(graph: Graph) -> None:
    work(
        graph, "main", Work(text((X, "x: String?")), ('update P set { x: "abc" } where k = "p3"',))
    )
    work(graph, "b", Work(text((X, "x: F64?"))))
    at = head(graph)
    with pytest.raises(SchemaRefused, match=r"P\.x is F64.*'abc' of 'p3'.*target"):
        graph.merge("b", strategy="theirs")
    assert head(graph) == at
    graph.merge("b", strategy="ours")
    assert values(graph, {"P.p3.x": 0, "P.p1.x": 0}) == {"P.p3.x": "abc", "P.p1.x": "1"}
    assert graph.verify().ok


def test_rules_of_one_side_hold_for_rows_of_the_other(graph: Graph) -> None:
    """After a decision about the schema the rows are checked, and the conflicts name them."""
    work(
        graph,
        "main",
        Work(text((X, "x: I32? @range(x, 0..50)")), ('update P set { x: 40 } where k = "p1"',)),
    )
    work(
        graph,
        "b",
        Work(
            text((X, "x: I32? @range(x, 0..20)"), (Y, "y: String? @unique")),
            ('update P set { x: 15 } where k = "p2"',),
        ),
    )
    graph.mutate('insert P { k: "dup", name: "d", y: "2" }')
    decided = [{"type_name": "P", "property": "x", "take": "theirs"}]
    found = graph.preview_merge("b", resolutions=decided)
    assert {(c.kind, c.entity_id) for c in found} >= {("ValueConstraintViolation", "p1")}
    assert {c.kind for c in found} == {"ValueConstraintViolation", "UniqueViolation"}
    with pytest.raises(MergeConflicts):
        graph.merge("b", resolutions=decided)
    decided += [
        {"type_name": "P", "entity_id": "p1", "take": "theirs"},
        *(
            {"type_name": "P", "entity_id": c.entity_id, "property": "y", "value": "new"}
            for c in found
            if c.kind == "UniqueViolation"
        ),
    ]
    graph.merge("b", resolutions=decided)
    assert values(graph, {"P.p1.x": 0, "P.p2.x": 0}) == {"P.p1.x": 1, "P.p2.x": 15}
    assert graph.verify().ok


def test_an_impossible_schema_says_why(graph: Graph) -> None:
    """Both sides declare one edge name in other letters, which the language refuses."""
    work(graph, "main", Work(BASE + "edge Likes: P -> P\n"))
    work(graph, "b", Work(BASE + "edge LIKES: P -> P\n"))
    at = head(graph)
    with pytest.raises(SchemaRefused, match="'LIKES' is declared twice"):
        graph.merge("b", strategy="theirs")
    assert head(graph) == at


def test_a_lifted_protection_and_a_drop(template: Path, tmp_path: Path) -> None:
    guarded = BASE.replace("node Q {", "node Q @protected {")
    graph = init(tmp_path / "p.omni", guarded, settings=settings())
    graph.branches.create("b")
    for schema in (BASE, NO_Q):
        graph.schema.apply(schema, branch="b", allow_data_loss=True)
    graph.merge("b")
    assert "Q" not in graph.snapshot().catalog.node_types


def test_a_new_edge_type_follows_a_renamed_end(graph: Graph) -> None:
    work(graph, "main", Work(renamed("H")))
    work(graph, "b", Work(BASE + "edge F: P -> P\n", ('insert F { from: "p1", to: "p2" }',)))
    graph.merge("b")
    edge = graph.snapshot().catalog.edge_types["F"]
    assert (edge.source, edge.target) == ("H", "H")
    assert graph.verify().ok


def test_a_new_type_implements_a_grown_interface(graph: Graph) -> None:
    work(graph, "main", Work(text(("Named { name: String }", "Named { name: String  i: I32? }"))))
    added = BASE + "node R implements Named { k: String @key }\n"
    work(graph, "b", Work(added, ('insert R { k: "r", name: "r" }',)))
    graph.merge("b")
    assert [p.name for p in graph.snapshot().catalog.node_types["R"].properties] == [
        "name",
        "i",
        "k",
    ]
    graph.mutate('update R set { i: 5 } where k = "r"')
    assert values(graph, {"R.r.i": 0}) == {"R.r.i": 5}
    assert graph.schema.show().source
    assert graph.verify().ok


def test_a_key_that_changed_on_an_empty_type(graph: Graph) -> None:
    """Rows that the other side wrote meanwhile have ids of the old key."""
    empty = BASE + "node T { k: String @key  l: String }\n"
    graph.schema.apply(empty)
    graph.branches.create("c")
    rekeyed = BASE + "node T { k: String  l: String @key }\n"
    graph.schema.apply(rekeyed, branch="c")
    graph.mutate('insert T { k: "a", l: "b" }')
    at = head(graph)
    with pytest.raises(SchemaRefused, match=r"@key\(l\).*target wrote rows"):
        graph.merge("c")
    assert head(graph) == at
    assert graph.verify().ok


def test_a_rename_with_a_cast_and_names_that_move_on(graph: Graph) -> None:
    moved = text(
        (
            "node P implements Named { k: String @key  x: I32?",
            'node Q2 implements Named @rename_from("P") { k: String @key  x: String?',
        ),
        ("node Q {", 'node P @rename_from("Q") {'),
        ("E: P -> Q", "E: Q2 -> P"),
    )
    graph.schema.apply(moved, branch="b")
    graph.mutate('update P set { x: 9 } where k = "p1"')
    graph.mutate('update Q set { z: 9 } where k = "q1"')
    graph.merge("b")
    assert values(graph, {"Q2.p1.x": 0, "Q2.p2.x": 0, "P.q1.z": 0}) == {
        "Q2.p1.x": "9",
        "Q2.p2.x": "2",
        "P.q1.z": 9,
    }
    assert graph.verify().ok
    diff = graph.diff("HEAD~1", "HEAD")
    assert {c.id for c in diff} >= set()
    graph.merge("main", "b")
    assert values(graph, {"P.q1.z": 0}) == {"P.q1.z": 9}


def test_a_dropped_name_is_used_again(graph: Graph) -> None:
    graph.schema.apply(NO_Q, branch="b", allow_data_loss=True)
    reused = NO_Q.replace(
        "node P implements Named {", 'node Q implements Named @rename_from("P") {'
    )
    graph.schema.apply(reused, branch="b")
    graph.mutate('update P set { x: 9 } where k = "p1"')
    graph.merge("b")
    assert values(graph, {"Q.p1.x": 0}) == {"Q.p1.x": 9}
    assert graph.verify().ok


def test_scalars_become_lists(graph: Graph) -> None:
    graph.schema.apply(text((Y, "y: [String]?")), branch="b")
    graph.mutate('insert P { k: "new", name: "n", y: "one" }')
    graph.merge("b")
    assert values(graph, {"P.new.y": 0, "P.p1.y": 0}) == {"P.new.y": ["one"], "P.p1.y": ["1"]}
    assert graph.verify().ok


def test_crossed_merges_with_new_columns(graph: Graph) -> None:
    """Both heads have two ancestors, and the second ancestor has a column more."""
    graph.schema.apply(text((Y, f"{Y}  n: I32?")), branch="b")
    graph.mutate('update P set { n: 1 } where k = "p1"', branch="b")
    graph.mutate('update P set { x: 10 } where k = "p1"')
    graph.branches.create("main2", "main")
    graph.branches.create("b2", "b")
    graph.merge("b2", "main")
    graph.merge("main2", "b")
    renamed_n = text((Y, f"{Y}  m: I32? @rename_from(n)"))
    graph.schema.apply(renamed_n)
    graph.mutate('update P set { n: 2 } where k = "p1"', branch="b")
    graph.mutate('update P set { y: "main" } where k = "p1"')
    graph.merge("b")
    assert values(graph, {"P.p1.m": 0, "P.p1.x": 0, "P.p1.y": 0, "P.p2.m": 0}) == {
        "P.p1.m": 2,
        "P.p1.x": 10,
        "P.p1.y": "main",
        "P.p2.m": None,
    }
    assert graph.verify().ok


def test_three_branches_with_one_new_name(graph: Graph) -> None:
    graph.branches.create("c")
    grown = text((Y, f"{Y}  n: I32?"))
    for branch in ("main", "b", "c"):
        graph.schema.apply(grown, branch=branch)
    graph.mutate('update P set { n: 1 } where k = "p1"', branch="b")
    graph.mutate('update P set { n: 2 } where k = "p2"', branch="c")
    graph.merge("b", "c")
    graph.schema.apply(text((Y, f"{Y}  m: I32? @rename_from(n)")), branch="c")
    graph.merge("c")
    graph.mutate('update P set { n: 3 } where k = "p3"', branch="b")
    graph.merge("b")
    assert values(graph, {"P.p1.m": 0, "P.p2.m": 0, "P.p3.m": 0}) == {
        "P.p1.m": 1,
        "P.p2.m": 2,
        "P.p3.m": 3,
    }
    assert graph.verify().ok


def test_cherry_pick_and_revert_of_schema_commits(graph: Graph) -> None:
    done = graph.schema.apply(text((X, "x: F64?")), branch="b")
    assert done.commit is not None
    graph.schema.apply(text((X, "x: String?")))
    at, catalog = head(graph), graph.snapshot().catalog
    with pytest.raises(MergeConflicts) as caught:
        graph.cherry_pick(done.commit.graph_commit_id)
    assert subjects(caught.value.conflicts) == (("node", "P", "x"),)
    assert (head(graph), graph.snapshot().catalog) == (at, catalog)
    graph.cherry_pick(
        done.commit.graph_commit_id,
        resolutions=[{"type_name": "P", "property": "x", "take": "theirs"}],
    )
    assert values(graph, {"P.p2.x": 0}) == {"P.p2.x": 2.0}
    graph.revert("HEAD")
    assert values(graph, {"P.p2.x": 0}) == {"P.p2.x": "2"}
    assert graph.verify().ok


@pytest.fixture
def clashing(graph: Graph) -> Graph:
    work(graph, "main", Work(text((X, "x: String?"))))
    work(graph, "b", Work(text((X, "x: F64?"))))
    return graph


def test_the_command_line(clashing: Graph, tmp_path: Path) -> None:
    def run(*args: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [*args, "--store", str(tmp_path / "g.omni")])
        return result.exit_code, result.stdout

    code, out = run("branch", "merge", "b", "--preview", "--json")
    assert code == 5
    (conflict,) = json.loads(out)["merge_conflicts"]
    assert {k: conflict[k] for k in ("kind", "entity_kind", "type_name", "property")} == {
        "kind": "SchemaDivergence",
        "entity_kind": "node",
        "type_name": "P",
        "property": "x",
    }
    assert (conflict["base"], conflict["ours"], conflict["theirs"]) == (
        "x: I32?",
        "x: String?",
        "x: F64?",
    )
    code, out = run("branch", "merge", "b", "--preview")
    assert code == 5
    assert "SchemaDivergence" in out
    assert "main: x: String?" in out
    code, out = run("branch", "merge", "b")
    assert code == 5
    decided = tmp_path / "decided.yaml"
    decided.write_text("- {type_name: P, property: x, take: theirs}\n")
    code, out = run("branch", "merge", "b", "--resolutions", str(decided))
    assert (code, "merged" in out) == (0, True)
