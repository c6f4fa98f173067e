"""Rules about types, properties and rows: which part of a graph they leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph import PolicyDenied, PolicyInvalid
from omnigraph.policy.answers import validate
from omnigraph.policy.bundle import read_bundle
from omnigraph.policy.policy import Policy
from omnigraph.schema.build import catalog_from_text

SCHEMA = """
interface Named { name: String }
node Person implements Named {
  key: String @key
  name: String
  team: String?
  salary: I64?
  bio: String?
  meaning: Vector(4)? @embed("bio", model="test:4")
}
node Doc implements Named {
  slug: String @key
  name: String
  owner: String?
}
edge Wrote: Person -> Doc { pages: I64? }
"""
CATALOG = catalog_from_text(SCHEMA)


def policy(*rules: tuple[str, str, dict], **more: object) -> Policy:
    listed = [
        {"id": name, effect: {"actors": {"any": True}, "actions": ["read"], **terms}}
        for name, effect, terms in rules
    ]
    text = json.dumps({"version": 1, "rules": listed, **more})
    return Policy([read_bundle(text, "rules.yaml")])


def scope_of(found: Policy, actor: str = "ada", action: str = "read"):
    return found.scope(actor, action, "main", CATALOG)


def test_rules_about_nothing_in_particular_leave_everything():
    whole = policy(("a", "allow", {}))
    assert scope_of(whole) is None
    wide = policy(("a", "allow", {"where": {"Person": 'team = "x"'}}), ("b", "allow", {}))
    assert scope_of(wide) is None


def test_types_and_the_ends_of_edges():
    found = scope_of(policy(("a", "allow", {"types": ["Person", "Wrote"]})))
    assert set(found.types) == {"Person"}
    every = scope_of(policy(("a", "allow", {}), ("b", "deny", {"types": ["Doc"]})))
    assert set(every.types) == {"Person"}
    interface = scope_of(policy(("a", "allow", {"types": ["Named"]})))
    assert set(interface.types) == {"Person", "Doc"}


def test_properties_of_rules_with_equal_rows_add_up_and_others_do_not():
    person = ["key", "name"]
    one = ("a", "allow", {"properties": {"Person": [*person, "team"]}})
    two = ("b", "allow", {"properties": {"Person": [*person, "salary"]}})
    hidden = scope_of(policy(one, two)).types["Person"].hidden
    assert hidden == {"bio", "meaning"}
    rows = {"where": {"Person": 'team = "x"'}}
    narrower = ("b", "allow", {**two[2], **rows})
    assert scope_of(policy(one, narrower)).types["Person"].hidden == {"bio", "meaning", "salary"}
    other = ("a", "allow", {**one[2], "where": {"Person": 'team = "y"'}})
    both = scope_of(policy(other, narrower)).types["Person"]
    assert both.hidden == {"bio", "meaning", "salary", "team"}


def test_a_vector_is_hidden_with_the_text_it_is_made_of():
    hidden = scope_of(
        policy(("a", "allow", {}), ("b", "deny", {"properties": {"Person": ["bio"]}}))
    )
    assert hidden.types["Person"].hidden == {"bio", "meaning"}


def test_actors_with_equal_rules_share_a_scope():
    shared = policy(("a", "allow", {"where": {"Person": 'team = "x"'}}))
    assert scope_of(shared, "ada") is scope_of(shared, "ben")
    own = policy(("a", "allow", {"where": {"Person": "key = $actor"}}))
    assert scope_of(own, "ada").key != scope_of(own, "ben").key
    assert scope_of(own, "ada") is scope_of(own, "ada")


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (("a", "allow", {"properties": {"Person": ["name"]}}), "hidden_key"),
        (("a", "deny", {"properties": {"Person": ["key"]}}), "hidden_key"),
        (("a", "allow", {"where": {"Person": 'tema = "x"'}}), "wrong_predicate"),
        (("a", "allow", {"where": {"Person": 'salary = "x"'}}), "wrong_predicate"),
        (
            ("a", "allow", {"where": {"Person": 'team = "x" } query b() { delete Doc'}}),
            "wrong_predicate",
        ),
        (("a", "allow", {"where": {"Persn": 'team = "x"'}}), "unknown_type"),
        (("a", "deny", {"types": ["Persn"]}), "unknown_type"),
        (("a", "deny", {"properties": {"Person": ["salry"]}}), "unknown_property"),
    ],
)
def test_a_rule_that_does_not_fit_the_schema_is_an_error_and_hides_nothing_less(rule, code):
    found = policy(("z", "allow", {}), rule) if rule[1] == "deny" else policy(rule)
    with pytest.raises(PolicyInvalid) as caught:
        scope_of(found)
    (told,) = caught.value.diagnostics
    assert told["code"] == code
    assert "rule 'a'" in told["message"]
    answer = validate(found.bundles, CATALOG)
    assert (answer["ok"], answer["diagnostics"][0]["code"]) == (False, code)


def test_validate_warns_about_rules_that_narrow_each_other():
    rows = [
        ("a", "allow", {"properties": {"Person": ["key"]}, "where": {"Person": 'team = "x"'}}),
        ("b", "allow", {"where": {"Person": 'team = "y"'}}),
    ]
    answer = validate(policy(*rows).bundles, CATALOG)
    assert answer["ok"]
    assert [each["code"] for each in answer["diagnostics"]] == ["narrowing_pair"]
    unknown = validate(policy(("a", "allow", {"types": ["Persn"]})).bundles, CATALOG)
    assert (unknown["ok"], unknown["diagnostics"][0]["code"]) == (True, "unknown_type")


def test_a_graph_with_row_rules(tmp_path: Path):
    uri = tmp_path / "graph.omni"
    people = [
        {"key": "ada", "name": "Ada", "team": "x", "salary": 10},
        {"key": "ben", "name": "Ben", "team": "y", "salary": 20},
        {"key": "cleo", "name": "Cleo", "team": None, "salary": 30},
    ]
    schema = SCHEMA.replace('  meaning: Vector(4)? @embed("bio", model="test:4")\n', "")
    with omnigraph.init(uri, schema) as graph:
        graph.apply({"Person": {"insert": people}})
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        """
version: 1
groups: {staff: [ada, ben]}
rules:
  - id: own
    allow:
      actors: {group: staff}
      actions: [read]
      types: [Person]
      properties: {Person: [key, name, team]}
      where: {Person: 'key = $actor or team = "y"'}
  - id: not-ben
    deny: {actors: {actor: ada}, actions: [read], where: {Person: 'name = "Ben"'}}
"""
    )
    names = "match { $p: Person } return { $p.name as name } order { name }"
    with omnigraph.open(uri, actor="ada", policy=rules) as graph:
        assert [row["name"] for row in graph.query(names).to_pylist()] == ["Ada"]
        with pytest.raises(omnigraph.TypeCheckError):
            graph.query("match { $p: Person } return { $p.salary }")
        with pytest.raises(PolicyDenied, match="no rule allows it"):
            graph.mutate('delete Person where key = "ada"')
        ben = graph.as_actor("ben")
        assert [row["name"] for row in ben.query(names).to_pylist()] == ["Ben"]
    with omnigraph.open(uri, policy=rules) as graph, pytest.raises(PolicyDenied, match="no actor"):
        graph.query(names)
