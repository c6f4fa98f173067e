"""Readers that die while they read: a few of the batches kill the process that reads them.

Executors cannot import the tests, so this module is pickled by value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from omnigraph.spark.query import answers, graph_tables
from omnigraph.spark.source.source import OmnigraphSource
from omnigraph.spark.source.table_reader import TableReader
from omnigraph_testing.spark_clusters import Trouble, claim

DEADLY = (0, 2, 5)
"""Numbers among all batches that are read, by any process."""


def dying(batches: Iterator[Any], folder: str, trouble: Trouble) -> Iterator[Any]:
    """Passes some batches on, then kills the process."""
    for batch in batches:
        yield batch
        if _next_number(folder) in DEADLY:
            trouble()


def deaths(folder: str | Path) -> int:
    numbers = {int(file.name) for file in Path(folder).iterdir()}
    return len(numbers & set(DEADLY))


def dying_source(name: str, folder: str, trouble: Trouble) -> type[OmnigraphSource]:
    """The format under another name, with readers that die."""

    class DyingReader(TableReader):
        def read(self, partition: Any) -> Iterator[Any]:
            yield from dying(TableReader.read(self, partition), folder, trouble)

    class DyingSource(OmnigraphSource):
        @classmethod
        def name(cls) -> str:
            return name

        def reader(self, schema: Any) -> Any:
            OmnigraphSource.reader(self, schema)
            return DyingReader(self._pin(), schema)

    return DyingSource


def make_queries_die(patch: Any, folder: str, trouble: Trouble) -> None:
    """Executors of queries die while they read tables, and while they hand over the answer."""
    for module, name in ((graph_tables, "read_tasks"), (answers, "_packed")):
        patch.setattr(module, name, _dying_tasks(getattr(module, name), folder, trouble))


def _dying_tasks(original: Any, folder: str, trouble: Trouble) -> Any:
    def made(*arguments: Any, **named: Any) -> Any:
        run = original(*arguments, **named)

        def attempt(batches: Any) -> Any:
            yield from dying(run(batches), folder, trouble)

        return attempt

    return made


def _next_number(folder: str) -> int:
    for number in count():
        if claim(f"{folder}/{number}"):
            return number
    raise AssertionError("unreachable")


cloudpickle.register_pickle_by_value(sys.modules[__name__])
