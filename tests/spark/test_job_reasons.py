"""What an error of a Spark job says: the worker's own error, or the root cause in the JVM."""

from __future__ import annotations

from omnigraph.spark.jobs import _reason

JAVA = """An error occurred while calling o63.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading a.csv
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(Q.scala:920)
Caused by: org.apache.spark.SparkException: again
\tat x
Caused by: java.lang.IllegalArgumentException: CSV header does not conform to the schema.
\tat y
"""


def test_the_root_cause_of_the_jvm() -> None:
    assert _reason(Exception(JAVA)) == (
        "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while "
        "reading a.csv; java.lang.IllegalArgumentException: CSV header does not conform to the "
        "schema."
    )


def test_the_error_of_a_worker() -> None:
    text = f"{JAVA}\nTraceback (most recent call last):\n  File x\nValueError: too large\n"
    assert _reason(Exception(text)) == "ValueError: too large"
    assert _reason(Exception("")) == "Exception"
    assert _reason(Exception("plain\nmore")) == "plain"
