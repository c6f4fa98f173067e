"""Which columns a query reads of each variable, and which columns of a DataFrame hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.catalog.model import Catalog
from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import children
from omnigraph.plan.physical import Find, LookUp
from omnigraph.values.scalars import BlobType, VectorType

Frame = Any
"""A `pyspark.sql.DataFrame`, classic or Connect."""

SparkColumn = Any
"""A `pyspark.sql.Column`."""

_SYSTEM = {ex.VariableKind.NODE: (), ex.VariableKind.EDGE: ("src", "dst")}


@dataclass(frozen=True, slots=True)
class EntityColumns:
    """The columns of one variable. All are NULL where an optional block found nothing."""

    types: tuple[str, ...]
    id: str
    type: str | None
    """The column of the type name; None with one type, because ids are unique within a type."""
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
    """A named result: the column that holds it and the Arrow type that the caller gets."""

    column: str
    arrow: pa.DataType


@dataclass(frozen=True, slots=True)
class SparkRows:
    """A DataFrame with the meaning of its columns.

    While a pattern is matched these are variables and paths. After a Project or an Aggregate they
    are named results.
    """

    frame: Frame
    bindings: Mapping[int, EntityColumns] = field(default_factory=dict)
    paths: Mapping[int, str] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    weight: str | None = None
    """The column that says how many equal rows each row stands for; None is one each."""
    at_most: int | None = None
    """An upper bound of the number of rows; None when it is unknown."""
    is_unit: bool = False
    """True for the single row that every query begins with: a product with it changes nothing."""
    every: ex.Variable | None = None
    """Set while the rows stand for all nodes of this variable and its table is not read.

    A hop from there needs no table of nodes, because the edges name all nodes that have one.
    """

    def on(self, frame: Frame, at_most: int | None = None) -> SparkRows:
        """The same columns, other rows."""
        return replace(self, frame=frame, at_most=at_most, is_unit=False)

    def where(self, condition: SparkColumn) -> SparkRows:
        """Rows for which the condition is true; unknown is not true."""
        return replace(self, frame=self.frame.where(condition.cast("boolean")), is_unit=False)

    def bind(self, variable: ex.Variable, columns: EntityColumns, frame: Frame) -> SparkRows:
        bindings = {**self.bindings, variable.id: columns}
        return replace(self, frame=frame, bindings=bindings, is_unit=False, every=None)

    def once(self) -> SparkRows:
        """Each combination of entities and paths once. Weighed rows must not come here."""
        names = [name for bound in self.bindings.values() for name in bound.identity]
        return self.on(self.frame.dropDuplicates([*names, *self.paths.values()]))


@dataclass(frozen=True, slots=True)
class NeededColumns:
    """The stored columns that a query reads, by variable. `id` is always read and not listed."""

    by_variable: Mapping[int, frozenset[str]]
    later: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Columns that are joined when only the rows of a limit are left."""

    def of(self, variable: ex.Variable, prefix: str) -> dict[str, str]:
        """The name of a column in a DataFrame, by the name in storage."""
        later = self.later.get(variable.id, frozenset())
        names = sorted(self.by_variable.get(variable.id, ()))
        return {
            name: f"{prefix}_{number}" for number, name in enumerate(names) if name not in later
        }

    def below(self, op: Any, variables: Iterable[ex.Variable], catalog: Catalog) -> NeededColumns:
        """The columns that `op` and the operators below it read; the others come later.

        Only columns of `variables` can come later.
        """
        now = needed_columns(op, catalog).by_variable
        later = {
            v.id: self.by_variable[v.id] - now.get(v.id, frozenset())
            for v in variables
            if v.id in self.by_variable
        }
        return replace(self, later={number: names for number, names in later.items() if names})


def needed_columns(plan: Any, catalog: Catalog) -> NeededColumns:
    found: dict[int, set[str]] = {}
    _collect(plan, catalog, found)
    return NeededColumns({variable: frozenset(names) for variable, names in found.items()})


def reads_names(plan: Any) -> bool:
    """Whether an operator reads an id, or an end of an edge, as text."""
    match plan:
        case ex.PropertyOf(_, "id" | "src" | "dst") | ex.Whole() | ex.KeyText():
            return True
        case ex.AggregateCall("count", ex.Whole()) | ex.IsNull(ex.Whole()):
            return False
        case reads.Expand(mode=reads.ExpandMode.TRAILS | reads.ExpandMode.SHORTEST):
            return True
        case _:
            return any(map(reads_names, children(plan)))


def shown_columns(kind: ex.WholeType, catalog: Catalog) -> list[str]:
    """The columns of an entity that is returned whole: all but blobs and vectors, `id` first."""
    names = [
        p.name
        for type_name in kind.types
        for p in catalog.resolve(type_name).properties
        if not isinstance(p.type, BlobType | VectorType)
    ]
    return list(dict.fromkeys(("id", *_SYSTEM[kind.kind], *names)))


def _collect(node: Any, catalog: Catalog, found: dict[int, set[str]]) -> None:
    match node:
        case ex.PropertyOf(variable, name):
            found.setdefault(variable.id, set()).update({name} - {"id"})
        case ex.AggregateCall("count", ex.Whole()) | ex.IsNull(ex.Whole()):
            return  # these need the identity of the entity only
        case ex.Whole(variable, ex.WholeType() as kind):
            names = set(shown_columns(kind, catalog)) - {"id"}
            found.setdefault(variable.id, set()).update(names)
        case Find(variable=variable, look_up=LookUp(property=name)):
            found.setdefault(variable.id, set()).update({name} - {"id"})
            for part in _parts(node):
                _collect(part, catalog, found)
        case _:
            for part in _parts(node):
                _collect(part, catalog, found)


def _parts(node: Any) -> Iterator[Any]:
    """The nodes inside this one, physical operators included."""
    for each in fields(node):
        value = getattr(node, each.name)
        for item in value if isinstance(value, tuple) else (value,):
            if is_dataclass(item):
                yield item
