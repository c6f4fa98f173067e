"""Rules about many rows, for inputs of any size: joins in DuckDB on the checked columns.

`BulkChecks` evaluates the same rules, with the same messages, as `integrity.graph_checks`, which
looks rows up one by one and is faster for small writes. The functions after it compare the ids of
the input with each other and with stored ids.

Most inputs keep all rules, and `proofs` can show that from hashes, which is far cheaper than a join
and needs little memory. If a proof fails, a join finds out which rows break the rule, if any does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, Catalog, EdgeType, spelled
from omnigraph.integrity.graph_checks import NOTHING_LEFT_OUT, LeftOut
from omnigraph.integrity.rules import (
    DistinctIds,
    EdgesPerSource,
    EndpointExists,
    UniqueTuple,
    graph_rules,
)
from omnigraph.integrity.violations import Culprits, Ends, Place, Report, Violation, by_place
from omnigraph.lance_store.reads.row_lookup import find_rows
from omnigraph.lance_store.store import Dataset, Store
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.prepare_rows import PLACE
from omnigraph.load.prepared import PreparedInput
from omnigraph.load.proofs import IdTable
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import tell
from omnigraph.values.identifiers import EntityKind, TableKey, node_table
from omnigraph.values.plurals import counted

PlaceOf = Callable[[int], Place]

_EXISTS = "exists already; load with mode merge to replace it"
_NAMED_IDS = 10


class BulkChecks:
    """Evaluates rules on the graph as it will be: input rows, and stored rows that stay."""

    def __init__(
        self,
        catalog: Catalog,
        index: KeyIndex,
        written: frozenset[TableKey],
        replaced: frozenset[TableKey],
        place_of: PlaceOf,
        left_out: LeftOut = NOTHING_LEFT_OUT,
        mirrored: frozenset[TableKey] = frozenset(),
    ) -> None:
        """Of `replaced` tables no stored row stays. Of `mirrored` ones those in `gone` do not."""
        self._mirrored = mirrored
        self._catalog = catalog
        self._index = index
        self._written = written
        self._replaced = replaced
        self._place_of = place_of
        self._left_out = left_out
        self._cascaded: set[TableKey] = set()
        self._ends: dict[tuple[TableKey, TableKey], bool] = {}

    def duplicate_ids(self, key: TableKey, report: Report) -> None:
        """Report ids that several input rows have."""
        if self._index.has_distinct_ids(key):
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
                identity,
                ID,
                f"the id occurs twice in one write, first at {self._place_of(earlier)}",
                place,
            )
            for identity, place, earlier in found
        )
        report.add(DistinctIds.name, total, first, key, ID)

    def graph_rules(self, report: Report) -> None:
        rules = [r for entity in self._catalog.entity_types() for r in graph_rules(entity)]
        for number, rule in enumerate(rules):
            tell("checking", number, len(rules), "rules", "check")
            match rule:
                case UniqueTuple() if rule.table in self._written:
                    self._unique(rule, report)
                case EndpointExists() if rule.table in self._written:
                    self._endpoints(rule, report)
                case EdgesPerSource():
                    self._cardinality(rule, report)
                case _:
                    pass

    def remove_absent(
        self, key: TableKey, kept: Iterable[str] = (), scope: pa.RecordBatchReader | None = None
    ) -> None:
        """Put stored rows that the input does not have into the table `gone` of the index.

        `kept` are ids that stay although the input has no row of them. With `scope`, only these
        ids may go.
        """
        index = self._index
        absent = (
            f"SELECT s.{ID} FROM {index.stored(key)} s "
            f"ANTI JOIN {index.input(key)} i ON s.{ID} = i.{ID}"
        )
        if index.is_resolved(key):  # rows that equal a stored edge are not in the input any more
            absent = f"SELECT {ID} FROM ({absent}) ANTI JOIN {index.matches(key)} USING ({ID})"
        if scope is not None:
            with index.shown(scope) as shown:
                index.run(f"CREATE OR REPLACE TEMP TABLE in_scope AS SELECT {ID} FROM {shown}")
            absent = f"SELECT {ID} FROM ({absent}) SEMI JOIN in_scope USING ({ID})"
        index.run(f"INSERT INTO {index.gone(key)} {absent}")
        names = pa.table({ID: pa.array(list(kept), pa.string())})
        if names.num_rows:
            with index.shown(names) as shown:
                index.run(f"DELETE FROM {index.gone(key)} WHERE {ID} IN (SELECT {ID} FROM {shown})")

    def cascade(self, edge: EdgeType) -> None:
        """Put stored edges whose node is removed into the table `gone` of the index.

        An edge that the input has is left alone: the check of its ends reports it.
        """
        key = edge.table_key
        self._cascaded.add(key)
        ends = ((SOURCE, node_table(edge.source)), (TARGET, node_table(edge.target)))
        shrinking = self._replaced | self._mirrored
        lost = [self._is_missing(n, f"e.{column}") for column, n in ends if n in shrinking]
        gone = self._index.gone(key)
        stored = f"{self._index.stored(key)} e"
        if key in self._written:
            stored += f" ANTI JOIN {self._index.input(key)} i ON e.{ID} = i.{ID}"
        self._index.run(
            f"INSERT INTO {gone} SELECT e.{ID} FROM {stored} "
            f"WHERE ({' OR '.join(f'({condition})' for condition in lost)}) "
            f"AND e.{ID} NOT IN (SELECT {ID} FROM {gone})"
        )

    def _is_missing(self, node: TableKey, value: str) -> str:
        """SQL condition: no node with this id will be in the graph."""
        tables = [self._index.input(node)]
        if node not in self._replaced:
            tables.append(self._index.stored(node))
        if node in self._left_out.ids:
            tables.append(self._index.left_out(node, self._left_out.ids[node]))
        conditions = [
            f"NOT EXISTS (SELECT 1 FROM {name} x WHERE x.{ID} = {value})"
            for name in tables
            if self._index.has_rows(name)
        ]
        missing = " AND ".join(conditions) or "true"
        if node in self._mirrored and self._index.has_rows(self._index.gone(node)):
            gone = f"SELECT 1 FROM {self._index.gone(node)} x WHERE x.{ID} = {value}"
            return f"(({missing}) OR EXISTS ({gone}))"
        return missing

    def _survivors(self, key: TableKey) -> str:
        """SQL query: stored rows that the load neither replaces nor removes."""
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
        """Proven: every end of an input edge that should be such a node is one."""
        if (edge, node) not in self._ends:
            self._ends[edge, node] = self._prove_ends(
                self._catalog.edge_types[edge.type_name], node
            )
        return self._ends[edge, node]

    def _prove_ends(self, edge: EdgeType, node: TableKey) -> bool:
        index = self._index
        names = ((SOURCE, edge.source), (TARGET, edge.target))
        columns = [column for column, name in names if name == node.type_name]
        chunks = index.chunks(edge.table_key, columns)
        if chunks is None:
            return False
        if node in self._mirrored and index.has_rows(index.gone(node)):
            return False
        if self._were_found(edge.table_key, node, columns):
            return True
        nodes = index.input_ids(node)
        if nodes is None:
            return False
        known = [nodes]
        if node not in self._replaced:
            stored = index.stored_id_set(node)
            if stored is None:
                return False
            known.append(stored)
        texts = (chunk.column(name) for chunk in chunks for name in columns)
        return index.all_among(texts, known)

    def _were_found(self, edge: TableKey, node: TableKey, columns: Sequence[str]) -> bool:
        """Proven without reading all ends: most were looked up while the input was read."""
        index = self._index
        found = None if node in self._replaced else index.found_ends(edge, node)
        chunks = index.chunks(edge, columns)
        if found is None or chunks is None:
            return False
        given = index.input_ids(node) if index.input_count(node) else None
        added = [given] if isinstance(given, IdTable) else []
        rest = (rows.column(name) for rows in found.rows_before(chunks) for name in columns)
        return found.are_among(added) and index.all_among(rest, [found.stored, *added])

    def _endpoints(self, rule: EndpointExists, report: Report) -> None:
        if self._ends_exist(rule.table, rule.node):
            return
        word = spelled(rule.column)
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
                identity,
                word,
                f"{word!r}: there is no {rule.node.type_name} "
                f"{(source if rule.column == SOURCE else target)!r}",
                place,
                (source, target),
            )
            for identity, source, target, place in found
        )
        report.add(rule.name, total, first, rule.table, word)

    def _is_unique(self, rule: UniqueTuple) -> bool:
        """Proven, which is possible if no stored row takes part."""
        alone = rule.table in self._replaced or self._index.stored_count(rule.table) == 0
        return alone and self._index.has_no_row_twice(rule.table, rule.columns)

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
            # `arg_min` would skip a row whose id this load makes, because it is NULL here.
            f"SELECT {names}, arg_min_null(__owner, coalesce(__place, -1)) AS __other, "
            "min(coalesce(__place, -1)) AS __first "
            f"FROM image GROUP BY {names} HAVING count(*) > 1 AND count(__place) > 0"
        )
        clash = (
            f"WITH image AS MATERIALIZED ({image}), g AS ({shared}) SELECT {{}} "
            f"FROM image f JOIN g ON {same} WHERE f.__place IS NOT NULL AND f.__place <> g.__first "
            # A row that has the id of the first one, too, is reported as a duplicate.
            "AND NOT coalesce(f.__owner = g.__other, false)"
        )
        total = self._index.count(clash.format("count(*)"))
        if total == 0:
            return
        own = ("f.__owner", "f.__place", "g.__other", "g.__first")
        wanted = ", ".join([*own, *(f"f.{n}" for n in columns)])
        found = self._index.rows(f"{clash.format(wanted)} ORDER BY f.__place LIMIT {report.limit}")
        ends = self._ends_at(rule.table, [row[1] for row in found])
        first = (self._taken(rule, row, ends.get(row[1])) for row in found)
        report.add(rule.name, total, first, rule.table, ",".join(rule.columns))

    def _ends_at(self, key: TableKey, places: Sequence[int]) -> dict[int, Ends]:
        """The two ends of the input edges at these places; empty for nodes."""
        if key.kind is EntityKind.NODE or not places:
            return {}
        rows = self._index.input(key)
        with self._index.shown(pa.table({PLACE: pa.array(places, pa.int64())})) as shown:
            found = self._index.rows(
                f"SELECT {PLACE}, {SOURCE}, {TARGET} FROM {rows} SEMI JOIN {shown} USING ({PLACE})"
            )
        return {place: (source, target) for place, source, target in found}

    def _taken(self, rule: UniqueTuple, row: tuple[Any, ...], ends: Ends | None) -> Violation:
        owner, place, other, earlier, *values = row
        pairs = zip(rule.columns, values, strict=True)
        shown = ", ".join(f"{name}={value!r}" for name, value in pairs)
        name = ",".join(rule.columns)
        holder = f"the row at {self._place_of(earlier)}" if other is None else repr(other)
        message = f"@unique({', '.join(rule.columns)}): {shown} belongs to {holder} already"
        return self._violation(rule.name, rule.table, owner, name, message, place, ends)

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
        if rule.table in self._left_out.sources:
            unsure = self._index.left_out(rule.table, self._left_out.sources[rule.table])
            broken = f"({broken}) AND (n >= {low} OR source NOT IN (SELECT {ID} FROM {unsure}))"
        per_source = (
            f"WITH touched AS (SELECT DISTINCT {SOURCE} FROM ({' UNION ALL '.join(touched)}) t "
            f"WHERE NOT ({self._is_missing(rule.node, f't.{SOURCE}')})), "
            f"n AS (SELECT {SOURCE}, count(*) AS n FROM ({image}) GROUP BY {SOURCE}), "
            f"c AS (SELECT touched.{SOURCE} AS source, coalesce(n.n, 0) AS n "
            f"FROM touched LEFT JOIN n ON touched.{SOURCE} = n.{SOURCE}) "
            f"SELECT {{}} FROM c WHERE {broken}"
        )
        total = self._index.count(per_source.format("count(*)"))
        if total == 0:
            return
        found = self._index.rows(
            f"{per_source.format('source, n')} ORDER BY source LIMIT {report.limit}"
        )
        bounds = f"{low}..{'' if high is None else high}"
        culprits = self._culprits(rule, found)
        violations = []
        for source, n in found:
            message = (
                f"{rule.node.type_name} {source!r} would have {counted(n, 'edge')} of "
                f"{rule.table.type_name}, @card({bounds})"
            )
            rows = culprits.get(source)
            place = rows.places[0] if rows else None
            violations.append(
                Violation(rule.name, rule.table, source, None, message, place, culprits=rows)
            )
        report.add(rule.name, total, by_place(violations), rule.table)

    def _culprits(
        self, rule: EdgesPerSource, found: Sequence[tuple[Any, ...]]
    ) -> dict[str, Culprits]:
        """By source, the rows at fault: the last edges too many, or the node with too few.

        If the node is stored, it is the rows that took its edges away.
        """
        edges, nodes = self._index.input(rule.table), self._index.input(rule.node)
        high = rule.maximum
        sources = pa.array([source for source, _ in found], pa.string())
        over = [0 if high is None else max(n - high, 0) for _, n in found]
        wrong: dict[str, Culprits] = {}
        with self._index.shown(pa.table({"source": sources, "over": over})) as broken:
            surplus = (
                f"SELECT source, {PLACE} FROM (SELECT b.source, b.over, e.{PLACE}, row_number() "
                f"OVER (PARTITION BY b.source ORDER BY e.{PLACE} DESC) AS nth FROM {broken} b "
                f"JOIN {edges} e ON e.{SOURCE} = b.source WHERE b.over > 0) WHERE nth <= over"
            )
            lonely = (
                f"SELECT b.source, n.{PLACE} FROM {broken} b "
                f"JOIN {nodes} n ON n.{ID} = b.source WHERE b.over = 0"
            )
            self._blame(wrong, rule.table, surplus)
            self._blame(wrong, rule.node, lonely)
            if len(wrong) < len(found):
                taken = (
                    f"SELECT b.source, e.{PLACE} FROM {broken} b "
                    f"JOIN {self._index.stored(rule.table)} s ON s.{SOURCE} = b.source "
                    f"JOIN {edges} e ON e.{ID} = s.{ID} WHERE b.over = 0"
                )
                self._blame(wrong, rule.table, taken)
        return wrong

    def _blame(self, wrong: dict[str, Culprits], table: TableKey, query: str) -> None:
        """Add the rows of `query` (source, place) for sources that have no culprits yet."""
        places: dict[str, list[int]] = {}
        for source, place in self._index.rows(query):
            places.setdefault(source, []).append(place)
        for source, numbers in places.items():
            found = Culprits(table, tuple(map(self._place_of, sorted(numbers))))
            wrong.setdefault(source, found)

    def _touched_sources(self, rule: EdgesPerSource) -> list[str]:
        """SQL queries for the nodes whose number of edges may change, and for new nodes."""
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
        identity: str | None,
        name: str | None,
        message: str,
        place: int,
        ends: Ends | None = None,
    ) -> Violation:
        return Violation(rule, key, identity, name, message, self._place_of(place), ends)


def has_repeated_ids(index: KeyIndex, tables: Iterable[TableKey]) -> frozenset[TableKey]:
    """The tables of which several input rows have one id."""
    return frozenset(key for key in sorted(tables) if _has_repeated_ids(index, key))


def _has_repeated_ids(index: KeyIndex, key: TableKey) -> bool:
    if index.has_distinct_ids(key):
        return False
    twice = f"SELECT {ID} FROM {index.input(key)} WHERE {ID} IS NOT NULL GROUP BY {ID}"
    return index.has_rows(f"({twice} HAVING count(*) > 1)")


def drop_earlier_rows(index: KeyIndex, tables: Iterable[TableKey]) -> frozenset[TableKey]:
    """Keep only the last of several input rows with one id in the index.

    Returns the tables that may have lost rows.
    """
    found = set()
    for key in sorted(tables):
        if index.has_distinct_ids(key):
            continue
        found.add(key)
        index.drop_earlier(key)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class ExistingIds:
    """How many input rows have an id that exists, and the first of these ids."""

    total: int = 0
    ids: Sequence[str] = ()


def report_existing(
    prepared: PreparedInput,
    tables: Iterable[TableKey],
    snapshot: Snapshot,
    store: Store,
    report: Report,
    *,
    small: bool,
) -> ExistingIds:
    """Report input rows of these tables whose id the graph has already."""
    index = prepared.index
    total = 0
    ids: list[tuple[int, str]] = []
    for key in sorted(tables):
        pin = snapshot.pin(key)
        if pin.row_count == 0:
            continue
        if small:
            stored = _stored_among(index, key, store.open(pin.at))
            if stored.num_rows == 0:
                continue
            index.fill_stored(key, stored.select([ID]))
        elif index.has_no_stored_id(key):
            continue
        rows = index.input(key)
        taken = f"FROM {rows} r SEMI JOIN {index.stored(key)} s ON r.{ID} = s.{ID}"
        clashes = index.count(f"SELECT count(*) {taken}")
        if clashes == 0:
            continue
        found = index.rows(
            f"SELECT r.{ID}, r.{PLACE} {taken} ORDER BY r.{PLACE} LIMIT {report.limit}"
        )
        first = (
            Violation(DistinctIds.name, key, identity, ID, _EXISTS, prepared.place(place))
            for identity, place in found
        )
        report.add(DistinctIds.name, clashes, first, key, ID)
        total += clashes
        ids += [(place, identity) for identity, place in found[:_NAMED_IDS]]
    return ExistingIds(total, [identity for _, identity in sorted(ids)[:_NAMED_IDS]])


def _stored_among(index: KeyIndex, key: TableKey, dataset: Dataset) -> pa.Table:
    """Stored rows that have an id of the input."""
    held = index.held(key)
    if held is None:
        held = index.table(f"SELECT {ID} FROM {index.input(key)}")
    return find_rows(dataset, pc.unique(held.column(ID).drop_null()))
