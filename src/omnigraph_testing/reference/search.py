"""Rankings: cosine distance, BM25 and their fusion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from omnigraph.errors import InvalidArgument
from omnigraph.ir.reads import Fuse, Search
from omnigraph.values.text_terms import terms
from omnigraph_testing.reference.expressions import value_of
from omnigraph_testing.reference.rows import Entity, Evaluation, Row

_K1 = 1.2
_B = 0.75

Score = Callable[[Entity], float | None]


def score_rows(op: Search, rows: Sequence[Row], evaluation: Evaluation) -> list[Row]:
    """Every row with the score of its entity. Rows without a score are dropped unless kept."""
    query = value_of(op.query, Row(), evaluation)
    if query is None:
        score: Score = lambda entity: None  # noqa: E731
    elif op.function == "nearest":
        score = _nearest(op, query)
    else:
        score = _bm25(op, query, evaluation)
    scored = []
    for row in rows:
        entity = row.entity(op.variable)
        value = None if entity is None else score(entity)
        if value is not None or op.keep_unmatched:
            scored.append(row.with_score(op.slot, value))
    return scored


def _nearest(op: Search, query: object) -> Score:
    if isinstance(query, str):
        raise InvalidArgument("the reference evaluator has no embedding provider")
    assert isinstance(query, (list, tuple))
    if not any(query):
        raise InvalidArgument("the query vector has no direction: it is zero")

    def score(entity: Entity) -> float | None:
        vector = entity.get(op.property)
        return None if vector is None else cosine_distance(vector, query)

    return score


def cosine_distance(left: Sequence[float], right: Sequence[float]) -> float | None:
    """From 0 (same direction) to 2. A zero vector has no direction, so it has no distance."""
    lengths = math.hypot(*left) * math.hypot(*right)
    if lengths == 0:
        return None
    return 1.0 - math.fsum(a * b for a, b in zip(left, right, strict=True)) / lengths


def _bm25(op: Search, query: str, evaluation: Evaluation) -> Score:
    """Statistics are those of the whole type. The filters of the query do not change them."""
    wanted = set(terms(query))
    documents: dict[str, list[list[str]]] = {
        name: [
            terms(text)
            for node in evaluation.nodes_of(name)
            if (text := node.get(op.property)) is not None
        ]
        for name in op.variable.types
    }

    def score(entity: Entity) -> float | None:
        text = entity.get(op.property)
        if text is None:
            return None
        words = terms(text)
        found = wanted & set(words)
        if not found:
            return None
        return math.fsum(_weight(term, words, documents[entity.type]) for term in sorted(found))

    return score


def _weight(term: str, words: list[str], documents: list[list[str]]) -> float:
    holding = sum(term in document for document in documents)
    rarity = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
    average = sum(map(len, documents)) / len(documents)
    often = words.count(term)
    return rarity * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * len(words) / average))


def fuse_rows(
    op: Fuse, rows: Sequence[Row], searches: Iterable[Search], evaluation: Evaluation
) -> list[Row]:
    """Reciprocal rank fusion over the entities each search has ranked, best rank 1."""
    k = value_of(op.k, Row(), evaluation)
    by_slot = {search.slot: search for search in searches}
    ranks = [_ranks(by_slot[slot], rows) for slot in op.rankings]
    fused = []
    for row in rows:
        parts = [
            weight / (k + ranked[entity])
            for slot, weight, ranked in zip(op.rankings, op.weights, ranks, strict=True)
            if (entity := row.entity(by_slot[slot].variable)) in ranked
        ]
        if parts or op.keep_unmatched:
            fused.append(row.with_score(op.slot, math.fsum(parts) if parts else None))
    return fused


def _ranks(search: Search, rows: Sequence[Row]) -> dict[Entity | None, int]:
    """Rank by entity, not by row: an entity that a hop repeats has one rank."""
    scores: dict[Entity, float] = {}
    for row in rows:
        entity, score = row.entity(search.variable), row.scores[search.slot]
        if entity is not None and score is not None:
            scores[entity] = score
    sign = 1 if search.function == "nearest" else -1
    order = sorted(scores, key=lambda entity: (sign * scores[entity], entity.id, entity.type))
    return {entity: rank for rank, entity in enumerate(order, 1)}
