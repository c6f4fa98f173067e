"""Evaluate graph rules on the state that a write leaves.

`check_graph(image, deltas, report)` reads only what the deltas touch: stored rows are found by id,
by endpoint and by unique value. A whole table is read only if the write replaces a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, spelled
from omnigraph.integrity.rules import (
    DistinctIds,
    EdgesPerSource,
    EndpointExists,
    UniqueTuple,
    graph_rules,
)
from omnigraph.integrity.stored_image import NO_IDS, Deltas, StoredImage, TableDelta
from omnigraph.integrity.violations import Culprits, Place, Report, Violation, by_place, ends_of
from omnigraph.values.identifiers import TableKey, node_table
from omnigraph.values.plurals import counted

RowNumbers = npt.NDArray[np.int64]


Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows of a write that break a row rule, so that the graph rules do not see them.

    An edge to such a node, or a node with such an edge, is not reported a second time.
    """

    ids: Mapping[TableKey, pa.Array] = field(default_factory=dict)
    sources: Mapping[TableKey, pa.Array] = field(default_factory=dict)
    """The sources of edges."""


NOTHING_LEFT_OUT = LeftOut()


def check_graph(
    image: StoredImage,
    deltas: Deltas,
    report: Report,
    *,
    cascaded: bool = False,
    left_out: LeftOut = NOTHING_LEFT_OUT,
) -> None:
    """With `cascaded` the write deletes the edges of deleted nodes, so these are not searched."""
    for delta in deltas.values():
        _ask_for_endpoints(image, delta)
        for rule in graph_rules(image.catalog.entity_type(delta.key)):
            match rule:
                case DistinctIds():
                    _check_distinct(delta, report)
                case UniqueTuple():
                    _check_unique(rule, image, delta, report)
                case EndpointExists():
                    _check_endpoints(rule, image, delta, report, left_out)
                case EdgesPerSource():
                    pass  # checked below, because a write of nodes alone can break it too
    for edge in image.catalog.edges:
        _check_edges_left(edge, image, deltas, report, cascaded=cascaded)
        for rule in graph_rules(edge):
            if isinstance(rule, EdgesPerSource):
                _check_cardinality(rule, image, deltas, report, left_out)


def _ask_for_endpoints(image: StoredImage, delta: TableDelta) -> None:
    """Look up both ends of an edge at once if they have one type; the image caches the answer."""
    edge = image.catalog.entity_type(delta.key)
    if isinstance(edge, EdgeType) and edge.source == edge.target and delta.written is not None:
        ends = [c for n in (SOURCE, TARGET) for c in delta.written.column(n).chunks]
        image.missing(node_table(edge.source), pc.unique(pa.chunked_array(ends, pa.string())))


def _check_distinct(delta: TableDelta, report: Report) -> None:
    if delta.distinct:
        return
    ids = delta.gone
    if len(ids) < 2 or pc.count_distinct(ids).as_py() == len(ids):
        return
    rows = _later_occurrences(_tuple_codes([ids]))
    places = delta.places
    written = len(delta.written_ids)
    report.add(
        DistinctIds.name,
        len(rows),
        (
            Violation(
                DistinctIds.name,
                delta.key,
                ids[row].as_py(),
                ID,
                "the id occurs twice in one write",
                places(row) if places and row < written else None,
            )
            for row in rows.tolist()
        ),
        delta.key,
        ID,
    )


def _check_unique(rule: UniqueTuple, image: StoredImage, delta: TableDelta, report: Report) -> None:
    written = delta.written
    if written is None:
        return
    wanted, rows = _without_nulls(written.select(_with_id(rule.columns)), rule.columns)
    if wanted.num_rows == 0:
        return
    values = {n: pc.unique(wanted.column(n)) for n in rule.columns if _hashable(wanted, n)}
    stored = image.surviving_candidates(delta.key, values, _with_id(rule.columns))
    stored, _ = _without_nulls(stored, rule.columns)
    both = [
        pa.chunked_array([*stored.column(n).chunks, *wanted.column(n).chunks], kind)
        for n, kind in ((n, wanted.column(n).type) for n in rule.columns)
    ]
    codes = _tuple_codes(both)
    later = _later_occurrences(codes)
    clashes = later[later >= stored.num_rows] - stored.num_rows
    if len(clashes) == 0:
        return
    ids = pa.chunked_array([*stored.column(ID).chunks, *wanted.column(ID).chunks], pa.string())
    _, first = np.unique(codes, return_index=True)
    owners = ids.take(pa.array(first[np.searchsorted(codes[first], codes)]))
    # A row that has the id of the first one, too, is reported as a duplicate.
    repeated = pc.equal(owners, ids).to_numpy()
    clashes = clashes[~repeated[clashes + stored.num_rows]]

    def violations() -> Iterator[Violation]:
        for row in clashes.tolist():
            other = owners[stored.num_rows + row].as_py()
            shown = ", ".join(f"{n}={wanted.column(n)[row].as_py()!r}" for n in rule.columns)
            yield Violation(
                rule.name,
                delta.key,
                wanted.column(ID)[row].as_py(),
                ",".join(rule.columns),
                f"@unique({', '.join(rule.columns)}): {shown} belongs to {other!r} already",
                delta.places(int(rows[row])) if delta.places else None,
                ends_of(written, int(rows[row])),
            )

    report.add(rule.name, len(clashes), violations(), delta.key, ",".join(rule.columns))


