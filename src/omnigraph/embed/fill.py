"""Vectors for rows that have a text and no vector yet."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.embed.provider import EmbeddingProvider, check_model, embed_texts

Column: TypeAlias = Any
"""An Arrow array, chunked or not."""


def fill_vectors(
    provider: EmbeddingProvider, texts: Column, vectors: Column, recorded: str | None
) -> Column:
    """`vectors` with every NULL that has a non-blank text replaced by the vector of that text.

    `vectors` is a fixed-size list of float32; the provider must make vectors of its width and of
    the `recorded` model. It is not asked for anything when no vector is missing.
    """
    wanted = pc.and_(vectors.is_null(), _is_written(texts))
    rows = np.flatnonzero(np.asarray(wanted))
    if len(rows) == 0:
        return vectors
    kind = vectors.type
    check_model(provider, recorded, kind.list_size)
    made = pa.array(embed_texts(provider, texts.take(pa.array(rows)).to_pylist()), kind)
    whole = vectors.combine_chunks() if isinstance(vectors, pa.ChunkedArray) else vectors
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks)
    place = np.arange(len(whole))
    place[rows] = len(whole) + np.arange(len(rows))
    return pa.concat_arrays([whole, made]).take(pa.array(place))


def _is_written(texts: Column) -> Column:
    return pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), False)
