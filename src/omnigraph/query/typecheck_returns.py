"""Checks the result of a read: columns, condition, order, limit and offset."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import Column, SortKey
from omnigraph.ir.walk import walk
from omnigraph.query import ast, codes
from omnigraph.query.conversions import is_integer, is_orderable
from omnigraph.query.format import format_expression
from omnigraph.query.rankings import FuseSpec, Rankings
from omnigraph.query.scope import Scope
from omnigraph.query.typecheck_expressions import ExpressionChecker
from omnigraph.syntax.source_text import Span
from omnigraph.values.known_names import did_you_mean


@dataclass(frozen=True, slots=True)
class LocatedExpression:
    """A typed expression and its place in the text."""

    value: ex.Expression
    span: Span


@dataclass(frozen=True, slots=True)
class LocatedKey:
    """A sort key and its place in the text."""

    key: SortKey
    span: Span


@dataclass(frozen=True, slots=True)
class Returned:
    """The typed result of a read. Aggregates are still inside expressions; `lower` splits them."""

    columns: tuple[Column, ...]
    spans: tuple[Span, ...]
    distinct: bool
    having: LocatedExpression | None
    order: tuple[LocatedKey, ...]
    limit: ex.Expression | None
    offset: ex.Expression | None
    rankings: Rankings
    # The slot that the result is ordered by; rows without a score there are not returned.
    required: frozenset[str]

    @property
    def aggregated(self) -> bool:
        """The result is grouped: an aggregate occurs in a column, the condition or the order."""
        values = [column.value for column in self.columns]
        values += [self.having.value] if self.having else []
        values += [ordering.key.value for ordering in self.order]
        return any(contains_aggregate(value) for value in values)


def contains_aggregate(expression: ex.Expression) -> bool:
    return any(isinstance(node, ex.AggregateCall) for node in walk(expression))


def check_return(read: ast.ReadBody, scope: Scope) -> Returned | None:
    """The typed result; None when errors have been reported."""
    errors = len(scope.found)
    returned = _ReturnChecker(read, scope).check()
    return returned if len(scope.found) == errors else None


class _ReturnChecker:
    def __init__(self, read: ast.ReadBody, scope: Scope) -> None:
        self._read = read
        self._found = scope.found
        self._rankings = Rankings()
        self._projected = ExpressionChecker(scope, self._rankings.check_call)
        self._later = ExpressionChecker(scope, self._rankings.check_call, self._column)
        self._columns: dict[str, Column] = {}
        self._aliases: set[str] = set()

    def check(self) -> Returned:
        spans = [self._project(projection) for projection in self._read.projections]
        having = self._having(self._read.having)
        order = [self._order(ordering) for ordering in self._read.order]
        limit = self._amount(self._read.limit, "limit")
        offset = self._amount(self._read.offset, "offset")
        self._check_limits()
        keys = tuple(key for key in order if key is not None)
        first = keys[0].key.value if keys else None
        required = {first.slot} if isinstance(first, ex.ScoreRef) else set()
        return Returned(
            tuple(self._columns.values()),
            tuple(span for span in spans if span is not None),
            self._read.distinct,
            having,
            keys,
            limit,
            offset,
            self._rankings,
            frozenset(required),
        )

    def _project(self, projection: ast.Projection) -> Span | None:
        value = self._projected.check(projection.value)
        name = projection.alias.text if projection.alias else column_name(projection.value)
        if projection.alias:
            self._aliases.add(name)
        if value is None:
            return None
        self._check_nested(value, projection.span)
        if name in self._columns:
            self._found.error(
                codes.DUPLICATE,
                f"two columns are called '{name}'",
                projection.span,
                "name one of them with `as`",
            )
            return None
        if isinstance(value.type, ex.NullType):
            value = ex.Constant(None, ex.STRING, nullable=True)
        self._columns[name] = Column(name, value)
        return projection.span

    def _column(self, ref: ast.NameExpr) -> ex.Expression | None:
        column = self._columns.get(ref.name)
        if column is not None:
            return column.value
        if ref.name not in self._aliases:
            self._found.error(
                codes.UNBOUND,
                f"there is no column '{ref.name}'",
                ref.span,
                did_you_mean(ref.name, self._columns),
            )
        return None

    def _having(self, written: ast.Expr | None) -> LocatedExpression | None:
        if written is None:
            return None
        value = self._later.check_predicate(written)
        if value is None:
            return None
        self._check_nested(value, written.span)
        return LocatedExpression(value, written.span)

    def _order(self, ordering: ast.Ordering) -> LocatedKey | None:
        value = self._later.check(ordering.value)
        if value is None:
            return None
        self._check_nested(value, ordering.span)
        if isinstance(value, ex.ScoreRef):
            return LocatedKey(self._score_order(value, ordering), ordering.span)
        if not is_orderable(value.type):
            self._found.error(
                codes.OPERAND_TYPES,
                f"{format_expression(ordering.value)} is {value.type} and has no order",
                ordering.span,
                "order by one of its properties" if isinstance(value.type, ex.WholeType) else None,
            )
            return None
        return LocatedKey(SortKey(value, bool(ordering.descending)), ordering.span)

    def _score_order(self, score: ex.ScoreRef, ordering: ast.Ordering) -> SortKey:
        """The best first unless the query says otherwise: small distances, large scores."""
        is_distance = self._rankings.specs[score.slot].function == "nearest"
        if is_distance and ordering.descending:
            self._found.error(
                codes.HOPS_OR_NEAREST,
                "nearest orders from near to far only",
                ordering.span,
                "leave out `desc`",
            )
        descending = ordering.descending if ordering.descending is not None else not is_distance
        return SortKey(score, descending, nulls_last=True)

    def _check_nested(self, value: ex.Expression, span: Span) -> None:
        for node in walk(value):
            if (
                isinstance(node, ex.AggregateCall)
                and node.operand is not None
                and contains_aggregate(node.operand)
            ):
                self._found.error(
                    codes.SHAPE, "an aggregate of an aggregate has no groups to work on", span
                )
                return

    def _amount(self, written: ast.Expr | None, what: str) -> ex.Expression | None:
        if written is None:
            return None
        value = self._projected.check(written)
        if value is None:
            return None
        is_count = isinstance(value, (ex.Constant, ex.ParameterRef)) and is_integer(value.type)
        if not is_count:
            self._found.error(
                codes.OPERAND_TYPES,
                f"{what} is a whole number or an integer parameter, not {value.type}",
                written.span,
            )
            return None
        return value

    def _check_limits(self) -> None:
        if self._read.limit is not None:
            return
        for ordering in self._read.order:
            for function in self._rankings_in(ordering.value):
                if function in ("nearest", "rrf"):
                    self._found.error(
                        codes.NEAREST_LIMIT if function == "nearest" else codes.RRF_LIMIT,
                        f"ordering by {function} needs a limit",
                        ordering.span,
                        "say how many rows are wanted: `limit 10`",
                    )

    def _rankings_in(self, written: ast.Expr) -> set[str]:
        """The ranking functions that an ordering sorts by, also through an alias."""
        quiet = len(self._found)
        value = self._later.check(written)
        del self._found[quiet:]
        if value is None:
            return set()
        specs = self._rankings.specs
        slots = [node.slot for node in walk(value) if isinstance(node, ex.ScoreRef)]
        return {"rrf" if isinstance(specs[s], FuseSpec) else specs[s].function for s in slots}


def column_name(value: ast.Expr) -> str:
    """`x.prop` for `$x.prop`, `x` for `$x`, else the expression as written, spaces normalised."""
    match value:
        case ast.PropertyExpr(variable, name):
            return f"{variable.text}.{name.text}"
        case ast.VariableExpr(name):
            return name
        case _:
            return format_expression(value)
