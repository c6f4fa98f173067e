"""Strategies and resolutions decide conflicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from merge_steps import ages, conflicts_of, set_age

from omnigraph.errors import InvalidArgument
from omnigraph.graph.handle import Graph

pytestmark = pytest.mark.usefixtures("both_engines")


@pytest.mark.parametrize("deleter", ["main", "r"])
def test_a_value_for_an_entity_that_one_side_deleted(graph: Graph, deleter: str) -> None:
    """The object says some properties; the others come from the side that has the entity."""
    graph.branches.create("r")
    graph.apply({"Person": {"delete": ["ada"]}}, deleter)
    set_age(graph, "r" if deleter == "main" else "main", "ada", 6)
    entry = {"type_name": "Person", "entity_id": "ada"}
    graph.branches.create("kept")
    graph.merge("r", into="kept", resolutions=[{**entry, "value": {}}])
    assert ages(graph, "kept")["ada"] == 6
    graph.merge("r", resolutions=[{**entry, "value": {"age": 42}}])
    assert ages(graph)["ada"] == 42
    assert graph.verify().ok


def test_a_conflict_names_all_three_values_and_every_way_out_works(graph: Graph) -> None:
    graph.branches.create("r")
    set_age(graph, "r", "ada", 6)
    set_age(graph, "main", "ada", 7)
    assert conflicts_of(graph, "r") == [("DivergentUpdate", "ada", "age", 1, 7, 6)]
    entry = {"type_name": "Person", "entity_id": "ada", "property": "age"}
    for number, (given, wanted) in enumerate(
        [
            ({"strategy": "ours"}, 7),
            ({"strategy": "theirs"}, 6),
            ({"resolutions": [{**entry, "take": "base"}]}, 1),
            ({"resolutions": [{**entry, "take": "theirs"}]}, 6),
            ({"resolutions": [{**entry, "value": None}]}, None),
            ({"resolutions": [{**entry, "value": 42}]}, 42),
        ]
    ):
        graph.branches.create(f"try{number}")
        result = graph.merge("r", into=f"try{number}", **given)
        assert result.outcome == "merged"
        assert ages(graph, f"try{number}")["ada"] == wanted


def test_resolutions_from_files_and_their_mistakes(graph: Graph, tmp_path: Path) -> None:
    graph.branches.create("r")
    set_age(graph, "r", "ada", 6)
    set_age(graph, "main", "ada", 7)
    good = "- {type_name: Person, entity_id: ada, property: age, take: theirs}\n"
    unmatched = good + "- {type_name: Person, entity_id: nobody, take: ours}\n"
    for text, match in [
        (unmatched, "nobody"),
        ("- {take: ours}", "type_name"),
        ("- {type_name: Person, entity_id: '', take: ours}", "entity_id"),
        ("- {type_name: Person, take: delete}", "about the schema"),
        ("- {type_name: Person, property: age, take: ours}", "no conflict"),
        ("- {type_name: Person, entity_id: ada}", "take or value"),
        ("- {type_name: Person, entity_id: ada, take: mine}", "mine"),
        ("- {type_name: Person, entity_id: ada, took: ours}", "took"),
        ("- {type_name: Person, entity_id: ada, property: age, value: old}", "age"),
        ("- {a: 1, a: 2}", "cannot be read"),
        ("7", "list"),
        ("- 7", "object"),
    ]:
        (tmp_path / "r.yaml").write_text(text)
        with pytest.raises(InvalidArgument, match=match):
            graph.merge("r", resolutions=tmp_path / "r.yaml")
    with pytest.raises(InvalidArgument, match="No such file"):
        graph.merge("r", resolutions=str(tmp_path / "none.yaml"))
    (tmp_path / "r.json").write_text(
        '[{"type_name": "Person", "entity_id": "ada", "property": "age", "take": "theirs"}]'
    )
    graph.merge("r", resolutions=str(tmp_path / "r.json"))
    assert ages(graph)["ada"] == 6


def test_delete_against_update_in_both_directions(graph: Graph) -> None:
    graph.branches.create("gone")
    graph.branches.create("changed")
    graph.apply({"Knows": {"delete": ["k0"]}, "Person": {"delete": ["bob"]}}, "gone")
    set_age(graph, "changed", "bob", 9)
    bob = {"id": "bob", "name": "bob", "age": 2}
    found = conflicts_of(graph, "gone", "changed")
    assert found == [("DeleteVsUpdate", "bob", None, bob, {**bob, "age": 9}, None)]
    found = conflicts_of(graph, "changed", "gone")
    assert found == [("DeleteVsUpdate", "bob", None, bob, None, {**bob, "age": 9})]
    graph.merge("changed", into="gone", strategy="theirs")
    assert ages(graph, "gone")["bob"] == 9
    assert graph.read("Knows", "gone").num_rows == 0  # what the cascade removed stays removed
    graph.merge("gone", into="changed", strategy="theirs")
