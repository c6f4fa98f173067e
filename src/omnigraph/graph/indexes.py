"""`g.ensure_indices` and `g.index_status`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.catalog.index_plan import wanted_indexes
from omnigraph.graph.engine import Engine
from omnigraph.lance_store.search.indexes import coverage
from omnigraph.maintain.table_upkeep import HERE, Pace, TableWork, index_table
from omnigraph.values.identifiers import TableKey
from omnigraph.values.indexes import IndexKind
from omnigraph.values.known_names import LOCAL, require_engine

_ATTEMPTS = 5

_NAMES = {
    IndexKind.SORTED: "btree",
    IndexKind.FULL_TEXT: "full_text",
    IndexKind.SUBSTRING: "ngram",
    IndexKind.LIST: "label_list",
    IndexKind.VECTOR: "vector",
}


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """One declared index and how far it reaches; pending rows are searched without it."""

    type_name: str
    property: str
    kind: str
    built: bool
    covered_rows: int
    pending_rows: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "type_name": self.type_name,
            "property": self.property,
            "kind": self.kind,
            "built": self.built,
            "covered_rows": self.covered_rows,
            "pending_rows": self.pending_rows,
        }


def ensure_indices(
    engine: Engine, branch: str, types: Sequence[str] | None, actor: str | None, where: str
) -> list[str]:
    """Names of the types that concurrent writers kept us from; `where` names an engine."""
    behind = []
    pace = Pace(work=table_work(engine, where))
    for key in tables(engine, branch, types):
        attempts = (
            index_table(engine.transaction, branch, key, actor, pace) for _ in range(_ATTEMPTS)
        )
        if not any(attempts):
            behind.append(key.type_name)
    return behind


def table_work(engine: Engine, name: str) -> TableWork:
    """Who rewrites files and builds indexes."""
    require_engine(name, "upkeep")
    return HERE if name == LOCAL else engine.spark_upkeep


def index_status(engine: Engine, branch: str) -> list[IndexStatus]:
    snapshot = engine.reader.snapshot(*engine.reader.branch(branch))
    found = []
    for entity in snapshot.catalog.entity_types():
        dataset = engine.store.open(snapshot.pin(entity.table_key).at)
        found += [
            IndexStatus(
                entity.name, c.column, _NAMES[c.kind], c.built, c.covered_rows, c.pending_rows
            )
            for c in coverage(dataset, wanted_indexes(entity))
        ]
    return found


def tables(engine: Engine, branch: str, types: Sequence[str] | None) -> list[TableKey]:
    """The named types, or every table the branch owns: upkeep alone should fork nothing."""
    ref, state = engine.reader.branch(branch)
    if types is None:
        return [key for key, pin in state.tables.items() if pin.owner == ref.incarnation]
    catalog = engine.reader.snapshot(ref, state).catalog
    return [catalog.resolve(name).table_key for name in types]
