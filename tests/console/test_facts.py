"""The data behind the pages, without a browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnigraph.catalog.model import Property
from omnigraph.console import editor, facts
from omnigraph.console.arrangement import arranged, lanes, sunflower
from omnigraph.console.canvas import MOST_ENTITIES, Canvas
from omnigraph.console.facts import EntityName, ShownState
from omnigraph.console.pages.access import AccessAnswer, answered
from omnigraph.console.pages.data import form_values
from omnigraph.console.pages.query import drawn_result, parameter_value, written
from omnigraph.console.pages.review import history_drawing, resolution
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.merge.conflicts import Conflict
from omnigraph.policy.bundle import read_bundle
from omnigraph.policy.policy import Policy
from omnigraph.query.compiler import compile_query
from omnigraph.query.params import ParameterDecl
from omnigraph.settings.models import EmbeddingSettings, Settings
from omnigraph.values.scalars import ScalarKind, ScalarType


def test_neighbours_are_found_on_both_sides(people: Graph) -> None:
    name = EntityName("Person", "p0")
    groups = {(g.edge, g.outgoing): g for g in facts.neighbour_groups(people, ShownState(), name)}
    assert groups["Knows", True].count == 40
    assert groups["Knows", False].count == 0
    assert groups["WorksAt", True].text == "-WorksAt→ Company (1)"
    found = facts.neighbours(people, ShownState(), name, groups["Knows", True], 7)
    assert len(found) == 7
    assert all(n.edge["from"] == "p0" and n.edge["to"] == n.entity["id"] for n in found)


def test_entities_are_found_by_key_and_by_text(people: Graph) -> None:
    (found,) = facts.find(people, ShownState(), "Person", "p7", "key")
    assert found["bio"] == "number 7 likes graphs"
    assert facts.find(people, ShownState(), "Person", "nothing", "key") == []
    assert [
        e["id"] for e in facts.find(people, ShownState(), "Person", "number 7", "text", 1)
    ] != []


def test_history_of_one_entity(graph: Graph) -> None:
    graph.apply({"Person": {"insert": [{"name": "Zoe", "age": 1}]}})
    graph.apply({"Person": {"upsert": [{"name": "Zoe", "age": 2}]}})
    found = facts.history_of(graph, ShownState(), EntityName("Person", "Zoe"))
    assert [change.op for _, change in found] == ["update", "insert"]
    assert facts.changed_rows(found[0][1]) == [("age", "1", "2")]


def test_places_repeat_and_fixed_ones_stay() -> None:
    points = sunflower(30)
    links = [(0, i) for i in range(1, 30)]
    fixed = [i == 3 for i in range(30)]
    once, again = arranged(points, links, fixed), arranged(points, links, fixed)
    assert np.array_equal(once, again)
    assert np.array_equal(once[3], points[3])
    apart = np.linalg.norm(once[:, None] - once[None], axis=2) + np.eye(30)
    assert apart.min() > 0.05


def test_a_canvas_has_an_end() -> None:
    canvas = Canvas()
    for i in range(MOST_ENTITIES):
        canvas.add("Person", {"id": str(i)}, None)
    assert canvas.room == 0
    canvas.arrange()
    canvas.remove(EntityName("Person", "5"))
    assert canvas.room == 1
    assert len(canvas.options()["series"][0]["data"]) == MOST_ENTITIES - 1


def test_a_merge_is_drawn_in_two_lanes(graph: Graph) -> None:
    graph.branches.create("side")
    graph.apply({"Person": {"insert": [{"name": "A"}]}}, branch="side")
    graph.apply({"Person": {"insert": [{"name": "B"}]}})
    graph.merge("side")
    spots = lanes(graph.commits.list())
    assert {spot.lane for spot in spots} == {0, 1}
    assert len(spots[0].parents) == 2
    drawn = history_drawing(spots)
    assert drawn.count("<circle") == len(spots)
    assert drawn.count("<line") == sum(len(spot.parents) for spot in spots)


def test_an_answer_is_drawn_and_written(people: Graph) -> None:
    text = 'match { $a: Person $a.name = "p0" $a $e:knows $b } return { $a, $e, $b }'
    result = people.query(text)
    fields = compile_query(text, people.schema.show().catalog).operation.fields
    canvas = drawn_result(result, fields)
    assert (len(canvas.entities), len(canvas.edges)) == (41, 40)
    assert written(result, "csv").count(b"\n") == 41
    assert written(result, "parquet").startswith(b"PAR1")
    assert written(result, "json").startswith(b"[{")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ScalarKind.STRING, "12", "12"),
        (ScalarKind.I32, "12", 12),
        (ScalarKind.DATE, "2026-01-31", "2026-01-31"),
        (ScalarKind.BOOL, "true", True),
    ],
)
def test_fields_of_parameters(kind: ScalarKind, text: str, value: object) -> None:
    declared = ParameterDecl("p", ScalarType(kind), optional=False)
    assert parameter_value(declared, text) == value


def test_a_form_says_what_differs(people: Graph) -> None:
    node = people.schema.show().catalog.node_types["Person"]
    before = {"id": "p", "name": "p", "age": 3, "bio": "x", "status": None}
    given = {"name": "p", "age": "4", "bio": "x", "status": None}
    assert form_values(node, given, before, new=False) == {"name": "p", "age": 4}
    with pytest.raises(ValueError, match="'old' is no I32"):
        form_values(node, {**given, "age": "old"}, before, new=False)
    with pytest.raises(ValueError, match="name needs a value"):
        form_values(node, {"name": None}, {}, new=True)
    assert isinstance(node.properties[0], Property)


def test_decisions_about_conflicts() -> None:
    about = Conflict("node", "Person", "p", "DivergentUpdate", "", property="age")
    assert resolution(about, "theirs", "") == {
        "type_name": "Person",
        "entity_id": "p",
        "property": "age",
        "take": "theirs",
    }
    assert resolution(about, "value", "7")["value"] == 7
    schema = Conflict("node", "Person", "", "SchemaDivergence", "")
    assert resolution(schema, "ours", "") == {"type_name": "Person", "take": "ours"}


def test_words_are_offered(people: Graph) -> None:
    words = editor.words_of(people.schema.show().catalog)
    assert editor.completions("match { $p: Per", words) == ["Person"]
    assert editor.completions("match { $p wor", words) == ["worksAt"]
    assert editor.completions("match { ", words) == []


POLICY = """
version: 1
groups: {staff: [bob]}
rules:
  - id: young
    allow:
      actors: {group: staff}
      actions: [read]
      types: [Person]
      properties: {Person: [name, age, bio]}
      where: {Person: "age < 10"}
