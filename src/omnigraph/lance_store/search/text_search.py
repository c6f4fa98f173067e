"""Text predicates and BM25 over one dataset version, by its INVERTED index where it has one.

Results name rows by their address (`_rowaddr`), because every scan gives it without cost. An
address is valid for one dataset version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from lance.query import FullTextOperator, MatchQuery

from omnigraph.lance_store.objects.storage_errors import snapshot_errors
from omnigraph.lance_store.reads.indexes import find_index
from omnigraph.lance_store.reads.row_lookup import ROW_ADDRESS, ROW_ID
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
RowIds = np.ndarray[Any, np.dtype[np.uint64]]
Rows = np.ndarray[Any, np.dtype[np.intp]]
"""Numbers of rows of an answer of Lance."""
Scores = np.ndarray[Any, np.dtype[np.floating[Any]]]

# By default Lance expands a fuzzy term to at most 50 terms; a predicate must find all of them.
_ALL_EXPANSIONS = 2**31 - 1
_LONGEST_FUZZY = 32
# How many rows more than twice the wanted ones are asked for, because equal scores are frequent. Up
# to a few hundred rows a search takes about the same time, but reading their ids does not.
_SPARE_ROWS = 256
_SPARE_IDS = 16
_NOWHERE = -1
_DOTTED = "i\u0307"
ID = "id"


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows that a predicate accepts, ascending by address."""

    rows: RowAddresses
    ids: pa.Array


@dataclass(frozen=True, slots=True)
class TextScores:
    """Rows that have a term of a query, in no order."""

    names: Any
    """Ids in Arrow, or `_rowaddr` or places in `live` as NumPy, as asked for."""
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
    live: RowIds | None = None,
) -> TextScores:
    """Rows that have any term of the query; only `candidates` if given.

    With `limit`, the rows hold the best `limit` ones and all that score as the last of them does.
    The caller chooses among equal scores, because storage has no order of ids. Rows are named by
    their address if `candidates` are given, and by their place in `live` if these are: the `_rowid`
    of every row, ascending. Lance knows the `_rowid` of a row that it scored, and reading the id of
    the row takes longer than scoring it.
    """
    wanted = text_query("search", query)
    names = ROW_ADDRESS if candidates is not None else ID if live is None else ROW_ID
    among = live if candidates is None else np.sort(candidates)
    rows = dataset.count_rows() if among is None else len(among)
    if not wanted.terms or limit == 0 or rows == 0:
        none = pa.array([], pa.string()) if names == ID else np.empty(0, np.intp)
        return TextScores(none, np.empty(0))
    with snapshot_errors("ranking text"):
        if find_index(dataset, column, IndexKind.FULL_TEXT) is not None:
            return _indexed_bm25(dataset, _any_term(wanted, column), names, limit, among)
        found = _scan(dataset, names, column).to_table()
    scores = bm25_scores(found.column(column), query)
    named = found.column(names).combine_chunks()
    have = np.flatnonzero(~np.isnan(scores))
    named, scores = named.take(pa.array(have)), scores[have]
    return _named(named, scores, _best(named, scores, limit, among), names)


def _scan(dataset: Dataset, names: str, column: str, **search: Any) -> Any:
    """A scanner of one column with the names of the rows."""
    return dataset.scanner(
        columns=[ID, column] if names == ID else [column],
        with_row_id=names == ROW_ID,
        with_row_address=names == ROW_ADDRESS,
        **search,
    )


def _places(names: RowIds, among: RowIds) -> Rows:
    """The place of each name in an ascending array, which is not empty; -1 for another one."""
    at: Rows = among.searchsorted(names)
    at[at == len(among)] = 0
    at[among[at] != names] = _NOWHERE
    return at


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
    scanner = dataset.scanner(columns=[ID, column], with_row_address=True, fragments=fragments)
    parts = [
        pa.Table.from_batches([batch])
        .filter(text_mask(batch.column(column), query))
        .select([ID, ROW_ADDRESS])
        for batch in scanner.to_batches()
    ]
    return pa.concat_tables(parts) if parts else _no_rows()


def _covered(dataset: Dataset, query: MatchQuery) -> pa.Table:
    found = dataset.scanner(
        full_text_query=query, columns=[ID, "_score"], with_row_address=True, fast_search=True
    ).to_table()
    return found.select([ID, ROW_ADDRESS])


