"""Graph rules of `integrity.rules` for inputs of any size: joins in DuckDB on the narrow columns.

The same rules, messages and final image as `integrity.graph_checks`, which looks rows up one by one
and is the better way for small writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, EdgeType
from omnigraph.errors import KeyConflict
from omnigraph.integrity.rules import (
    DistinctIds,
    EdgesPerSource,
    EndpointExists,
    UniqueTuple,
    graph_rules,
)
from omnigraph.integrity.violations import FIRST_VIOLATIONS, Ends, Place, Report, Violation
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.prepare_rows import PLACE
from omnigraph.load.prepared import PreparedInput
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.values.identifiers import EntityKind, TableKey, node_table

Hashes = npt.NDArray[np.uint64]

_WORD = 8
_LONGEST_TEXT = 256
"""Bytes; a round over the column for every eight of them is not worth it beyond."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_FIRST_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], dtype=np.uint64)


def row_hashes(columns: Sequence[pa.ChunkedArray]) -> Hashes | None:
    """One hash per row over columns without NULLs; None for kinds and lengths not provided for."""
    found: Hashes | None = None
    for column in columns:
        parts = [_of_chunk(chunk) for chunk in column.chunks]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        hashes = np.concatenate(known) if known else np.empty(0, np.uint64)
        found = hashes if found is None else _mixed(found, hashes)
    return found


def _of_chunk(chunk: pa.Array) -> Hashes | None:
    kind = chunk.type
    if pa.types.is_string(kind):
        return _of_texts(chunk)
    if pa.types.is_integer(kind):
        return _mixed(np.full(len(chunk), _SPREAD), _as_words(chunk.cast(pa.int64(), safe=False)))
    if pa.types.is_date32(kind):
        return _of_chunk(chunk.view(pa.int32()))
    if pa.types.is_timestamp(kind):
        return _of_chunk(chunk.view(pa.int64()))
    return None


def _as_words(chunk: pa.Array) -> Hashes:
    return np.asarray(chunk.to_numpy(zero_copy_only=False)).view(np.uint64)


def _of_texts(chunk: pa.Array) -> Hashes | None:
    """Eight bytes of every text at a time."""
    if len(chunk) == 0:
        return np.empty(0, np.uint64)
    _, offset_buffer, byte_buffer = chunk.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    lengths = np.diff(offsets).astype(np.int64)
    longest = int(lengths.max())
    if longest > _LONGEST_TEXT:
        return None
    texts = np.zeros(int(offsets[-1] - offsets[0]) + _LONGEST_TEXT + _WORD, np.uint8)
    if byte_buffer is not None:
        given = np.frombuffer(byte_buffer, np.uint8)[offsets[0] : offsets[-1]]
        texts[: len(given)] = given
    words = np.ndarray((len(texts) - _WORD + 1,), np.uint64, texts, strides=(1,))
    starts = (offsets[:-1] - offsets[0]).astype(np.int64)
    hashes = lengths.astype(np.uint64) * _SPREAD
    for start in range(0, longest, _WORD):
        left = np.clip(lengths - start, 0, _WORD)
        hashes = _mixed(hashes, words[starts + start] & _FIRST_BYTES[left])
    return hashes


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = (hashes ^ words) * _MIX
    mixed ^= mixed >> _HALF
    return mixed


def no_row_twice(rows: pa.Table) -> bool:
    """No two rows are equal; rows with a NULL equal none."""
    if any(column.null_count for column in rows.columns):
        rows = rows.drop_null()
    hashes = row_hashes(rows.columns)
    if hashes is None:
        return False
    hashes.sort()
    return not bool(np.any(hashes[1:] == hashes[:-1]))


