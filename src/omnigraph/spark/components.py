"""Connected components of pairs on Spark: every key gets the smallest key of its component.

Few pairs are joined in one task with numpy. Many pairs are joined by the rounds of large stars and
small stars (Kiveris et al., 2014), which need a number of rounds that grows with the logarithm of
the longest chain. The result does not depend on the order or the partitions of the pairs.

Workers import this module, so it imports nothing that opens a graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import SparkFailed

KEY, SMALLEST = "key", "smallest"
_LEFT, _RIGHT = "left", "right"

ONE_TASK_PAIRS = 2_000_000
"""So many pairs, and not more, are joined in one task; it holds them in memory."""
_MOST_ROUNDS = 100

Frame = Any
"""A `pyspark.sql.DataFrame`, classic or Connect."""


def kept(frame: Frame) -> Frame:
    """Compute a frame once and forget how, so that plans stay short and rows stay the same.

    The rows are kept in the checkpoint folder of the session (`spark.checkpoint.dir`) if it has
    one, else on the executors.
    """
    folder = frame.sparkSession.conf.get("spark.checkpoint.dir", None)
    return frame.checkpoint(eager=True) if folder else frame.localCheckpoint(eager=True)


def smallest_keys(
    pairs: Frame, left: str, right: str, one_task_pairs: int = ONE_TASK_PAIRS
) -> Frame:
    """(`key`, `smallest`) for every key of `pairs`: the smallest key that it is connected with.

    `pairs` should be kept, because it is read more than once.
    """
    column = import_module("pyspark.sql.functions").col
    named = pairs.select(column(left).alias(_LEFT), column(right).alias(_RIGHT))
    if named.count() <= one_task_pairs:
        return _in_one_task(named)
    return _by_stars(named)


def _in_one_task(pairs: Frame) -> Frame:
    types = import_module("pyspark.sql.types")
    of_key = pairs.schema[_LEFT].dataType
    schema = types.StructType(
        [types.StructField(KEY, of_key, False), types.StructField(SMALLEST, of_key, False)]
    )
    return pairs.repartition(1).mapInArrow(_join_batches, schema)


def _join_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in one worker: all pairs in, every key with its smallest key out."""
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return
    table = pa.Table.from_batches(found)
    ends = pa.chunked_array([*table.column(_LEFT).chunks, *table.column(_RIGHT).chunks])
    keys = pc.unique(ends)
    keys = keys.take(pc.sort_indices(keys))
    places = pc.index_in(ends, keys).to_numpy()
    smallest = keys.take(pa.array(_roots(len(keys), *np.split(places.astype(np.int64), 2))))
    yield from pa.table({KEY: keys, SMALLEST: smallest}).to_batches(max_chunksize=65_536)


def _roots(
    count: int, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The smallest number that each number from 0 to `count` is connected with."""
    roots = np.arange(count)
    while True:
        low = np.minimum(roots[left], roots[right])
        high = np.maximum(roots[left], roots[right])
        apart = low != high
        if not apart.any():
            return roots
        left, right = left[apart], right[apart]
        np.minimum.at(roots, high[apart], low[apart])
        while not np.array_equal(roots, roots[roots]):
            roots = roots[roots]


def _by_stars(pairs: Frame) -> Frame:
    """Rounds over edges (larger key, smaller key), until every edge leads to the smallest key."""
    f = import_module("pyspark.sql.functions")
    edges = kept(
        pairs.select(
            f.greatest(_LEFT, _RIGHT).alias(KEY), f.least(_LEFT, _RIGHT).alias(SMALLEST)
        ).distinct()
    )
    for _ in range(_MOST_ROUNDS):
        edges = kept(_small_star(f, _large_star(f, edges)))
        if _finished(f, edges):
            itself = edges.select(f.col(SMALLEST).alias(KEY), f.col(SMALLEST)).distinct()
            return edges.unionByName(itself)
    raise SparkFailed(f"connected components are not found after {_MOST_ROUNDS} rounds")


def _large_star(f: Any, edges: Frame) -> Frame:
    """Connect the larger neighbours of every key with its smallest neighbour or itself."""
    both = edges.unionByName(edges.select(f.col(SMALLEST).alias(KEY), f.col(KEY).alias(SMALLEST)))
    lowest = both.groupBy(KEY).agg(f.least(f.min(SMALLEST), f.first(KEY)).alias("lowest"))
    return (
        both.join(lowest, KEY)
        .where(f.col(SMALLEST) > f.col(KEY))
        .select(f.col(SMALLEST).alias(KEY), f.col("lowest").alias(SMALLEST))
        .distinct()
    )


def _small_star(f: Any, edges: Frame) -> Frame:
    """Connect the smaller neighbours of every key, and the key, with the smallest of them."""
    lowest = edges.groupBy(KEY).agg(f.min(SMALLEST).alias("lowest"))
    others = (
        edges.join(lowest, KEY)
        .where(f.col(SMALLEST) != f.col("lowest"))
        .select(f.col(SMALLEST).alias(KEY), f.col("lowest").alias(SMALLEST))
    )
    itself = lowest.select(KEY, f.col("lowest").alias(SMALLEST))
    return others.unionByName(itself).distinct()


def _finished(f: Any, edges: Frame) -> bool:
    """Whether every key has one edge, and no key that others lead to leads on."""
    twice = edges.groupBy(KEY).agg(f.count(f.lit(1)).alias("edges")).where("edges > 1")
    if not twice.isEmpty():
        return False
    ends = edges.select(f.col(SMALLEST).alias(KEY)).distinct()
    return bool(ends.join(edges, KEY, "left_semi").isEmpty())
