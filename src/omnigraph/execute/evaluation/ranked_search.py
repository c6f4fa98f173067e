"""Text predicates, rankings and their fusion over the rows of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.execute.topology.id_changes import MISSING
from omnigraph.execute.views.entity_view import EntityView, PartialView, TableView
from omnigraph.execute.views.frame import Binding, Frame
from omnigraph.ir.reads import Fuse, Search
from omnigraph.lance_store.search.text_search import Ranking, bm25, text_matches
from omnigraph.lance_store.search.vector_search import exact_nearest, nearest
from omnigraph.values.text_match import text_mask, text_query

# Below this many texts judging each beats asking the index for all matches of the table.
_FEW_TEXTS = 2000


def match_text(
    binding: Binding, column: str, function: str, query: str | None, edits: int | None
) -> pa.Array:
    """Row by row: does the text match? Unknown where there is no text."""
    texts = _texts(binding, column)
    if query is None:
        return pa.nulls(len(texts), pa.bool_())
    if len(texts) <= _FEW_TEXTS:
        return text_mask(texts, text_query(function, query, edits))
    found = np.zeros(binding.view.count + 1, bool)
    for table, offset in _tables(binding.view):
        hits = text_matches(table.dataset, column, function, query, edits)
        found[table.find(hits.ids) + offset] = True
    found[MISSING] = False
    unknown = texts.is_null().to_numpy(zero_copy_only=False)
    return pa.array(found[binding.positions], mask=unknown)


def match_column(texts: pa.Array, function: str, query: str | None, edits: int | None) -> pa.Array:
    """The same for texts that are no entity's: each is judged by itself."""
    if query is None:
        return pa.nulls(len(texts), pa.bool_())
    return text_mask(texts, text_query(function, query, edits))


def score_frame(op: Search, frame: Frame, query: Any, wanted: int | None) -> Frame:
    """Every row with its entity's score; rows without one go unless they are kept.

    `wanted`: only the best so many matter, and every entity is in the frame, so an index may
    answer.
    """
    binding = frame.bindings[op.variable.id]
    by_position = np.full(binding.view.count + 1, np.nan)
    if query is not None:
        for table, offset in _tables(binding.view):
            here = _candidates(binding, table, offset)
            ranking = _rank(op, table, query, wanted, here)
            by_position[table.find(ranking.ids) + offset] = ranking.scores
    scores = np.where(binding.positions == MISSING, np.nan, by_position[binding.positions])
    scored = replace(frame, scores={**frame.scores, op.slot: scores})
    return scored if op.keep_unmatched else scored.keep(~np.isnan(scores))


def fuse_frame(op: Fuse, frame: Frame, searches: Sequence[Search], k: int) -> Frame:
    """Reciprocal rank fusion; ranks are of entities, so a hop that repeats one changes nothing."""
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


def _candidates(binding: Binding, table: TableView, offset: int) -> npt.NDArray[np.uint64] | None:
    """Addresses of the table's rows that the frame holds; None for all of them."""
    present = np.zeros(table.count, bool)
    local = binding.positions[binding.positions != MISSING] - offset
    present[local[(local >= 0) & (local < table.count)]] = True
    everything = present.all() and not isinstance(table, PartialView)
    return None if everything else table.addresses[present]


def _rank(
    op: Search,
    table: TableView,
    query: Any,
    wanted: int | None,
    candidates: npt.NDArray[np.uint64] | None,
) -> Ranking:
    if op.function == "bm25":
        return bm25(table.dataset, op.property, query, None, candidates)
    if wanted is not None:
        return nearest(table.dataset, op.property, query, wanted, candidates, table.vectors)
    return exact_nearest(table.dataset, op.property, query, None, candidates, table.vectors)


def _ranks(search: Search, frame: Frame) -> npt.NDArray[np.int64]:
    """Rank of each row's entity from 1, 0 where it has none; ties by id."""
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
    sizes = [table.count for table in view.tables]
    return list(zip(view.tables, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
