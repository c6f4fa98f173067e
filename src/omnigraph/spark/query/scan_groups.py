"""Rows of one table grouped by the tasks that read them, so that Spark combines few rows.

A row costs the JVM about half a microsecond at every step. Arrow groups the rows of a task in a
tenth of that. Workers import this module, so it opens no graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

_ROWS_AT_ONCE = 256 * 1024


@dataclass(frozen=True, slots=True)
class GroupValue:
    """One aggregate of a group: a function of Arrow, and the column in storage that it reads."""

    function: str
    column: str | None
    """None for `count_all`, which counts rows."""


@dataclass(frozen=True, slots=True)
class ScanGroups:
    """The groups of some rows: `g0`, `g1` … are the keys, `p0`, `p1` … the values. Pickles.

    A group may come several times, because a task groups some rows at a time.
    """

    keys: tuple[str, ...]
    values: tuple[GroupValue, ...]

    @property
    def columns(self) -> list[str]:
        """The columns in storage that the groups need."""
        read = (value.column for value in self.values if value.column is not None)
        return list(dict.fromkeys((*self.keys, *read)))

    def of(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The groups of rows that come some at a time."""
        waiting: list[pa.Table] = []
        rows = 0
        for table in tables:
            waiting.append(table.select(self.columns))
            rows += table.num_rows
            if rows >= _ROWS_AT_ONCE:
                yield self._grouped(pa.concat_tables(waiting))
                waiting, rows = [], 0
        if rows:
            yield self._grouped(pa.concat_tables(waiting))

    def _grouped(self, rows: pa.Table) -> pa.Table:
        # Under plain names, because Arrow makes the names of its results from those of columns.
        names = {name: f"c{number}" for number, name in enumerate(self.columns)}
        keys = [names[key] for key in self.keys]
        wanted = [([] if v.column is None else names[v.column], v.function) for v in self.values]
        made = [f"{column}_{name}" if column else name for column, name in wanted]
        # Equal aggregates are computed once, because their results have one name.
        once = list(dict(zip(made, wanted, strict=True)).values())
        plain = rows.rename_columns(list(names.values()))
        found = plain.group_by(keys, use_threads=False).aggregate(once)
        columns = {f"g{number}": found.column(key) for number, key in enumerate(keys)}
        columns |= {f"p{number}": found.column(name) for number, name in enumerate(made)}
        return pa.table(columns)
