"""How many partitions a vector query must look into to reach a recall, measured on the data."""

from __future__ import annotations

import numpy as np

from omnigraph.lance_store.store import Dataset
from omnigraph.lance_store.vector_columns import VectorBlock, VectorColumns
from omnigraph.lance_store.vector_search import Vector, index_search

_SAMPLES = 64
_K = 10
# The sample measures with an error of a few percent of what is missing: aim above the target.
_HEADROOM = 0.5


def calibrated_probes(dataset: Dataset, column: str, recall: float, partitions: int) -> int:
    """The smallest probe count that reaches `recall` at 10 on a sample of the stored vectors."""
    blocks = list(VectorColumns(0).blocks(dataset, column))
    queries = _sample(blocks)
    truth = _neighbours(blocks, queries)
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


def _sample(blocks: list[VectorBlock]) -> Vector:
    """Pairs of stored vectors, evenly spaced, averaged a little: near the data, not on it."""
    vectors = np.concatenate([b.vectors for b in blocks])
    units = vectors * np.concatenate([b.inverse_norms for b in blocks])[:, None]
    at = np.linspace(0, len(units) - 1, min(_SAMPLES, len(units))).astype(np.int64)
    other = (at * 7 + len(units) // 3) % len(units)
    picked: Vector = units[at] + np.float32(0.3) * units[other]
    return picked


def _neighbours(blocks: list[VectorBlock], queries: Vector) -> list[set[int]]:
    best: list[list[tuple[float, int]]] = [[] for _ in queries]
    for block in blocks:
        scores = (block.vectors @ queries.T) * block.inverse_norms[:, None]
        for number, column in enumerate(scores.T):
            top = np.argpartition(column, -min(_K, len(column)))[-_K:]
            best[number] += [(float(column[i]), int(block.rows[i])) for i in top]
    return [{row for _, row in sorted(found, reverse=True)[:_K]} for found in best]


def _rows(dataset: Dataset, column: str, query: Vector, probes: int) -> list[int]:
    found: list[int] = (
        index_search(dataset, column, query, _K, probes).column("_rowaddr").to_pylist()
    )
    return found
