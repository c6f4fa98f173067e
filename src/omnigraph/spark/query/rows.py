"""Rows in flight: a DataFrame, and which of its columns hold what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.ir.expressions import Variable

Frame = Any
"""A `pyspark.sql.DataFrame`, classic or Connect."""

SparkColumn = Any
"""A `pyspark.sql.Column`."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The columns of one variable: NULL everywhere where an optional block found nothing."""

    types: tuple[str, ...]
    id: str
    type: str | None
    """Only with several types; ids are unique within one."""
    properties: Mapping[str, str]

    @property
    def identity(self) -> list[str]:
        return [self.id] if self.type is None else [self.id, self.type]

    @property
    def columns(self) -> list[str]:
        return [*self.identity, *self.properties.values()]

    def type_name(self) -> SparkColumn:
        if self.type is not None:
            return F.col(self.type)
        return F.when(F.col(self.id).isNotNull(), F.lit(self.types[0]))


@dataclass(frozen=True, slots=True)
class Output:
    """A named result: the column that holds it and the Arrow type the caller gets."""

    column: str
    arrow: pa.DataType


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Variables while matching; named results after a Project or Aggregate."""

    frame: Frame
    bindings: Mapping[int, Bound] = field(default_factory=dict)
    paths: Mapping[int, str] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    weight: str | None = None
    """How many equal rows each row stands for; None is one each."""
    at_most: int | None = None
    """So many rows at the very most, where that is certain."""
    is_unit: bool = False
    """The one row every query begins with, untouched: a product with it changes nothing."""

    def on(self, frame: Frame, at_most: int | None = None) -> SparkRows:
        """The same columns, other rows."""
        return replace(self, frame=frame, at_most=at_most, is_unit=False)

    def where(self, condition: SparkColumn) -> SparkRows:
        """Rows for which the condition is true; unknown is not true."""
        return replace(self, frame=self.frame.where(condition.cast("boolean")), is_unit=False)

    def bind(self, variable: Variable, bound: Bound, frame: Frame) -> SparkRows:
        bindings = {**self.bindings, variable.id: bound}
        return replace(self, frame=frame, bindings=bindings, at_most=None, is_unit=False)
