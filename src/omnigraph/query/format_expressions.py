"""Expressions -> canonical text with no more parentheses than needed."""

from __future__ import annotations

from omnigraph.query import ast
from omnigraph.syntax.literals import write_literal

# Binding strength of each construct; an operand weaker than its place gets parentheses.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(8)
_ARITHMETIC = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def format_expression(expression: ast.Expression) -> str:
    return _write(expression, _OR)


def starts_like_a_clause_part(expression: ast.Expression) -> bool:
    """Whether a filter would be read as part of the clause before it, or as another clause."""
    match expression:
        case ast.VariableRef() | ast.NameRef() | ast.Negative():
            return True
        case ast.Literal(value):
            return isinstance(value, (int, float)) and str(value).startswith("-")
        case ast.Comparison(_, left, _) | ast.Arithmetic(_, left, _):
            bare = isinstance(left, ast.VariableRef)
            return starts_like_a_clause_part(left) and not bare
        case ast.NullTest(operand):
            return starts_like_a_clause_part(operand) and not isinstance(operand, ast.VariableRef)
        case ast.Connective(_, operands):
            return starts_like_a_clause_part(operands[0])
        case _:
            return False


def _write(expression: ast.Expression, place: int) -> str:
    strength, text = _spell(expression)
    return f"({text})" if strength < place else text


def _spell(expression: ast.Expression) -> tuple[int, str]:
    match expression:
        case ast.Connective(operator, operands):
            strength = _OR if operator == "or" else _AND
            return strength, f" {operator} ".join(_write(o, strength + 1) for o in operands)
        case ast.Not(operand):
            return _NOT, f"not {_write(operand, _NOT)}"
        case ast.Comparison(operator, left, right):
            return _COMPARE, f"{_write(left, _SUM)} {operator} {_write(right, _SUM)}"
        case ast.NullTest(operand, negated):
            return _COMPARE, f"{_write(operand, _SUM)} is {'not ' if negated else ''}null"
        case ast.Arithmetic(operator, left, right):
            strength = _ARITHMETIC[operator]
            return strength, f"{_write(left, strength)} {operator} {_write(right, strength + 1)}"
        case ast.Negative(operand):
            return _UNARY, f"-{_write(operand, _PRIMARY)}"
        case _:
            return _spell_primary(expression)


def _spell_primary(
    expression: ast.Literal
    | ast.VariableRef
    | ast.PropertyRef
    | ast.NameRef
    | ast.ListExpression
    | ast.Call,
) -> tuple[int, str]:
    match expression:
        case ast.Literal(value):
            text = write_literal(value)
            return (_UNARY if text.startswith("-") else _PRIMARY), text
        case ast.VariableRef(name):
            return _PRIMARY, f"${name}"
        case ast.PropertyRef(variable, property_name):
            return _PRIMARY, f"${variable.text}.{property_name.text}"
        case ast.NameRef(name):
            return _PRIMARY, name
        case ast.ListExpression(items):
            return _PRIMARY, f"[{', '.join(_write(item, _OR) for item in items)}]"
        case ast.Call():
            return _PRIMARY, _spell_call(expression)


def _spell_call(call: ast.Call) -> str:
    arguments = [_write(argument, _OR) for argument in call.arguments]
    arguments += [f"{name}={_write(value, _OR)}" for name, value in call.options]
    inside = "*" if call.star else ", ".join(arguments)
    return f"{call.function}({'distinct ' if call.distinct else ''}{inside})"
