"""The audit of recoveries: a dataset with one row for each recovered intent."""

from __future__ import annotations

import json
from contextlib import suppress

import pyarrow as pa

from omnigraph.errors import AlreadyExists, NotFound, StorageFailure
from omnigraph.lance_store.advance import HeadMoved, advance
from omnigraph.lance_store.dataset_branches import create_dataset
from omnigraph.lance_store.reads.scan import read_table
from omnigraph.lance_store.staging.stage import stage_overwrite
from omnigraph.lance_store.store import Dataset, DatasetVersion, Store
from omnigraph.manifest.layout import RECOVERY_AUDIT
from omnigraph.manifest.records import RecoveryAudit

_SCHEMA = pa.schema(
    [
        pa.field("operation_id", pa.string(), nullable=False),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("operation_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field("graph_branch", pa.string(), nullable=False),
        pa.field("graph_commit_id", pa.string()),
        pa.field("tables", pa.string(), nullable=False),
        pa.field("created_at", pa.int64(), nullable=False),
    ]
)
_SWAP_ATTEMPTS = 1000


def record_audit(store: Store, audit: RecoveryAudit) -> None:
    """Add the row, unless the dataset has a row of the same operation."""
    row = pa.Table.from_pylist(
        [{**audit.to_json(), "tables": json.dumps(audit.tables)}], schema=_SCHEMA
    )
    for _ in range(_SWAP_ATTEMPTS):
        dataset = _open_or_create(store)
        rows = read_table(dataset)
        if audit.operation_id in rows.column("operation_id").to_pylist():
            return
        at = DatasetVersion(RECOVERY_AUDIT, None, int(dataset.version))
        store.remember(at, dataset)
        staged = stage_overwrite(store, at, pa.concat_tables([rows, row]))
        if not isinstance(advance(store, staged), HeadMoved):
            return
    raise StorageFailure(
        f"the recovery audit could not be written: other processes won {_SWAP_ATTEMPTS} swaps"
    )


def read_audits(store: Store) -> list[RecoveryAudit]:
    """Newest first."""
    try:
        dataset = store.open_head(RECOVERY_AUDIT, None)
    except NotFound:
        return []
    rows = read_table(dataset).to_pylist()
    audits = [RecoveryAudit.from_json({**r, "tables": json.loads(r["tables"])}) for r in rows]
    return audits[::-1]


def _open_or_create(store: Store) -> Dataset:
    try:
        return store.open_head(RECOVERY_AUDIT, None)
    except NotFound:
        with suppress(AlreadyExists):
            create_dataset(store, RECOVERY_AUDIT, _SCHEMA.empty_table())
        return store.open_head(RECOVERY_AUDIT, None)
