"""What workers did to one table in a merge: their files, and what the rules need to know."""

from __future__ import annotations

from omnigraph.catalog.model import EntityType
from omnigraph.diff.id_runs import Scratch
from omnigraph.integrity.stored_image import TableDelta
from omnigraph.lance_store.store import Store
from omnigraph.manifest.records import TablePin
from omnigraph.merge.output import ChangedRows
from omnigraph.spark.merge.merge_tasks import MergeReport, checked_schema
from omnigraph.writes.changeset import AdoptRows


class WrittenOutput:
    """An `Output` of a merge whose rows never come here: reports of tasks, in the order of ids."""

    def __init__(self, entity: EntityType, home: TablePin, scratch: Scratch) -> None:
        self.entity = entity
        self._home = home
        self._rows = ChangedRows(checked_schema(entity), scratch)
        self._fragments: list[str] = []

    def add(self, report: MergeReport) -> None:
        self._rows.add(report.checked, report.is_new, report.deleted)
        self._fragments += report.fragments

    @property
    def is_empty(self) -> bool:
        return self._rows.is_empty

    def delta(self, *, creates: bool) -> TableDelta:
        return self._rows.delta(self.entity, creates=creates)

    def effect(self, store: Store, pin: TablePin | None, merged_at: TablePin | None) -> AdoptRows:
        """Of a home that moved meanwhile the staging finds out."""
        del store, merged_at
        assert pin is not None, "tables that do not exist yet are merged by the driver"
        home = self._home
        fragments = tuple(self._fragments)
        return AdoptRows(pin.key, home.location, home.branch, fragments, self._rows.listed())

    def discard(self) -> None:
        self._rows.discard()
