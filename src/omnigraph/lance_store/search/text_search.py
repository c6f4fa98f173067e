"""Text predicates and BM25 over one dataset version, by its INVERTED index where it has one.

Results name rows by their address (`_rowaddr`), because every scan gives it without cost. An
address is valid for one dataset version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.query import FullTextOperator, MatchQuery

from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.reads.indexes import find_index
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS
from omnigraph.lance_store.store import Dataset
from omnigraph.values.indexes import IndexKind
from omnigraph.values.text_match import (
    TextFunction,
    TextQuery,
    bm25_scores,
    text_mask,
    text_query,
)

RowAddresses = np.ndarray[Any, np.dtype[np.uint64]]

# By default Lance expands a fuzzy term to at most 50 terms; a predicate must find all of them.
_ALL_EXPANSIONS = 2**31 - 1
_LONGEST_FUZZY = 32
_DOTTED = "i\u0307"
_ID = "id"


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows that a predicate accepts, ascending by address."""

    rows: RowAddresses
    ids: pa.Array


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows from best to worst; rows of equal score are ordered by id."""

    rows: RowAddresses
    ids: pa.Array
    scores: np.ndarray[Any, np.dtype[np.float64]]


def text_matches(
    dataset: Dataset, column: str, function: str, query: str, edits: int | None = None
) -> Hits:
    """Rows whose text matches. No index, a partial and a full one give the same rows."""
    wanted = text_query(function, query, edits)
    if not wanted.terms or dataset.count_rows() == 0:
        return _hits(_no_rows())
    with snapshot_errors("searching text"):
        index = find_index(dataset, column, IndexKind.FULL_TEXT)
        if index is None or _needs_a_scan(wanted):
            return _hits(_scanned_matches(dataset, column, wanted, None))
        found = [_indexed_matches(dataset, column, wanted)]
        # Rows that the index does not cover are scanned here, because Lance would search them only
        # for fuzzy terms that the index has.
        pending = [f for f in dataset.get_fragments() if f.fragment_id not in index.covered]
        if pending:
            found.append(_scanned_matches(dataset, column, wanted, pending))
        return _hits(pa.concat_tables(found))


def bm25(
    dataset: Dataset,
    column: str,
    query: str,
    limit: int | None = None,
    candidates: RowAddresses | None = None,
) -> Ranking:
    """Rows that have any term of the query, the most relevant first; only `candidates` if given."""
    wanted = text_query("search", query)
    nothing = candidates is not None and len(candidates) == 0
    if not wanted.terms or nothing or limit == 0 or dataset.count_rows() == 0:
        return _ranking(_no_rows(), np.empty(0), limit)
    with snapshot_errors("ranking text"):
        if find_index(dataset, column, IndexKind.FULL_TEXT) is not None:
            return _indexed_bm25(dataset, column, wanted, limit, candidates)
        found = dataset.scanner(columns=[_ID, column], with_row_address=True).to_table()
    scores = bm25_scores(found.column(column), query)
    keep = ~np.isnan(scores)
    if candidates is not None:
        keep &= np.isin(_rows(found), candidates)
    return _ranking(found.filter(pa.array(keep)), scores[keep], limit)


def _needs_a_scan(query: TextQuery) -> bool:
    """Whether Lance refuses a fuzzy term as too long, or miscounts its edits (`İ`)."""
    return any(
        len(term) > _LONGEST_FUZZY or _DOTTED in term
        for term in query.terms
        if query.edits_of(term)
    )


def _indexed_matches(dataset: Dataset, column: str, query: TextQuery) -> pa.Table:
    match query.function:
        case TextFunction.SEARCH:
            return _covered(dataset, _any_term(query, column))
        case TextFunction.MATCH_TEXT:
            every = MatchQuery(_spelling(query.terms), column, operator=FullTextOperator.AND)
            return _covered(dataset, every)
        case TextFunction.FUZZY:
            # One query for each term, because the allowed edits differ by term.
            parts = [
                _covered(
                    dataset,
                    MatchQuery(
                        _spelling((term,)),
                        column,
                        fuzziness=query.edits_of(term),
                        max_expansions=_ALL_EXPANSIONS,
                    ),
                )
                for term in query.terms
            ]
            return pa.concat_tables(parts)


def _scanned_matches(
    dataset: Dataset, column: str, query: TextQuery, fragments: list[Any] | None
) -> pa.Table:
    scanner = dataset.scanner(columns=[_ID, column], with_row_address=True, fragments=fragments)
    parts = [
        pa.Table.from_batches([batch])
        .filter(text_mask(batch.column(column), query))
        .select([_ID, ROW_ADDRESS])
        for batch in scanner.to_batches()
    ]
    return pa.concat_tables(parts) if parts else _no_rows()


def _covered(dataset: Dataset, query: MatchQuery) -> pa.Table:
    found = dataset.scanner(
        full_text_query=query, columns=[_ID, "_score"], with_row_address=True, fast_search=True
    ).to_table()
    return found.select([_ID, ROW_ADDRESS])


def _indexed_bm25(
    dataset: Dataset,
    column: str,
    query: TextQuery,
    limit: int | None,
    candidates: RowAddresses | None,
) -> Ranking:
    """Ask Lance for more rows until `limit` rows surely score higher than all rows cut off."""
    share = 1.0 if candidates is None else len(candidates) / dataset.count_rows()
    asked = None if limit is None else int(2 * limit / share) + 16
    while True:
        found = _lance_search(dataset, _any_term(query, column), asked)
        complete = asked is None or found.num_rows < asked
        scores = found.column("_score").to_numpy().astype(np.float64)
        floor = scores.min() if len(scores) else 0.0
        if candidates is not None:
            keep = np.isin(_rows(found), candidates)
            found, scores = found.filter(pa.array(keep)), scores[keep]
        # Rows that were cut off score at most `floor`.
        if complete or limit is None or np.count_nonzero(scores > floor) >= limit:
            return _ranking(found, scores, limit)
        assert asked is not None
        asked = asked * 8 if asked * 8 < dataset.count_rows() else None


def _lance_search(dataset: Dataset, query: MatchQuery, limit: int | None) -> pa.Table:
    return dataset.scanner(
        full_text_query=query, columns=[_ID, "_score"], with_row_address=True, limit=limit
    ).to_table()


def _any_term(query: TextQuery, column: str) -> MatchQuery:
    return MatchQuery(_spelling(query.terms), column)


def _spelling(terms: tuple[str, ...]) -> str:
    """Query text that Lance splits into exactly these terms.

    `İ` is the only letter whose lower case has a separator in it, a combining dot.
    """
    return " ".join(terms).replace(_DOTTED, "İ")


def _hits(table: pa.Table) -> Hits:
    rows, first = np.unique(_rows(table), return_index=True)
    ids = table.column(_ID).combine_chunks()
    return Hits(rows, ids.take(pa.array(first)))


def _ranking(
    table: pa.Table, scores: np.ndarray[Any, np.dtype[np.float64]], limit: int | None
) -> Ranking:
    ids = table.column(_ID).combine_chunks()
    order = best_first(-scores, ids, limit)
    return Ranking(_rows(table)[order], ids.take(pa.array(order)), scores[order])


def best_first(
    keys: np.ndarray[Any, np.dtype[np.float64]], ids: pa.Array, limit: int | None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The first `limit` positions in ascending order of (key, id)."""
    positions = np.arange(len(keys))
    if limit is not None and limit < len(keys):
        bar = np.partition(keys, limit - 1)[limit - 1]
        positions = np.flatnonzero(keys <= bar)
    table = pa.table({"key": keys[positions], "id": ids.take(pa.array(positions))})
    order = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("id", "ascending")])
    result: np.ndarray[Any, np.dtype[np.int64]] = positions[order.to_numpy()[:limit]]
    return result


def _rows(table: pa.Table) -> RowAddresses:
    rows: RowAddresses = table.column(ROW_ADDRESS).to_numpy()
    return rows


def _no_rows() -> pa.Table:
    fields = [pa.field(_ID, pa.string()), pa.field(ROW_ADDRESS, pa.uint64())]
    return pa.schema(fields).empty_table()
