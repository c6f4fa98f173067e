"""Conflicts of a merge, and the results of merges and previews."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnigraph.diff.change import ChangePage
from omnigraph.manifest.records import Commit
from omnigraph.values.json_values import json_value


class ConflictKind(StrEnum):
    """The ways in which two sides can disagree."""

    DIVERGENT_INSERT = "DivergentInsert"
    DIVERGENT_UPDATE = "DivergentUpdate"
    DELETE_VS_UPDATE = "DeleteVsUpdate"
    ORPHAN_EDGE = "OrphanEdge"
    UNIQUE_VIOLATION = "UniqueViolation"
    CARDINALITY_VIOLATION = "CardinalityViolation"
    VALUE_CONSTRAINT_VIOLATION = "ValueConstraintViolation"
    SCHEMA_DIVERGENCE = "SchemaDivergence"


class Outcome(StrEnum):
    """What kind of merge it was."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


@dataclass(frozen=True, slots=True)
class Conflict:
    """One disagreement of the two branches.

    `base`, `ours` and `theirs` are values of the property; without a property they are whole
    entities. *Ours* is the branch merged into, *theirs* the branch merged from. A
    `SchemaDivergence` is about a declaration: it has no `entity_id`, its `entity_kind` can also be
    `interface`, and its values are schema text, None where the declaration does not exist.
    """

    entity_kind: str
    type_name: str
    entity_id: str
    kind: str
    message: str
    property: str | None = None
    base: Any = None
    ours: Any = None
    theirs: Any = None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "entity_kind": self.entity_kind,
            "type_name": self.type_name,
            "entity_id": self.entity_id,
            "kind": self.kind,
            "message": self.message,
            "base": json_value(self.base),
            "ours": json_value(self.ours),
            "theirs": json_value(self.theirs),
        }
        if self.kind == ConflictKind.SCHEMA_DIVERGENCE.value:
            del found["entity_id"]
        if self.property is not None:
            found["property"] = self.property
        return found


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did; `commit` is None when the target already had every commit."""

    source: str
    target: str
    outcome: str
    commit: Commit | None
    branch_deleted: bool | None = None
    """Whether `delete_branch` removed the source; None when it was not asked for."""
    branch_delete_error: str | None = None
    """Why the source was not deleted. The merge itself is done."""
    engine: str = "local"
    """Where the rows were merged: `local` or `spark`."""
    engine_reason: str = ""
    repeated: bool = False
    """The idempotency key was used before, and this is the result of then."""

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome,
            "commit": self.commit.to_dict() if self.commit else None,
            "engine": self.engine,
            "engine_reason": self.engine_reason,
        }
        if self.branch_deleted is not None:
            found["branch_deleted"] = self.branch_deleted
        if self.branch_delete_error is not None:
            found["branch_delete_error"] = self.branch_delete_error
        if self.repeated:
            found["repeated"] = True
        return found


class MergePreview(list[Conflict]):
    """The conflicts that a merge would have, and the changes that it would make.

    `changes` shows undecided conflicts as if the target had won. At most 10,000 conflicts are
    listed; `conflict_count` is the number of all. At most 10,000 changes are listed; `more_changes`
    is true when there are more.
    """

    def __init__(
        self,
        source: str,
        target: str,
        outcome: str,
        conflicts: Iterable[Conflict],
        changes: ChangePage,
        conflict_count: int = 0,
        *,
        more_changes: bool = False,
    ) -> None:
        super().__init__(conflicts)
        self.more_changes = more_changes
        self.conflict_count = max(conflict_count, len(self))
        self.source = source
        self.target = target
        self.outcome = outcome
        self.changes = changes

    @property
    def conflicts(self) -> list[Conflict]:
        return list(self)

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome,
            "preview": True,
            "conflict_count": self.conflict_count,
            "more_changes": self.more_changes,
            "merge_conflicts": [conflict.to_dict() for conflict in self],
            **self.changes.to_dict(),
        }
