"""Violations of rules by a write: the first ones in full, all of them counted."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.catalog.model import SOURCE, TARGET
from omnigraph.errors import ValidationFailed
from omnigraph.values.identifiers import TableKey

FIRST_VIOLATIONS = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row came from."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


Places = Callable[[int], Place | None]
"""Row number within the table being checked -> where it came from."""

Ends = tuple[str | None, str | None]


def ends_of(rows: pa.Table, row: int) -> Ends | None:
    """The ends of an edge; None for a node."""
    if SOURCE not in rows.column_names or TARGET not in rows.column_names:
        return None
    return rows.column(SOURCE)[row].as_py(), rows.column(TARGET)[row].as_py()


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule broken by one entity."""

    rule: str
    table: TableKey | None
    """None when an input line does not name its type."""
    entity_id: str | None
    property: str | None
    message: str
    place: Place | None = None
    ends: Ends | None = None
    """Of an edge in the write: messages name the ends, because the id is often generated."""

    def __str__(self) -> str:
        at = "" if self.place is None else f"{self.place}: "
        if self.table is None:
            return f"{at}{self.message}"
        return f"{at}{self.table.type_name}{self._name()}: {self.message}"

    def _name(self) -> str:
        if self.ends is not None:
            return f" {self.ends[0]!r} -> {self.ends[1]!r}"
        return f" {self.entity_id!r}" if self.entity_id else ""

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "rule": self.rule,
            "type": self.table.type_name if self.table else None,
            "entity_id": self.entity_id,
            "property": self.property,
            "message": self.message,
        }
        if self.ends is not None:
            found |= {"from": self.ends[0], "to": self.ends[1]}
        if self.place is not None:
            found |= {"file": self.place.file, "line": self.place.line}
        return found


class Report:
    """Collects violations: the first `limit` in input order are kept, all are counted by rule.

    Violations without a place come first. The others are in the order of `files` (which may still
    grow) and lines. So the report does not depend on how the input was split for checking.
    """

    def __init__(self, limit: int = FIRST_VIOLATIONS, files: Sequence[str] = ()) -> None:
        self.limit = limit
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self._files = files
        self._numbers: dict[str, int] = {}

    @property
    def total(self) -> int:
        return self.counts.total()

    def add(self, rule: str, total: int, first: Iterable[Violation]) -> None:
        """`total` violations of a rule; `first` yields the first ones, in order.

        Pass a lazy iterable, so that messages are made only for violations that are kept.
        """
        if total == 0:
            return
        self.counts[rule] += total
        self._keep(first)

    def merge(self, violations: Iterable[Violation], counts: Counter[str]) -> None:
        """Add the violations of another report, for example of a partition checked by a worker."""
        self.counts.update(counts)
        self._keep(violations)

    def _keep(self, ascending: Iterable[Violation]) -> None:
        for violation in ascending:
            if len(self.violations) == self.limit:
                if self._order(violation) >= self._order(self.violations[-1]):
                    return
                self.violations.pop()
            insort(self.violations, violation, key=self._order)

    def _order(self, violation: Violation) -> tuple[int, int]:
        place = violation.place
        if place is None:
            return (-1, 0)
        if place.file not in self._numbers:
            for number, name in enumerate(self._files):
                self._numbers.setdefault(name, number)
        return (self._numbers.get(place.file, 0), place.line or 0)

    def raise_if_any(self) -> None:
        if not self.total:
            return
        first = self.violations[0]
        more = f" (and {self.total - 1} more)" if self.total > 1 else ""
        raise ValidationFailed(
            f"{first}{more}",
            violations=[violation.to_dict() for violation in self.violations],
            total=self.total,
            counts=dict(self.counts),
        )
