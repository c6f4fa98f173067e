"""Classes of the JVM that hand the columns of Python workers to Spark, and the jar with them.

Sources of Spark in Python give rows only, and building rows takes most of the time of a scan. The
classes use inner parts of Spark, so a jar belongs to one version of pyspark. With another version,
or in a session without the jar, the source in Python reads the same rows.

`python -m omnigraph_testing.spark_jar` makes the jar from the Java files of this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def jar_of(version: str) -> Path:
    """Where the jar for a version of pyspark is, if there is one."""
    return FOLDER / f"omnigraph-pyspark-{version}.jar"


def columnar_jar() -> str | None:
    """The jar for the installed pyspark, for `spark.jars`; None if this package has none."""
    jar = jar_of(import_module("pyspark").__version__)
    return str(jar) if jar.is_file() else None


def with_columnar_jar(configuration: dict[str, str]) -> dict[str, str]:
    """The configuration of a session with the jar beside the jars that it names."""
    jar = columnar_jar()
    if jar is None:
        return configuration
    named = configuration.get("spark.jars")
    return {**configuration, "spark.jars": f"{named},{jar}" if named else jar}


def task_frame(
    session: Any, count: int, run: Callable[[Iterator[Any]], Iterator[Any]], schema: Any
) -> Any:
    """A DataFrame of what `run`, a function for `mapInArrow`, gives for the numbers of tasks."""
    reads = _columnar_reads(session)
    if reads is None:
        return session.range(0, count, 1, count).mapInArrow(run, schema)
    udf = import_module("pyspark.sql.udf").UserDefinedFunction
    kind = import_module("pyspark.util").PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    function = udf(run, returnType=schema, evalType=kind)._judf  # noqa: SLF001 - as mapInArrow does
    rows = reads.frame(session._jsparkSession, function.func(), function.dataType(), count)  # noqa: SLF001
    return import_module("pyspark.sql.classic.dataframe").DataFrame(rows, session)


def _columnar_reads(session: Any) -> Any:
    """The class of the jar; None if the session has no jar, or is one of Spark Connect."""
    try:
        found = session._jvm.org.omnigraph.spark.ColumnarReads  # noqa: SLF001 - no public way
    except Exception:  # noqa: BLE001 - pyspark has several errors for a missing attribute
        return None
    return found if type(found).__name__ == "JavaClass" else None
