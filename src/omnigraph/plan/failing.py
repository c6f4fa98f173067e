"""Which expressions can fail on some value: those must not be asked of rows others would drop."""

from __future__ import annotations

from omnigraph.ir import expressions as ex
from omnigraph.ir.walk import walk

_FALLIBLE = (ex.Arithmetic, ex.Negative, ex.Convert, ex.KeyText)
_SAFE_FUNCTIONS = frozenset({"lower", "upper", "coalesce", "length", "now"})


def may_fail(expression: ex.Expression) -> bool:
    return any(
        isinstance(node, _FALLIBLE)
        or (isinstance(node, ex.Function) and node.name not in _SAFE_FUNCTIONS)
        for node in walk(expression)
    )
