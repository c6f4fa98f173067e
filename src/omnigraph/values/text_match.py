"""Text predicates and BM25 on Arrow columns, by the term rule of `text_terms`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.values.text_terms import MAX_EDITS, default_edits, terms, within_edits

_K1, _B = 1.2, 0.75
_ASCII_WORD = "[0-9a-z]+"


class TextFunction(StrEnum):
    """The text predicates of the query language."""

    SEARCH = "search"
    MATCH_TEXT = "match_text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True)
class TextQuery:
    """One text predicate without its column. `edits` None: the length of each term decides."""

    function: TextFunction
    terms: tuple[str, ...]
    edits: int | None = None

    def edits_of(self, term: str) -> int:
        if self.function is not TextFunction.FUZZY:
            return 0
        return default_edits(term) if self.edits is None else self.edits


def text_query(function: str, query: str, edits: int | None = None) -> TextQuery:
    """The predicate of a query text; order and repetition of its terms do not matter."""
    if edits is not None and not 0 <= edits <= MAX_EDITS:
        raise InvalidArgument(f"{function}: edits are 0 to {MAX_EDITS}, not {edits}", edits=edits)
    return TextQuery(TextFunction(function), tuple(sorted(set(terms(query)))), edits)


def text_mask(column: pa.Array | pa.ChunkedArray, query: TextQuery) -> pa.BooleanArray:
    """True where the text matches, NULL where the text is NULL."""
    texts = _one_chunk(column)
    if not query.terms:
        return pc.if_else(pc.is_valid(texts), False, None)
    match query.function:
        case TextFunction.FUZZY:
            return _fuzzy_mask(texts, query)
        case TextFunction.SEARCH:
            pattern = _any_of(query.terms)
            return _by_script(
                texts,
                lambda plain: pc.match_substring_regex(plain, pattern),
                lambda found: not found.isdisjoint(query.terms),
            )
        case TextFunction.MATCH_TEXT:
            patterns = [_any_of((term,)) for term in query.terms]
            wanted = set(query.terms)
            return _by_script(
                texts,
                lambda plain: _all(pc.match_substring_regex(plain, p) for p in patterns),
                wanted.issubset,
            )


@dataclass(frozen=True, slots=True)
class TextCorpus:
    """What BM25 knows about all texts of a column: how many there are, and their mean length."""

    documents: int
    average: float


def corpus_of(column: pa.Array | pa.ChunkedArray) -> TextCorpus:
    texts = _one_chunk(column)
    documents = len(texts) - texts.null_count
    return TextCorpus(documents, float(_count(texts, None).sum()) / (documents or 1))


def bm25_scores(
    column: pa.Array | pa.ChunkedArray, query: str, corpus: TextCorpus | None = None
) -> np.ndarray[Any, Any]:
    """BM25 of every text against the query, NaN where no term occurs.

    k1 = 1.2, b = 0.75, idf = ln(1 + (N - df + 0.5) / (df + 0.5)); N, df and the average length
    count the non-NULL texts of the column; repeated query terms count once. With a `corpus` the
    column may leave out texts of it that have no term of the query.
    """
    texts = _one_chunk(column)
    wanted = text_query("search", query).terms
    corpus = corpus or corpus_of(texts)
    scores = np.zeros(len(texts))
    if not wanted or corpus.documents == 0:
        return np.full(len(texts), np.nan)
    counts = np.vstack([_count(texts, term) for term in wanted])
    lengths = _count(texts, None)
    for row in counts:
        frequency = int(np.count_nonzero(row))
        idf = math.log(1 + (corpus.documents - frequency + 0.5) / (frequency + 0.5))
        weight = row + _K1 * (1 - _B + _B * lengths / (corpus.average or 1.0))
        scores += idf * row * (_K1 + 1) / np.where(weight > 0, weight, 1.0)
    scores[~counts.any(axis=0)] = np.nan
    return scores


def _by_script(
    texts: pa.Array, plain: Callable[[pa.Array], pa.Array], exact: Callable[[set[str]], bool]
) -> pa.BooleanArray:
    """Match ASCII texts in one vectorised call on their lower-cased form, the others one by one."""
    ascii_only = pc.fill_null(pc.string_is_ascii(texts), True)
    if pc.all(ascii_only).as_py() is not False:
        return plain(_plain(texts))
    mask = plain(_plain(pc.if_else(ascii_only, texts, "")))
    others = pc.filter(texts, pc.invert(ascii_only))
    verdicts = pa.array([exact(set(terms(text))) for text in others.to_pylist()], pa.bool_())
    return pc.replace_with_mask(mask, pc.invert(ascii_only), verdicts)


def _plain(texts: pa.Array) -> pa.Array:
    """Lower case, and `_` replaced, so that a word boundary of RE2 is a boundary of our terms."""
    return pc.replace_substring(pc.ascii_lower(texts), "_", " ")


def _any_of(wanted: tuple[str, ...]) -> str:
    # A term of other characters cannot occur in an ASCII text.
    ascii_terms = [re.escape(term) for term in wanted if term.isascii()]
    return rf"\b(?:{'|'.join(ascii_terms)})\b" if ascii_terms else r"[^\x00-\x{10FFFF}]"


def _all(masks: Any) -> pa.BooleanArray:
    result = None
    for mask in masks:
        result = mask if result is None else pc.and_(result, mask)
    return result


def _fuzzy_mask(texts: pa.Array, query: TextQuery) -> pa.BooleanArray:
    """Compare each distinct term with the query once, then find the rows with a matching term."""
    accepted: dict[str, bool] = {}

    def accept(term: str) -> bool:
        known = accepted.get(term)
        if known is None:
            known = any(within_edits(term, t, query.edits_of(t)) for t in query.terms)
            accepted[term] = known
        return known

    verdicts = [
        None if text is None else any(map(accept, terms(text))) for text in texts.to_pylist()
    ]
    return pa.array(verdicts, pa.bool_())


def _count(texts: pa.Array, term: str | None) -> np.ndarray[Any, Any]:
    """How often a term occurs in each text (None: all terms together); 0 for NULL."""
    ascii_only = pc.fill_null(pc.string_is_ascii(texts), True)
    pattern = _ASCII_WORD if term is None else _any_of((term,))
    plain = _plain(pc.if_else(ascii_only, texts, ""))
    counts = pc.fill_null(pc.count_substring_regex(plain, pattern), 0)
    result: np.ndarray[Any, Any] = counts.to_numpy(zero_copy_only=False).astype(np.float64)
    other = np.flatnonzero(~ascii_only.to_numpy(zero_copy_only=False))
    for position, text in zip(other, texts.take(pa.array(other)).to_pylist(), strict=True):
        found = terms(text)
        result[position] = len(found) if term is None else found.count(term)
    return result


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
