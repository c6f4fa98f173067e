"""Vectors and text: recall, p50 with and without a filter, index builds, against Lance itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.query import MatchQuery

from bench.harness import Figure, milliseconds, p50, report
from bench.peers import peer_python
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.reads.indexes import find_index
from omnigraph.lance_store.search.text_search import bm25, text_matches
from omnigraph.lance_store.search.vector_columns import VectorColumns
from omnigraph.lance_store.search.vector_search import exact_nearest, nearest
from omnigraph.lance_store.staging.index_builds import build_indexes, plan_indexes, stage_indexes
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.indexes import IndexKind, IndexSpec

_FLAT = "Lance's flat search"
_RECALL = "a bound of 0.95"

WIDTH, K, QUERIES = 128, 10, 60

_BEST_TEXTS = """query best($q: String, $k: I64) {
    match { $d: Doc }
    return { $d.name, bm25($d.t, $q) as score }
    order { bm25($d.t, $q) desc }
    limit $k
}"""


def run(scale: str) -> None:
    """`full` is 200k x 128 vectors and 200k texts."""
    rows = 200_000 if scale == "full" else 22_000
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        figures, notes = [], [f"{rows} rows x {WIDTH}, k={K}, {QUERIES} queries not in the data"]
        for kind in ("clustered", "uniform"):
            more, remarks = _vectors(folder, kind, rows)
            figures += more
            notes += remarks
        more, remarks = _texts(folder, rows)
        report("search", [*figures, *more], [*notes, *remarks])
    finally:
        shutil.rmtree(folder)


def _vectors(folder: Path, kind: str, rows: int) -> tuple[list[Figure], list[str]]:
    data, queries = _sample(kind, rows)
    column = pa.FixedSizeListArray.from_arrays(pa.array(data.ravel()), WIDTH)
    plain = lance.write_dataset(
        pa.table({"id": [f"r{i}" for i in range(rows)], "v": column}), str(folder / kind)
    )
    built: list[Any] = []
    build = milliseconds(
        lambda: built.append(_indexed(folder, kind, plain, IndexSpec("v", IndexKind.VECTOR)))
    )
    dataset = built[0]
    index = find_index(dataset, "v", IndexKind.VECTOR)
    probes = index.probes if index else None
    few = np.sort(np.random.default_rng(2).choice(rows, rows // 100, replace=False))
    some = few.astype(np.uint64)
    memory, none = VectorColumns(), VectorColumns(0)
    cold = milliseconds(lambda: exact_nearest(dataset, "v", queries[0], K, vectors=memory))
    truth = [exact_nearest(dataset, "v", q, K, vectors=memory) for q in queries]

    def recall(search: Callable[[Any], Any]) -> float:
        found = [set(search(q).ids.to_pylist()) for q in queries]
        hits = [len(f & set(t.ids.to_pylist())) for f, t in zip(found, truth, strict=True)]
        return sum(hits) / K / len(queries)

    def ours(q: Any) -> Any:
        return nearest(dataset, "v", q, K, vectors=memory)

    def streamed(q: Any) -> Any:
        return nearest(dataset, "v", q, K, vectors=none)

    def filtered(q: Any) -> Any:
        return nearest(dataset, "v", q, K, some, memory)

    def recall_of_few(search: Callable[[Any], Any]) -> float:
        exact = [exact_nearest(dataset, "v", q, K, some, memory) for q in queries]
        found = [set(search(q).ids.to_pylist()) for q in queries]
        hits = [len(f & set(t.ids.to_pylist())) for f, t in zip(found, exact, strict=True)]
        return sum(hits) / sum(len(t.ids) for t in exact)

    def lance_flat(q: Any) -> Any:
        near = {"column": "v", "q": q, "k": K, "metric": "cosine", "use_index": False}
        return dataset.to_table(columns=["id", "_distance"], nearest=near)

    few_truth = [exact_nearest(dataset, "v", q, K, some, memory) for q in queries]
    peer = _lancedb(folder / f"{kind}-peer", (data, queries, few), (truth, few_truth))
    flat = p50([milliseconds(lambda q=q: lance_flat(q)) for q in queries[:10]])
    unfiltered = _p50(ours, queries)
    figures = [
        Figure(f"{kind}: nearest", unfiltered, flat, "ms", "< 1", against=_FLAT),
        Figure(f"{kind}: nearest, cold", _p50(streamed, queries), flat, "ms", "< 1", against=_FLAT),
        Figure(
            f"{kind}: 1% filter",
            _p50(filtered, queries),
            unfiltered,
            "ms",
            "<= 3",
            against="our own without the filter",
        ),
        Figure(
            f"{kind}: nearest, against lancedb",
            unfiltered,
            peer["all"]["milliseconds"],
            "ms",
            "stated",
            against="lancedb",
        ),
        Figure(
            f"{kind}: nearest, cold, against lancedb",
            _p50(streamed, queries),
            peer["all"]["milliseconds"],
            "ms",
            "<= 1",
            against="lancedb",
        ),
        Figure(
            f"{kind}: 1% filter, against lancedb",
            _p50(filtered, queries),
            peer["few"]["milliseconds"],
            "ms",
            "stated",
            against="lancedb",
        ),
        Figure(f"{kind}: recall@{K}", recall(ours), 0.95, "", ">= 1", "higher", against=_RECALL),
        Figure(
            f"{kind}: recall@{K} of the 1% filter",
            recall_of_few(filtered),
            0.95,
            "",
            ">= 1",
            "higher",
            against=_RECALL,
        ),
        Figure(
            f"{kind}: recall@{K}, cold",
            recall(streamed),
            0.95,
            "",
            ">= 1",
            "higher",
            against=_RECALL,
        ),
    ]
    notes = [
        f"{kind}: index built in {build / 1000:.1f} s, probes {probes}; "
        f"first exact search {cold:.0f} ms; {memory.used_bytes / 2**20:.0f} MiB in memory",
        f"{kind}: lancedb built in {peer['build_seconds']:.1f} s; {_setting(peer, 'all')}; "
        f"1% filter {_setting(peer, 'few')}; peak {peer['peak_mb']:.0f} MB",
    ]
    return figures, notes


def _setting(peer: dict[str, Any], which: str) -> str:
    found = peer[which]
    return f"recall {found['recall']:.3f} at nprobes {found['probes']}, refine {found['refine']}"


def _lancedb(folder: Path, arrays: tuple[Any, Any, Any], truth: tuple[Any, Any]) -> dict[str, Any]:
    """The same vectors, queries and filter in lancedb, in the peers' environment."""
    folder.mkdir()
    for name, array in zip(("data", "queries", "few"), arrays, strict=True):
        np.save(folder / f"{name}.npy", array)
    numbers = [[[int(i[1:]) for i in t.ids.to_pylist()] for t in part] for part in truth]
    (folder / "truth.json").write_text(json.dumps({"all": numbers[0], "few": numbers[1]}))
    script = Path(__file__).parent / "lancedb_runner.py"
    out = subprocess.run(
        [peer_python(), str(script), str(folder), str(K)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, f"lancedb failed: {out.stderr[-2000:]}"
    answers: dict[str, Any] = json.loads(out.stdout.splitlines()[-1])
    return answers


def _texts(folder: Path, rows: int) -> tuple[list[Figure], list[str]]:
    chance = np.random.default_rng(5)
    words = np.array([f"w{i}" for i in range(20_000)])
    ranks = np.minimum(chance.zipf(1.3, size=(rows, 12)), len(words)) - 1
    table = pa.table(
        {"id": [f"r{i}" for i in range(rows)], "t": [" ".join(w) for w in words[ranks]]}
    )
    plain = lance.write_dataset(table, str(folder / "texts"))
    built: list[Any] = []
    build = milliseconds(
        lambda: built.append(_indexed(folder, "texts", plain, IndexSpec("t", IndexKind.FULL_TEXT)))
    )
    dataset, graph = built[0], _graph_of(folder, table)
    queries = [f"w{a} w{b}" for a, b in chance.integers(50, 3000, size=(QUERIES, 2))]

    def lance_bm25(q: str) -> Any:
        query = MatchQuery(q, "t")
        return dataset.to_table(full_text_query=query, columns=["id", "_score"], limit=K)

    def whole_query(q: str) -> Any:
        return graph.query(_BEST_TEXTS, params={"q": q, "k": K})

    def search(q: str) -> Any:
        return text_matches(dataset, "t", "search", q)

    for q in queries:  # what a query needs of a table is built beside the first ones
        whole_query(q)
        lance_bm25(q)
    warm = [
        (milliseconds(lambda q=q: whole_query(q)), milliseconds(lambda q=q: lance_bm25(q)))
        for q in queries
    ]
    whole, reference = (p50(list(times)) for times in zip(*warm, strict=True))
    scan = _p50(lambda q: text_matches(plain, "t", "search", q), queries[:5])
    figures = [
        Figure(
            "bm25, a whole query",
            whole,
            reference,
            "ms",
            "<= 1.1",
            against="Lance's own full-text search",
        ),
        Figure(
            "bm25, ids of all equal scores from storage",
            _p50(lambda q: bm25(dataset, "t", q, K), queries),
            reference,
            "ms",
            "stated",
            against="Lance's own full-text search",
        ),
        Figure(
            "search", _p50(search, queries), scan, "ms", "< 1", against="our own without an index"
        ),
    ]
    return figures, [f"texts: index built in {build / 1000:.1f} s; `search` reference: no index"]


def _graph_of(folder: Path, table: pa.Table) -> Graph:
    """The same texts as nodes of a graph, indexed."""
    graph = init(folder / "graph", "node Doc { name: String @key\n t: String @index }")
    graph.apply({"Doc": {"insert": table.rename_columns(["name", "t"])}})
    graph.ensure_indices()
    return graph


def _p50(search: Callable[[Any], Any], queries: Any) -> float:
    for query in queries[:3]:
        search(query)
    return p50([milliseconds(lambda q=q: search(q)) for q in queries])


def _indexed(folder: Path, name: str, dataset: Any, spec: IndexSpec) -> Any:
    store = Store(parse_location(str(folder), {}))
    at = DatasetVersion(name, None, dataset.version)
    staged = stage_indexes(store, at, build_indexes(store, at, plan_indexes(store, at, [spec])))
    assert staged is not None
    return lance.LanceDataset.commit(dataset, staged.transaction, max_retries=0)


def _sample(kind: str, rows: int) -> tuple[Any, Any]:
    chance = np.random.default_rng(1)
    if kind == "uniform":
        return (
            chance.normal(size=(rows, WIDTH)).astype(np.float32),
            chance.normal(size=(QUERIES, WIDTH)).astype(np.float32),
        )
    centres = chance.normal(size=(max(10, rows // 100), WIDTH))

    def around(number: int) -> Any:
        picked = centres[chance.integers(0, len(centres), number)]
        return (picked + 0.6 * chance.normal(size=(number, WIDTH))).astype(np.float32)

    return around(rows), around(QUERIES)
