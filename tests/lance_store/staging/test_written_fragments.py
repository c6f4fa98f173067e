"""Rows that are written before their transaction: one fragment from many tables, and errors."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from omnigraph.lance_store.advance import advance
from omnigraph.lance_store.staging.written_fragments import stage_adoption, write_stream
from omnigraph.lance_store.store import DatasetVersion, Store


def test_a_stream_of_tables_is_one_fragment(store: Store, rows) -> None:
    at = rows.create(a=1)
    tables = [rows.table({f"r{n}": n}) for n in range(5)]
    empty = tables[0].slice(0, 0)
    written = write_stream(store.open(at), [empty, *tables, empty])
    assert len(written) == 1
    after = advance(store, stage_adoption(store, at, written, []))
    assert isinstance(after, DatasetVersion)
    ids = store.open(after).to_table(columns=["id"]).column("id").to_pylist()
    assert ids == ["a", *(f"r{n}" for n in range(5))]
    assert write_stream(store.open(at), [empty]) == ()


@pytest.mark.parametrize("good", [0, 1, 3])
def test_an_error_of_a_stream_reaches_the_caller(store: Store, rows, good: int) -> None:
    at = rows.create(a=1)

    def tables() -> Iterator[pa.Table]:
        for number in range(good):
            yield rows.table({f"r{number}": number})
        raise ZeroDivisionError("a fault of the caller")

    with pytest.raises(ZeroDivisionError, match="a fault of the caller"):
        write_stream(store.open(at), tables())
