"""What the two halves of a load agree on. Light: workers get it with every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.lance_store.store import DatasetVersion
from omnigraph.load.sources import Source
from omnigraph.spark.load.load_tasks import LoadPlan
from omnigraph.values.identifiers import TableKey


@dataclass(frozen=True, slots=True)
class Handoff:
    """Where the rows of one frame are written, before the first of them is. Pickles."""

    source: Source
    plan: LoadPlan
    homes: Mapping[TableKey, DatasetVersion]
    begun_at: int
    """Microseconds: no file of it is older."""