def _check_endpoints(
    rule: EndpointExists, image: StoredImage, delta: TableDelta, report: Report, left_out: LeftOut
) -> None:
    if delta.written is None:
        return
    column = delta.written.column(rule.column)
    missing = image.missing(rule.node, pc.unique(column))
    if rule.node in left_out.ids:
        missing = missing.filter(pc.invert(pc.is_in(missing, value_set=left_out.ids[rule.node])))
    if len(missing) == 0:
        return
    written = delta.written
    rows = np.flatnonzero(pc.is_in(column, value_set=missing).to_numpy(zero_copy_only=False))
    word = spelled(rule.column)
    report.add(
        rule.name,
        len(rows),
        (
            Violation(
                rule.name,
                delta.key,
                written.column(ID)[row].as_py(),
                word,
                f"{word!r}: there is no {rule.node.type_name} {column[row].as_py()!r}",
                delta.places(row) if delta.places else None,
                ends_of(written, row),
            )
            for row in rows.tolist()
        ),
        delta.key,
        word,
    )


def _check_edges_left(
    edge: EdgeType, image: StoredImage, deltas: Deltas, report: Report, *, cascaded: bool
) -> None:
    """Stored edges that the write does not touch and whose source or target it removes."""
    for rule in graph_rules(edge):
        if not isinstance(rule, EndpointExists):
            continue
        node = deltas.get(rule.node)
        columns = [ID, rule.column]
        if node is None or not (node.replaces or (len(node.deleted) and not cascaded)):
            continue
        if node.replaces:
            left = image.all_surviving(edge.table_key, columns)
            known = pc.is_in(left.column(rule.column), value_set=node.written_ids)
            left = left.filter(pc.invert(known))
        else:
            left = image.surviving(edge.table_key, rule.column, node.deleted, columns)
        word = spelled(rule.column)
        report.add(
            rule.name,
            left.num_rows,
            (
                Violation(
                    rule.name,
                    edge.table_key,
                    row[ID],
                    word,
                    f"it would lose its {rule.node.type_name} {row[rule.column]!r}",
                )
                for batch in left.to_batches(max_chunksize=1000)
                for row in batch.to_pylist()
            ),
            edge.table_key,
            word,
        )


def _check_cardinality(
    rule: EdgesPerSource, image: StoredImage, deltas: Deltas, report: Report, left_out: LeftOut
) -> None:
    """`@card`: check the sources of written and removed edges and, with a minimum, new nodes."""
    sources = _touched_sources(rule, image, deltas)
    if len(sources) == 0:
        return
    missing = image.missing(rule.node, sources)
    # A deleted source has no edges to count; the endpoint rule reports edges written for it.
    if len(missing):
        sources = sources.filter(pc.invert(pc.is_in(sources, value_set=missing)))
    edge_counts = _edges_per_source(rule, image, sources)
    high = rule.maximum
    bounds = f"{rule.minimum}..{'' if high is None else high}"
    broken = pc.less(edge_counts, rule.minimum)
    if rule.table in left_out.sources:
        unsure = pc.is_in(sources, value_set=left_out.sources[rule.table])
        broken = pc.and_(broken, pc.invert(unsure))
    if high is not None:
        broken = pc.or_(broken, pc.greater(edge_counts, high))
    wrong, counts = sources.filter(broken), edge_counts.filter(broken)
    shown = pc.sort_indices(wrong)[: report.limit].to_pylist()
    found = []
    for source, count in ((wrong[row].as_py(), counts[row].as_py()) for row in shown):
        culprits = _culprits(rule, image, deltas, source, count)
        message = (
            f"{rule.node.type_name} {source!r} would have {counted(count, 'edge')} of "
            f"{rule.table.type_name}, @card({bounds})"
        )
        place = culprits.places[0] if culprits else None
        found.append(
            Violation(rule.name, rule.table, source, None, message, place, culprits=culprits)
        )
    report.add(rule.name, len(wrong), by_place(found), rule.table)


