"""Identities across schema changes."""

from __future__ import annotations

from omnigraph.catalog.identity import fingerprint
from omnigraph.catalog.model import Catalog
from omnigraph.catalog.serialize import catalog_from_json, catalog_to_json
from omnigraph.schema.build import catalog_from_text
from omnigraph.schema.evolve import plan_changes

OLD = """
node Person { b: String  a: String  note: String?  @key(b, a) }
edge Knows: Person -> Person { since: Date? }
"""
NEW = """
node Human @rename_from("Person") {
  z: String @rename_from(a)  b: String  memo: String? @rename_from(note)
  @key(b, z)
}
edge Knows: Human -> Human { since: Date? }
"""


def _node(catalog: Catalog) -> dict[str, str]:
    return {p.name: p.identity for p in catalog.nodes[0].properties}


def test_renames_keep_identities_and_the_order_of_the_key() -> None:
    old = catalog_from_text(OLD)
    new = plan_changes(old, catalog_from_text(NEW)).target
    assert new.nodes[0].identity == old.nodes[0].identity
    assert _node(new)["z"] == _node(old)["a"]
    assert _node(new)["memo"] == _node(old)["note"]
    assert old.nodes[0].key == ("a", "b")
    assert new.nodes[0].key == ("z", "b")


def test_the_same_text_again_changes_nothing() -> None:
    first = plan_changes(catalog_from_text(OLD), catalog_from_text(NEW)).target
    stored = catalog_from_json(catalog_to_json(first))
    again = plan_changes(stored, catalog_from_text(NEW))
    assert again.steps == ()
    assert again.target == first
    assert fingerprint(again.target) == fingerprint(first)


def test_a_new_thing_under_an_old_name_has_its_own_identity() -> None:
    old = catalog_from_text("node P { a: I32? }")
    renamed = plan_changes(old, catalog_from_text("node P { b: I32? @rename_from(a) }")).target
    text = "node P { b: I32? @rename_from(a)  a: String? }"
    both = plan_changes(renamed, catalog_from_text(text)).target
    identities = _node(both)
    assert identities["b"] == _node(old)["a"]
    assert identities["a"] != identities["b"]


def test_planning_does_not_touch_its_inputs() -> None:
    old, new = catalog_from_text(OLD), catalog_from_text(NEW)
    before = (catalog_to_json(old), catalog_to_json(new))
    plan_changes(old, new)
    assert (catalog_to_json(old), catalog_to_json(new)) == before
