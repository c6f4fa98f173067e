"""Our errors through Spark: told by workers as a note, found again in what Spark raises.

Spark turns whatever a Python worker raises into text. The note after the message carries the error
whole, so that callers get `SnapshotReclaimed` with its fields and not a page of Java.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph import errors
from omnigraph.errors import OmnigraphError

_MARK = "omnigraph-error: "


@contextmanager
def told_to_spark() -> Iterator[None]:
    """Whatever of ours leaves the block can be found by `omnigraph_error` on the other side."""
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
    """Raise our own error where Spark wraps one of ours.

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
    """Our error inside what Spark raised, with its class and fields; None when there is none."""
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
