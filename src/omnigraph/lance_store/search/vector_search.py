"""Nearest neighbours by cosine distance over one dataset version.

A distance is 1 - cosine in double precision, rounded to 9 decimals, so that the index and an exact
search give the same number. Rows whose vector is NULL or all zeros have no direction and are never
returned. The number of partitions that a query must search is measured on the data when an index is
built (`calibrated_probes`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.reads.indexes import find_index
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, distinct_sorted
from omnigraph.lance_store.search.text_search import RowAddresses
from omnigraph.lance_store.search.vector_columns import VectorBlock, VectorColumns, block_of
from omnigraph.lance_store.store import Dataset
from omnigraph.values.indexes import IndexKind

Vector = np.ndarray[Any, np.dtype[np.float32]]
# One cache for all graphs, because the names of data files are unique.
_SHARED = VectorColumns()
# For fewer rows, a pass over the vectors in memory is as fast as an index.
FLAT_ROWS = 20_000
# A filter that leaves a smaller share of the rows is answered by exact search.
_SELECTIVE = 0.2
_LARGEST_INDEXED_K = 1000
# Single precision chooses rows, double precision ranks them. The two differ by less than this.
_MARGIN = 1e-5
_DECIMALS = 9
_DENSE = 0.25
# A query that must search a larger share of the partitions is slower than a pass over memory.
_HARD = 0.125
_SAMPLES = 64
_K = 10
# The measured recall has an error, so the target is set this share closer to 1.
_HEADROOM = 0.5


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows from best to worst; rows of equal distance are ordered by id."""

    rows: RowAddresses
    ids: pa.Array
    scores: np.ndarray[Any, np.dtype[np.float64]]


def nearest(
    dataset: Dataset,
    column: str,
    vector: Sequence[float] | Vector,
    k: int,
    candidates: RowAddresses | None = None,
    vectors: VectorColumns = _SHARED,
) -> Ranking:
    """The k rows nearest to `vector`, among `candidates` if given; fewer only if fewer exist.

    Uses the index, with its recall, unless exact search is as fast. A query vector without a
    direction is refused.
    """
    query = _direction(vector, dataset.schema.field(column).type.list_size)
    if k <= 0 or _nothing_in(dataset, candidates):
        return _no_ranking()
    with snapshot_errors("searching vectors"):
        found = _by_index(dataset, column, query, k, candidates, vectors)
        if found is not None:
            return found
        return _rank(vectors.blocks(dataset, column), candidates, query, k)


def exact_nearest(
    dataset: Dataset,
    column: str,
    vector: Sequence[float] | Vector,
    k: int | None = None,
    candidates: RowAddresses | None = None,
    vectors: VectorColumns = _SHARED,
) -> Ranking:
    """`nearest` without an index; with `k` None the distance of every row that has one."""
    query = _direction(vector, dataset.schema.field(column).type.list_size)
    limit = int(dataset.count_rows()) if k is None else k
    if limit <= 0 or _nothing_in(dataset, candidates):
        return _no_ranking()
    with snapshot_errors("searching vectors"):
        return _rank(vectors.blocks(dataset, column), candidates, query, limit)


def partitions(rows: int) -> int:
    """Partitions of a vector index: about 2 * sqrt(rows) rows each."""
    return max(1, round(math.sqrt(rows) / 2))


def calibrated_probes(dataset: Dataset, column: str, recall: float, partitions: int) -> int:
    """The smallest probe count that reaches `recall` at 10 on queries near the stored vectors."""

    def blocks() -> Iterator[VectorBlock]:
        # Streamed both times, because the column may be larger than memory.
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


def _nothing_in(dataset: Dataset, candidates: RowAddresses | None) -> bool:
    return bool(dataset.count_rows() == 0 or (candidates is not None and len(candidates) == 0))


def _direction(vector: Sequence[float] | Vector, width: int) -> Vector:
    query = np.asarray(vector, dtype=np.float32)
    if query.shape != (width,):
        raise InvalidArgument(
            f"the query vector has {query.size} numbers, the property has {width}",
            expected=width,
            actual=int(query.size),
        )
    if not np.isfinite(query).all() or not query.any():
        raise InvalidArgument("the query vector has no direction: it is zero or not finite")
    return query


