"""Lines of an export, with ids where a load derives them and with all ids."""

from __future__ import annotations

import json

import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.export.ndjson import lines
from omnigraph.schema.build import catalog_from_text

CATALOG = catalog_from_text(
    """
    node Person { name: String @key  age: I32? }
    node Note { text: String?  tags: [String]? }
    edge Knows: Person -> Person { since: Date?  why: String? }
    """
)


def records(type_name: str, rows: list[dict], *, every_id: bool) -> list[dict]:
    entity = CATALOG.resolve(type_name)
    table = pa.Table.from_pylist(rows, table_schema(entity))
    text = b"".join(lines(entity, iter([table]), every_id=every_id))
    return [json.loads(line) for line in text.splitlines()]


def test_rows_without_any_value_are_not_lost() -> None:
    """Arrow drops a row whose joined texts are all NULL."""
    notes = [{"id": "a"}, {"id": "b", "text": "x"}, {"id": "c"}, {"id": "d", "tags": []}]
    assert records("Note", notes, every_id=True) == [
        {"type": "Note", "id": "a", "data": {}},
        {"type": "Note", "id": "b", "data": {"text": "x"}},
        {"type": "Note", "id": "c", "data": {}},
        {"type": "Note", "id": "d", "data": {"tags": []}},
    ]
    assert records("Note", notes[:1], every_id=True) == [{"type": "Note", "id": "a", "data": {}}]
    assert records("Note", notes[:1], every_id=False) == [{"type": "Note", "data": {"id": "a"}}]


def test_ids_stand_beside_the_data_or_inside() -> None:
    person = [{"id": "ada", "name": "ada", "age": 36}]
    assert records("Person", person, every_id=False) == [
        {"type": "Person", "data": {"name": "ada", "age": 36}}
    ]
    assert records("Person", person, every_id=True) == [
        {"type": "Person", "id": "ada", "data": {"name": "ada", "age": 36}}
    ]
    edge = [{"id": "k", "src": "a", "dst": "b"}]
    ends = {"from": "a", "to": "b"}
    assert records("Knows", edge, every_id=False) == [
        {"edge": "Knows", **ends, "data": {"id": "k"}}
    ]
    assert records("Knows", edge, every_id=True) == [
        {"edge": "Knows", "id": "k", **ends, "data": {}}
    ]
