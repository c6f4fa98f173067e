"""Which engine runs a load or a merge: this process or Spark.

`auto` decides by the size of the work and by whether a session is up. A merge never starts one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.load.sources import find_sources
from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.session import running_session
from omnigraph.values.known_names import AUTO, LOCAL, SPARK, require_engine

_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine, and why it was chosen."""

    engine: str
    reason: str


def choose_engine(
    wanted: str, data: Any, type_name: str | None, settings: PipelineSettings
) -> EngineChoice:
    """The engine of a load: `wanted`, or for `auto` by the size of the input."""
    require_engine(wanted, "load", (AUTO, LOCAL, SPARK))
    if holds_spark_frames(data):
        if wanted == LOCAL:
            raise InvalidArgument("a Spark DataFrame is loaded by engine 'spark', not 'local'")
        return EngineChoice(SPARK, "the input is a Spark DataFrame")
    if wanted != AUTO:
        return EngineChoice(wanted, "asked for")
    return _by_size(sum(s.size for s in find_sources(data, type_name)), settings)


def holds_spark_frames(data: Any) -> bool:
    """A Spark DataFrame, or one for each of several types: `{"Person": people, "Knows": …}`."""
    if isinstance(data, Mapping):
        return bool(data) and all(map(_is_spark_frame, data.values()))
    return _is_spark_frame(data)


def _is_spark_frame(data: Any) -> bool:
    kind = type(data)
    return kind.__module__.startswith("pyspark.") and kind.__name__ == "DataFrame"


def _by_size(size: int, settings: PipelineSettings) -> EngineChoice:
    up = running_session() is not None
    threshold = settings.spark_from_bytes // 2 if up else settings.spark_from_bytes
    session = "with a session up" if up else "and no session is up"
    amount = f"{size / _MIB:,.1f} MiB"
    if size < threshold:
        return EngineChoice(LOCAL, f"{amount} is less than {threshold // _MIB:,} MiB, {session}")
    if find_spec("pyspark") is None:
        return EngineChoice(LOCAL, f"{amount} is enough for Spark, but pyspark is not installed")
    return EngineChoice(SPARK, f"{amount} is {threshold // _MIB:,} MiB or more, {session}")


def choose_merge_engine(
    wanted: str, changed_rows: int | None, settings: PipelineSettings, what: str = "merge"
) -> EngineChoice:
    """The engine of a merge or schema change: `auto` is Spark for many rows if a session is up."""
    require_engine(wanted, what, (AUTO, LOCAL, SPARK))
    if wanted != AUTO:
        return EngineChoice(wanted, "asked for")
    if running_session() is None:
        return EngineChoice(LOCAL, "no session is up")
    if changed_rows is None:
        return EngineChoice(LOCAL, "the number of changed rows is not known")
    least = settings.spark_merge_from_rows
    if changed_rows < least:
        return EngineChoice(LOCAL, f"{changed_rows:,} changed rows are less than {least:,}")
    return EngineChoice(SPARK, f"{changed_rows:,} changed rows are {least:,} or more")