"""


def test_why_an_actor_sees_an_entity_or_not(people: Graph) -> None:
    policy = Policy([read_bundle(POLICY, "policy.yaml")])

    def ask(actor: str, entity_id: str) -> AccessAnswer:
        name = EntityName("Person", entity_id)
        return answered(people, policy, ShownState(), actor, "read", None, name)

    found = ask("bob", "p3")
    assert found.decision.rule == "young"
    assert found.parts == ("Person: some entities, without status",)
    assert found.entity == "Person p3 is visible to bob, with id, name, age, bio"
    assert ask("bob", "p40").entity == "Person p40 is hidden from bob by a rule about rows"
    assert ask("bob", "nothing").entity == "Person nothing does not exist"
    # A viewer with rules cannot ask about hidden entities by rules of their own making.
    bob = people.as_actor("bob", gate=policy)
    open_to_all = POLICY.split("      types")[0].replace("[bob]", "[bob, eve]")
    wide = Policy([read_bundle(open_to_all, "policy.yaml")])
    hidden = EntityName("Person", "p40")
    told = answered(bob, wide, ShownState(), "eve", "read", None, hidden).entity or ""
    assert "your own rules show a part of the graph" in told
    stranger = ask("eve", "p3")
    assert not stranger.decision.allowed
    assert "not visible to eve" in (stranger.entity or "")


def test_entities_are_found_by_meaning(tmp_path: Path) -> None:
    schema = 'node Note { title: String @key  text: String  vec: Vector(64)? @embed("text") }'
    settings = Settings(embedding=EmbeddingSettings(provider="mock"))
    graph = init(tmp_path / "notes.omni", schema, settings=settings)
    texts = ("a cat on a mat", "stock markets fell", "dogs and cats")
    graph.load({"Note": [{"title": text, "text": text} for text in texts]})
    (first, *_) = facts.find(graph, ShownState(), "Note", "stock markets fell", "meaning")
    assert first["title"] == "stock markets fell"
    assert facts.find(graph, ShownState(), "Note", "", "text", 2) != []
