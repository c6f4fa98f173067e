"""The interface of an embedding provider, and the functions that call one and check its answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import EmbeddingRefused, ModelMismatch

Vector = list[float]


class EmbeddingProvider(Protocol):
    """Turns texts into vectors. Vectors of one `model` can be compared."""

    @property
    def model(self) -> str:
        """The identity that `@embed(model=…)` records."""

    @property
    def width(self) -> int:
        """Numbers per vector."""

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector per text, in order."""


def check_model(provider: EmbeddingProvider, recorded: str | None, width: int) -> None:
    """Refuse a provider whose model or width differs from the property's; None is no model."""
    if recorded is not None and recorded != provider.model:
        raise ModelMismatch(
            f"the property holds vectors of model {recorded!r}, "
            f"the configured provider makes {provider.model!r}",
            expected=recorded,
            actual=provider.model,
        )
    if width != provider.width:
        raise ModelMismatch(
            f"the property is Vector({width}), model {provider.model!r} makes {provider.width}",
            expected=width,
            actual=provider.width,
        )


def embed_query(provider: EmbeddingProvider, text: str, recorded: str | None, width: int) -> Vector:
    """The vector of a query text, for a property recorded as made by `recorded`."""
    check_model(provider, recorded, width)
    found = embed_texts(provider, [text])[0]
    if found is None:
        raise EmbeddingRefused("a blank text has no vector to search with")
    return found


def embed_texts(provider: EmbeddingProvider, texts: Sequence[str | None]) -> list[Vector | None]:
    """One vector per text; None for NULL and blank texts. A text is sent only once."""
    distinct = list(dict.fromkeys(t for t in texts if t is not None and t.strip()))
    vectors = provider.embed(distinct) if distinct else []
    if len(vectors) != len(distinct):
        raise EmbeddingRefused(
            f"{provider.model} answered {len(vectors)} vectors for {len(distinct)} texts",
            model=provider.model,
        )
    for vector in vectors:
        _check_vector(provider, vector)
    known = dict(zip(distinct, vectors, strict=True))
    return [known.get(text) if text is not None else None for text in texts]


def _check_vector(provider: EmbeddingProvider, vector: Vector) -> None:
    if len(vector) != provider.width:
        raise EmbeddingRefused(
            f"{provider.model} answered {len(vector)} numbers, {provider.width} were expected",
            model=provider.model,
        )
    if not all(map(math.isfinite, vector)) or not any(vector):
        raise EmbeddingRefused(
            f"{provider.model} answered a vector of zeros or of numbers that are not finite",
            model=provider.model,
        )


Column: TypeAlias = Any
"""An Arrow array, chunked or not."""


def fill_vectors(
    provider: EmbeddingProvider, texts: Column, vectors: Column, recorded: str | None
) -> Column:
    """`vectors` with every NULL that has a non-blank text replaced by the vector of that text.

    `vectors` is a fixed-size list of float32. The provider must have its width and the `recorded`
    model. It is not called when no vector is missing.
    """
    wanted = pc.and_(vectors.is_null(), is_written(texts))
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


def is_written(texts: Column) -> Column:
    """The texts that get a vector: neither NULL nor blank."""
    return pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), False)