def _indexed_bm25(
    dataset: Dataset, query: MatchQuery, names: str, limit: int | None, among: RowIds | None
) -> TextScores:
    """Ask Lance for more rows until `limit` rows surely score higher than all rows cut off.

    After a compaction the index still has rows that were deleted before it. Lance counts them
    among the rows asked for. It drops them when it looks up the address or the id of a row, so
    that fewer rows than asked for do not say that there are no more. A `_rowid` it gives as the
    index has it; such rows are not `among` the live ones, because a changed row gets a new one.
    """
    # Nearly every row that is found by its `_rowid` is among all rows.
    share = len(among) / dataset.count_rows() if names == ROW_ADDRESS and among is not None else 1.0
    spare = _SPARE_IDS if names == ID else _SPARE_ROWS
    asked = None if limit is None else int(2 * limit / share) + spare
    while True:
        search = {"full_text_query": query, "limit": asked}
        found = _scan(dataset, names, "_score", **search).to_table()
        scores = found.column("_score").to_numpy()
        floor = scores.min() if len(scores) else 0.0
        short = asked is not None and len(scores) < asked
        named = found.column(names).combine_chunks()
        best = _best(named, scores, limit, among)
        complete = asked is None or (short and names == ROW_ID)
        # Rows that were cut off score at most `floor`.
        if complete or limit is None or np.count_nonzero(scores[best.rows] > floor) >= limit:
            return _named(named, scores, best, names)
        assert asked is not None
        asked = None if short or asked * 8 >= dataset.count_rows() else asked * 8


def _any_term(query: TextQuery, column: str) -> MatchQuery:
    return MatchQuery(_spelling(query.terms), column)


def _spelling(terms: tuple[str, ...]) -> str:
    """Query text that Lance splits into exactly these terms.

    `İ` is the only letter whose lower case has a separator in it, a combining dot.
    """
    return " ".join(terms).replace(_DOTTED, "İ")


def _hits(table: pa.Table) -> Hits:
    rows, first = np.unique(_rows(table), return_index=True)
    ids = table.column(ID).combine_chunks()
    return Hits(rows, ids.take(pa.array(first)))


class _TopRows(NamedTuple):
    """Rows of an answer of Lance, and their places among the rows that are asked for."""

    rows: Rows
    places: Rows | None


def _best(names: pa.Array, scores: Scores, limit: int | None, among: RowIds | None) -> _TopRows:
    """The best `limit` rows `among` these with all that score as the last of them does.

    Only rows that may be the best are looked up, because a lookup in all rows of a table takes
    longer than a cut of a few hundred scores. Each row that is not found is made up for.
    """
    if among is None:
        return _TopRows(_highest(scores, limit), None)
    numbers: RowIds = names.to_numpy()
    wanted = limit
    while True:
        rows = _highest(scores, wanted)
        places = _places(numbers[rows], among)
        found = places != _NOWHERE
        count = int(np.count_nonzero(found))
        if limit is None or count >= limit or len(rows) == len(scores):
            break
        wanted = limit + len(rows) - count
    if count < len(rows):
        rows, places = rows[found], places[found]
        highest = _highest(scores[rows], limit)
        rows, places = rows[highest], places[highest]
    return _TopRows(rows, places)


def _highest(scores: Scores, limit: int | None) -> Rows:
    """The rows of the `limit` highest scores with all that score as the last of them does."""
    if limit is None or limit >= len(scores):
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, -limit)[-limit])


def _named(named: pa.Array, scores: Scores, best: _TopRows, names: str) -> TextScores:
    rows = best.rows
    picked: Any = best.places
    if names == ID:
        picked = named.take(pa.array(rows))
    elif names == ROW_ADDRESS:
        picked = named.to_numpy()[rows]
    return TextScores(picked, scores[rows].astype(np.float64))


def _rows(table: pa.Table) -> RowAddresses:
    rows: RowAddresses = table.column(ROW_ADDRESS).to_numpy()
    return rows


def _no_rows() -> pa.Table:
    fields = [pa.field(ID, pa.string()), pa.field(ROW_ADDRESS, pa.uint64())]
    return pa.schema(fields).empty_table()
