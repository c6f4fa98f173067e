from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import (
    Catalog,
    EdgeType,
    Embedding,
    GeneratedDefault,
    Key,
    NodeType,
    Property,
    Unique,
    allowances,
    default_of,
    embedding_of,
    is_protected,
    renamed_from,
    renamed_values,
)
from omnigraph.errors import NotFound
from omnigraph.schema.build import catalog_from_text
from omnigraph.values.identifiers import edge_table, node_table
from omnigraph.values.scalars import ScalarKind, ScalarType, VectorType

TEXT = ScalarType(ScalarKind.STRING)
PERSON = NodeType(
    "Person",
    (Property("name", TEXT), Property("v", VectorType(2), nullable=True)),
    (Unique(("v",)), Key(("name",))),
)
KNOWS = EdgeType("Knows", "Person", "Person", (Property("since", TEXT, nullable=True),))
CATALOG = Catalog((PERSON,), (KNOWS,))


def test_types_are_found_by_key_and_by_name() -> None:
    assert CATALOG.entity_type(node_table("Person")) is PERSON
    assert CATALOG.entity_type(edge_table("Knows")) is KNOWS
    assert [CATALOG.resolve(n) for n in ("Person", "Knows")] == [PERSON, KNOWS]


def test_an_unknown_type_is_named_with_what_there_is() -> None:
    with pytest.raises(NotFound, match=r"'Persn'.*did you mean 'Person'\?"):
        CATALOG.resolve("Persn")
    with pytest.raises(NotFound, match=r"'Zebra'.*: Knows, Person"):
        CATALOG.resolve("Zebra")
    with pytest.raises(NotFound, match="it is empty"):
        Catalog().resolve("X")
    with pytest.raises(NotFound) as caught:
        CATALOG.entity_type(edge_table("Person"))
    assert caught.value.type == "edge:Person"


def test_keys_come_from_the_key_constraint() -> None:
    assert PERSON.key == ("name",)
    assert NodeType("Note").key == ()


def test_tables_have_system_columns_first() -> None:
    assert table_schema(PERSON).names == ["id", "name", "v"]
    schema = table_schema(KNOWS)
    assert schema.names == ["id", "src", "dst", "since"]
    assert [f.nullable for f in schema] == [False, False, False, True]
    assert schema.field("src").type == pa.string()


def test_annotations_are_read_from_the_catalog() -> None:
    person = catalog_from_text(
        'node P @rename_from("Q") { a: I32 @default(3)  t: String'
        '  v: Vector(2) @embed(t, model="m")  w: Vector(2)? @embed(t) }'
    ).nodes[0]
    with_default, text, vector, optional_vector = person.properties
    assert default_of(with_default) == 3
    assert default_of(text) is None
    assert embedding_of(vector) == Embedding("t", "m")
    assert embedding_of(optional_vector) == Embedding("t", None)
    assert embedding_of(text) is None
    assert renamed_from(person.annotations) == "Q"
    assert renamed_from(with_default.annotations) is None


def test_what_annotations_say_about_schema_changes() -> None:
    catalog = catalog_from_text("""
    node P @protected @allow(OG-DS-102, "moved") {
      a: DateTime @default(now())
      b: String? @default(uuid()) @allow("OG-DS-104", "unused") @allow(OG-DS-105, "x")
      c: enum(in, out) @rename_value("i", "in") @rename_value(o, out) @protected
    }""")
    node = catalog.nodes[0]
    a, b, c = node.properties
    assert [default_of(p) for p in (a, b, c)] == [
        GeneratedDefault("now"),
        GeneratedDefault("uuid"),
        None,
    ]
    assert [is_protected(x.annotations) for x in (node, a, b, c)] == [True, False, False, True]
    assert allowances(node.annotations) == {"OG-DS-102": "moved"}
    assert allowances(b.annotations) == {"OG-DS-104": "unused", "OG-DS-105": "x"}
    assert renamed_values(c.annotations) == {"i": "in", "o": "out"}
    assert (allowances(a.annotations), renamed_values(a.annotations)) == ({}, {})
