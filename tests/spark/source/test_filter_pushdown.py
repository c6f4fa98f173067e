"""Why the format takes filters from Spark only where each scan has a reader of its own.

The first test describes formats in Python of Spark 4.3. It fails with a Spark that keeps the
filters of each scan apart (SPARK-58551). The format can then take filters in sessions without our
jar, too, and `docs/spark.md` changes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader

from omnigraph.graph.handle import Graph
from omnigraph.spark import GraphReader
from omnigraph.spark.source.table_reader import TableReader
from omnigraph.writes.shape import Edit

pytestmark = [pytest.mark.xdist_group("spark_reads"), pytest.mark.timeout(900)]


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
TEN = "ten_rows"


def ten_rows() -> type[DataSource]:
    """A format of the numbers 0 to 9 that applies the filters it is given.

    The classes are made in a function, so that workers get them without this module.
    """

    taken = {"LessThan": operator.lt, "GreaterThanOrEqual": operator.ge}

    class Reader(DataSourceReader):
        def __init__(self) -> None:
            self.filters: list[Any] = []

        def pushFilters(self, filters: list[Any]) -> list[Any]:
            self.filters = [f for f in filters if type(f).__name__ in taken]
            return [f for f in filters if type(f).__name__ not in taken]

        def read(self, partition: Any) -> Iterator[tuple[int]]:
            tests = [(taken[type(f).__name__], f.value) for f in self.filters]
            return iter([(n,) for n in range(10) if all(holds(n, v) for holds, v in tests)])

    class TenRows(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ten_rows"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return TenRows


@pytest.fixture
def pushing(spark: Any) -> Any:
    """A session that gives filters to formats in Python."""
    session = spark.newSession()
    session.conf.set(PUSHDOWN, "true")
    session.dataSource.register(ten_rows())
    return session


def counts(frame: Any, conditions: Iterable[str]) -> list[int]:
    """Rows for each condition, in one plan: every condition is a scan of the same `load()`."""
    parts = [frame.where(c).selectExpr(f"{n} AS part") for n, c in enumerate(conditions)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    found = {row.part: row["count"] for row in whole.groupBy("part").count().collect()}
    return [found.get(n, 0) for n in range(len(parts))]


def test_spark_mixes_up_the_filters_of_two_scans_of_one_load(pushing: Any) -> None:
    rows = pushing.read.format(TEN).load()
    assert counts(rows, ["n < 2", "n >= 5"]) != [2, 5]
    first, second = (pushing.read.format(TEN).load() for _ in range(2))
    few, many = first.where("n < 2"), second.where("n >= 5")
    assert few.unionAll(many).count() == 7, "one load() for each scan is right"


def test_the_format_is_right_while_spark_offers_filters(pushing: Any, people: Graph) -> None:
    rows = [{"name": f"p{n}", "age": n} for n in range(10)]
    people.apply({"Person": Edit(insert=rows)})
    frame = pushing.read.format("omnigraph").option("type", "Person").load(people.uri)
    assert counts(frame, ["age < 2", "age >= 5", "age >= 0"]) == [2, 5, 10]
    assert frame.where("age < 2").count() == 2
    assert frame.count() == 10
    assert "pushFilters" not in vars(TableReader)


def test_filters_of_one_reader_stay_apart(pushing: Any, people: Graph) -> None:
    rows = [{"name": f"p{n}", "age": n} for n in range(10)]
    people.apply({"Person": Edit(insert=rows)})
    reader = GraphReader(pushing, people.uri)
    few, many = (reader.frame("Person", ["id"], where=w) for w in ("age < 2", "age >= 5"))
    assert few.unionAll(many).count() == 7
    assert (few.count(), many.count(), few.count()) == (2, 5, 2)
