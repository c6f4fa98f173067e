"""The same rows with no, a partial and a full index; judged by plain Python."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.lance_store.objects.storage_location import parse_location
from omnigraph.lance_store.search.text_search import TextScores, bm25, text_matches
from omnigraph.lance_store.store import DatasetVersion, Store
from omnigraph.values.indexes import IndexKind, IndexSpec
from omnigraph.values.text_terms import default_edits, terms, within_edits
from omnigraph_testing.graph_helpers import staged_indexes

SEPARATORS = " _-'\"%.,\u0301\u0307🙂\n"
LETTERS = "abAB1éÉΣσςßİıKहि京"
INDEX = [IndexSpec("text", IndexKind.FULL_TEXT)]


def table(ids: list[str], texts: list[str | None]) -> pa.Table:
    return pa.table({"id": ids, "text": pa.array(texts, pa.string())})


def indexed(tmp_path: Path, dataset: Any) -> Any:
    store = Store(parse_location(str(tmp_path), {}))
    staged = staged_indexes(store, DatasetVersion("t", None, dataset.version), INDEX)
    assert staged is not None
    return lance.LanceDataset.commit(dataset, staged.transaction, max_retries=0)


def word(chance: random.Random) -> str:
    return "".join(chance.choice(LETTERS) for _ in range(chance.randint(1, 5)))


def sentence(chance: random.Random, words: int) -> str:
    return "".join(word(chance) + chance.choice(SEPARATORS) for _ in range(words))


def accepts(text: str | None, function: str, query: str, edits: int | None) -> bool:
    if text is None:
        return False
    found, wanted = set(terms(text)), set(terms(query))
    if function == "match_text":
        return bool(wanted) and wanted <= found
    if function == "search":
        return bool(wanted & found)
    return any(
        within_edits(f, w, default_edits(w) if edits is None else edits)
        for f in found
        for w in wanted
    )


@pytest.fixture
def stages(tmp_path: Path) -> list[Any]:
    """Datasets with the same rows: no index, half of them indexed, all of them indexed."""
    chance = random.Random(7)
    texts = [
        None if chance.random() < 0.1 else sentence(chance, chance.randint(0, 6))
        for _ in range(600)
    ]
    texts += ["it's", "a_b", "", "x" * 300, "SELECT '1'; -- drop"]
    ids = [f"d{i:04d}" for i in range(len(texts))]
    uri, half = str(tmp_path / "t"), 300
    lance.write_dataset(table(ids[:half], texts[:half]), uri, enable_stable_row_ids=True)
    plain = lance.write_dataset(table(ids[half:], texts[half:]), str(tmp_path / "u"))
    plain = lance.write_dataset(table(ids[:half], texts[:half]), str(tmp_path / "u"), mode="append")
    indexed(tmp_path, lance.dataset(uri))
    partial = lance.write_dataset(table(ids[half:], texts[half:]), uri, mode="append")
    return [plain, partial, indexed(tmp_path, partial)]


def test_predicates_match_the_same_rows_whatever_is_indexed(stages: list[Any]) -> None:
    rows = stages[0].to_table().to_pylist()
    chance = random.Random(8)
    queries = ["", "🙂", "'", "it's", "a_b", "x" * 300, "'; --", "İ", "京 हि"]
    queries += [sentence(chance, chance.randint(1, 3)) for _ in range(60)]
    asked = [("search", None), ("match_text", None), ("fuzzy", None), ("fuzzy", 0), ("fuzzy", 2)]
    found_some = 0
    for query in queries:
        for function, edits in asked:
            expected = {r["id"] for r in rows if accepts(r["text"], function, query, edits)}
            found_some += bool(expected)
            for dataset in stages:
                hits = text_matches(dataset, "text", function, query, edits)
                assert set(hits.ids.to_pylist()) == expected, (function, edits, query)
                assert len(hits.rows) == len(expected)
                assert (np.diff(hits.rows.astype(np.int64)) > 0).all()
    assert found_some > 100


Ranked = list[tuple[float, Any]]
"""(score negated, name), from best to worst; equal scores in the order of names."""


def ranked(found: TextScores) -> Ranked:
    return sorted(zip((-found.scores).tolist(), found.names.tolist(), strict=True))


def with_ties(ranking: Ranked, limit: int) -> Ranked:
    if limit == 0:
        return []
    return [r for r in ranking if r[0] <= ranking[min(limit, len(ranking)) - 1][0]]


def ways(dataset: Any) -> list[tuple[dict[str, Any], dict[Any, str]]]:
    """Arguments for every way to name rows, each with the id of every name."""
    rows = dataset.scanner(columns=["id"], with_row_id=True, with_row_address=True).to_table()
    found: list[tuple[dict[str, Any], dict[Any, str]]] = []
    for name, argument in (("id", None), ("_rowid", "live"), ("_rowaddr", "candidates")):
        names = rows[name].to_pylist()
        given = {argument: np.sort(rows[name].to_numpy())} if argument else {}
        ids = dict(zip(names, rows["id"].to_pylist(), strict=True))
        if argument == "live":  # a row is named by its place
            ids = {place: ids[row_id] for place, row_id in enumerate(sorted(ids))}
        found.append((given, ids))
    return found


def by_id(found: TextScores, ids: dict[Any, str]) -> Ranked:
    return sorted((score, ids[name]) for score, name in ranked(found))


def test_bm25_scores_exactly_the_rows_that_search_finds(stages: list[Any]) -> None:
    for dataset in stages:
        for query in ("a", "b 1 ß", "zzzz", "", "京"):
            hits = text_matches(dataset, "text", "search", query)
            everything = ranked(bm25(dataset, "text", query))
            assert sorted(name for _, name in everything) == sorted(hits.ids.to_pylist())
            assert all(score < 0 for score, _ in everything)
            for given, ids in ways(dataset):
                for limit in (0, 1, 3, 10_000):
                    top = bm25(dataset, "text", query, limit, **given)
                    assert by_id(top, ids) == with_ties(everything, limit), (query, limit)


def test_bm25_filters_before_it_cuts(stages: list[Any]) -> None:
    for dataset in stages:
        rows = dataset.scanner(columns=["id"], with_row_address=True).to_table()
        addresses = dict(zip(rows["id"].to_pylist(), rows["_rowaddr"].to_pylist(), strict=True))
        everything = ranked(bm25(dataset, "text", "a b"))
        some = sorted((score, addresses[name]) for score, name in everything[::7])
        candidates = np.array([row for _, row in some], np.uint64)
        assert ranked(bm25(dataset, "text", "a b", 5, candidates)) == with_ties(some, 5)
        assert len(bm25(dataset, "text", "a", 5, candidates[:0]).names) == 0


def test_bm25_gives_every_row_that_ties_with_the_last_one(tmp_path: Path) -> None:
    """Thousands of equal scores, in several segments, with deleted and with uncovered rows."""
    chance = random.Random(9)
    uri, parts, words = str(tmp_path / "t"), 4, ["rare", *["often"] * 3, "x", "y"]
    for part in range(parts):
        ids = [f"d{chance.getrandbits(60):015x}" for _ in range(1500)]
        texts = [" ".join(chance.choices(words, k=3)) for _ in ids]
        mode = "create" if part == 0 else "append"
        dataset = lance.write_dataset(table(ids, texts), uri, mode=mode, enable_stable_row_ids=True)
        if part < parts - 1:
            dataset = indexed(tmp_path, dataset)
    dataset.delete("id < 'd8'")
    compacted = lance.dataset(uri)
    compacted.optimize.compact_files()
    assert all(f.metadata.deletion_file is None for f in compacted.get_fragments())
    ties = 0
    for stage in (dataset, compacted):
        texts_of = stage.to_table(columns=["id", "text"]).to_pylist()
        for query in ("rare", "often", "rare x", "often y", "x y rare often"):
            everything = ranked(bm25(stage, "text", query))
            expected = {r["id"] for r in texts_of if accepts(r["text"], "search", query, None)}
            assert {name for _, name in everything} == expected
            for given, known in ways(stage):
                for limit in (1, 2, 10, 100, 1000, 4000):
                    top = with_ties(everything, limit)
                    ties += len(top) > limit
                    found = bm25(stage, "text", query, limit, **given)
                    assert by_id(found, known) == top, (query, list(given), limit)
    assert ties > 50


def test_updated_and_deleted_rows_are_not_found_by_their_old_text(tmp_path: Path) -> None:
    dataset = lance.write_dataset(
        table(["a", "b", "c"], ["red fox", "blue fox", "red"]), str(tmp_path / "t")
    )
    dataset = indexed(tmp_path, dataset)
    dataset.delete("id = 'c'")
    dataset.update({"text": "'green'"}, where="id = 'a'")
    assert text_matches(dataset, "text", "search", "red").ids.to_pylist() == []
    assert text_matches(dataset, "text", "search", "green fox").ids.to_pylist() == ["b", "a"]


def test_an_empty_table_has_no_hits(tmp_path: Path) -> None:
    dataset = lance.write_dataset(table([], []), str(tmp_path / "t"))
    assert len(text_matches(dataset, "text", "search", "x").rows) == 0
    assert len(bm25(dataset, "text", "x", 3).names) == 0
