"""Nodes and edges for the pipeline bench, the same every time, as NDJSON and as Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA = """
node Person { name: String @key  age: I32  city: String? }
edge Knows: Person -> Person { since: I32? }
"""
ROWS = 500_000


def generate(root: Path, nodes: int, edges: int, kinds: tuple[str, ...]) -> None:
    random = np.random.default_rng(7)
    for name, count in (("Person", nodes), ("Knows", edges)):
        parquet = lines = None
        for start in range(0, count, ROWS):
            rows = min(ROWS, count - start)
            table = people(start, rows) if name == "Person" else knows(random, nodes, rows)
            if "parquet" in kinds:
                parquet = parquet or pq.ParquetWriter(root / f"{name}.parquet", table.schema)
                parquet.write_table(table)
            if "ndjson" in kinds:
                lines = lines or (root / f"{name}.ndjson").open("wb")
                lines.write(as_lines(name, table))
        for file in (parquet, lines):
            if file is not None:
                file.close()


def people(start: int, rows: int) -> pa.Table:
    numbers = np.arange(start, start + rows)
    cities = pa.array(["Oslo", "Lima", "Pune", None]).take(pa.array(numbers % 4))
    return pa.table({"name": ids(numbers), "age": (numbers % 90).astype(np.int32), "city": cities})


def knows(random: np.random.Generator, nodes: int, rows: int) -> pa.Table:
    ends = [ids(random.integers(0, nodes, rows)) for _ in range(2)]
    return pa.table({"from": ends[0], "to": ends[1], "since": np.full(rows, 2020, np.int32)})


def ids(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("person-", pa.array(numbers).cast(pa.string()), "")


def as_lines(name: str, table: pa.Table) -> bytes:
    column = [table.column(c).cast(pa.string()) for c in table.column_names]
    if name == "Person":
        city = pc.if_else(
            column[2].is_valid(), pc.binary_join_element_wise(',"city":"', column[2], '"', ""), ""
        )
        parts = ['{"type":"Person","data":{"name":"', column[0], '","age":', column[1], city, "}}"]
    else:
        parts = ['{"edge":"Knows","from":"', column[0], '","to":"', column[1]]
        parts += ['","data":{"since":', column[2], "}}"]
    whole = pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")
    return ("\n".join(whole.to_pylist()) + "\n").encode()
