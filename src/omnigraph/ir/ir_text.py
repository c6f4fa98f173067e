"""The text form of a plan and of statements, for `explain` and for golden tests."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from typing import Any

from omnigraph.ir import expressions as ex
from omnigraph.ir import reads, writes
from omnigraph.ir.walk import inner_patterns
from omnigraph.values.temporal import write_moment

_INDENT = "  "


def plan_text(plan: reads.ReadOp) -> str:
    """The operators in the order in which rows flow; sub-patterns are indented."""
    return "\n".join(_read_lines(plan, 0))


def statements_text(statements: Iterable[writes.WriteOp]) -> str:
    return "\n".join(line for statement in statements for line in _write_lines(statement))


def expression_text(expression: ex.Expression) -> str:
    return _SPELL[type(expression)](expression)


def variable_text(variable: ex.Variable) -> str:
    return f"${variable.name}#{variable.id}"


def _read_lines(op: reads.ReadOp, depth: int, name: str = "") -> list[str]:
    """Lines of a plan. The pattern of an ExistsFilter has a name, which its first line says."""
    lines: list[str] = []
    chain: list[reads.ReadOp] = []
    current: reads.ReadOp | None = op
    while current is not None:
        chain.append(current)
        current = getattr(current, "input", None)
    for step in reversed(chain):
        if isinstance(step, reads.Rows) and not step.variables and not name:
            continue
        lines.append(_INDENT * depth + operator_text(step, name))
        for inner in inner_patterns(step):
            lines += _read_lines(inner.pattern, depth + 1, inner.name)
    return lines


def operator_text(op: reads.ReadOp, name: str = "") -> str:
    """One operator on one line, without its input; `name` is that of the pattern it starts."""
    describe = _DESCRIBE.get(type(op))
    start = f" of {name}" if name and isinstance(op, reads.Rows) else ""
    return f"{type(op).__name__}{start} {describe(op) if describe else ''}".rstrip()


def _scan(op: reads.NodeScan) -> str:
    return f"{variable_text(op.variable)}: {'|'.join(op.variable.types)}"


def _search(op: reads.Search) -> str:
    target = f"{variable_text(op.variable)}.{op.property}"
    tail = " keep unmatched" if op.keep_unmatched else ""
    return f"{op.slot} = {op.function}({target}, {expression_text(op.query)}){tail}"


def _group(op: reads.Aggregate) -> str:
    by = f" by {_columns(op.keys)}" if op.keys else ""
    return _columns(op.aggregates) + by


def _limit(op: reads.Limit) -> str:
    count = expression_text(op.count) if op.count else "all"
    return f"{count} offset {expression_text(op.offset)}" if op.offset else count


def _expand(op: reads.Expand) -> str:
    steps = "|".join(f"{step.edge}:{step.direction}" for step in op.steps)
    hops = ""
    if op.mode is not reads.ExpandMode.EDGE:
        maximum = "" if op.hops.maximum is None else op.hops.maximum
        hops = f"{{{op.hops.minimum},{maximum}}} {op.mode}"
    extra = f" edge {variable_text(op.edge)}" if op.edge else ""
    extra += f" path {variable_text(op.path)}" if op.path else ""
    target = f"{variable_text(op.target)}: {'|'.join(op.target.types)}"
    bound = " bound" if op.target_bound else ""
    return f"{variable_text(op.source)} -{steps}{hops}-> {target}{bound}{extra}"


def _fuse(op: reads.Fuse) -> str:
    parts = ", ".join(
        slot if weight == 1 else f"{slot} * {weight:g}"
        for slot, weight in zip(op.rankings, op.weights, strict=True)
    )
    tail = " keep unmatched" if op.keep_unmatched else ""
    return f"{op.slot} = rrf({parts}, k={expression_text(op.k)}){tail}"


def _order(op: reads.OrderBy) -> str:
    keys = [
        expression_text(key.value)
        + (" desc" if key.descending else "")
        + (" nulls last" if key.nulls_last and not key.descending else "")
        for key in op.keys
    ]
    ties = ", ".join(expression_text(tie) for tie in op.ties)
    return f"{', '.join(keys)} ties {ties}".strip() if ties else ", ".join(keys)


def _columns(columns: Iterable[reads.Column]) -> str:
    return ", ".join(f"{c.name} = {expression_text(c.value)}" for c in columns)


def _names(variables: Iterable[ex.Variable]) -> str:
    return ", ".join(variable_text(variable) for variable in variables)


def _write_lines(op: writes.WriteOp) -> list[str]:
    match op:
        case writes.Insert():
            skip = " on match skip" if op.skip_on_match else ""
            defaults = f" defaults {_assignments(op.defaults)}" if op.defaults else ""
            made = f" generated {', '.join(op.generated)}" if op.generated else ""
            return [f"Insert {op.table} {_assignments(op.assignments)}{defaults}{made}{skip}"]
        case writes.Update(table, assignments, predicate):
            where = expression_text(predicate)
            return [f"Update {table} {_assignments(assignments)} where {where}"]
        case writes.Delete(table, predicate):
            return [f"Delete {table} where {expression_text(predicate)}"]
        case writes.DeleteMatched(pattern, variables):
            return [f"DeleteMatched {_names(variables)}", *_read_lines(pattern, 1)]


def _assignments(assignments: Iterable[writes.Assignment]) -> str:
    inner = ", ".join(f"{a.property}: {expression_text(a.value)}" for a in assignments)
    return f"{{ {inner} }}"


def _constant(value: Any) -> str:
    match value:
        case dt.datetime():
            return f'datetime("{write_moment(value)}")'
        case dt.date():
            return f'date("{value.isoformat()}")'
        case tuple():
            return f"[{', '.join(_constant(item) for item in value)}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _joined(word: str, operands: Iterable[ex.Expression]) -> str:
    return "(" + f" {word} ".join(expression_text(o) for o in operands) + ")"


def _call(name: str, arguments: Iterable[ex.Expression]) -> str:
    return f"{name}({', '.join(expression_text(a) for a in arguments)})"


def _case(e: ex.Case) -> str:
    whens = [
        f"when {expression_text(branch.condition)} then {expression_text(branch.value)}"
        for branch in e.branches
    ]
    return f"case {' '.join(whens)} else {expression_text(e.otherwise)} end"


def _text_match(e: ex.TextMatch) -> str:
    edits = "" if e.edits is None else f", {expression_text(e.edits)}"
    return f"{e.function}({expression_text(e.field)}, {expression_text(e.query)}{edits})"


def _aggregate(e: ex.AggregateCall) -> str:
    operand = "*" if e.operand is None else expression_text(e.operand)
    return f"{e.function}({'distinct ' if e.distinct else ''}{operand})"


_SPELL: dict[type, Callable[[Any], str]] = {
    ex.Constant: lambda e: _constant(e.value),
    ex.ParameterRef: lambda e: f"${e.name}",
    ex.PropertyOf: lambda e: f"{variable_text(e.variable)}.{e.property}",
    ex.RowProperty: lambda e: f"row.{e.property}",
    ex.Whole: lambda e: variable_text(e.variable),
    ex.TypeName: lambda e: f"type({variable_text(e.variable)})",
    ex.ColumnRef: lambda e: f"[{e.name}]",
    ex.ScoreRef: lambda e: f"score({e.slot})",
    ex.Arithmetic: lambda e: _joined(e.operator, (e.left, e.right)),
    ex.Negative: lambda e: f"-{expression_text(e.operand)}",
    ex.Compare: lambda e: _joined(e.operator, (e.left, e.right)),
    ex.InList: lambda e: _joined("in", (e.operand, e.collection)),
    ex.ListOf: lambda e: f"[{', '.join(expression_text(item) for item in e.items)}]",
    ex.IsNull: lambda e: f"({expression_text(e.operand)} is {'not ' if e.negated else ''}null)",
    ex.Not: lambda e: f"not {expression_text(e.operand)}",
    ex.And: lambda e: _joined("and", e.operands),
    ex.Or: lambda e: _joined("or", e.operands),
    ex.Case: _case,
    ex.Matched: lambda e: e.pattern,
    ex.Function: lambda e: _call(e.name, e.arguments),
    ex.Convert: lambda e: f"{e.type}({expression_text(e.operand)})",
    ex.KeyText: lambda e: f"key_text({expression_text(e.operand)})",
    ex.TextMatch: _text_match,
    ex.AggregateCall: _aggregate,
}

_DESCRIBE: dict[type, Callable[[Any], str]] = {
    reads.Rows: lambda op: _names(op.variables),
    reads.NodeScan: _scan,
    reads.Expand: _expand,
    reads.Filter: lambda op: expression_text(op.predicate),
    reads.ExistsFilter: lambda op: expression_text(op.predicate),
    reads.Optional: lambda op: _names(op.variables),
    reads.Search: _search,
    reads.Fuse: _fuse,
    reads.Project: lambda op: _columns(op.columns),
    reads.Aggregate: _group,
    reads.OrderBy: _order,
    reads.Limit: _limit,
}
