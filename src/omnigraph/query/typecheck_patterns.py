"""Checks match blocks against the catalog: typed variables, hops, filters and sub-blocks."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.ir import expressions as ex
from omnigraph.ir.reads import EdgeStep, ExpandMode, HopRange
from omnigraph.ir.walk import variables_in, walk
from omnigraph.query import ast, codes
from omnigraph.query.conversions import DoesNotFit, compare
from omnigraph.query.pattern_types import PatternTypes, infer_types
from omnigraph.query.scope import ANONYMOUS, Scope, property_names, property_of
from omnigraph.query.typecheck_calls import check_filter_call
from omnigraph.query.typecheck_expressions import ExpressionChecker
from omnigraph.syntax.source_text import Name
from omnigraph.values.known_names import did_you_mean
from omnigraph.values.scalars import ListType, ScalarKind


@dataclass(frozen=True, slots=True)
class TypedHop:
    """A typed traversal."""

    source: ex.Variable
    steps: tuple[EdgeStep, ...]
    target: ex.Variable
    mode: ExpandMode
    hops: HopRange
    edge: ex.Variable | None
    path: ex.Variable | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A typed block. `nodes` are the node variables it introduces, in order of appearance."""

    nodes: tuple[ex.Variable, ...]
    hops: tuple[TypedHop, ...]
    filters: tuple[ex.Expression, ...]
    negations: tuple[Pattern, ...]
    optionals: tuple[Pattern, ...]
    exists: tuple[ExistsBlock, ...]

    def introduced(self) -> tuple[ex.Variable, ...]:
        """All variables that this block binds, optional blocks included."""
        extras = [v for hop in self.hops for v in (hop.edge, hop.path) if v is not None]
        inner = [v for optional in self.optionals for v in optional.introduced()]
        return (*self.nodes, *extras, *inner)

    @property
    def is_empty(self) -> bool:
        """Nothing is asked of a row, so that every row matches."""
        return not (self.nodes or self.hops or self.filters or self.negations or self.optionals)

    def blocks_in(self, predicate: ex.Expression) -> tuple[ExistsBlock, ...]:
        """The `exists` blocks of a filter."""
        if not self.exists:
            return ()
        names = {node.pattern for node in walk(predicate) if isinstance(node, ex.Matched)}
        return tuple(block for block in self.exists if block.name in names)


@dataclass(frozen=True, slots=True)
class ExistsBlock:
    """An `exists { … }` in a filter; a `Matched` with this name stands in its place."""

    name: str
    pattern: Pattern


def check_pattern(clauses: tuple[ast.Clause, ...], scope: Scope, nullable: bool = False) -> Pattern:
    """Check a block and add its variables to the scope."""
    return _PatternChecker(scope, nullable).check(clauses)


