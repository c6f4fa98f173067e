"""Typed expressions over the rows of a frame: Arrow arrays, with the three-valued logic of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.execute.evaluation.arrow_functions import (
    any_equal,
    arithmetic,
    as_arrow_type,
    as_type,
    call_function,
    comparable,
    contains,
    gather,
    membership,
    spread,
    truths,
)
from omnigraph.execute.evaluation.ranked_search import match_column, match_text
from omnigraph.execute.evaluation.storage_reads import few_values
from omnigraph.execute.topology.id_changes import MISSING
from omnigraph.execute.views.entity_view import EntityView, TableView
from omnigraph.execute.views.frame import Frame
from omnigraph.ir import expressions as ex
from omnigraph.ir.expressions import Variable
from omnigraph.plan.analysis import may_fail
from omnigraph.values.entity_ids import canonical_text

_EDGE_NAMES = {"src": "from", "dst": "to"}
_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Evaluator:
    """Evaluates the expressions of one run, with its parameters and its time."""

    def __init__(self, parameters: Mapping[str, Any], now_millis: int) -> None:
        self._parameters = parameters
        self._now = now_millis

    def array(self, expression: ex.Expression, frame: Frame) -> pa.Array:
        """One value for each row."""
        return spread(self.value(expression, frame), frame.length)

    def mask(self, predicate: ex.Expression, frame: Frame) -> npt.NDArray[np.bool_]:
        """Which rows make the predicate true. NULL is not true."""
        found = self.value(predicate, frame)
        if isinstance(found, pa.Scalar):
            return np.full(frame.length, found.as_py() is True)
        if isinstance(found, pa.BooleanArray) and len(found):
            return truths(found)
        return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), bool)

    def plain(self, expression: ex.Constant | ex.ParameterRef) -> Any:
        """The Python value of a literal or parameter."""
        if isinstance(expression, ex.Constant):
            return expression.value
        return self._parameters.get(expression.name)

    def scalar(self, expression: ex.Expression) -> Any:
        """A value that does not depend on rows."""
        if isinstance(expression, ex.Constant | ex.ParameterRef):
            plain = self.plain(expression)
            if type(plain) in (str, int):  # of its type already: Arrow would give it back
                return plain
        found = self.value(expression, Frame(1))
        return found.as_py() if isinstance(found, pa.Scalar) else found[0].as_py()

    def _edits(self, edits: ex.Expression | None) -> int | None:
        return None if edits is None else self.scalar(edits)

    def value(self, expression: ex.Expression, frame: Frame) -> Any:  # noqa: C901, PLR0912
        match expression:
            case ex.PropertyOf(variable, name):
                return property_values(frame, variable, name)
            case ex.ColumnRef(name) | ex.Matched(name):
                return frame.columns[name]
            case ex.Constant(value, kind):
                return pa.scalar(_plain(value), as_arrow_type(kind))
            case ex.ParameterRef(name, kind):
                return pa.scalar(_plain(self._parameters.get(name)), as_arrow_type(kind))
            case ex.Whole(variable):
                return entity_objects(frame, variable)
            case ex.TypeName(variable):
                return _type_names(frame, variable)
            case ex.ScoreRef(slot):
                scores = frame.scores[slot]
                return pa.array(scores, mask=np.isnan(scores))
            case ex.Arithmetic(operator, left, right, kind):
                operands = self.value(left, frame), self.value(right, frame)
                return arithmetic(operator, *operands, as_arrow_type(kind))
            case ex.Negative(operand, kind):
                zero = pa.scalar(0, as_arrow_type(kind))
                return arithmetic("-", zero, self.value(operand, frame), as_arrow_type(kind))
            case ex.Compare(operator, left, right):
                return self._compare(operator, left, right, frame)
            case ex.InList(operand, collection):
                return self._in_list(operand, collection, frame)
            case ex.ListOf(items, kind):
                return _lists([self.array(i, frame) for i in items], kind)
            case ex.IsNull(operand, negated):
                return self._is_null(operand, frame, negated=negated)
            case ex.Not(operand):
                return pc.invert(self.value(operand, frame))
            case ex.And(operands):
                return reduce(pc.and_kleene, (self.value(o, frame) for o in operands))
            case ex.Or(operands):
                return reduce(pc.or_kleene, (self.value(o, frame) for o in operands))
            case ex.Case():
                return self._case(expression, frame)
            case ex.Function("now"):
                return pa.scalar(self._now, pa.timestamp("ms"))
            case ex.Function("length", (ex.Whole(variable),)) if variable.id in frame.paths:
                ids = pc.list_value_length(frame.paths[variable.id].ids)
                return pc.divide(ids.cast(pa.int64()), 2)
            case ex.Function(name, arguments, kind):
                values = [self.value(a, frame) for a in arguments]
                return call_function(name, values, as_arrow_type(kind))
            case ex.Convert(operand, kind):
                return _convert(self.value(operand, frame), kind)
            case ex.TextMatch(function, ex.PropertyOf(variable, name), query, edits):
                binding = frame.bindings[variable.id]
                return match_text(binding, name, function, self.scalar(query), self._edits(edits))
            case ex.TextMatch(function, ex.ColumnRef(name), query, edits):
                texts = frame.columns[name]
                return match_column(texts, function, self.scalar(query), self._edits(edits))
            case ex.KeyText(operand):
                texts = [
                    None if v is None else canonical_text(v)
                    for v in self.array(operand, frame).to_pylist()
                ]
                return pa.array(texts, pa.string())
            case _:
                raise InvalidArgument(f"{type(expression).__name__} cannot be evaluated for rows")

    def _case(self, case: ex.Case, frame: Frame) -> pa.Array:
        if may_fail(case):
            return self._case_by_branch(case, frame)
        conditions = [
            self.array(branch.condition, frame).cast(pa.bool_()) for branch in case.branches
        ]
        values = [*(branch.value for branch in case.branches), case.otherwise]
        return pc.case_when(
            pa.StructArray.from_arrays(conditions, [str(n) for n in range(len(conditions))]),
            *(_convert(self.value(value, frame), case.type) for value in values),
        )

    def _case_by_branch(self, case: ex.Case, frame: Frame) -> pa.Array:
        """Each branch sees only the rows that take it, because it may fail on the others."""
        parts: list[pa.Array] = []
        taken: list[npt.NDArray[np.int64]] = []
        left, rows = frame, np.arange(frame.length)
        last = ex.CaseWhen(ex.Constant(True, ex.BOOL), case.otherwise)
        for branch in (*case.branches, last):
            if not left.length:
                break
            mask = self.mask(branch.condition, left)
            if mask.any():
                parts.append(_convert(self.array(branch.value, left.keep(mask)), case.type))
                taken.append(rows[mask])
            left, rows = left.keep(~mask), rows[~mask]
        if len(parts) < 2:
            return parts[0] if parts else pa.array([], as_arrow_type(case.type))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(taken))))

    def _compare(
        self, operator: str, left: ex.Expression, right: ex.Expression, frame: Frame
    ) -> Any:
        if isinstance(left, ex.Whole) and isinstance(right, ex.Whole):
            if left.variable.id in frame.paths:
                return _same_path(operator, left.variable, right.variable, frame)
            return _same_entity(operator, left.variable, right.variable, frame)
        a, b = self.value(left, frame), self.value(right, frame)
        if operator == "contains":
            return contains(a, b)
        if operator == "starts_with":
            return _starts_with(a, b)
        if pa.types.is_nested(a.type):
            return _compare_lists(operator, spread(a, frame.length), spread(b, frame.length))
        return _COMPARE[operator](*comparable(a, b))

    def _in_list(self, operand: ex.Expression, collection: ex.Expression, frame: Frame) -> Any:
        wanted, lists = self.value(operand, frame), self.value(collection, frame)
        if isinstance(lists, pa.Scalar):
            return membership(wanted, lists)
        return any_equal(lists, spread(wanted, frame.length))

    def _is_null(self, operand: ex.Expression, frame: Frame, *, negated: bool) -> Any:
        if isinstance(operand, ex.Whole):
            variable = operand.variable.id
            if variable in frame.paths:
                ids = frame.paths[variable].ids
                return ids.is_valid() if negated else ids.is_null()
            missing = frame.bindings[variable].positions == MISSING
            return pa.array(~missing if negated else missing)
        value = self.value(operand, frame)
        return pc.is_valid(value) if negated else pc.is_null(value)


def property_values(frame: Frame, variable: ex.Variable, name: str) -> pa.Array:
    """A stored column of the bound entities; NULL where no entity is bound."""
    binding = frame.bindings[variable.id]
    view, positions = binding.view, binding.positions
    if isinstance(view, TableView) and name not in view.content.columns:
        few = few_values(view, name, positions)
        if few is not None:
            return few
    column = view.column(name)
    if positions is view.all_positions:
        return column
    if binding.optional:
        return column.take(pa.array(positions, mask=positions == MISSING))
    return gather(column, positions)


def entity_objects(frame: Frame, variable: Variable) -> pa.Array:
    """Whole entities as structs, without blobs and vectors; a path as the list of its ids."""
    if variable.id in frame.paths:
        return frame.paths[variable.id].ids
    binding = frame.bindings[variable.id]
    distinct, rows = np.unique(binding.positions, return_inverse=True)
    objects = _objects(binding.view, distinct)
    return objects.take(pa.array(rows))


def _objects(view: EntityView, positions: Any) -> pa.Array:
    tables = view.tables
    names = list(dict.fromkeys(n for t in tables for n in t.plain_columns))
    missing = pa.array(positions, mask=positions == MISSING)
    arrays = [_column(view, tables, name).take(missing) for name in names]
    labels = [_EDGE_NAMES.get(name, name) for name in names]
    mask = pa.array(positions == MISSING)
    return pa.StructArray.from_arrays(arrays, labels, mask=mask)


def _column(view: EntityView, tables: tuple[TableView, ...], name: str) -> pa.Array:
    if len(tables) == 1:
        return view.column(name)
    kind = next(t.column(name).type for t in tables if name in t.plain_columns)
    return pa.concat_arrays(
        [t.column(name) if name in t.plain_columns else pa.nulls(t.count, kind) for t in tables]
    )


def _type_names(frame: Frame, variable: ex.Variable) -> pa.Array:
    binding = frame.bindings[variable.id]
    codes = binding.view.type_codes(binding.positions)
    names = pa.array(binding.view.types)
    return names.take(pa.array(codes, mask=binding.positions == MISSING))


def _same_path(operator: str, left: ex.Variable, right: ex.Variable, frame: Frame) -> pa.Array:
    paths = (frame.paths[v.id].ids.to_pylist() for v in (left, right))
    pairs = zip(*paths, strict=True)
    same = [None if a is None or b is None else (a == b) == (operator == "=") for a, b in pairs]
    return pa.array(same, pa.bool_())


def _same_entity(operator: str, left: ex.Variable, right: ex.Variable, frame: Frame) -> pa.Array:
    a, b = frame.bindings[left.id], frame.bindings[right.id]
    unknown = (a.positions == MISSING) | (b.positions == MISSING)
    if a.view is b.view:
        same = a.positions == b.positions
    else:
        # The views differ, so compare the type and the id.
        first, second = (
            [
                (t, i)
                for t, i in zip(
                    _type_names(frame, v).to_pylist(),
                    property_values(frame, v, "id").to_pylist(),
                    strict=True,
                )
            ]
            for v in (left, right)
        )
        same = np.array([x == y for x, y in zip(first, second, strict=True)], dtype=bool)
    return pa.array(same if operator == "=" else ~same, mask=unknown)


def _compare_lists(operator: str, a: pa.Array, b: pa.Array) -> pa.Array:
    pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
    same = [None if x is None or y is None else x == y for x, y in pairs]
    found = pa.array(same, pa.bool_())
    return found if operator == "=" else pc.invert(found)


def _starts_with(text: Any, prefix: Any) -> Any:
    if isinstance(prefix, pa.Scalar) and prefix.is_valid:
        return pc.starts_with(text, pattern=prefix.as_py())
    size = len(text) if isinstance(text, pa.Array) else len(prefix)
    pairs = zip(spread(text, size).to_pylist(), spread(prefix, size).to_pylist(), strict=True)
    found = [None if t is None or p is None else t.startswith(p) for t, p in pairs]
    return pa.array(found, pa.bool_())


def _lists(items: list[pa.Array], kind: ex.ExpressionType) -> pa.Array:
    target = as_arrow_type(kind)
    try:
        fitted = [as_type(item, target.value_type) for item in items]
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"a value does not fit {kind}: {error}") from error
    rows = zip(*(item.to_pylist() for item in fitted), strict=True)
    return pa.array([list(row) for row in rows], target)


def _convert(value: Any, kind: ex.ExpressionType) -> Any:
    target = as_arrow_type(kind)
    try:
        return as_type(value, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"a value does not fit {kind}: {error}") from error


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
