"""Text predicates, rankings and fused rankings of the rows of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.execute.topology.id_changes import MISSING, Positions
from omnigraph.execute.topology.scoped_states import ScopedContent
from omnigraph.execute.views.entity_view import EntityView, PartialView, TableView
from omnigraph.execute.views.frame import Binding, Frame
from omnigraph.ir.reads import Fuse, Search
from omnigraph.lance_store.search.text_search import bm25, text_matches
from omnigraph.lance_store.search.vector_search import exact_nearest, nearest
from omnigraph.values.text_match import bm25_scores, text_mask, text_query

# For fewer texts it is faster to match each one than to ask the index for all matches.
_FEW_TEXTS = 2000


def match_text(
    binding: Binding, column: str, function: str, query: str | None, edits: int | None
) -> pa.Array:
    """Whether the text of each row matches; NULL without a text."""
    texts = _texts(binding, column)
    if query is None:
        return pa.nulls(len(texts), pa.bool_())
    if len(texts) <= _FEW_TEXTS:
        return text_mask(texts, text_query(function, query, edits))
    found = np.zeros(binding.view.count + 1, bool)
    for table, offset in _tables(binding.view):
        hits = table.find(text_matches(table.dataset, column, function, query, edits).ids)
        found[hits[hits != MISSING] + offset] = True
    found[MISSING] = False
    unknown = texts.is_null().to_numpy(zero_copy_only=False)
    return pa.array(found[binding.positions], mask=unknown)


def match_column(texts: pa.Array, function: str, query: str | None, edits: int | None) -> pa.Array:
    """`match_text` for computed texts, which have no index."""
    if query is None:
        return pa.nulls(len(texts), pa.bool_())
    return text_mask(texts, text_query(function, query, edits))


def score_frame(op: Search, frame: Frame, query: Any, wanted: int | None) -> Frame:
    """Each row with the score of its entity. Rows without a score are dropped by default.

    `wanted` says that only so many best rows are needed and that the frame has every entity. Then
    an approximate index can answer.
    """
    binding = frame.bindings[op.variable.id]
    view = binding.view
    found, scores = _found(op, binding, query, wanted)
    if binding.positions is view.all_positions and not op.keep_unmatched:
        # The number of a row is its position, so only the rows that were found are looked at.
        order = np.argsort(found)
        rows = frame.take(found[order].astype(np.int64), ordered=True)
        return replace(rows, scores={**rows.scores, op.slot: scores[order]})
    by_position = np.full(view.count + 1, np.nan)
    by_position[found] = scores
    by_row = np.where(binding.positions == MISSING, np.nan, by_position[binding.positions])
    scored = replace(frame, scores={**frame.scores, op.slot: by_row})
    return scored if op.keep_unmatched else scored.keep(~np.isnan(by_row))


def fuse_frame(op: Fuse, frame: Frame, searches: Sequence[Search], k: int) -> Frame:
    """Reciprocal rank fusion. Entities are ranked, not rows, so repeated entities do not matter."""
    total = np.zeros(frame.length)
    ranked = np.zeros(frame.length, bool)
    by_slot = {search.slot: search for search in searches}
    for slot, weight in zip(op.rankings, op.weights, strict=True):
        ranks = _ranks(by_slot[slot], frame)
        has_rank = ranks > 0
        total[has_rank] += weight / (k + ranks[has_rank])
        ranked |= has_rank
    scores = np.where(ranked, total, np.nan)
    fused = replace(frame, scores={**frame.scores, op.slot: scores})
    return fused if op.keep_unmatched else fused.keep(ranked)


def _found(
    op: Search, binding: Binding, query: Any, wanted: int | None
) -> tuple[Positions, npt.NDArray[np.float64]]:
    """(distinct positions, their scores), in no order."""
    positions, scores = [np.empty(0, np.int32)], [np.empty(0)]
    for table, offset in _tables(binding.view) if query is not None else ():
        here = _candidates(binding, table, offset)
        found, scored = _scores(op, table, query, wanted, here)
        known = found != MISSING
        positions.append(found[known] + np.int32(offset))
        scores.append(scored[known])
    return np.concatenate(positions), np.concatenate(scores)


def _candidates(binding: Binding, table: TableView, offset: int) -> npt.NDArray[np.uint64] | None:
    """The addresses of the rows of a table that are in the frame; None for all rows."""
    is_whole = table.rule is None and not isinstance(table, PartialView)
    if binding.positions is binding.view.all_positions:
        return None if is_whole else table.addresses
    present = np.zeros(table.count, bool)
    local = binding.positions[binding.positions != MISSING] - offset
    present[local[(local >= 0) & (local < table.count)]] = True
    return None if is_whole and present.all() else table.addresses[present]


def _scores(
    op: Search,
    table: TableView,
    query: Any,
    wanted: int | None,
    candidates: npt.NDArray[np.uint64] | None,
) -> tuple[Positions, npt.NDArray[np.float64]]:
    """(positions in the table, their scores)."""
    if op.function == "bm25":
        if table.rule is not None:
            return _bm25_in_scope(table, op.property, query)
        return _bm25(table, op.property, query, wanted, candidates)
    if wanted is None:
        ranking = exact_nearest(table.dataset, op.property, query, None, candidates, table.vectors)
    else:
        ranking = nearest(table.dataset, op.property, query, wanted, candidates, table.vectors)
    return table.find(ranking.ids), ranking.scores


def _bm25(
    table: TableView,
    column: str,
    query: str,
    wanted: int | None,
    candidates: npt.NDArray[np.uint64] | None,
) -> tuple[Positions, npt.NDArray[np.float64]]:
    if candidates is not None:
        named = bm25(table.dataset, column, query, wanted, candidates)
        return table.find_at(named.names), named.scores
    # Names of all rows in memory are worth their time only if the same version is searched again.
    table.searches += 1
    if table.searches == 1:
        named = bm25(table.dataset, column, query, wanted)
        return table.find(named.names), named.scores
    order = table.by_row_id
    named = bm25(table.dataset, column, query, wanted, live=order.row_ids)
    return order.positions[named.names], named.scores


def _bm25_in_scope(
    table: TableView, column: str, query: str
) -> tuple[Positions, npt.NDArray[np.float64]]:
    """BM25 with the rows in scope as the corpus, because the corpus of the index is all rows.

    So a score does not tell how many hidden rows have a term.
    """
    whole = table.whole if isinstance(table, PartialView) else table
    content = whole.content
    assert isinstance(content, ScopedContent)
    found = whole.find(text_matches(whole.dataset, column, "search", query).ids)
    found = found[found != MISSING]
    texts = whole.column(column).take(pa.array(found))
    scores = bm25_scores(texts, query, content.corpus(column))
    if whole is table:
        return found, scores
    return table.find(whole.ids.take(pa.array(found))), scores


def _ranks(search: Search, frame: Frame) -> npt.NDArray[np.int64]:
    """The rank of the entity of each row, from 1; 0 without a score. Ties are broken by id."""
    binding, scores = frame.bindings[search.variable.id], frame.scores[search.slot]
    present = np.flatnonzero(~np.isnan(scores))
    positions, first, inverse = np.unique(
        binding.positions[present], return_index=True, return_inverse=True
    )
    keys = scores[present][first] * (1 if search.function == "nearest" else -1)
    order = np.lexsort((Binding(binding.view, positions).sort_values(), keys))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    result = np.zeros(frame.length, np.int64)
    result[present] = ranks[inverse]
    return result


def _texts(binding: Binding, column: str) -> pa.Array:
    missing = binding.positions == MISSING
    return binding.view.column(column).take(pa.array(binding.positions, mask=missing))


def _tables(view: EntityView) -> list[tuple[TableView, int]]:
    starts = accumulate((table.count for table in view.tables), initial=0)
    return list(zip(view.tables, starts, strict=False))