def _by_index(
    dataset: Dataset,
    column: str,
    query: Vector,
    k: int,
    candidates: RowAddresses | None,
    vectors: VectorColumns,
) -> Ranking | None:
    """None when exact search is faster, or the index cannot give the right rows."""
    rows = dataset.count_rows()
    share = 1.0 if candidates is None else len(candidates) / rows
    if rows < FLAT_ROWS or share < _SELECTIVE or k > _LARGEST_INDEXED_K:
        return None
    index = find_index(dataset, column, IndexKind.VECTOR)
    if index is None:
        return None
    if index.probes > _HARD * partitions(rows) and vectors.fits(dataset, column):
        return None
    # One row more than needed shows whether the last distance occurs again.
    asked = k + 1 if candidates is None else math.ceil(1.5 * k / share) + 8
    resident = vectors.resident(dataset, column)
    wanted = ("id", column) if resident is None else ()
    found = index_search(dataset, column, query, asked, index.probes, wanted)
    if resident is None:
        found = found.sort_by(ROW_ADDRESS)
        block = block_of(
            rows=found.column(ROW_ADDRESS).combine_chunks(),
            ids=found.column("id").combine_chunks(),
            vectors=found.column(column).combine_chunks(),
        )
        ranked = _rank([block], candidates, query, asked)
    else:
        rows_found = found.column(ROW_ADDRESS).to_numpy()
        if candidates is not None:
            rows_found = np.intersect1d(rows_found, candidates)
        ranked = _rank(resident, rows_found, query, asked)
    if len(ranked.rows) < k:
        return None
    if len(ranked.rows) > k and ranked.scores[k] == ranked.scores[k - 1]:
        return None
    return Ranking(ranked.rows[:k], ranked.ids[:k], ranked.scores[:k])


def index_search(
    dataset: Dataset,
    column: str,
    query: Vector,
    k: int,
    probes: int,
    columns: Sequence[str] = (),
) -> pa.Table:
    """Addresses and `columns` of nearest rows, by the index and by a scan of uncovered rows."""
    # The calibration measures ten neighbours; more of them are spread over more partitions.
    spread = max(1.0, (k / 10) ** 0.3)
    near = {
        "column": column,
        "q": query,
        "k": k,
        "metric": "cosine",
        "nprobes": math.ceil(probes * spread),
    }
    return dataset.scanner(
        columns=[*columns, "_distance"], nearest=near, with_row_address=True
    ).to_table()


def _rank(
    blocks: Iterable[VectorBlock], candidates: RowAddresses | None, query: Vector, k: int
) -> Ranking:
    unit = query / np.linalg.norm(query)
    wanted = None if candidates is None else distinct_sorted(candidates)
    rows, ids, scores = [], [], []
    for block in blocks:
        keep, rough = _similarities(block, wanted, unit)
        if k < len(rough):
            bar = np.partition(rough, len(rough) - k)[len(rough) - k]
            keep = keep[rough >= bar - _MARGIN]
        rows.append(block.rows[keep])
        ids.append(block.ids.take(pa.array(keep)))
        scores.append(_cosine_distances(block.vectors[keep], query))
    if not rows:
        return _no_ranking()
    all_ids, all_scores = pa.concat_arrays(ids), np.concatenate(scores)
    order = _best_first(all_scores, all_ids, k)
    return Ranking(np.concatenate(rows)[order], all_ids.take(pa.array(order)), all_scores[order])


def _best_first(
    keys: np.ndarray[Any, np.dtype[np.float64]], ids: pa.Array, limit: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The first `limit` positions in ascending order of (key, id)."""
    positions = np.arange(len(keys))
    if limit < len(keys):
        bar = np.partition(keys, limit - 1)[limit - 1]
        positions = np.flatnonzero(keys <= bar)
    table = pa.table({"key": keys[positions], "id": ids.take(pa.array(positions))})
    order = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("id", "ascending")])
    result: np.ndarray[Any, np.dtype[np.int64]] = positions[order.to_numpy()[:limit]]
    return result


def _similarities(
    block: VectorBlock, wanted: RowAddresses | None, unit: Vector
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(positions in the block, their cosine in single precision)."""
    if wanted is None:
        return np.arange(len(block.rows)), (block.vectors @ unit) * block.inverse_norms
    at = np.searchsorted(block.rows, wanted)
    at[at == len(block.rows)] = 0
    positions = at[block.rows[at] == wanted] if len(block.rows) else at[:0]
    if len(positions) > _DENSE * len(block.rows):
        # Gathering this many rows costs more than multiplying the whole block.
        rough = (block.vectors @ unit)[positions]
    else:
        rough = block.vectors[positions] @ unit
    return positions, rough * block.inverse_norms[positions]


def _no_ranking() -> Ranking:
    return Ranking(np.empty(0, np.uint64), pa.array([], pa.string()), np.empty(0))


def _cosine_distances(matrix: Vector, query: Vector) -> np.ndarray[Any, np.dtype[np.float64]]:
    wide, other = matrix.astype(np.float64), query.astype(np.float64)
    lengths = np.sqrt((wide * wide).sum(axis=1)) * np.sqrt((other * other).sum())
    raw = 1.0 - (wide * other).sum(axis=1) / lengths
    # Adding zero turns -0.0 into 0.0.
    rounded: np.ndarray[Any, np.dtype[np.float64]] = np.clip(raw.round(_DECIMALS), 0, 2) + 0.0
    return rounded


def _sample(blocks: Iterable[VectorBlock], every: int) -> Vector:
    """Queries near the data: evenly spaced vectors, each moved a little towards another."""
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
