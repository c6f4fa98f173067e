"""Errors of OmniGraph on their way through Spark.

Spark turns an error of a Python worker into text. A note in that text carries the class, message
and fields of the error, so that callers get `SnapshotReclaimed` with its fields and no Java trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph import errors
from omnigraph.errors import OmnigraphError

_MARK = "omnigraph-error: "


@contextmanager
def errors_for_spark() -> Iterator[None]:
    """Add the note to an `OmnigraphError` that leaves the block; `omnigraph_error` reads it."""
    try:
        yield
    except OmnigraphError as error:
        body = {
            "class": type(error).__name__,
            "message": error.message,
            "fields": error.fields,
        }
        error.add_note(_MARK + json.dumps(body, default=str))
        raise


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the `OmnigraphError` that an error of Spark carries, instead of Spark's error.

    Example:
        >>> with typed_errors():
        ...     people.count()  # SnapshotReclaimed instead of a PythonException
    """
    try:
        yield
    except Exception as error:
        ours = omnigraph_error(error)
        if ours is None:
            raise
        raise ours from error


def omnigraph_error(error: BaseException) -> OmnigraphError | None:
    """The `OmnigraphError` that an error of Spark carries, with its class and fields, or None."""
    if isinstance(error, OmnigraphError):
        return error
    _, found, rest = str(error).partition(_MARK)
    if not found:
        return None
    try:
        body, _ = json.JSONDecoder().raw_decode(rest)
        kind = getattr(errors, body["class"])
        return kind(body["message"], **body["fields"])  # type: ignore[no-any-return]
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
