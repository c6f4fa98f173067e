"""Violations of rules by a write: the first ones in full, all of them counted."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from omnigraph.catalog.model import SOURCE, TARGET
from omnigraph.errors import ValidationFailed
from omnigraph.values.identifiers import TableKey

FIRST_VIOLATIONS = 20
_KINDS_IN_A_MESSAGE = 5


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row came from."""

    file: str
    line: int | None = None
    number: int | None = field(default=None, compare=False, repr=False)
    """In a load: one number for the file and the line."""

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
class Culprits:
    """Rows of one type in a write without which a rule about several rows would hold."""

    table: TableKey
    places: tuple[Place, ...]


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
    culprits: Culprits | None = None
    """Set if the rule is about several rows."""

    def row_numbers(self) -> list[int]:
        """The rows of a load that must go, so that the rule holds; empty if no row is at fault."""
        places: Sequence[Place | None] = self.culprits.places if self.culprits else [self.place]
        return [p.number for p in places if p is not None and p.number is not None]

    def row_type(self) -> str | None:
        """The type of the rows that are at fault."""
        table = self.culprits.table if self.culprits else self.table
        return table.type_name if table else None

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


def by_place(violations: Iterable[Violation]) -> list[Violation]:
    """In the order of the input, those without a place first."""
    return sorted(violations, key=lambda v: -1 if v.place is None else v.place.number or 0)


class BrokenRule(NamedTuple):
    """A rule and the column that breaks it: what violations are counted by."""

    rule: str
    type_name: str | None
    property: str | None

    def __str__(self) -> str:
        if self.type_name is None:
            return self.rule
        column = "" if self.property is None else f".{self.property}"
        return f"{self.rule} of {self.type_name}{column}"


Tally = Counter[BrokenRule]


class Report:
    """Collects violations: the first `limit` in input order are kept, all are counted.

    Violations without a place come first. The others are in the order of `files` (which may still
    grow) and lines. So the report does not depend on how the input was split for checking.
    """

    def __init__(self, limit: int = FIRST_VIOLATIONS, files: Sequence[str] = ()) -> None:
        self.limit = limit
        self.violations: list[Violation] = []
        self.tally: Tally = Counter()
        self._files = files
        self._numbers: dict[str, int] = {}

    @property
    def total(self) -> int:
        return self.tally.total()

    @property
    def counts(self) -> Counter[str]:
        """Violations by rule."""
        found: Counter[str] = Counter()
        for broken, count in self.tally.items():
            found[broken.rule] += count
        return found

    def add(
        self,
        rule: str,
        total: int,
        first: Iterable[Violation],
        table: TableKey | None = None,
        property_name: str | None = None,
    ) -> None:
        """`total` violations of a rule by one column; `first` yields the first ones, in order.

        Pass a lazy iterable, so that messages are made only for violations that are kept.
        """
        if total == 0:
            return
        self.tally[BrokenRule(rule, table.type_name if table else None, property_name)] += total
        self._keep(first)

    def merge(self, violations: Iterable[Violation], tally: Tally) -> None:
        """Add the violations of another report, for example of a partition checked by a worker."""
        self.tally.update(tally)
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
        if self.total:
            raise ValidationFailed(self.message(), **self.fields())

    def message(self) -> str:
        """The violation if there is one, else the counts by rule and column and the first one."""
        first = self.violations[0]
        if self.total == 1:
            return str(first)
        kinds = [f"{broken}: {count:,}" for broken, count in self._ranked()]
        shown = ", ".join(kinds[:_KINDS_IN_A_MESSAGE])
        more = len(kinds) - _KINDS_IN_A_MESSAGE
        others = f", {more} more" if more > 0 else ""
        return f"{self.total:,} violations ({shown}{others}); the first: {first}"

    def fields(self) -> dict[str, Any]:
        """The fields of `ValidationFailed`."""
        return {
            "violations": [violation.to_dict() for violation in self.violations],
            "total": self.total,
            "counts": dict(self.counts),
            "summary": [
                {
                    "rule": broken.rule,
                    "type": broken.type_name,
                    "property": broken.property,
                    "count": count,
                }
                for broken, count in self._ranked()
            ],
        }

    def _ranked(self) -> list[tuple[BrokenRule, int]]:
        """The most frequent first; the names decide between equals."""
        return sorted(self.tally.items(), key=lambda item: (-item[1], str(item[0])))
