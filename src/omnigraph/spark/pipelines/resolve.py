"""Entity resolution on Spark: rows that mean the same entity get the same id.

1. Rows with an equal value of a `block` expression are compared. A pair that shares several blocks
   is compared once, in the first of them.
2. The score of a pair is the weighted mean of the similarities of its columns, from 0 to 1. Cheap
   similarities come first, and a pair that cannot reach the threshold any more is dropped.
3. Pairs that reach the threshold are connected. The id of an entity is the smallest row key among
   the rows that are connected, so it depends neither on the order nor on the partitions.

All similarities are functions of Spark SQL, so no row leaves the JVM before the pairs are known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from omnigraph.errors import InvalidArgument
from omnigraph.spark.components import KEY as LINKED
from omnigraph.spark.components import SMALLEST, Frame, kept, smallest_keys
from omnigraph.spark.pipelines.model import (
    CompareBy,
    ComparedColumn,
    ResolveOptions,
    ResolveOutput,
)
from omnigraph.values.plurals import counted

Column = Any
"""A `pyspark.sql.Column`, classic or Connect."""

ORIGINS = "origins"
SCORE, FROM, TO = "score", "from", "to"

_ROW_KEY = "__row_key"
_ALLOWED = 1e-9
"""Sums of doubles that should be equal to the threshold may be so much below it."""
_SHOWN_BLOCKS = 5

_log = logging.getLogger(__name__)


def resolve_frame(
    spark: Any, frame: Frame, options: ResolveOptions, warn: Callable[[str], object] | None = None
) -> Frame:
    """The DataFrame of a `resolve` step; `warn` is told of blocks that are too large.

    Raises:
        InvalidArgument: a column is missing, or the key of a row is NULL.
    """
    f = import_module("pyspark.sql.functions")
    _check(frame, options)
    keyed = frame.select(_row_key(f, frame, options).alias(_ROW_KEY), *_all(f, frame))
    only_pairs = options.output is ResolveOutput.PAIRS
    rows = kept(_blocked(f, keyed, frame, options) if only_pairs else keyed)
    if options.key is not None and not rows.where(f.col(_ROW_KEY).isNull()).isEmpty():
        raise InvalidArgument(f"resolve {options.input}: the key {options.key!r} is NULL in a row")
    blocked = rows if only_pairs else _blocked(f, rows, frame, options)
    pairs = _pairs(f, blocked, options, warn or _log.warning)
    if only_pairs:
        # Rows that have the same key may meet in different blocks.
        best = kept(pairs.groupBy("a", "b").agg(f.max(SCORE).alias(SCORE)))
        return best.select(f.col("a").alias(FROM), f.col("b").alias(TO), SCORE)
    links = smallest_keys(kept(pairs.select("a", "b")), "a", "b")
    if options.output is ResolveOutput.ROWS:
        return _with_ids(f, rows, frame, links, options)
    return _entities(f, rows, frame, links, options)


# --- the rows ---------------------------------------------------------------------------------


def _check(frame: Frame, options: ResolveOptions) -> None:
    taken = set(frame.columns) - {options.key}
    made = {
        ResolveOutput.ENTITIES: (options.id, ORIGINS),
        ResolveOutput.ROWS: (options.id,),
        ResolveOutput.PAIRS: (),
    }
    for name in made[options.output]:
        if name in taken:
            raise InvalidArgument(
                f"resolve {options.input}: the input has a column {name!r} already; rename it, or "
                "choose another `id`",
                column=name,
            )


def _all(f: Any, frame: Frame) -> list[Column]:
    return [f.col(_quoted(name)) for name in frame.columns]


def _value(f: Any, frame: Frame, text: str) -> Column:
    """A column by its name, else an SQL expression."""
    return f.col(_quoted(text)) if text in frame.columns else f.expr(text)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _row_key(f: Any, frame: Frame, options: ResolveOptions) -> Column:
    """The key of a row; without `key`, a hash of all its values."""
    if options.key is not None:
        return _value(f, frame, options.key)
    return f.sha2(f.to_json(f.struct(*_all(f, frame)), {"ignoreNullFields": "false"}), 256)


def _blocked(f: Any, rows: Frame, frame: Frame, options: ResolveOptions) -> Frame:
    """Key, blocks and compared values of every row. NULL and empty text are not a block."""
    blocks = [
        f.nullif(_value(f, frame, text).cast("string"), f.lit("")).alias(f"block{i}")
        for i, text in enumerate(options.block)
    ]
    values = []
    for i, compared in enumerate(options.compare):
        prepared = SIMILARITIES[compared.by].prepare(f, _value(f, frame, compared.column))
        values.append(prepared.alias(f"value{i}"))
    return rows.select(_ROW_KEY, *blocks, *values)


# --- the pairs --------------------------------------------------------------------------------


def _pairs(f: Any, rows: Frame, options: ResolveOptions, warn: Callable[[str], object]) -> Frame:
    """(`a`, `b`, `score`) of all pairs that reach the threshold, `a` being the smaller key.

    A pair may occur twice if several rows have one key.
    """
    names = [f"block{i}" for i in range(len(options.block))]
    rows = _without_large_blocks(f, rows, names, options, warn)
    several = len(names) > 1
    listed = f.array(*names) if several else f.array(names[0])
    in_blocks = rows.select("*", f.posexplode(listed).alias("block", "shared")).where(
        "shared IS NOT NULL"
    )
    left, right = in_blocks.alias("l"), in_blocks.alias("r")
    meets = (
        (f.col("l.shared") == f.col("r.shared"))
        & (f.col("l.block") == f.col("r.block"))
        & (f.col(f"l.{_ROW_KEY}") < f.col(f"r.{_ROW_KEY}"))
    )
    for i, name in enumerate(names[:-1]):
        earlier = f.coalesce(f.col(f"l.{name}") == f.col(f"r.{name}"), f.lit(False))
        meets &= ~((f.col("l.block") > i) & earlier)
    met = left.join(right, meets)
    terms = _terms(f, options.compare)
    needed = options.threshold * sum(term.weight for term in terms) - _ALLOWED
    for known in range(1, len(terms) + 1):
        rest = sum(term.weight for term in terms[known:])
        met = met.where(_sum(f, terms[:known]) + rest >= needed)
    total = sum(term.weight for term in terms)
    score = f.least(_sum(f, terms) / total, f.lit(1.0))
    return met.select(
        f.col(f"l.{_ROW_KEY}").alias("a"), f.col(f"r.{_ROW_KEY}").alias("b"), score.alias(SCORE)
    )


def _without_large_blocks(
    f: Any,
    rows: Frame,
    names: Sequence[str],
    options: ResolveOptions,
    warn: Callable[[str], object],
) -> Frame:
    """The rows, with NULL instead of a block that more than `max_block` rows have."""
    stacked = rows.select(f.posexplode(f.array(*names)).alias("block", "shared"))
    sizes = stacked.where("shared IS NOT NULL").groupBy("block", "shared").count()
    large = sizes.where(f.col("count") > options.max_block)
    largest = large.orderBy(f.desc("count"), "block", "shared").limit(_SHOWN_BLOCKS).collect()
    if not largest:
        return rows
    large = kept(large)
    shown = ", ".join(
        f"{options.block[row['block']]} = {row['shared']!r} ({row['count']:,} rows)"
        for row in largest
    )
    blocks = counted(large.count(), "block")
    warn(
        f"resolve {options.input}: {blocks} with more than {options.max_block:,} rows "
        f"(`max_block`) are not compared: {shown}"
    )
    for i, name in enumerate(names):
        of_name = large.where(f.col("block") == i).select(f.col("shared").alias(f"large{i}"))
        rows = rows.join(f.broadcast(of_name), f.col(name) == f.col(f"large{i}"), "left")
        rows = rows.withColumn(name, f.when(f.col(f"large{i}").isNull(), f.col(name))).drop(
            f"large{i}"
        )
    return rows


# --- similarities -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Similarity:
    """How two values are compared, in functions of Spark SQL."""

    cost: int
    """Similarities of lower cost are computed first."""
    prepare: Callable[[Any, Column], Column]
    """Applied to every row once."""
    compare: Callable[[Any, Column, Column], Column]
    """From 0 to 1, of two values that are not NULL; NULL counts as 0."""


@dataclass(frozen=True, slots=True)
class _Term:
    """The similarity of one column of a pair, and its weight."""

    weight: float
    similarity: Column


def _terms(f: Any, compare: Sequence[ComparedColumn]) -> list[_Term]:
    """Cheap similarities first. A value that is NULL is like no other value."""

    def terms() -> Iterator[tuple[int, _Term]]:
        for i, compared in enumerate(compare):
            kind = SIMILARITIES[compared.by]
            left, right = f.col(f"l.value{i}"), f.col(f"r.value{i}")
            alike = kind.compare(f, left, right).cast("double")
            # `greatest` and `least` leave NULL out, so the values are asked themselves.
            known = f.when(left.isNotNull() & right.isNotNull(), alike)
            yield kind.cost, _Term(compared.weight, f.coalesce(known, f.lit(0.0)))

    return [term for _, term in sorted(terms(), key=lambda pair: pair[0])]


def _sum(f: Any, terms: Sequence[_Term]) -> Column:
    total = f.lit(0.0)
    for term in terms:
        total = total + term.similarity * f.lit(float(term.weight))
    return total


def _unchanged(f: Any, value: Column) -> Column:
    return value


def _text(f: Any, value: Column) -> Column:
    return value.cast("string")


def _equal(f: Any, left: Column, right: Column) -> Column:
    return (left == right).cast("double")


def _by_edits(f: Any, left: Column, right: Column) -> Column:
    longest = f.greatest(f.length(left), f.length(right))
    return f.when(longest == 0, 1.0).otherwise(1.0 - f.levenshtein(left, right) / longest)


def _by_jaro_winkler(f: Any, left: Column, right: Column) -> Column:
    return f.jaro_winkler_similarity(left, right)


def _words(f: Any, value: Column) -> Column:
    words = f.split(f.lower(value.cast("string")), r"[^\p{L}\p{N}]+")
    return f.array_sort(f.array_distinct(f.array_remove(words, "")))


def _by_tokens(f: Any, left: Column, right: Column) -> Column:
    shared = f.size(f.array_intersect(left, right))
    either = f.size(left) + f.size(right) - shared
    return f.when(either == 0, 0.0).otherwise(shared / either)


def _number(f: Any, value: Column) -> Column:
    return value.cast("double")


def _by_number(f: Any, left: Column, right: Column) -> Column:
    larger = f.greatest(f.abs(left), f.abs(right))
    apart = f.abs(left - right) / larger
    return f.when(larger == 0, 1.0).otherwise(f.greatest(f.lit(0.0), 1.0 - apart))


def _vector(f: Any, value: Column) -> Column:
    return value.cast("array<float>")


def _by_vectors(f: Any, left: Column, right: Column) -> Column:
    same = f.size(left) == f.size(right)
    cosine = f.vector_cosine_similarity(left, right)
    return f.when(same, f.least(f.lit(1.0), f.greatest(f.lit(0.0), cosine.cast("double"))))


SIMILARITIES = {
    CompareBy.EXACT: Similarity(0, _unchanged, _equal),
    CompareBy.NUMBER: Similarity(1, _number, _by_number),
    CompareBy.TOKENS: Similarity(3, _words, _by_tokens),
    CompareBy.JARO_WINKLER: Similarity(4, _text, _by_jaro_winkler),
    CompareBy.EDIT: Similarity(5, _text, _by_edits),
    CompareBy.VECTORS: Similarity(2, _vector, _by_vectors),
}
"""What `by` may say.

