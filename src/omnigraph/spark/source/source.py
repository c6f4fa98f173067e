"""`format("omnigraph")`: the data source that Spark finds under this name.

Spark imports this module in many short processes: to look for formats, to plan, and with every
task. So the module imports other modules in its functions only. Modules that open a graph are
imported beside the driver, not in executors.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from omnigraph.errors import InvalidArgument
from omnigraph.spark.failures import errors_for_spark

if TYPE_CHECKING:
    from omnigraph.spark.source.table_reader import PinnedTable


# The class in `jvm/OmnigraphFormat.java` sets this option.
_OWN_READER = "omnigraph_own_reader"


class OmnigraphSource(DataSource):
    """One type of one graph."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self._scans_are_apart = self.options.pop(_OWN_READER, None) is not None
        self._pinned: PinnedTable | None = None

    @classmethod
    def name(cls) -> str:
        return "omnigraph"

    def schema(self) -> Any:
        with errors_for_spark():
            from omnigraph.spark.source.source_options import asks_for_changes
            from omnigraph.spark.source.table_reader import table_fields

            if asks_for_changes(self.options):
                return self._feed_schema()
            return table_fields(self._pin())

    def reader(self, schema: Any) -> Any:
        with errors_for_spark():
            from omnigraph.spark.source.table_reader import FilteredTableReader, TableReader

            if self._pinned is None:
                self._refuse_own_schema()
            kind = FilteredTableReader if self._scans_are_apart else TableReader
            return kind(self._pin(), schema)

    def streamReader(self, schema: Any) -> Any:
        with errors_for_spark():
            from omnigraph.spark.source.change_stream import ChangeStreamReader
            from omnigraph.spark.source.source_options import feed_request

            return ChangeStreamReader(feed_request(self.options), schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        with errors_for_spark():
            from omnigraph.spark.source.source_options import save_request
            from omnigraph.spark.source.table_writer import TableWriter, begin_write

            request = save_request(self.options, overwrite=overwrite)
            return TableWriter(request, begin_write(request, schema.names))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        with errors_for_spark():
            from omnigraph.spark.source.source_options import sink_request
            from omnigraph.spark.source.table_writer import StreamTableWriter, begin_write

            request = sink_request(self.options, overwrite=overwrite)
            return StreamTableWriter(request, begin_write(request, schema.names))

    def _feed_schema(self) -> Any:
        from omnigraph.spark.source.change_stream import feed_schema
        from omnigraph.spark.source.source_options import feed_request

        return feed_schema(feed_request(self.options))

    def _refuse_own_schema(self) -> None:
        """Refuse `.schema(…)` without a commit.

        Spark then calls the source at the first action, too late to pin the state at `load()`.
        """
        if not self.options.get("commit") and not self.options.get("tag"):
            raise InvalidArgument(
                "with .schema(…) Spark does not tell when load() was called: name the state with "
                '.option("commit", …) or "tag", or pick columns with .option("columns", "id,age")'
            )

    def _pin(self) -> PinnedTable:
        if self._pinned is None:
            from omnigraph.spark.source.source_options import table_request
            from omnigraph.spark.source.table_reader import pin

            self._pinned = pin(table_request(self.options))
        return self._pinned
