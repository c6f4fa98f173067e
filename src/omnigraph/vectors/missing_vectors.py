"""Entities of a snapshot whose vector is missing, or stale because their text has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, Catalog, EntityType, embedding_of
from omnigraph.errors import InvalidArgument, NotFound
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.store import Store
from omnigraph.manifest.changed_ids import recorded_ids
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.conditions import Condition
from omnigraph.values.scalars import VectorType

OPERATION = "embed"
"""The operation in the commits of embedding runs."""


@dataclass(frozen=True, slots=True)
class EmbedTarget:
    """One `@embed` property: vectors of `source`, made by `model`."""

    entity: EntityType
    property: str
    source: str
    model: str | None
    width: int


@dataclass(frozen=True, slots=True)
class History:
    """The parts of an open graph that read the past of a branch."""

    store: Store
    reader: ManifestReader
    commits: CommitGraph


def embed_targets(catalog: Catalog, types: Sequence[str] | None) -> list[EmbedTarget]:
    """Every `@embed` property, or those of the given types."""
    entities = [catalog.resolve(t) for t in types] if types else list(catalog.entity_types())
    found = []
    for entity in entities:
        for declared in entity.properties:
            embedding = embedding_of(declared)
            if embedding is not None and isinstance(declared.type, VectorType):
                width = declared.type.width
                found.append(
                    EmbedTarget(entity, declared.name, embedding.source, embedding.model, width)
                )
    if types and not found:
        raise InvalidArgument(f"no @embed property on {', '.join(types)}", types=list(types))
    return found


def rows_to_embed(history: History, snapshot: Snapshot, target: EmbedTarget) -> pa.Table:
    """`id` and the text, for every entity whose vector is missing or stale; in id order."""
    dataset = history.store.open(snapshot.pin(target.entity.table_key).at)
    columns = [ID, target.source]
    without_vector = (
        Condition(target.property, "is null"),
        Condition(target.source, "is not null"),
    )
    missing = read_table(dataset, columns, without_vector)
    stale = find_rows(dataset, _stale_ids(history, snapshot, target), columns).select(columns)
    rows = pa.concat_tables([missing, stale]).rename_columns([ID, "text"])
    return rows.filter(pc.not_equal(pc.utf8_trim_whitespace(rows.column("text")), "")).sort_by(ID)


def _stale_ids(history: History, snapshot: Snapshot, target: EmbedTarget) -> pa.Array:
    """Entities whose text changed after their vector was made.

    Walks back from the newest commit and compares an entity with the state before each commit. If
    the vector was different then, it was made for the present text, and the entity is fine. If the
    text was different and the vector was not, the entity is stale.
    """
    now = history.store.open(snapshot.pin(target.entity.table_key).at)
    settled: set[str] = set()
    stale: list[str] = []
    for commit in _commits_since_last_run(history, snapshot, target):
        ids = [i for i in _updated_ids(history, commit, target) if i not in settled]
        before = _rows_at(history, commit.parent_commit_id, target, ids)
        after = find_rows(now, pa.array(ids, pa.string()), [target.source, target.property])
        for row in after.to_pylist():
            then = before.get(row[ID])
            if then is None or then[target.property] != row[target.property]:
                settled.add(row[ID])
            elif then[target.source] != row[target.source] and row[target.property] is not None:
                settled.add(row[ID])
                stale.append(row[ID])
    return pa.array(stale, pa.string())


def _updated_ids(history: History, commit: Commit, target: EmbedTarget) -> list[str]:
    changes = next((c for c in commit.changes if c.key == target.entity.table_key), None)
    ids = recorded_ids(history.store.files, changes) if changes and changes.updated else None
    return [] if ids is None else list(ids.updated.to_pylist())


def _commits_since_last_run(
    history: History, snapshot: Snapshot, target: EmbedTarget
) -> Iterator[Commit]:
    _, state = history.reader.branch(snapshot.graph_branch)
    for stored in history.commits.walk(state):
        ours = (c.key == target.entity.table_key for c in stored.commit.changes)
        if stored.commit.operation == OPERATION and any(ours):
            return
        yield stored.commit


def _rows_at(
    history: History, commit_id: str | None, target: EmbedTarget, ids: list[str]
) -> dict[str, dict[str, Any]]:
    """Text and vector at that commit; empty if the commit is cleaned up or lacks the property."""
    if not ids or commit_id is None:
        return {}
    try:
        then = history.commits.snapshot_at(commit_id)
        dataset = history.store.open(then.pin(target.entity.table_key).at)
    except NotFound:
        return {}
    columns = [target.source, target.property]
    if not set(columns) <= set(dataset.schema.names):
        return {}
    rows = find_rows(dataset, pa.array(ids, pa.string()), columns)
    return {row[ID]: row for row in rows.to_pylist()}