| `by` | similarity |
|---|---|
| `exact` | 1 if equal, else 0 |
| `edit` | 1 - Levenshtein distance / length of the longer text |
| `jaro_winkler` | Jaro-Winkler similarity |
| `tokens` | shared words / all words (Jaccard), in lower case |
| `number` | 1 - difference / larger absolute value |
| `vectors` | cosine, at least 0; vectors of different lengths are not alike |
"""


# --- what the step gives ----------------------------------------------------------------------


def _with_ids(f: Any, rows: Frame, frame: Frame, links: Frame, options: ResolveOptions) -> Frame:
    """The input with the id of its entity."""
    found = f.coalesce(f.col(SMALLEST), f.col(_ROW_KEY)).alias(options.id)
    others = [f.col(_quoted(name)) for name in frame.columns if name != options.id]
    return rows.join(links, f.col(_ROW_KEY) == f.col(LINKED), "left").select(found, *others)


def _entities(f: Any, rows: Frame, frame: Frame, links: Frame, options: ResolveOptions) -> Frame:
    """One row for each entity: its id, a value for each column, and the keys of its rows.

    The value of a column is the most frequent one that is not NULL; among equally frequent values
    it is the smallest one.
    """
    names = [name for name in frame.columns if name != options.id]
    repeated = rows.groupBy(_ROW_KEY).count().where(f.col("count") > 1).select(_ROW_KEY)
    together = kept(
        links.unionByName(
            repeated.join(links, f.col(_ROW_KEY) == f.col(LINKED), "left_anti").select(
                f.col(_ROW_KEY).alias(LINKED), f.col(_ROW_KEY).alias(SMALLEST)
            )
        )
    )
    meets = f.col(_ROW_KEY) == f.col(LINKED)
    alone = rows.join(together, meets, "left_anti").select(
        f.col(_ROW_KEY).alias(options.id),
        *(f.col(_quoted(name)) for name in names),
        f.array(_ROW_KEY).alias(ORIGINS),
    )
    merged = (
        rows.join(together, meets)
        .groupBy(f.col(SMALLEST).alias(options.id))
        .agg(
            *(_canonical(f, frame, name).alias(name) for name in names),
            f.array_sort(f.collect_set(_ROW_KEY)).alias(ORIGINS),
        )
    )
    return alone.unionByName(merged)


def _canonical(f: Any, frame: Frame, name: str) -> Column:
    value = f.col(_quoted(name))
    if _has_map(frame.schema[name].dataType.simpleString()):
        # Maps have no order and are not counted: the value of the smallest key is taken.
        return f.min_by(
            f.when(value.isNotNull(), value), f.when(value.isNotNull(), f.col(_ROW_KEY))
        )
    return f.mode(value, True)


def _has_map(type_text: str) -> bool:
    return "map<" in type_text or "variant" in type_text
