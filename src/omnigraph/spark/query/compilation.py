"""What every operator needs to become DataFrames: one per run of one query."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.spark.query.expressions import Expressions
from omnigraph.spark.query.graph_tables import GraphTables
from omnigraph.spark.query.rows import Frame


@dataclass(frozen=True, slots=True)
class Compilation:
    """The tables, the expressions, and the frames kept until the answer is there."""

    tables: GraphTables
    expressions: Expressions
    kept: list[Frame] = field(default_factory=list)

    def keep(self, frame: Frame) -> Frame:
        """Rows that several steps read, computed once; lost ones are computed again."""
        self.kept.append(frame.persist())
        return self.kept[-1]

    def release(self) -> None:
        while self.kept:
            self.kept.pop().unpersist()
