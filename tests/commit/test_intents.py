from __future__ import annotations

import json

import pytest
from intents_for_tests import intent

from omnigraph.commit.intents import (
    IntentKind,
    branch_resource,
    intent_from_bytes,
    intent_to_bytes,
    schema_resource,
    table_resource,
)
from omnigraph.manifest.records import MAIN_REF, BranchRef
from omnigraph.values.identifiers import edge_table, node_table


@pytest.mark.parametrize("kind", IntentKind)
def test_an_intent_is_complete(kind: IntentKind) -> None:
    made = intent(1, exclusive="a b", shared="c", kind=kind)
    assert intent_from_bytes(intent_to_bytes(made)) == made


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (("a", ""), ("a", ""), True),
        (("a", ""), ("b", ""), False),
        (("a", ""), ("b", "a"), True),
        (("", "a"), ("", "a"), False),
        (("a", "s"), ("b", "s"), False),
        (("s", ""), ("b", "s"), True),
        (("", ""), ("a", "b"), False),
    ],
)
def test_overlap_is_symmetric(one: tuple, other: tuple, overlap: bool) -> None:
    a, b = intent(1, *one), intent(2, *other)
    assert a.overlaps(b) is overlap
    assert b.overlaps(a) is overlap


def test_resources_are_distinct_per_branch_incarnation() -> None:
    again = BranchRef("main", "main.02", None, 0)
    resources = [
        function(ref)
        for ref in (MAIN_REF, again)
        for function in (
            branch_resource,
            schema_resource,
            lambda r: table_resource(r, node_table("A")),
            lambda r: table_resource(r, edge_table("A")),
        )
    ]
    assert len(set(resources)) == 8


def test_every_cut_and_every_missing_field_is_refused() -> None:
    data = intent_to_bytes(intent(1))
    for length in range(0, len(data), 7):
        with pytest.raises((ValueError, KeyError, TypeError)):
            intent_from_bytes(data[:length])
    body = json.loads(data)
    for name in body:
        with pytest.raises((ValueError, KeyError, TypeError)):
            intent_from_bytes(json.dumps({k: v for k, v in body.items() if k != name}).encode())


def test_another_format_is_refused() -> None:
    body = json.loads(intent_to_bytes(intent(1)))
    with pytest.raises(ValueError, match="format 2 is not known"):
        intent_from_bytes(json.dumps({**body, "format": 2}).encode())
