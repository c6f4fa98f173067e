"""Who merges the rows of a merge: this process, or a Spark session that is up anyway."""

from __future__ import annotations

from omnigraph.settings.models import PipelineSettings
from omnigraph.spark.session import running_session
from omnigraph.values.known_names import AUTO, LOCAL, SPARK, require_engine


def choose_merge_engine(
    wanted: str, changed_rows: int | None, settings: PipelineSettings
) -> tuple[str, str]:
    """(engine, why): as `wanted`; `auto` takes a session for very many rows, if one is up."""
    require_engine(wanted, "merge", (AUTO, LOCAL, SPARK))
    if wanted != AUTO:
        return (wanted, "asked for")
    if running_session() is None:
        return (LOCAL, "no session is up")
    if changed_rows is None:
        return (LOCAL, "nobody knows how many rows changed")
    least = settings.spark_merge_from_rows
    if changed_rows < least:
        return (LOCAL, f"{changed_rows:,} changed rows are less than {least:,}")
    return (SPARK, f"{changed_rows:,} changed rows are {least:,} or more")
