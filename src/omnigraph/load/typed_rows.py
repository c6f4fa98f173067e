"""What every parser yields: rows of one type with their places, and what it could not read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.arrow_schema import table_schema
from omnigraph.catalog.model import EntityType

Lines = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that says something no row can hold."""

    rule: str
    line: int
    message: str
    entity: EntityType | None = None
    property: str | None = None


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Rows of one type: every column of `raw_schema`, and the line of each row."""

    entity: EntityType
    table: pa.Table
    lines: Lines


@dataclass(frozen=True, slots=True)
class Parsed:
    """One block of one file. Rows of one type may come in several parts, in any order."""

    file: str
    rows: tuple[TypedRows, ...] = ()
    problems: tuple[Problem, ...] = ()
    bytes_read: int = 0


Blocks = Iterator[Parsed]


@dataclass(slots=True)
class Collected:
    """Rows and problems of a block while it is parsed."""

    rows: list[TypedRows] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def parsed(self, file: str, bytes_read: int) -> Parsed:
        ordered = sorted(self.problems, key=lambda p: p.line)
        return Parsed(file, tuple(self.rows), tuple(ordered), bytes_read)


def raw_schema(entity: EntityType) -> pa.Schema:
    """The table's columns, all nullable: what is missing is found by the rules, not by Arrow.

    A null `id` means that none was given.
    """
    return pa.schema([field.with_nullable(True) for field in table_schema(entity)])