def _culprits(
    rule: EdgesPerSource, image: StoredImage, deltas: Deltas, source: str, count: int
) -> Culprits | None:
    """Rows that would have to go: the last edges too many, or the node with too few.

    If the node is stored, it is the rows that took its edges away. None if no row is at fault.
    """
    edges, nodes = deltas.get(rule.table), deltas.get(rule.node)
    if all(delta is None or delta.places is None for delta in (edges, nodes)):
        return None
    if rule.maximum is not None and count > rule.maximum:
        surplus = _places_of(edges, SOURCE, [source])[rule.maximum - count :]
        return Culprits(rule.table, surplus) if surplus else None
    found = _places_of(nodes, ID, [source])
    if found:
        return Culprits(rule.node, found)
    if edges is None:
        return None
    before = image.before(rule.table, edges.gone, [ID, SOURCE])
    taken = before.filter(pc.equal(before.column(SOURCE), source)).column(ID)
    found = _places_of(edges, ID, taken.to_pylist())
    return Culprits(rule.table, found) if found else None


def _places_of(delta: TableDelta | None, column: str, values: Sequence[str]) -> tuple[Place, ...]:
    """Where the written rows with one of these values came from; empty if it is not known."""
    if delta is None or delta.places is None or delta.written is None:
        return ()
    mask = pc.is_in(delta.written.column(column), value_set=pa.array(values, pa.string()))
    rows = np.flatnonzero(mask.to_numpy())
    return tuple(place for row in rows.tolist() if (place := delta.places(row)) is not None)


def _touched_sources(rule: EdgesPerSource, image: StoredImage, deltas: Deltas) -> pa.Array:
    edges, nodes = deltas.get(rule.table), deltas.get(rule.node)
    needs_all = rule.minimum > 0 and edges is not None and edges.replaces
    if needs_all:
        return image.ids_after(rule.node)
    parts = [NO_IDS]
    if edges is not None:
        if edges.written is not None:
            parts += edges.written.column(SOURCE).chunks
        if rule.minimum > 0:
            # A removed edge can only break a minimum; its source is in the stored row.
            parts += image.before(rule.table, edges.gone, [SOURCE]).column(SOURCE).chunks
    if nodes is not None and rule.minimum > 0:
        parts.append(nodes.written_ids)
    return pc.unique(pa.concat_arrays(parts))


def _edges_per_source(rule: EdgesPerSource, image: StoredImage, sources: pa.Array) -> pa.Array:
    """Edges per source after the write, in the order of `sources`."""
    stored = image.surviving(rule.table, SOURCE, sources, [ID, SOURCE]).column(SOURCE)
    written = image.delta(rule.table).written
    chunks = [*stored.chunks, *(written.column(SOURCE).chunks if written is not None else [])]
    counts = pc.value_counts(pa.chunked_array(chunks, pa.string()))
    place = pc.index_in(sources, value_set=counts.field("values"))
    return pc.fill_null(counts.field("counts").take(place), 0)


def _later_occurrences(codes: RowNumbers) -> RowNumbers:
    """Numbers of the rows whose value an earlier row has, ascending."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    repeated = np.r_[False, ordered[1:] == ordered[:-1]]
    return np.sort(order[repeated])


def _with_id(columns: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys((ID, *columns)))


def _hashable(table: pa.Table, name: str) -> bool:
    return not pa.types.is_nested(table.schema.field(name).type)


def _without_nulls(table: pa.Table, columns: tuple[str, ...]) -> tuple[pa.Table, RowNumbers]:
    """(rows that have a value in all of these columns, their row numbers)."""
    keep = np.ones(table.num_rows, bool)
    for name in columns:
        if table.column(name).null_count:
            keep &= table.column(name).is_valid().to_numpy()
    rows = np.flatnonzero(keep)
    return (table if keep.all() else table.take(pa.array(rows))), rows


def _tuple_codes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Codes:
    """One integer per row: equal tuples have equal codes. Columns have no NULLs."""
    codes = _column_codes(columns[0])
    for column in columns[1:]:
        more = _column_codes(column)
        size = int(more.max(initial=0)) + 1
        if int(codes.max(initial=0)) > (2**62) // size:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        codes = codes * size + more
    return codes


def _column_codes(column: Any) -> Codes:
    if pa.types.is_nested(column.type):
        known: dict[Any, int] = {}
        values = (tuple(v) for v in column.to_pylist())
        return np.fromiter((known.setdefault(v, len(known)) for v in values), np.int64, len(column))
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 equals 0.0
    combined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(combined, pa.ChunkedArray):
        combined = pa.concat_arrays(combined.chunks)
    indices = combined.dictionary_encode().indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)
