"""Plans say which queries break; severities weigh the codes of steps, in plans and when applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph, InvalidArgument, ParseError, SchemaRefused, SeverityLevel, init

SCHEMA = """
node Person { name: String @key  age: I32?  note: String? @unique }
edge Knows: Person -> Person @card(0..3)
"""
RENAMED = SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")')
LOOSER = SCHEMA.replace(" @unique", "").replace(" @card(0..3)", "")
QUERIES = """
query ages() { match { $p: Person } return { $p.age as age } }
query names() { match { $p: Person } return { $p.name as name } }
query years() { match { $p: Person } return { $p.years as years } }
query grow($n: String) { update Person set { age: age + 1 } where name = $n }
query wrong() { match { $p: Nobody } return { $p.name } }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g.omni", SCHEMA)
    graph.load([{"name": "Ada", "age": 36}], type="Person", engine="local")
    return graph


def test_queries_that_break_are_listed_and_do_not_refuse(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "q.gq"
    file.write_text(QUERIES, encoding="utf-8")
    plan = graph.schema.plan(
        RENAMED, queries=[file, "query t() { match { $p: Person } return { $p.age } }"]
    )
    assert plan.supported
    assert [(q.file, q.line, q.name) for q in plan.stored_queries] == [
        (str(file), 2, "ages"),
        (str(file), 5, "grow"),
        ("<query>", 1, "t"),
    ]
    assert all(
        query.code == "OG-BC-102" and "age" in query.message for query in plan.stored_queries
    )
    assert plan.warnings == (f"query wrong of {file} has errors with both schemas",)
    assert plan.to_dict()["stored_queries"][0] == plan.stored_queries[0].to_dict()
    assert f"! {plan.stored_queries[0]}  [OG-BC-102]" in str(plan).splitlines()


def test_a_schema_in_force_breaks_no_query(graph: Graph) -> None:
    assert graph.schema.plan(SCHEMA, queries=[QUERIES]).stored_queries == ()


def test_queries_with_a_syntax_error(graph: Graph) -> None:
    with pytest.raises(ParseError):
        graph.schema.plan(RENAMED, queries=["query q( {"])


def test_a_plan_that_refuses_to_break_queries_cannot_be_applied(graph: Graph) -> None:
    severity = {"OG-BC-102": "error"}
    plan = graph.schema.plan(RENAMED, queries=[QUERIES], severity=severity)
    assert not plan.supported
    assert plan.granted.severity == {"OG-BC-102": SeverityLevel.ERROR}
    for saved in (plan, plan.to_dict()):
        with pytest.raises(
            SchemaRefused, match=r"this plan was refused: .*1 more refusal"
        ) as caught:
            graph.schema.apply(plan=saved)
        assert caught.value.refusal == "OG-BC-102"
    fine = graph.schema.plan(
        RENAMED,
        queries=["query years() { match { $p: Person } return { $p.years } }"],
        severity=severity,
    )
    assert graph.schema.apply(plan=fine).applied


def test_an_error_refuses_every_step_with_the_code(graph: Graph) -> None:
    severity = {"OG-CD-101": "error"}
    plan = graph.schema.plan(LOOSER, severity=severity)
    assert not plan.supported
    assert [(refusal.entity, refusal.code) for refusal in plan.refusals] == [
        ("node:Person", "OG-CD-101"),
        ("edge:Knows", "OG-CD-101"),
    ]
    before = graph.snapshot().graph_commit_id
    for options in ({"schema": LOOSER, "severity": severity}, {"plan": plan.to_dict()}):
        with pytest.raises(SchemaRefused, match="the severity of OG-CD-101 is error"):
            graph.schema.apply(**options)
    assert graph.snapshot().graph_commit_id == before
    assert graph.schema.apply(LOOSER).applied


def test_off_leaves_the_code_out(graph: Graph) -> None:
    plan = graph.schema.plan(LOOSER, severity={"OG-CD-101": "off"})
    assert plan.supported
    assert [step.codes for step in plan.steps] == [(), ()]
    refused = graph.schema.plan(
        SCHEMA.replace("age: I32?", "age: I32?  badge: String"), severity={"OG-MF-103": "off"}
    )
    assert [refusal.code for refusal in refused.refusals] == ["OG-MF-103"]


def test_wrong_severities(graph: Graph) -> None:
    for given in ({"OG-DS-104": "off"}, {"OG-CD-101": "never"}, {"CD-101": "warn"}):
        with pytest.raises(InvalidArgument):
            graph.schema.plan(LOOSER, severity=given)
        with pytest.raises(InvalidArgument):
            graph.schema.apply(LOOSER, severity=given)
