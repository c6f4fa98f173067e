from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads
from omnigraph.ir.ir_text import expression_text, plan_text
from omnigraph.ir.walk import rewrite, walk
from omnigraph.query.compiler import compile_all, compile_query
from omnigraph.query.typecheck_calls import FUNCTIONS
from omnigraph.schema.build import catalog_from_text
from omnigraph_testing.golden_cases import read_cases

FIXTURES = Path(__file__).parent.parent / "fixtures"
PEOPLE = catalog_from_text((FIXTURES / "people.pg").read_text(encoding="utf-8"))
PLANS = read_cases(FIXTURES / "query_plans")


def _roots(text: str) -> list[Any]:
    out: list[Any] = []
    for compiled in compile_all(text, PEOPLE):
        out += [compiled.plan] if compiled.plan is not None else compiled.statements
    return out


@pytest.mark.parametrize("case", PLANS[::7], ids=str)
def test_an_idle_rewrite_changes_nothing(case: Any) -> None:
    for root in _roots(case.source):
        assert rewrite(root, lambda node: node) == root


@pytest.mark.parametrize("case", PLANS, ids=str)
def test_every_expression_is_typed_and_printable(case: Any) -> None:
    for root in _roots(case.source):
        hash(root)
        for node in walk(root):
            if isinstance(node, ex.Constant | ex.PropertyOf | ex.Compare | ex.Function):
                assert expression_text(node)
                assert isinstance(node.nullable, bool)


def test_every_variable_is_bound_before_it_is_read() -> None:
    for case in PLANS:
        for root in _roots(case.source):
            if isinstance(root, reads.Project):
                _check_bound(root, set())


def _check_bound(op: Any, outer: set[int]) -> set[int]:
    bound = _check_bound(op.input, outer) if hasattr(op, "input") else set(outer)
    match op:
        case reads.Rows(variables):
            assert {v.id for v in variables} <= outer | bound
        case reads.NodeScan(_, variable):
            bound = bound | {variable.id}
        case reads.Expand():
            assert op.source.id in bound
            assert (op.target.id in bound) == op.target_bound
            bound = bound | {v.id for v in (op.target, op.edge, op.path) if v}
        case reads.AntiJoin(_, pattern) | reads.SemiJoin(_, pattern):
            _check_bound(pattern, bound)
        case reads.ExistsFilter(_, patterns, predicate):
            assert [_check_bound(inner.pattern, bound) for inner in patterns]
            _check_read(predicate, bound)
            asked = {node.pattern for node in walk(predicate) if isinstance(node, ex.Matched)}
            assert asked == {inner.name for inner in patterns}
        case reads.Optional(_, pattern, variables):
            inner = _check_bound(pattern, bound)
            assert {v.id for v in variables} <= inner
            bound = bound | {v.id for v in variables}
        case reads.Filter(_, predicate):
            _check_read(predicate, bound)
        case reads.OrderBy(_, keys, ties):
            for value in (*(key.value for key in keys), *ties):
                _check_read(value, bound)
        case _:
            pass
    return bound


def _check_read(expression: Any, bound: set[int]) -> None:
    for node in walk(expression):
        if isinstance(node, ex.PropertyOf | ex.Whole | ex.TypeName):
            assert node.variable.id in bound


def test_a_rewrite_reaches_sub_patterns() -> None:
    text = "query q() { match { $p: Person not { $p.age > 3 } } return { $p.name } }"
    plan = compile_query(text, PEOPLE).plan
    assert plan is not None

    def older(node: Any) -> Any:
        if isinstance(node, ex.Constant) and node.value == 3:
            return replace(node, value=4)
        return node

    assert "($p#0.age > 4)" in plan_text(rewrite(plan, older))
    assert "($p#0.age > 3)" in plan_text(plan)


def test_functions_say_how_they_are_used() -> None:
    for name, function in FUNCTIONS.items():
        assert f"{name}(" in function.usage
