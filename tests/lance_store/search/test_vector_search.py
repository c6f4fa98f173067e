"""k nearest rows, exactly or by the index; NULL, zero and equal vectors; filters first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.reads.indexes import find_index
from omnigraph.lance_store.search import vector_search
from omnigraph.lance_store.search.vector_columns import VectorColumns
from omnigraph.lance_store.search.vector_search import exact_nearest, nearest
from omnigraph.lance_store.staging import index_builds
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.indexes import IndexKind, IndexSpec
from omnigraph_testing.graph_helpers import staged_indexes

WIDTH = 8
INDEX = [IndexSpec("v", IndexKind.VECTOR)]


def table(vectors: list[Any], first: int = 0) -> pa.Table:
    ids = [f"r{first + i:05d}" for i in range(len(vectors))]
    return pa.table({"id": ids, "v": pa.array(vectors, pa.list_(pa.float32(), WIDTH))})


def indexed(tmp_path: Path, dataset: Any) -> Any:
    store = Store(parse_location(str(tmp_path), {}))
    staged = staged_indexes(store, DatasetVersion("t", None, dataset.version), INDEX)
    if staged is None:
        return dataset
    return lance.LanceDataset.commit(dataset, staged.transaction, max_retries=0)


@pytest.fixture
def vectors() -> np.ndarray[Any, Any]:
    chance = np.random.default_rng(3)
    centres = chance.normal(size=(40, WIDTH))
    picked = centres[chance.integers(0, 40, 4000)]
    return (picked + 0.3 * chance.normal(size=(4000, WIDTH))).astype(np.float32)


@pytest.fixture
def small_flat_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_builds, "FLAT_ROWS", 500)
    monkeypatch.setattr(vector_search, "FLAT_ROWS", 500)
    # Few partitions make every query look hard; the index is what is tested here.
    monkeypatch.setattr(vector_search, "_HARD", 2.0)


def truth(vectors: Any, query: Any, k: int, among: Any = None) -> list[int]:
    wide = vectors.astype(np.float64)
    cosine = wide @ query / np.linalg.norm(wide, axis=1) / np.linalg.norm(query)
    keys = [(round(1 - c, 9), i) for i, c in enumerate(cosine) if among is None or i in among]
    return [i for _, i in sorted(keys)[:k]]


def numbers(ids: pa.Array) -> list[int]:
    return [int(i[1:]) for i in ids.to_pylist()]


def test_exact_answers(tmp_path: Path, vectors: Any) -> None:
    dataset = lance.write_dataset(table(vectors.tolist()), str(tmp_path / "t"))
    for query in vectors[:20] + np.float32(0.1):
        found = nearest(dataset, "v", query, 10)
        assert numbers(found.ids) == truth(vectors, query, 10)
        assert (np.diff(found.scores) >= 0).all()
        among = set(range(0, 4000, 97))
        narrowed = nearest(dataset, "v", query, 10, np.array(sorted(among), dtype=np.uint64))
        assert numbers(narrowed.ids) == truth(vectors, query, 10, among)


@pytest.mark.usefixtures("small_flat_limit")
def test_index_reaches_its_recall_and_gives_the_same_distances(
    tmp_path: Path, vectors: Any
) -> None:
    plain = lance.write_dataset(
        table(vectors[:3000].tolist()), str(tmp_path / "t"), enable_stable_row_ids=True
    )
    indexed(tmp_path, plain)
    partial = lance.write_dataset(
        table(vectors[3000:].tolist(), 3000), str(tmp_path / "t"), mode="append"
    )
    full = indexed(tmp_path, partial)
    index = find_index(full, "v", IndexKind.VECTOR)
    assert index is not None
    assert len(index.segments) == 2
    queries = vectors[:100] + 0.2 * np.random.default_rng(1).normal(size=(100, WIDTH))
    large = np.arange(0, 4000, 2, dtype=np.uint64)
    large = np.concatenate([large[large < 3000], (large[large < 1000] | np.uint64(1 << 32))])
    for dataset in (partial, full):
        cold = VectorColumns(0)
        for cache in (cold, VectorColumns()):
            cache.blocks(dataset, "v")
            hits = 0
            for query in queries.astype(np.float32):
                exact = exact_nearest(dataset, "v", query, 10)
                found = nearest(dataset, "v", query, 10, vectors=cache)
                assert len(found.rows) == 10
                known = dict(zip(exact.ids.to_pylist(), exact.scores, strict=True))
                for name, score in zip(found.ids.to_pylist(), found.scores, strict=True):
                    assert known.get(name, score) == score
                hits += len(set(known) & set(found.ids.to_pylist()))
                narrowed = nearest(dataset, "v", query, 10, large, cache)
                assert len(narrowed.rows) == 10
                assert np.isin(narrowed.rows, large).all()
            assert hits / 1000 >= 0.95


def test_rows_without_a_direction_are_never_near(tmp_path: Path) -> None:
    one = [1.0] * WIDTH
    rows = [None, [0.0] * WIDTH, one, [-x for x in one], None, one]
    dataset = lance.write_dataset(table(rows), str(tmp_path / "t"))
    found = nearest(dataset, "v", one, 10)
    assert numbers(found.ids) == [2, 5, 3]
    assert found.scores.tolist() == [0.0, 0.0, 2.0]
    assert numbers(nearest(dataset, "v", one, 1).ids) == [2]
    assert len(nearest(dataset, "v", one, 0).rows) == 0
    assert len(nearest(dataset, "v", one, 3, np.array([0, 1, 99], dtype=np.uint64)).rows) == 0
    assert numbers(exact_nearest(dataset, "v", one).ids) == [2, 5, 3]


def test_calibration_samples_small_fragments_too(tmp_path: Path, vectors: Any) -> None:
    dataset = lance.write_dataset(
        table(vectors.tolist()), str(tmp_path / "t"), max_rows_per_file=50
    )
    blocks = list(VectorColumns(0).blocks(dataset, "v"))
    assert len(blocks) == 80
    assert len(vector_search._sample(blocks, 4000 // 64)) in (64, 65)


@pytest.mark.usefixtures("small_flat_limit")
def test_index_over_nothing_but_nulls_and_over_equal_vectors(tmp_path: Path) -> None:
    nulls = lance.write_dataset(table([None] * 600), str(tmp_path / "t"))
    assert indexed(tmp_path, nulls) is nulls
    assert len(nearest(nulls, "v", [1.0] * WIDTH, 5).rows) == 0
    same = lance.write_dataset(table([[1.0] * WIDTH] * 600), str(tmp_path / "t"), mode="overwrite")
    same = indexed(tmp_path, same)
    assert numbers(nearest(same, "v", [2.0] * WIDTH, 5).ids) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("query", [[0.0] * WIDTH, [float("nan")] * WIDTH, [1.0] * (WIDTH - 1)])
def test_query_without_a_direction_is_refused(tmp_path: Path, query: list[float]) -> None:
    dataset = lance.write_dataset(table([[1.0] * WIDTH]), str(tmp_path / "t"))
    with pytest.raises(InvalidArgument):
        nearest(dataset, "v", query, 3)


def test_cache_is_bounded_and_follows_deletes(tmp_path: Path, vectors: Any) -> None:
    dataset = lance.write_dataset(
        table(vectors.tolist()), str(tmp_path / "t"), max_rows_per_file=1000
    )
    cache = VectorColumns(500_000)
    query = vectors[0]
    assert numbers(nearest(dataset, "v", query, 1, vectors=cache).ids) == [0]
    used = cache.used_bytes
    assert 0 < used <= 500_000
    dataset.delete("id = 'r00000'")
    dataset = lance.dataset(dataset.uri)
    assert numbers(nearest(dataset, "v", query, 1, vectors=cache).ids) != [0]
    assert cache.used_bytes <= 500_000
    tiny = VectorColumns(1000)
    assert numbers(nearest(dataset, "v", query, 5, vectors=tiny).ids) == numbers(
        nearest(dataset, "v", query, 5, vectors=cache).ids
    )
    assert tiny.used_bytes == 0


def test_cache_tells_two_deletes_of_as_many_rows_apart(tmp_path: Path, vectors: Any) -> None:
    """As on two branches, which delete different rows of a fragment that they share."""
    dataset = lance.write_dataset(table(vectors.tolist()), str(tmp_path / "t"))
    start, cache = dataset.version, VectorColumns()
    dataset.delete("id = 'r00000'")
    first = lance.dataset(dataset.uri)
    dataset = lance.dataset(dataset.uri, version=start)
    dataset.restore()
    dataset.delete("id = 'r00001'")
    second = lance.dataset(dataset.uri)
    assert numbers(nearest(first, "v", vectors[1], 1, vectors=cache).ids) == [1]
    assert numbers(nearest(second, "v", vectors[0], 1, vectors=cache).ids) == [0]
    assert numbers(nearest(second, "v", vectors[1], 1, vectors=cache).ids) != [1]
