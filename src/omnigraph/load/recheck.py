"""Others committed while a load was prepared: is everything it relied on as it was?"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.model import ID, SOURCE, TARGET
from omnigraph.integrity.rules import EdgesPerSource, UniqueTuple, graph_rules
from omnigraph.load.prepare import PreparedInput
from omnigraph.manifest.commit_graph import CommitGraph
from omnigraph.manifest.reader import ManifestReader
from omnigraph.manifest.records import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import EntityKind, TableKey
from omnigraph.writes.changed_ids import recorded_ids

_COMMITS_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class Recheck:
    """Compares by the ids that the commits in between recorded: cost follows their size."""

    reader: ManifestReader
    commits: CommitGraph

    def undisturbed(
        self,
        prepared: PreparedInput,
        relied_on: AbstractSet[TableKey],
        before: Snapshot,
        now: Snapshot,
    ) -> bool:
        """False also when it cannot be told: the checks are then made again."""
        moved = {
            key for key in relied_on if before.pin(key).content_epoch != now.pin(key).content_epoch
        }
        if not moved:
            return True
        if any(_is_counted(prepared, key) for key in moved):
            return False
        between = self._between(before, now)
        if between is None:
            return False
        return all(
            self._disjoint(prepared, commit, key) for commit in between for key in sorted(moved)
        )

    def _between(self, before: Snapshot, now: Snapshot) -> list[Commit] | None:
        _, state = self.reader.branch(now.graph_branch)
        found: list[Commit] = []
        for stored in self.commits.walk(state):
            if stored.commit_id == before.graph_commit_id:
                return found
            if len(found) == _COMMITS_LOOKED_AT:
                break
            found.append(stored.commit)
        return None

    def _disjoint(self, prepared: PreparedInput, commit: Commit, key: TableKey) -> bool:
        for changes in commit.changes:
            if changes.key != key:
                continue
            ids = recorded_ids(self.reader.store.files, changes)
            if ids is None:
                return False
            everything = pa.concat_arrays([ids.inserted, ids.updated, ids.deleted])
            if key in prepared.spools and _meets(prepared, key, ID, everything):
                return False
            if key.kind is EntityKind.NODE and _is_endpoint(prepared, key, ids.deleted):
                return False
        return True


def _is_counted(prepared: PreparedInput, key: TableKey) -> bool:
    """A rule about values or numbers of rows concerns this table: ids do not tell enough."""
    catalog = prepared.catalog
    for entity in catalog.entity_types():
        for rule in graph_rules(entity):
            if isinstance(rule, UniqueTuple) and rule.table == key and key in prepared.spools:
                return True
            if isinstance(rule, EdgesPerSource) and key in (rule.table, rule.node):
                return True
    return False


def _is_endpoint(prepared: PreparedInput, node: TableKey, deleted: pa.Array) -> bool:
    for edge in prepared.catalog.edges:
        if edge.table_key not in prepared.spools:
            continue
        for column, name in ((SOURCE, edge.source), (TARGET, edge.target)):
            if name == node.type_name and _meets(prepared, edge.table_key, column, deleted):
                return True
    return False


def _meets(prepared: PreparedInput, key: TableKey, column: str, ids: pa.Array) -> bool:
    if len(ids) == 0:
        return False
    index = prepared.index
    with index.shown(pa.table({"id": ids})) as shown:
        return (
            index.count(
                f"SELECT count(*) FROM {shown} o SEMI JOIN {index.input(key)} i "
                f"ON o.id = i.{column}"
            )
            > 0
        )
