"""Errors of OmniGraph on their way through Spark.

Spark turns an error of a Python worker into text. A note in that text carries the class, message
and fields of the error, so that callers get `SnapshotReclaimed` with its fields and no Java trace.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from omnigraph import errors
from omnigraph.errors import OmnigraphError, SparkUnavailable

_MARK = "omnigraph-error: "
_NO_FORMAT = re.compile(r"\[DATA_SOURCE_NOT_FOUND\][^\n]*: omnigraph\b")
_NO_MODULE = re.compile(
    r"No module named '((?:omnigraph|pyspark_omnigraph|lance|numpy|obstore|pandas|pyarrow)\b[^']*)'"
)
_WAY_OUT = "or start the session with omnigraph.spark.spark_session()"

Function = Callable[..., Any]


@contextmanager
def errors_for_spark() -> Iterator[None]:
    """Add the note to an `OmnigraphError` that leaves the block; `omnigraph_error` reads it."""
    try:
        yield
    except OmnigraphError as error:
        _prepare(error)
        raise
    except ImportError as missing:
        unusable = SparkUnavailable(
            f"the Python of Spark's workers, {sys.executable}, cannot import {missing.name}: set "
            "PYSPARK_PYTHON to a Python that has omnigraph[spark] before the session starts, "
            f"{_WAY_OUT}"
        )
        _prepare(unusable)
        raise unusable from missing


def _prepare(error: OmnigraphError) -> None:
    body = {"class": type(error).__name__, "message": error.message, "fields": error.fields}
    error.add_note(_MARK + json.dumps(body, default=str))
    if _in_worker():
        # Spark then begins with the message instead of a traceback. A worker ends after an error,
        # so no other error is shown without its traceback.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"


def _in_worker() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.partition(".")[0] == "pyspark"


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the `OmnigraphError` that an error of Spark carries, instead of Spark's error.

    Sessions that `spark_session` starts do this everywhere. Other sessions need it around actions.

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
    """The `OmnigraphError` that an error of Spark means, with its class and fields, or None."""
    if isinstance(error, OmnigraphError):
        return error
    text = str(error)
    _, found, rest = text.partition(_MARK)
    if not found:
        return _wrong_python(text)
    try:
        body, _ = json.JSONDecoder().raw_decode(rest)
        kind = getattr(errors, body["class"])
        return kind(body["message"], **body["fields"])  # type: ignore[no-any-return]
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def _wrong_python(text: str) -> SparkUnavailable | None:
    """The error of a session whose workers run a Python in which OmniGraph is not installed."""
    module = _NO_MODULE.search(text)
    if module is None and not _NO_FORMAT.search(text):
        return None
    return SparkUnavailable(
        f"Spark's workers cannot import {module[1] if module else 'omnigraph'}, because they run "
        f"another Python than this process: set PYSPARK_PYTHON={sys.executable} in the "
        f"environment before the session starts, {_WAY_OUT}"
    )


class TypedSession:
    """Makes `typed_errors` the default of all calls of this process to Spark, until `undo`.

    pyspark has no public place for this. The class replaces the function by which pyspark turns
    Java errors, or errors of a Connect server, into Python errors. An error that carries no
    `OmnigraphError` is raised as before.
    """

    def __init__(self, *, connect: bool) -> None:
        self._connect = connect
        self._module = import_module(
            "pyspark.sql.connect.client.core" if connect else "pyspark.errors.exceptions.captured"
        )
        self._name = "convert_exception" if connect else "capture_sql_exception"
        self._before: Function = getattr(self._module, self._name)
        self._set(self._typed_conversion if connect else self._typed_capture)

    def undo(self) -> None:
        self._set(self._before)

    def _set(self, function: Function) -> None:
        setattr(self._module, self._name, function)
        if not self._connect:
            self._module.install_exception_handler()

    def _typed_conversion(self, *given: Any, **named: Any) -> BaseException:
        converted: BaseException = self._before(*given, **named)
        return omnigraph_error(converted) or converted

    def _typed_capture(self, call: Function) -> Function:
        captured = self._before(call)

        def run(*given: Any, **named: Any) -> Any:
            with typed_errors():
                return captured(*given, **named)

        return run
