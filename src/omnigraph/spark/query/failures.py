"""What went wrong in an executor, as the error the local engine would have raised."""

from __future__ import annotations

import re

from omnigraph import errors
from omnigraph.errors import InvalidArgument, OmnigraphError, SparkFailed

# Conditions of Spark that mean: a value of this query does not work out.
_VALUE_ERRORS = re.compile(
    r"\[(DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|"
    r"CAST_OVERFLOW|CAST_INVALID_INPUT|NUMERIC_VALUE_OUT_OF_RANGE[.\w]*|DATETIME_OVERFLOW|"
    r"USER_RAISED_EXCEPTION)\]\s*([^\n]*)"
)
_OWN_ERROR = re.compile(r"omnigraph\.errors\.(\w+): ([^\n]*)")


def query_error(failed: SparkFailed) -> OmnigraphError:
    """The error itself where Spark only carried it."""
    text = f"{failed.__cause__}"
    own = _OWN_ERROR.search(text)
    if own is not None:
        kind = getattr(errors, own.group(1), None)
        if isinstance(kind, type) and issubclass(kind, OmnigraphError):
            return kind(own.group(2))
    value = _VALUE_ERRORS.search(text)
    if value is not None:
        return InvalidArgument(_readable(value.group(1), value.group(2)))
    return failed


def _readable(condition: str, message: str) -> str:
    if condition in ("DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO"):
        return "division by zero"
    said, _, _ = message.partition(" SQLSTATE")
    return said if condition == "USER_RAISED_EXCEPTION" else f"a number is out of range: {said}"