def all_among(columns: Sequence[pa.ChunkedArray], known: Sequence[pa.ChunkedArray]) -> bool:
    """Every text of `columns` is one of `known`."""
    wanted = pa.chunked_array([c for column in columns for c in column.chunks], pa.string())
    there = pa.chunked_array([c for column in known for c in column.chunks], pa.string())
    if len(there) == 0:
        return len(wanted) == 0
    return bool(pc.all(pc.is_in(wanted, value_set=there.combine_chunks()), min_count=0).as_py())


PlaceOf = Callable[[int], Place]


class BulkChecks:
    """Evaluates on one final image: input rows and the stored rows in `index`."""

    def __init__(
        self,
        catalog: Catalog,
        index: KeyIndex,
        written: frozenset[TableKey],
        replaced: frozenset[TableKey],
        place_of: PlaceOf,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._written = written
        self._replaced = replaced
        self._place_of = place_of
        self._cascaded: set[TableKey] = set()
        self._ends: dict[tuple[TableKey, TableKey], bool] = {}

    def duplicate_ids(self, key: TableKey, report: Report) -> None:
        """Ids that several input rows give."""
        held = self._index.held(key)
        if held is not None and no_row_twice(held.select([ID])):
            return
        rows = self._index.input(key)
        twice = (
            f"SELECT {ID}, min({PLACE}) AS first, count(*) AS n FROM {rows} "
            f"WHERE {ID} IS NOT NULL GROUP BY {ID} HAVING count(*) > 1"
        )
        total = self._index.count(f"SELECT sum(n - 1) FROM ({twice})")
        if total == 0:
            return
        found = self._index.rows(
            f"SELECT r.{ID}, r.{PLACE}, d.first FROM {rows} r JOIN ({twice}) d ON r.{ID} = d.{ID} "
            f"WHERE r.{PLACE} <> d.first ORDER BY r.{PLACE} LIMIT {report.limit}"
        )
        first = (
            self._violation(
                DistinctIds.name,
                key,
                (identity, ID, place),
                f"the id occurs twice in one write, first at {self._place_of(earlier)}",
            )
            for identity, place, earlier in found
        )
        report.add(DistinctIds.name, total, first)

    def graph_rules(self, report: Report) -> None:
        for entity in self._catalog.entity_types():
            for rule in graph_rules(entity):
                match rule:
                    case UniqueTuple() if rule.table in self._written:
                        self._unique(rule, report)
                    case EndpointExists() if rule.table in self._written:
                        self._endpoints(rule, report)
                    case EdgesPerSource():
                        self._cardinality(rule, report)
                    case _:
                        pass

    def cascade(self, edge: EdgeType) -> None:
        """Fill `gone` with the stored edges whose node is not there any more."""
        key = edge.table_key
        self._cascaded.add(key)
        ends = ((SOURCE, node_table(edge.source)), (TARGET, node_table(edge.target)))
        lost = [self._is_missing(n, f"e.{column}") for column, n in ends if n in self._replaced]
        self._index.run(
            f"INSERT INTO {self._index.gone(key)} SELECT {ID} FROM {self._index.stored(key)} e "
            f"WHERE {' OR '.join(f'({condition})' for condition in lost)}"
        )

    def _is_missing(self, node: TableKey, value: str) -> str:
        """SQL: no node with this id is in the final image."""
        tables = [self._index.input(node)]
        if node not in self._replaced:
            tables.append(self._index.stored(node))
        conditions = [
            f"NOT EXISTS (SELECT 1 FROM {name} x WHERE x.{ID} = {value})"
            for name in tables
            if self._index.has_rows(name)
        ]
        return " AND ".join(conditions) or "true"

    def _survivors(self, key: TableKey) -> str:
        """SQL: stored rows that the write leaves as they are."""
        name = self._index.stored(key)
        columns = ", ".join(self._index.spelled(key, self._index.columns(key)))
        if key in self._replaced:
            return f"SELECT {columns} FROM {name} WHERE false"
        given = f"SELECT {ID} FROM {self._index.input(key)} WHERE {ID} IS NOT NULL"
        return (
            f"SELECT {columns} FROM {name} s WHERE s.{ID} NOT IN ({given}) "
            f"AND s.{ID} NOT IN (SELECT {ID} FROM {self._index.gone(key)})"
        )

    def _ends_exist(self, edge: TableKey, node: TableKey) -> bool:
        """Every end of the input's edges that should be such a node is one, proven in memory."""
        if (edge, node) not in self._ends:
            self._ends[edge, node] = self._prove_ends(
                self._catalog.edge_types[edge.type_name], node
            )
        return self._ends[edge, node]

    def _prove_ends(self, edge: EdgeType, node: TableKey) -> bool:
        edges, nodes = self._index.held(edge.table_key), self._index.held(node)
        empty = pa.chunked_array([], pa.string())
        stored = empty if node in self._replaced else self._index.stored_ids(node)
        if edges is None or nodes is None or stored is None:
            return False
        ends = ((SOURCE, edge.source), (TARGET, edge.target))
        columns = [edges.column(column) for column, name in ends if name == node.type_name]
        return all_among(columns, [nodes.column(ID), stored])

    def _endpoints(self, rule: EndpointExists, report: Report) -> None:
        if self._ends_exist(rule.table, rule.node):
            return
        word = "from" if rule.column == SOURCE else "to"
        rows = self._index.input(rule.table)
        missing = f"FROM {rows} e WHERE {self._is_missing(rule.node, f'e.{rule.column}')}"
        total = self._index.count(f"SELECT count(*) {missing}")
        if total == 0:
            return
        found = self._index.rows(
            f"SELECT e.{ID}, e.{SOURCE}, e.{TARGET}, e.{PLACE} {missing} "
            f"ORDER BY e.{PLACE} LIMIT {report.limit}"
        )
        first = (
            self._violation(
                rule.name,
                rule.table,
                (identity, word, place),
                f"{word!r}: there is no {rule.node.type_name} "
                f"{(source if rule.column == SOURCE else target)!r}",
                (source, target),
            )
            for identity, source, target, place in found
        )
        report.add(rule.name, total, first)

    def _is_unique(self, rule: UniqueTuple) -> bool:
        """Proven in memory, which is possible where no stored row takes part."""
        alone = rule.table in self._replaced or self._index.stored_count(rule.table) == 0
        held = self._index.held(rule.table) if alone else None
        return held is not None and no_row_twice(held.select(list(rule.columns)))

    def _unique(self, rule: UniqueTuple, report: Report) -> None:
        if self._is_unique(rule):
            return
        columns = self._index.spelled(rule.table, rule.columns)
        names = ", ".join(columns)
        same = " AND ".join(f"f.{n} = g.{n}" for n in columns)
        whole = " AND ".join(f"{n} IS NOT NULL" for n in columns)
        image = (
            f"SELECT {names}, {ID} AS __owner, {PLACE} AS __place "
            f"FROM {self._index.input(rule.table)} "
            f"WHERE {whole} UNION ALL SELECT {names}, {ID}, NULL "
            f"FROM ({self._survivors(rule.table)}) WHERE {whole}"
        )
        shared = (
            f"SELECT {names}, arg_min(__owner, coalesce(__place, -1)) AS __other, "
            "min(coalesce(__place, -1)) AS __first "
            f"FROM image GROUP BY {names} HAVING count(*) > 1 AND count(__place) > 0"
        )
        clash = (
            f"WITH image AS MATERIALIZED ({image}), g AS ({shared}) SELECT {{}} "
            f"FROM image f JOIN g ON {same} WHERE f.__place IS NOT NULL AND f.__place <> g.__first"
        )
        total = self._index.count(clash.format("count(*)"))
        if total == 0:
            return
        wanted = ", ".join(["f.__owner", "f.__place", "g.__other", *(f"f.{n}" for n in columns)])
        found = self._index.rows(f"{clash.format(wanted)} ORDER BY f.__place LIMIT {report.limit}")
        ends = self._ends_at(rule.table, [row[1] for row in found])
        first = (self._taken(rule, row, ends.get(row[1])) for row in found)
        report.add(rule.name, total, first)

    def _ends_at(self, key: TableKey, places: Sequence[int]) -> dict[int, Ends]:
        """The ends of the input's edges at these places; nothing for nodes."""
        if key.kind is EntityKind.NODE or not places:
            return {}
        chosen = ", ".join(str(place) for place in places)
        rows = self._index.input(key)
        found = self._index.rows(
            f"SELECT {PLACE}, {SOURCE}, {TARGET} FROM {rows} WHERE {PLACE} IN ({chosen})"
        )
        return {place: (source, target) for place, source, target in found}

    def _taken(self, rule: UniqueTuple, row: tuple[Any, ...], ends: Ends | None) -> Violation:
        owner, place, other, *values = row
        pairs = zip(rule.columns, values, strict=True)
        shown = ", ".join(f"{name}={value!r}" for name, value in pairs)
        name = rule.columns[0] if len(rule.columns) == 1 else ",".join(rule.columns)
        message = f"@unique({', '.join(rule.columns)}): {shown} belongs to {other!r} already"
        return self._violation(rule.name, rule.table, (owner, name, place), message, ends)

    def _cardinality(self, rule: EdgesPerSource, report: Report) -> None:
        touched = self._touched_sources(rule)
        if not touched:
            return
        low, high = rule.minimum, rule.maximum
        image = (
            f"SELECT {SOURCE} FROM {self._index.input(rule.table)} "
            f"UNION ALL SELECT {SOURCE} FROM ({self._survivors(rule.table)})"
        )
        broken = f"n < {low}" if high is None else f"n < {low} OR n > {high}"
        counted = (
            f"WITH touched AS (SELECT DISTINCT {SOURCE} FROM ({' UNION ALL '.join(touched)}) t "
            f"WHERE NOT ({self._is_missing(rule.node, f't.{SOURCE}')})), "
            f"n AS (SELECT {SOURCE}, count(*) AS n FROM ({image}) GROUP BY {SOURCE}), "
            f"c AS (SELECT touched.{SOURCE} AS source, coalesce(n.n, 0) AS n "
            f"FROM touched LEFT JOIN n ON touched.{SOURCE} = n.{SOURCE}) "
            f"SELECT {{}} FROM c WHERE {broken}"
        )
        total = self._index.count(counted.format("count(*)"))
        if total == 0:
            return
        found = self._index.rows(
            f"{counted.format('source, n')} ORDER BY source LIMIT {report.limit}"
        )
        bounds = f"{low}..{'' if high is None else high}"
        first = (
            Violation(
                rule.name,
                rule.table,
                source,
                None,
                f"{rule.node.type_name} {source!r} would have {n} "
                f"edges of {rule.table.type_name}, @card({bounds})",
            )
            for source, n in found
        )
        report.add(rule.name, total, first)

    def _touched_sources(self, rule: EdgesPerSource) -> list[str]:
        """SQL of the sources whose number of edges may have changed, and of new ones."""
        parts: list[str] = []
        edges = self._index.input(rule.table)
        if rule.table in self._written:
            parts.append(f"SELECT {SOURCE} FROM {edges}")
        concerned = {*self._written, *self._cascaded}
        if rule.minimum > 0 and (rule.table in concerned or rule.node in self._written):
            stored = self._index.stored(rule.table)
            if rule.table in self._replaced:
                parts.append(f"SELECT {ID} AS {SOURCE} FROM {self._index.stored(rule.node)}")
            given = f"SELECT {ID} FROM {edges} WHERE {ID} IS NOT NULL"
            gone = f"SELECT {ID} FROM {self._index.gone(rule.table)}"
            parts.append(
                f"SELECT {SOURCE} FROM {stored} WHERE {ID} IN ({given}) OR {ID} IN ({gone})"
            )
            parts.append(f"SELECT {ID} AS {SOURCE} FROM {self._index.input(rule.node)}")
        return parts

    def _violation(
        self,
        rule: str,
        key: TableKey,
        where: tuple[str | None, str | None, int],
        message: str,
        ends: Ends | None = None,
    ) -> Violation:
        identity, name, place = where
        return Violation(rule, key, identity, name, message, self._place_of(place), ends)


_RULE = "duplicate_id"
_NAMED_IDS = 10


def drop_earlier_rows(index: KeyIndex, tables: Iterable[TableKey]) -> frozenset[TableKey]:
    """Of several input rows with one id only the last stays in the index.

    Which tables may have lost some.
    """
    found = set()
    for key in sorted(tables):
        held = index.held(key)
        if held is not None and no_row_twice(held.select([ID])):
            continue
        found.add(key)
        rows = index.input(key)
        index.run(
            f"DELETE FROM {rows} WHERE {ID} IS NOT NULL AND {PLACE} NOT IN "
            f"(SELECT max({PLACE}) FROM {rows} WHERE {ID} IS NOT NULL GROUP BY {ID})"
        )
    return frozenset(found)


def refuse_existing(
    prepared: PreparedInput, snapshot: Snapshot, store: Store, *, small: bool
) -> None:
    """`KeyConflict` when the graph has some of the ids already."""
    index = prepared.index
    found: list[tuple[TableKey, str, int]] = []
    total = 0
    for key in sorted(prepared.given_ids):
        pin = snapshot.pin(key)
        if pin.row_count == 0:
            continue
        if small:
            stored = _stored_among(index, key, store.open(pin.at))
            if stored.num_rows == 0:
                continue
            index.fill_stored(key, stored.select([ID]))
        elif _none_stored(index, key):
            continue
        rows = index.input(key)
        taken = f"FROM {rows} r SEMI JOIN {index.stored(key)} s ON r.{ID} = s.{ID}"
        clashes = index.count(f"SELECT count(*) {taken}")
        if clashes == 0:
            continue
        total += clashes
        first = index.rows(
            f"SELECT r.{ID}, r.{PLACE} {taken} ORDER BY r.{PLACE} LIMIT {FIRST_VIOLATIONS}"
        )
        found += [(key, identity, place) for identity, place in first]
    if found:
        raise _conflict(prepared, found, total)


def _stored_among(index: KeyIndex, key: TableKey, dataset: Dataset) -> pa.Table:
    """Stored rows with an id of the input, which is small."""
    held = index.held(key)
    if held is None:
        held = index.table(f"SELECT {ID} FROM {index.input(key)}")
    return find_rows(dataset, pc.unique(held.column(ID).drop_null()))


def _none_stored(index: KeyIndex, key: TableKey) -> bool:
    """Proven in memory: no id of the input is stored."""
    held, stored = index.held(key), index.stored_ids(key)
    if held is None or stored is None:
        return False
    ids = held.column(ID).drop_null()
    few, many = sorted((ids, stored), key=len)
    return not pc.any(pc.is_in(many, value_set=few.combine_chunks()), min_count=0).as_py()


def _conflict(
    prepared: PreparedInput, found: list[tuple[TableKey, str, int]], total: int
) -> KeyConflict:
    found = sorted(found, key=lambda entry: entry[2])[:FIRST_VIOLATIONS]
    message = "exists already; load with mode merge to replace it"
    violations = [
        Violation(_RULE, key, identity, ID, message, prepared.place(place))
        for key, identity, place in found
    ]
    more = f" (and {total - 1} more)" if total > 1 else ""
    return KeyConflict(
        f"{violations[0]}{more}",
        type=found[0][0].type_name,
        ids=[identity for _, identity, _ in found][:_NAMED_IDS],
        violations=[violation.to_dict() for violation in violations],
        total=total,
        counts={_RULE: total},
    )
