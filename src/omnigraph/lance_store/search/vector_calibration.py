"""How many partitions a vector query must look into to reach a recall, measured on the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from omnigraph.lance_store.search.vector_columns import VectorBlock, VectorColumns
from omnigraph.lance_store.search.vector_search import Vector, index_search
from omnigraph.lance_store.store import Dataset

_SAMPLES = 64
_K = 10
# The sample measures with an error of a few percent of what is missing: aim above the target.
_HEADROOM = 0.5


def calibrated_probes(dataset: Dataset, column: str, recall: float, partitions: int) -> int:
    """The smallest probe count that reaches `recall` at 10 on queries near the stored vectors."""

    def blocks() -> Iterator[VectorBlock]:
        # Streamed, and twice: the column may be larger than memory.
        return VectorColumns(0).blocks(dataset, column)

    queries = _sample(blocks(), max(1, dataset.count_rows() // _SAMPLES))
    truth = _neighbours(blocks(), queries)
    wanted = recall + (1 - recall) * _HEADROOM

    def reached(probes: int) -> bool:
        hits = sum(
            len(true & set(_rows(dataset, column, query, probes)))
            for query, true in zip(queries, truth, strict=True)
        )
        return hits >= wanted * sum(map(len, truth))

    low, high = 0, 1
    while high < partitions and not reached(high):
        low, high = high, min(high * 2, partitions)
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _sample(blocks: Iterable[VectorBlock], every: int) -> Vector:
    """Evenly spaced vectors, each leaning a little to another: near the data, not on it."""
    picked, seen = [], 0
    for block in blocks:
        at = np.arange((every // 2 - seen) % every, len(block.rows), every)
        picked.append(block.vectors[at] * block.inverse_norms[at, None])
        seen += len(block.rows)
    if not picked:
        return np.empty((0, 1), dtype=np.float32)
    units = np.concatenate(picked)
    leaning: Vector = units + np.float32(0.3) * np.roll(units, len(units) // 3, axis=0)
    return leaning


def _neighbours(blocks: Iterable[VectorBlock], queries: Vector) -> list[set[int]]:
    best: list[list[tuple[float, int]]] = [[] for _ in queries]
    for block in blocks:
        if not len(queries) or not len(block.rows):
            continue
        scores = (block.vectors @ queries.T) * block.inverse_norms[:, None]
        for number, column in enumerate(scores.T):
            top = np.argpartition(column, -min(_K, len(column)))[-_K:]
            mine = [(float(column[i]), int(block.rows[i])) for i in top]
            best[number] = sorted(best[number] + mine, reverse=True)[:_K]
    return [{row for _, row in found} for found in best]


def _rows(dataset: Dataset, column: str, query: Vector, probes: int) -> list[int]:
    found: list[int] = (
        index_search(dataset, column, query, _K, probes).column("_rowaddr").to_pylist()
    )
    return found
