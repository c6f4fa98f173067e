"""Typed expressions as Spark columns, with SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql import types as spark

from omnigraph.catalog.model import Catalog
from omnigraph.errors import EngineCannot
from omnigraph.execute.evaluation.expressions import Evaluator
from omnigraph.execute.views.frame import ONE_ROW
from omnigraph.ir import expressions as ex
from omnigraph.plan.analysis import may_fail
from omnigraph.spark.query.rows import EntityColumns, SparkColumn, SparkRows, shown_columns
from omnigraph.spark.query.spark_values import (
    WITH_CONSTANTS,
    TypedColumn,
    arithmetic,
    as_spark_type,
    call_local,
    call_scalar,
    comparable,
    literal,
    match_local,
    moment,
    negative,
)
from omnigraph.values.scalars import ListType


@dataclass(frozen=True, slots=True)
class Expressions:
    """Compiles the expressions of one query, whose parameters and moment are fixed."""

    scalars: Evaluator
    """Evaluates what does not depend on rows."""
    catalog: Catalog
    now_millis: int
    taken: SparkColumn | None = None
    """Inside a branch of a `case`: whether the row takes it."""

    def guarded(self, expression: ex.Expression, rows: SparkRows) -> SparkColumn:
        """A column that Spark does not move to an earlier place of its plan.

        An expression that can fail must not be evaluated for rows that another predicate drops.
        Spark moves expressions that it takes for deterministic, so this one is made random.
        """
        found = self.column(expression, rows)
        return F.when(F.rand(0) >= 0, found) if may_fail(expression) else found

    def column(self, expression: ex.Expression, rows: SparkRows) -> SparkColumn:  # noqa: C901
        match expression:
            case ex.PropertyOf(variable, name):
                bound = rows.bindings[variable.id]
                return F.col(bound.id if name == "id" else bound.properties[name])
            case ex.ColumnRef(name):
                return F.col(rows.outputs[name].column)
            case ex.Constant() | ex.ParameterRef():
                return literal(self.scalars.plain(expression), expression.type)
            case ex.Whole(variable, ex.WholeType() as kind):
                return entity_value(rows.bindings[variable.id], shown_columns(kind, self.catalog))
            case ex.Whole(variable):
                return F.col(rows.paths[variable.id])
            case ex.TypeName(variable):
                return rows.bindings[variable.id].type_name()
            case ex.Arithmetic(operator, left, right, kind):
                return arithmetic(operator, self.column(left, rows), self.column(right, rows), kind)
            case ex.Negative(operand, kind):
                return negative(self.column(operand, rows), kind)
            case ex.ListOf(items, kind):
                found = [self.column(item, rows) for item in items]
                return F.array(*found).cast(as_spark_type(kind))
            case ex.Case():
                return self._case(expression, rows)
            case ex.Function():
                return self._call(expression, rows)
            case _:
                return self._predicate(expression, rows)

    def _predicate(self, expression: ex.Expression, rows: SparkRows) -> SparkColumn:
        match expression:
            case ex.Matched(name):
                return F.col(name)
            case ex.Compare(operator, left, right):
                return self._compare(operator, left, right, rows)
            case ex.InList(operand, collection):
                return self._in_list(operand, collection, rows)
            case ex.IsNull(operand, negated):
                found = self._presence(operand, rows)
                return found.isNotNull() if negated else found.isNull()
            case ex.Not(operand):
                return ~self.column(operand, rows)
            case ex.And(operands):
                return self._connected(operands, rows, all_of=True)
            case ex.Or(operands):
                return self._connected(operands, rows, all_of=False)
            case ex.TextMatch(function, field, query, edits):
                wanted = self.scalars.scalar(query)
                text = self.column(field, rows)
                if wanted is None:
                    return F.lit(None).cast("boolean")
                allowed = None if edits is None else self.scalars.scalar(edits)
                return match_local(text, function, wanted, allowed)
            case _:
                raise EngineCannot.of("spark", type(expression).__name__)

    def _presence(self, operand: ex.Expression, rows: SparkRows) -> SparkColumn:
        """A column that is NULL exactly where the operand is."""
        if isinstance(operand, ex.Whole) and operand.variable.id in rows.bindings:
            return F.col(rows.bindings[operand.variable.id].id)
        return self.column(operand, rows)

    def _connected(
        self, operands: Sequence[ex.Expression], rows: SparkRows, *, all_of: bool
    ) -> SparkColumn:
        found = [self.column(operand, rows) for operand in operands]
        if any(map(may_fail, operands)):
            # In an array all operands are evaluated, so that no operand hides the error of another.
            hold = F.forall if all_of else F.exists
            return hold(F.array(*found), lambda each: each)
        return reduce((lambda a, b: a & b) if all_of else (lambda a, b: a | b), found)

    def _compare(
        self, operator: str, left: ex.Expression, right: ex.Expression, rows: SparkRows
    ) -> SparkColumn:
        a, b = self._alike(left, right, rows)
        match operator:
            case "contains" if as_spark_type(left.type).typeName() == "array":
                return F.array_contains(a, b)
            case "contains":
                return F.contains(a, b)
            case "starts_with":
                return F.startswith(a, b)
            case "=":
                return a == b
            case "!=":
                return a != b
            case "<":
                return a < b
            case "<=":
                return a <= b
            case ">":
                return a > b
            case _:
                return a >= b

    def _alike(
        self, left: ex.Expression, right: ex.Expression, rows: SparkRows
    ) -> tuple[SparkColumn, SparkColumn]:
        """Both sides in types that compare. An empty list gets the type of the other side."""
        if isinstance(right, ex.Constant) and right.value == ():
            element = as_spark_type(left.type)
            kind = element if isinstance(left.type, ListType) else spark.ArrayType(element)
            return self.column(left, rows), F.array().cast(kind)
        return comparable(self.column(left, rows), left.type, self.column(right, rows), right.type)

    def _in_list(
        self, operand: ex.Expression, collection: ex.Expression, rows: SparkRows
    ) -> SparkColumn:
        value, items = self._alike(operand, collection, rows)
        return F.array_contains(items, value)

    def _case(self, case: ex.Case, rows: SparkRows) -> SparkColumn:
        kind = as_spark_type(case.type)
        left = F.lit(True) if self.taken is None else self.taken
        values: Any = F
        for branch in case.branches:
            condition = replace(self, taken=left).column(branch.condition, rows).cast("boolean")
            holds = F.coalesce(condition, F.lit(False))
            value = replace(self, taken=left & holds).column(branch.value, rows)
            values = values.when(holds, value.cast(kind))
            left = left & ~holds
        otherwise = replace(self, taken=left).column(case.otherwise, rows)
        found: SparkColumn = values.otherwise(otherwise.cast(kind))
        return found

    def _call(self, call: ex.Function, rows: SparkRows) -> SparkColumn:
        if call.name == "now":
            return moment(self.now_millis)
        typed = [self._argument(argument, call, rows) for argument in call.arguments]
        if call.name in WITH_CONSTANTS:
            constants = [self.scalars.value(argument, ONE_ROW) for argument in call.arguments[1:]]
            return call_local(call.name, typed[:1], call.type, constants)
        return call_scalar(call.name, typed, call.type)

    def _argument(self, argument: ex.Expression, call: ex.Function, rows: SparkRows) -> TypedColumn:
        column = self.column(argument, rows)
        if self.taken is not None and may_fail(call):
            # Spark calls the local kernel for all rows. It gets NULL for those of other branches.
            column = F.when(self.taken, column)
        return TypedColumn(column, argument.type)


def entity_value(bound: EntityColumns, shown: Sequence[str]) -> SparkColumn:
    """A whole node or edge as a struct: `id`, type, then the rest.

    With `id` and type first it sorts and groups as an entity does.
    """
    stored: dict[str, Any] = {"id": bound.id, **bound.properties}
    fields = [F.col(bound.id), bound.type_name(), *(F.col(stored[name]) for name in shown[1:])]
    named = [field.alias(f"f{number}") for number, field in enumerate(fields)]
    return F.when(F.col(bound.id).isNotNull(), F.struct(*named))
