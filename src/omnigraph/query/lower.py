"""From typed match blocks and returns to read operators.

The order of the operators follows the query text, as far as their inputs are bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.walk import conjuncts_of, map_children, variables_in
from omnigraph.query import codes
from omnigraph.query.rankings import FuseSpec
from omnigraph.query.scope import Scope
from omnigraph.query.typecheck_patterns import Pattern, TypedHop, mentioned
from omnigraph.query.typecheck_returns import Returned, contains_aggregate
from omnigraph.syntax.diagnostics import Diagnostics
from omnigraph.syntax.source_text import Span


def lower_pattern(pattern: Pattern) -> reads.ReadOp:
    """The operators of a whole match block."""
    return _Lowering(reads.Rows(), {}).lower(pattern)


@dataclass
class _Lowering:
    """Lowers one block in the order of the text; the planner chooses a better order later."""

    rows: reads.ReadOp
    bound: dict[int, ex.Variable]

    def lower(self, pattern: Pattern) -> reads.ReadOp:
        hops = list(pattern.hops)
        tests, filters = _tests_apart(pattern)
        filters = self._filter(filters)
        while hop := self._next_hop(hops, pattern):
            filters = self._filter(filters)
            self._expand(hop)
            hops.remove(hop)
            filters = self._filter(filters)
        for node in pattern.nodes:
            if node.id not in self.bound:
                self._scan(node)
                filters = self._filter(filters)
        for optional in pattern.optionals:
            introduced = optional.introduced()
            self.rows = reads.Optional(self.rows, self._sub_pattern(optional), introduced)
            self.bound |= {variable.id: variable for variable in introduced}
            filters = self._filter(filters)
        for predicate in tests:
            self._test(predicate, pattern)
        for negation in pattern.negations:
            self.rows = reads.AntiJoin(self.rows, self._sub_pattern(negation))
        return self.rows

    def _next_hop(self, hops: list[TypedHop], pattern: Pattern) -> TypedHop | None:
        """The first hop with a bound end. If there is none, a node is scanned to start one."""
        if not hops:
            return None
        connected = next((hop for hop in hops if self._can_expand(hop)), None)
        if connected is not None:
            return connected
        in_hops = {hop.source.id for hop in hops} | {hop.target.id for hop in hops}
        start = next(
            (n for n in pattern.nodes if n.id not in self.bound and n.id in in_hops),
            hops[0].source,
        )
        usable = start if self._starts_a_hop(start, hops) else hops[0].source
        self._scan(usable)
        return next(hop for hop in hops if self._can_expand(hop))

    def _starts_a_hop(self, node: ex.Variable, hops: list[TypedHop]) -> bool:
        return any(
            hop.source.id == node.id
            or (hop.target.id == node.id and hop.mode is reads.ExpandMode.EDGE)
            for hop in hops
        )

    def _can_expand(self, hop: TypedHop) -> bool:
        if hop.source.id in self.bound:
            return True
        # Hops are counted from the source, so only a single hop can be followed backwards.
        return hop.target.id in self.bound and hop.mode is reads.ExpandMode.EDGE

    def _expand(self, hop: TypedHop) -> None:
        source, target, steps = hop.source, hop.target, hop.steps
        if source.id not in self.bound:
            source, target = target, source
            steps = tuple(replace(s, direction=s.direction.reversed) for s in steps)
        self.rows = reads.Expand(
            self.rows,
            source,
            steps,
            target,
            hop.mode,
            hop.hops,
            target.id in self.bound,
            hop.edge,
            hop.path,
        )
        for variable in (target, hop.edge, hop.path):
            if variable is not None:
                self.bound[variable.id] = variable

    def _scan(self, node: ex.Variable) -> None:
        self.rows = reads.NodeScan(self.rows, node)
        self.bound[node.id] = node

    def _filter(self, filters: list[ex.Expression]) -> list[ex.Expression]:
        """Apply the filters whose variables are bound; return the others."""
        waiting = []
        for predicate in filters:
            if variables_in([predicate]) <= self.bound.keys():
                self.rows = reads.Filter(self.rows, predicate)
            else:
                waiting.append(predicate)
        return waiting

    def _test(self, predicate: ex.Expression, pattern: Pattern) -> None:
        """Apply a filter with `exists { … }`."""
        tested = tuple(
            reads.NamedPattern(block.name, self._sub_pattern(block.pattern))
            for block in pattern.blocks_in(predicate)
        )
        match predicate:
            case ex.Matched():
                self.rows = reads.SemiJoin(self.rows, tested[0].pattern)
            case ex.Not(ex.Matched()):
                self.rows = reads.AntiJoin(self.rows, tested[0].pattern)
            case _:
                self.rows = reads.ExistsFilter(self.rows, tested, predicate)

    def _sub_pattern(self, pattern: Pattern) -> reads.ReadOp:
        shared = sorted(mentioned(pattern) & self.bound.keys())
        given = tuple(self.bound[identity] for identity in shared)
        start = reads.Rows(given)
        return _Lowering(start, {variable.id: variable for variable in given}).lower(pattern)


def _tests_apart(pattern: Pattern) -> tuple[list[ex.Expression], list[ex.Expression]]:
    """The conjuncts with `exists { … }`, which are tested after all others, and other filters."""
    tests: list[ex.Expression] = []
    filters: list[ex.Expression] = []
    for predicate in pattern.filters:
        if not pattern.blocks_in(predicate):
            filters.append(predicate)
            continue
        for conjunct in conjuncts_of(predicate):
            (tests if pattern.blocks_in(conjunct) else filters).append(conjunct)
    return tests, filters


def lower_return(rows: reads.ReadOp, returned: Returned, scope: Scope) -> reads.ReadOp:
    """The complete plan of a read, from the rows of its match block."""
    rows = _searches(rows, returned)
    if returned.aggregated:
        return _aggregated(rows, returned, scope)
    if returned.having is not None:
        rows = reads.Filter(rows, returned.having.value)
    if returned.distinct:
        return _distinct(rows, returned, returned.columns, scope.found)
    keys = tuple(ordering.key for ordering in returned.order)
    rows = _ordered(rows, keys, _row_ties(scope))
    rows = _limited(rows, returned)
    return reads.Project(rows, returned.columns)


def _searches(rows: reads.ReadOp, returned: Returned) -> reads.ReadOp:
    for slot, spec in returned.rankings.specs.items():
        keep = slot not in returned.required
        if isinstance(spec, FuseSpec):
            rows = reads.Fuse(rows, slot, spec.rankings, spec.weights, spec.k, keep)
        else:
            rows = reads.Search(
                rows, slot, spec.function, spec.variable, spec.property, spec.query, keep
            )
    return rows


def _limited(rows: reads.ReadOp, returned: Returned) -> reads.ReadOp:
    if returned.limit is None and returned.offset is None:
        return rows
    return reads.Limit(rows, returned.limit, returned.offset)


def _row_ties(scope: Scope) -> tuple[ex.Expression, ...]:
    """Tie-breaks: ids of the entities in the order in which variables first appear, then paths."""
    ties: list[ex.Expression] = []
    paths: list[ex.Expression] = []
    for variable in sorted(scope.variables.values(), key=lambda v: scope.first_seen[v.id]):
        if variable.kind is ex.VariableKind.PATH:
            paths.append(ex.Whole(variable, ex.PathType(), variable.nullable))
            continue
        ties.append(ex.PropertyOf(variable, "id", ex.STRING, variable.nullable))
        if len(variable.types) > 1:
            ties.append(ex.TypeName(variable, nullable=variable.nullable))
    return (*ties, *paths)


def _ordered(
    rows: reads.ReadOp, keys: tuple[reads.SortKey, ...], ties: tuple[ex.Expression, ...]
) -> reads.ReadOp:
    # The only row of an aggregate without keys needs no order.
    return reads.OrderBy(rows, keys, ties) if keys or ties else rows


def _column_ref(column: reads.Column) -> ex.ColumnRef:
    return ex.ColumnRef(column.name, column.value.type, column.value.nullable)


# --- distinct ------------------------------------------------------------------------------


def _distinct(
    rows: reads.ReadOp, returned: Returned, columns: tuple[reads.Column, ...], found: Diagnostics
) -> reads.ReadOp:
    """Equal rows once. The order can use result columns only, because other values are gone."""
    refs = {column.value: _column_ref(column) for column in returned.columns}
    keys = []
    for ordering in returned.order:
        try:
            keys.append(replace(ordering.key, value=_over(ordering.key.value, refs)))
        except _NotAvailable:
            found.error(
                codes.SHAPE,
                "with `return distinct` the order can only use returned columns",
                ordering.span,
                "return it too",
            )
    ties: list[ex.Expression] = []
    types: list[reads.Column] = []
    for given, column in zip(returned.columns, columns, strict=True):
        ties += [_column_ref(given)] if _sortable(given.value.type) else []
        if _has_many_types(given.value):
            beside = _type_beside(given)
            inherited = isinstance(column.value, ex.ColumnRef)
            types.append(replace(beside, value=_column_ref(beside)) if inherited else beside)
            ties.append(_column_ref(beside))
    merged = reads.Distinct(reads.Project(rows, (*columns, *types)))
    result = _limited(reads.OrderBy(merged, tuple(keys), tuple(ties)), returned)
    if not types:
        return result
    return reads.Project(result, tuple(reads.Column(c.name, _column_ref(c)) for c in columns))


def _has_many_types(value: ex.Expression) -> bool:
    return isinstance(value, ex.Whole) and len(value.variable.types) > 1


def _type_beside(column: reads.Column) -> reads.Column:
    """A column for the type, because two entities of different types may have the same id."""
    assert isinstance(column.value, ex.Whole)
    variable = column.value.variable
    return reads.Column(
        f"_type_of_{column.name}", ex.TypeName(variable, nullable=variable.nullable)
    )


def _sortable(kind: ex.ExpressionType) -> bool:
    return not isinstance(kind, ex.NullType)


class _NotAvailable(Exception):
    """An expression reads a value that is not among the columns."""


def _over(value: ex.Expression, refs: dict[ex.Expression, ex.ColumnRef]) -> ex.Expression:
    """The expression with each part that is a column replaced by a reference to the column."""
    if value in refs:
        return refs[value]
    if isinstance(value, (ex.Constant, ex.ParameterRef)):
        return value
    if isinstance(
        value,
        (ex.PropertyOf, ex.Whole, ex.TypeName, ex.ScoreRef, ex.TextMatch, ex.AggregateCall),
    ):
        raise _NotAvailable
    return map_children(value, lambda child: _over(child, refs))


# --- aggregation ---------------------------------------------------------------------------


@dataclass
class _GroupColumns:
    """The columns of an Aggregate: the keys, and every aggregate that is used anywhere."""

    keys: list[reads.Column] = field(default_factory=list)
    aggregates: list[reads.Column] = field(default_factory=list)
    refs: dict[ex.Expression, ex.ColumnRef] = field(default_factory=dict)

    def add_key(self, column: reads.Column) -> None:
        self.keys.append(column)
        self.refs.setdefault(column.value, _column_ref(column))

    def add_aggregates(self, value: ex.Expression, name: str | None = None) -> None:
        if isinstance(value, ex.AggregateCall):
            if value not in self.refs:
                column = reads.Column(name or f"_aggregate{len(self.aggregates) + 1}", value)
                self.aggregates.append(column)
                self.refs[value] = _column_ref(column)
            return
        map_children(value, lambda child: self._visit(child))

    def _visit(self, child: ex.Expression) -> ex.Expression:
        self.add_aggregates(child)
        return child


def _aggregated(rows: reads.ReadOp, returned: Returned, scope: Scope) -> reads.ReadOp:
    groups, found = _GroupColumns(), scope.found
    for column in returned.columns:
        if contains_aggregate(column.value):
            exact = isinstance(column.value, ex.AggregateCall)
            groups.add_aggregates(column.value, column.name if exact else None)
        else:
            groups.add_key(column)
            if _has_many_types(column.value):
                groups.add_key(_type_beside(column))
    if returned.having is not None:
        groups.add_aggregates(returned.having.value)
    for ordering in returned.order:
        groups.add_aggregates(ordering.key.value)
    if any(_keeps_order(column.value) for column in groups.aggregates):
        rows = _ordered(rows, (), _row_ties(scope))
    rows = reads.Aggregate(rows, tuple(groups.keys), tuple(groups.aggregates))
    if returned.having is not None:
        value = _grouped(returned.having.value, groups, returned.having.span, found)
        rows = reads.Filter(rows, value)
    columns = tuple(
        reads.Column(column.name, _grouped(column.value, groups, span, found))
        for column, span in zip(returned.columns, returned.spans, strict=True)
    )
    if returned.distinct:
        return _distinct(rows, returned, columns, found)
    keys = tuple(
        replace(o.key, value=_grouped(o.key.value, groups, o.span, found)) for o in returned.order
    )
    ties = tuple(_column_ref(key) for key in groups.keys)
    ordered = _limited(_ordered(rows, keys, ties), returned)
    return reads.Project(ordered, columns)


def _keeps_order(value: ex.Expression) -> bool:
    """`collect` returns its values in the order of the rows, so the rows are sorted before."""
    return isinstance(value, ex.AggregateCall) and value.function == "collect"


def _grouped(
    value: ex.Expression, groups: _GroupColumns, span: Span, found: Diagnostics
) -> ex.Expression:
    try:
        return _over(value, groups.refs)
    except _NotAvailable:
        found.error(
            codes.SHAPE,
            "this is neither a group key nor inside an aggregate",
            span,
            "return it as a separate column, or wrap it: `min(…)`",
        )
        return value