class _PatternChecker:
    def __init__(self, scope: Scope, nullable: bool) -> None:
        self._scope = scope
        self._found = scope.found
        self._nullable = nullable
        self._expressions = ExpressionChecker(
            scope, check_filter_call, check_exists=self._check_exists
        )
        self._exists: list[ExistsBlock] = []
        self._nodes: list[ex.Variable] = []
        self._filters: list[ex.Expression] = []

    def check(self, clauses: tuple[ast.Clause, ...]) -> Pattern:
        types = infer_types(clauses, self._scope)
        hops = []
        for clause in clauses:
            if isinstance(clause, ast.BindingClause) and clause.variable.text in types.nodes:
                self._test_type(self._node(clause.variable, types), types)
            elif isinstance(clause, ast.TraversalClause):
                hop = self._hop(clause, types)
                hops += [hop] if hop else []
        for clause in clauses:
            if isinstance(clause, ast.BindingClause):
                self._inline_matches(clause)
        optionals = [
            self._optional(clause) for clause in clauses if isinstance(clause, ast.OptionalClause)
        ]
        for clause in clauses:
            if isinstance(clause, ast.FilterClause):
                self._add_filter(self._expressions.check_predicate(clause.predicate))
        negations = [
            self._negation(clause) for clause in clauses if isinstance(clause, ast.NegationClause)
        ]
        return Pattern(
            tuple(self._nodes),
            tuple(hops),
            tuple(self._filters),
            tuple(negations),
            tuple(optionals),
            tuple(self._exists),
        )

    def _add_filter(self, predicate: ex.Expression | None) -> None:
        if predicate is not None:
            self._filters.append(predicate)

    def _node(self, name: Name, types: PatternTypes) -> ex.Variable:
        known = self._scope.find(name.text)
        if known is not None and name.text != ANONYMOUS:
            return known
        variable = self._scope.add(
            name, ex.VariableKind.NODE, tuple(sorted(types.nodes[name.text])), self._nullable
        )
        self._nodes.append(variable)
        return variable

    def _test_type(self, variable: ex.Variable, types: PatternTypes) -> None:
        """`$x: Person` in a sub-block, where `$x` is bound outside: a test of its type.

        A variable that is NULL has no type, so that it fails the test.
        """
        allowed = types.nodes[variable.name]
        may_fail = variable.nullable or not allowed >= set(variable.types)
        if variable in self._nodes or not may_fail:
            return
        names = tuple(sorted(allowed))
        name = ex.TypeName(variable, nullable=variable.nullable)
        self._filters.append(
            ex.Compare("=", name, ex.Constant(names[0], ex.STRING), nullable=name.nullable)
            if len(names) == 1
            else ex.InList(
                name, ex.Constant(names, ListType(ScalarKind.STRING)), nullable=name.nullable
            )
        )

    def _end(
        self, name: Name, types: PatternTypes, anonymous: tuple[int, str]
    ) -> ex.Variable | None:
        if name.text != ANONYMOUS:
            known = name.text in types.nodes or self._scope.find(name.text) is not None
            return self._node(name, types) if known else None
        found = types.anonymous.get(anonymous)
        if found is None:
            return None
        variable = self._scope.add(name, ex.VariableKind.NODE, tuple(sorted(found)), self._nullable)
        self._nodes.append(variable)
        return variable

    def _hop(self, clause: ast.TraversalClause, types: PatternTypes) -> TypedHop | None:
        steps = types.steps.get(id(clause))
        path = self._new_variable(clause.path, ex.VariableKind.PATH, ())
        source = self._end(clause.source, types, (id(clause), "source"))
        edge_types = tuple(step.edge for step in steps or ())
        edge = self._edge_variable(clause.edge, edge_types)
        target = self._end(clause.target, types, (id(clause), "target"))
        if steps is None or source is None or target is None:
            return None
        hops = clause.edge.hops
        bounds = HopRange(hops.minimum, hops.maximum) if hops else HopRange(1, 1)
        return TypedHop(source, steps, target, _mode(clause), bounds, edge, path)

    def _edge_variable(
        self, pattern: ast.EdgePattern, types: tuple[str, ...]
    ) -> ex.Variable | None:
        if pattern.variable is not None and pattern.hops is not None:
            self._found.error(
                codes.EDGE_BINDING,
                f"${pattern.variable.text} cannot name one edge of several hops",
                pattern.span,
                "name the whole path: `$p = $a knows{1,3} $b`",
            )
            self._scope.add(pattern.variable, ex.VariableKind.EDGE, types, self._nullable)
            return None
        return self._new_variable(pattern.variable, ex.VariableKind.EDGE, types)

    def _new_variable(
        self, name: Name | None, kind: ex.VariableKind, types: tuple[str, ...]
    ) -> ex.Variable | None:
        if name is None:
            return None
        if kind is ex.VariableKind.EDGE and not types:
            self._scope.failed.add(name.text)  # its edge type is unknown, which is reported already
            return None
        taken = self._scope.find(name.text) is not None or name.text in self._scope.parameters
        if taken or name.text == ANONYMOUS:
            self._found.error(
                codes.EDGE_BINDING,
                f"${name.text} already names something else"
                if taken
                else f"$_ binds nothing, so it cannot name {'an edge' if types else 'a path'}",
                name.span,
                f"{'an' if types else 'a'} {kind} variable is new where it is bound",
            )
            self._scope.failed.add(name.text)
            return None
        return self._scope.add(name, kind, types, self._nullable)

    def _optional(self, clause: ast.OptionalClause) -> Pattern:
        inner = self._scope.inner()
        errors = len(self._found)
        pattern = check_pattern(clause.clauses, inner, nullable=True)
        if len(self._found) == errors and not pattern.introduced():
            self._found.error(
                codes.SHAPE,
                "this `optional` binds nothing new, so it changes nothing",
                clause.span,
                "a variable that is used outside the block is bound outside: move its use inside",
            )
        for variable in inner.variables.values():
            self._scope.adopt(variable)
        return pattern

    def _negation(self, clause: ast.NegationClause) -> Pattern:
        errors = len(self._found)
        pattern = self._local_pattern("not", clause.clauses)
        own = {variable.id for variable in pattern.introduced()}
        if len(self._found) == errors and not mentioned(pattern) - own:
            self._found.error(
                codes.SHAPE,
                "this `not` shares no variable with the pattern around it",
                clause.span,
                "it would either keep all rows or none",
            )
        return pattern

    def _local_pattern(self, word: str, clauses: tuple[ast.Clause, ...]) -> Pattern:
        """A block whose variables are not visible outside."""
        inner = self._scope.inner()
        pattern = check_pattern(clauses, inner)
        self._scope.local.update(dict.fromkeys(inner.variables, word))
        return pattern

    def _check_exists(self, written: ast.ExistsExpr) -> ex.Expression | None:
        errors = len(self._found)
        pattern = self._local_pattern("exists", written.clauses)
        if len(self._found) > errors:
            return None
        if pattern.is_empty:
            self._found.error(
                codes.SHAPE,
                "this `exists` asks for nothing, so it is always true",
                written.span,
                "write a hop, a new variable or a condition into the block",
            )
            return None
        name = f"exists{len(self._exists) + 1}"
        self._exists.append(ExistsBlock(name, pattern))
        return ex.Matched(name)

    def _inline_matches(self, clause: ast.BindingClause) -> None:
        variable = self._scope.find(clause.variable.text)
        if variable is None or variable.kind is not ex.VariableKind.NODE:
            for match in clause.matches:
                self._expressions.check(match.value)
            return
        for match in clause.matches:
            self._inline_match(variable, clause.type.text, match)

    def _inline_match(
        self, variable: ex.Variable, type_name: str, match: ast.PropertyValue
    ) -> None:
        name = match.name
        if name.text != "id" and any(
            property_of(self._scope.catalog, variable.kind, owner, name.text) is None
            for owner in variable.types
        ):
            known = property_names(self._scope.catalog, variable.kind, variable.types)
            self._found.error(
                codes.UNKNOWN_BINDING_PROPERTY,
                f"{type_name} has no property '{name.text}'",
                name.span,
                did_you_mean(name.text, known),
            )
            return
        left = self._expressions.check(
            ast.PropertyExpr(Name(variable.name, name.span), name, name.span)
        )
        right = self._expressions.check(match.value)
        if left is None or right is None:
            return
        # A list matches when it contains the value.
        operator = "contains" if str(left.type).startswith("[") else "="
        try:
            self._filters.append(compare(operator, left, _exact(left, right)))
        except DoesNotFit as reason:
            self._found.error(
                codes.BINDING_VALUE,
                f"'{name.text}' is {left.type}: {reason}",
                match.value.span,
            )


def _exact(left: ex.Expression, right: ex.Expression) -> ex.Expression:
    """Refuses a value such as 30.0 for an integer property, because it can only be a mistake."""
    if (
        isinstance(right, ex.Constant)
        and isinstance(right.value, float)
        and str(left.type) in ("I32", "I64", "U32", "U64")
    ):
        raise DoesNotFit(f"{right.value} is not an integer")
    return right


def _mode(clause: ast.TraversalClause) -> ExpandMode:
    if clause.shortest:
        return ExpandMode.SHORTEST
    if clause.path is not None:
        return ExpandMode.TRAILS
    return ExpandMode.REACH if clause.edge.hops else ExpandMode.EDGE


def mentioned(pattern: Pattern) -> set[int]:
    """Ids of all variables in the hops and filters of a pattern, sub-blocks included."""
    ids: set[int] = {variable.id for variable in pattern.introduced()}
    for hop in pattern.hops:
        ids |= {hop.source.id, hop.target.id}
    for predicate in pattern.filters:
        ids |= variables_in([predicate])
    tested = (block.pattern for block in pattern.exists)
    for inner in (*pattern.negations, *pattern.optionals, *tested):
        ids |= mentioned(inner)
    return ids
