from __future__ import annotations

import json
from dataclasses import replace

import pytest
from catalogs import CATALOGS
from hypothesis import HealthCheck, given, settings

from omnigraph.catalog.identity import fingerprint, with_identities
from omnigraph.catalog.model import Catalog, NodeType, Property
from omnigraph.catalog.serialize import catalog_from_json, catalog_to_json, type_from_json
from omnigraph.errors import FormatUnknown
from omnigraph.values.scalars import ScalarKind, ScalarType

TEXT = ScalarType(ScalarKind.STRING)
few = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@few
@given(CATALOGS)
def test_what_is_written_is_read_back(catalog: Catalog) -> None:
    text = json.dumps(catalog_to_json(catalog), ensure_ascii=False)
    again = catalog_from_json(json.loads(text))
    assert again == catalog
    assert catalog_to_json(again) == json.loads(text)


@few
@given(CATALOGS)
def test_fingerprint_is_of_the_content(catalog: Catalog) -> None:
    again = catalog_from_json(json.loads(json.dumps(catalog_to_json(catalog))))
    assert fingerprint(again) == fingerprint(catalog)
    more = replace(catalog, nodes=(*catalog.nodes, NodeType("Another_", (Property("p", TEXT),))))
    assert fingerprint(more) != fingerprint(catalog)


@few
@given(CATALOGS, CATALOGS)
def test_different_catalogs_differ_in_their_fingerprint(one: Catalog, other: Catalog) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (one == other)


def test_nullable_and_order_change_the_fingerprint() -> None:
    a, b = Property("a", TEXT), Property("b", TEXT)
    catalogs = [
        Catalog((NodeType("T", properties),))
        for properties in [(a, b), (b, a), (a, replace(b, nullable=True)), (a,)]
    ]
    assert len({fingerprint(c) for c in catalogs}) == 4


@few
@given(CATALOGS)
def test_identities_are_given_once(catalog: Catalog) -> None:
    first = with_identities(catalog)
    assert all(t.identity for t in first.entity_types())
    assert all(p.identity for t in first.entity_types() for p in t.properties)
    assert with_identities(first) == first


def test_an_identity_survives_a_rename() -> None:
    before = with_identities(Catalog((NodeType("Old", (Property("p", TEXT),)),)))
    renamed = replace(before, nodes=(replace(before.nodes[0], name="New"),))
    assert with_identities(renamed).nodes[0].identity == before.nodes[0].identity
    assert with_identities(Catalog((NodeType("New"),))).nodes[0].identity != (
        before.nodes[0].identity
    )


@pytest.mark.parametrize("data", [{}, {"scalar2": "I32"}, {"blob": False}])
def test_an_unknown_type_is_named(data: dict) -> None:
    with pytest.raises(FormatUnknown, match="unknown property type"):
        type_from_json(data)


def test_an_unknown_argument_of_an_annotation_is_named() -> None:
    data = catalog_to_json(Catalog((NodeType("T"),)))
    data["nodes"][0]["annotations"] = [{"name": "x", "arguments": [{"banana": 1}], "options": {}}]
    with pytest.raises(FormatUnknown, match="banana"):
        catalog_from_json(data)


def test_an_unknown_constraint_is_named() -> None:
    data = catalog_to_json(Catalog((NodeType("T"),)))
    data["nodes"][0]["constraints"] = [{"banana": 1}]
    with pytest.raises(FormatUnknown, match="banana"):
        catalog_from_json(data)
