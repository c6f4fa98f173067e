"""One vocabulary in every JSON: `entity_kind`, `entity_count`, `graph_branch`, readable times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from omnigraph import Edit

ALL_PEOPLE = "match { $p: Person } return { count($p) as n }"
COMMANDS = {
    "branch create side2": "branch create side2",
    "branch list": "branch list",
    "branch diff": "branch diff side",
    "branch merge": "branch merge side --preview",
    "tag create": "tag create v2 side",
    "tag list": "tag list",
    "commit list": "commit list",
    "commit show": "commit show HEAD",
    "commit changes": "commit changes HEAD",
    "commit revert": "commit revert HEAD",
    "changes baseline": "changes baseline",
    "changes poll": "changes poll --start beginning",
    "snapshot": "snapshot",
    "schema show": "schema show",
    "status": "status",
    "verify": "verify",
    "repair": "repair",
    "optimize": "optimize",
    "cleanup": "cleanup",
    "recovery list": "recovery list",
}
FIXED = {"mutate", "load", "apply", "commit revert", "commit cherry-pick", "embed"}
"""Receipts of writes say `branch`: SURFACE.md fixes that name for them."""
CHANGES = {"branch diff", "branch merge", "commit changes", "changes baseline", "changes poll"}
"""A change says `kind`, for the same reason."""


@pytest.fixture
def worked_on(people):
    people.branches.create("side")
    people.apply({"Person": Edit(upsert=[{"name": "Dee"}])}, "side")
    people.tags.create("v1")
    people.apply({"Person": Edit(upsert=[{"name": "Eve"}])})
    return people


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for name, inner in value.items():
            if name not in ("before", "after", "catalog"):  # data and schemas have their own names
                yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_uses_the_same_words(cli, worked_on, name: str) -> None:
    body = cli(*COMMANDS[name].split(), "--store", worked_on.uri, "--json").json
    for found in objects(body):
        if name not in FIXED:
            assert "branch" not in found, found
        if found.get("kind") in ("node", "edge"):
            assert name in CHANGES, found
        assert "manifest_version" not in found
        if "created_at" in found:
            assert "created_at_rfc3339" in found
        if "type_name" in found and "entity_count" not in found:
            assert not isinstance(found.get("rows"), int), found


def test_status_and_snapshot_agree(cli, worked_on) -> None:
    store = ("--store", worked_on.uri, "--json")
    status = cli("status", *store).json["branches"]
    main = next(branch for branch in status if branch["name"] == "main")
    snapshot = cli("snapshot", *store).json
    assert main["graph_manifest_version"] == snapshot["graph_manifest_version"]
    words = ("entity_kind", "type_name", "entity_count")
    assert [[table[w] for w in words] for table in main["tables"]] == [
        [dataset[w] for w in words] for dataset in snapshot["datasets"]
    ]


def test_exports_count_by_type(cli, worked_on, tmp_path) -> None:
    target = tmp_path / "out.ndjson"
    body = cli("export", worked_on.uri, "-o", target, "--json").json
    assert {"entity_kind": "node", "type_name": "Person", "entity_count": 4} in body["types"]
    assert body["total_entities"] == sum(exported["entity_count"] for exported in body["types"])


def test_blobs_name_their_kind(cli, worked_on) -> None:
    worked_on.apply({"Note": Edit(insert=[{"id": "n", "text": "x", "photo": b"abc"}])})
    body = cli("blob", "stat", "Note", "n", "photo", "--store", worked_on.uri, "--json").json
    assert body == {
        "entity_kind": "node",
        "type_name": "Note",
        "entity_id": "n",
        "property": "photo",
        "size": 3,
    }


def test_queries_keep_their_object(cli, worked_on) -> None:
    body = cli("query", "-e", ALL_PEOPLE, "--store", worked_on.uri, "--json").json
    assert (body["target"], body["rows"]) == ({"branch": "main"}, [{"n": 4}])
