"""Calls of nearest, bm25 and rrf: each gets a slot, and a Search or Fuse writes its score there."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.ir import expressions as ex
from omnigraph.query import ast, codes
from omnigraph.query.conversions import DoesNotFit, constant_of, is_integer
from omnigraph.query.typecheck_calls import (
    FUNCTIONS,
    RANKING_CODES,
    FunctionKind,
    check_aggregate,
    check_plain_call,
    known_function,
    text_field,
)
from omnigraph.query.typecheck_expressions import ExpressionChecker
from omnigraph.values.scalars import VectorType

DEFAULT_K = 60


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """A ranking of the entities of one variable."""

    function: str
    variable: ex.Variable
    property: str
    query: ex.Expression


@dataclass(frozen=True, slots=True)
class FuseSpec:
    """A fusion of rankings; their slots come before its own."""

    rankings: tuple[str, ...]
    weights: tuple[float, ...]
    k: ex.Expression
    function: str = "rrf"


@dataclass
class Rankings:
    """The score slots of one query; equal rankings share a slot."""

    specs: dict[str, SearchSpec | FuseSpec] = field(default_factory=dict)

    def slot(self, spec: SearchSpec | FuseSpec) -> str:
        for name, known in self.specs.items():
            if known == spec:
                return name
        name = f"s{len(self.specs) + 1}"
        self.specs[name] = spec
        return name

    def check_call(self, checker: ExpressionChecker, call: ast.CallExpr) -> ex.Expression | None:
        """A call in `return`, `where` or `order`, where all kinds of functions are allowed."""
        kind = known_function(checker, call)
        if kind is None:
            return None
        if kind is FunctionKind.AGGREGATE:
            return check_aggregate(checker, call)
        if kind is not FunctionKind.RANKING:
            return check_plain_call(checker, call, kind)
        spec = self._spec(checker, call)
        return None if spec is None else ex.ScoreRef(self.slot(spec))

    def _spec(self, checker: ExpressionChecker, call: ast.CallExpr) -> SearchSpec | FuseSpec | None:
        match call.function:
            case "nearest":
                return _nearest(checker, call)
            case "bm25":
                found = text_field(checker, call, codes.BM25_ARGUMENTS)
                if found is None:
                    return None
                field, query = found
                assert isinstance(field, ex.PropertyOf), "rankings occur in reads only"
                return SearchSpec("bm25", field.variable, field.property, query)
            case _:
                return self._fusion(checker, call)

    def _fusion(self, checker: ExpressionChecker, call: ast.CallExpr) -> FuseSpec | None:
        parts = list(call.arguments)
        options = dict(call.options)
        # k may also be written as the last argument without a name.
        if len(parts) > 1 and isinstance(parts[-1], (ast.LiteralExpr, ast.VariableExpr)):
            options.setdefault("k", parts.pop())
        slots = [self._part(checker, part) for part in parts]
        weights = _weights(checker, options.get("weights"), len(parts))
        k = self._k(checker, options.get("k"))
        names = tuple(slot for slot in slots if slot is not None)
        if len(names) != len(slots) or weights is None or k is None:
            return None
        return FuseSpec(names, weights, k)

    def _part(self, checker: ExpressionChecker, part: ast.Expr) -> str | None:
        if isinstance(part, ast.CallExpr) and part.function in ("nearest", "bm25"):
            checked = self.check_call(checker, part)
            return checked.slot if isinstance(checked, ex.ScoreRef) else None
        checker.found.error(
            codes.RRF_LIMIT,
            "rrf fuses rankings: nearest(…) and bm25(…)",
            part.span,
            f"write `{FUNCTIONS['rrf'].usage}`",
        )
        return None

    def _k(self, checker: ExpressionChecker, given: ast.Expr | None) -> ex.Expression | None:
        if given is None:
            return ex.Constant(DEFAULT_K, ex.I64)
        checked = checker.check(given)
        if checked is None:
            return None
        constant = checked.value if isinstance(checked, ex.Constant) else 1
        if (
            not isinstance(checked, (ex.Constant, ex.ParameterRef))
            or not is_integer(checked.type)
            or constant < 1
        ):
            checker.found.error(codes.RRF_LIMIT, "k of rrf is a whole number from 1", given.span)
            return None
        return checked


def _weights(
    checker: ExpressionChecker, given: ast.Expr | None, number: int
) -> tuple[float, ...] | None:
    if given is None:
        return (1.0,) * number
    checked = checker.check(given)
    if checked is None:
        return None
    values = checked.value if isinstance(checked, ex.Constant) else None
    if (
        not isinstance(values, tuple)
        or len(values) != number
        or not all(isinstance(v, (int, float)) and v >= 0 for v in values)
    ):
        checker.found.error(
            codes.RRF_LIMIT,
            f"weights of rrf are one number per ranking, here {number}",
            given.span,
        )
        return None
    return tuple(float(value) for value in values)


def _nearest(checker: ExpressionChecker, call: ast.CallExpr) -> SearchSpec | None:
    field_, query = checker.check(call.arguments[0]), checker.check(call.arguments[1])
    if field_ is None or query is None:
        return None
    if not isinstance(field_, ex.PropertyOf) or not isinstance(field_.type, VectorType):
        checker.found.error(
            RANKING_CODES["nearest"],
            "nearest searches a Vector property",
            call.arguments[0].span,
            f"write `{FUNCTIONS['nearest'].usage}`",
        )
        return None
    try:
        ready = _query_vector(query, field_.type)
    except DoesNotFit as reason:
        checker.found.error(RANKING_CODES["nearest"], str(reason), call.arguments[1].span)
        return None
    return SearchSpec("nearest", field_.variable, field_.property, ready)


def _query_vector(query: ex.Expression, wanted: VectorType) -> ex.Expression:
    """A vector of the property's width, or a string that the graph's provider embeds."""
    if not isinstance(query, (ex.Constant, ex.ParameterRef)):
        raise DoesNotFit("nearest searches for a literal or a parameter")
    if query.type in (ex.STRING, wanted):
        return query
    if isinstance(query, ex.Constant):
        return constant_of(query, wanted)
    raise DoesNotFit(f"nearest needs a {wanted} or a String, not {query.type}")
