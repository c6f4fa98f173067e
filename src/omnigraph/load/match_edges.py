"""Edges of the input without an id -> the stored edges that they mean, in modes merge and patch.

`integrity.edge_identity` says what identifies an edge. The columns that do so are compared in
memory if they fit, else joined in DuckDB, which bounds the memory. Of many stored edges, only those
whose source occurs in the input are kept. The result is the table `matches` of the `KeyIndex`.

A patch may leave properties out. Then the others decide which stored edge has its content.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import ID, SOURCE, TARGET, EdgeType, generated_defaults
from omnigraph.integrity.edge_identity import (
    content_columns,
    has_made_vectors,
    hashable_rows,
    identifying_tuples,
)
from omnigraph.lance_store.reads.row_lookup import find_candidates
from omnigraph.lance_store.reads.scan import read_batches
from omnigraph.lance_store.store import Dataset
from omnigraph.load.json_columns import one_array
from omnigraph.load.key_index import KeyIndex
from omnigraph.load.parsed_rows import AbsentColumns
from omnigraph.load.prepare_rows import ABSENT, PLACE
from omnigraph.load.prepared import PreparedInput
from omnigraph.load.proofs import paired_rows, rows_at
from omnigraph.values.conditions import LONGEST_LIST
from omnigraph.values.identifiers import TableKey

_ROWS_PER_BATCH = 1024 * 1024
_HELD_SHARE = 8
"""Input rows, and then stored rows, may take 1/8 of the memory limit."""
_FEW_SHARE = 4
"""If more than so many edges are stored for each input row, those of other sources are left out."""
_MATCHES = pa.schema([(PLACE, pa.int64()), (ID, pa.string()), ("equal", pa.bool_())])
_INPUT, _STORED = "unnamed_input", "stored_between"
_PATCHES_AT_ONCE = 100_000


class EdgeMatcher:
    """Matches the edges of one type. `partial`: the input rows are patches."""

    def __init__(
        self, prepared: PreparedInput, edge: EdgeType, dataset: Dataset, *, partial: bool = False
    ) -> None:
        self._partial = partial
        self._prepared = prepared
        self._edge = edge
        self._key: TableKey = edge.table_key
        self._dataset = dataset
        self._index: KeyIndex = prepared.index
        self._content = content_columns(edge)
        self._spelled = {name: f"c{n}" for n, name in enumerate(self._content)}
        self._generated = () if partial else tuple(generated_defaults(edge))
        self._says_absent = partial or bool(self._generated)
        self._read = [*self._content, *([ABSENT] if self._says_absent else []), PLACE]

    def match(self) -> bool:
        """Fill the matches of the type; False if no input row means a stored edge."""
        found = None if self._is_thinned() else self._matches_in_memory()
        if found is not None:
            self._index.hold_matches(self._key, found)
            return self._index.has_matches(self._key)
        try:
            self._fill_input()
            self._fill_stored()
            self._match_tuples()
            self._match_content()
        finally:
            for name in (_INPUT, _STORED):
                self._index.run(f"DROP TABLE IF EXISTS {name}")
        return self._index.has_matches(self._key)

    def _is_thinned(self) -> bool:
        """Some rows of the type were rejected, so that only the index knows which are left."""
        return self._prepared.dropped[self._key] != 0

    # --- in memory

    def _matches_in_memory(self) -> pa.Table | None:
        """The matches; None if the edges do not fit in memory or cannot be hashed."""
        chunks = self._prepared.tables[self._key].chunks()
        rows = self._held(self._as_given(chunk) for chunk in chunks)
        given = self._given_ids()
        if rows is None or given is None:
            return None
        if len(given):
            unnamed = self._index.held(self._key)
            assert unnamed is not None
            unnamed = unnamed.filter(unnamed.column(ID).is_null()).column(PLACE)
            rows = rows.filter(pc.is_in(rows.column(PLACE), value_set=unnamed.combine_chunks()))
        if self._partial:  # a patch without its ends means no edge
            rows = rows.filter(_is_whole(rows, (SOURCE, TARGET)))
        stored = self._held(self._stored_beside(rows))
        if stored is None:
            return None
        if len(given):
            stored = stored.filter(pc.invert(pc.is_in(stored.column(ID), value_set=given)))
        return _paired(self._edge, rows, stored)

    def _as_given(self, chunk: pa.Table) -> pa.Table:
        """The columns to compare. A value that the load made is NULL, because it tells nothing."""
        rows = chunk.select(self._read)
        absent = AbsentColumns(rows.column(ABSENT)) if self._generated else None
        for name in self._generated:
            assert absent is not None
            place = rows.schema.get_field_index(name)
            field = rows.schema.field(place).with_nullable(True)
            made = pa.array(absent.of(name))
            given = pc.if_else(made, pa.scalar(None, field.type), one_array(rows.column(place)))
            rows = rows.set_column(place, field, given)
        return rows

    def _given_ids(self) -> pa.Array | None:
        """Ids that the input names; None if they are not in memory."""
        if self._key not in self._prepared.given_ids:
            return pa.array([], pa.string())
        held = self._index.held(self._key)
        return None if held is None else held.column(ID).drop_null().combine_chunks()

    def _held(self, parts: Iterable[pa.Table]) -> pa.Table | None:
        """The parts as one table; None if they take too much memory."""
        found: list[pa.Table] = []
        size = 0
        for part in parts:
            found.append(part)
            size += part.nbytes
            if size * _HELD_SHARE > self._index.memory_bytes:
                return None
        return pa.concat_tables(found).combine_chunks()

    def _stored_beside(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Stored edges that may have the ends of an input row."""
        columns = [ID, *self._content]
        if rows.num_rows <= LONGEST_LIST:
            ends = {name: pc.unique(rows.column(name)) for name in (SOURCE, TARGET)}
            yield find_candidates(self._dataset, ends, columns)
            return
        few = rows.num_rows * _FEW_SHARE < self._dataset.count_rows()
        sources = pc.unique(rows.column(SOURCE)) if few else None
        for batch in read_batches(self._dataset, columns, batch_rows=_ROWS_PER_BATCH):
            part = pa.Table.from_batches([batch])
            if sources is not None:
                part = part.filter(pc.is_in(part.column(SOURCE), value_set=sources))
            yield part

    # --- in DuckDB

    def _fill_input(self) -> None:
        """The input rows without an id: their content and places."""
        index = self._index
        mixed = self._key in self._prepared.given_ids or self._is_thinned()
        for chunk in self._prepared.tables[self._key].chunks():
            rows = self._renamed(self._as_given(chunk))
            with index.shown(rows) as shown:
                chosen = f"SELECT * FROM {shown}"
                if mixed:
                    chosen += (
                        f" SEMI JOIN (SELECT {PLACE} FROM {index.input(self._key)} "
                        f"WHERE {ID} IS NULL) USING ({PLACE})"
                    )
                self._add(_INPUT, chosen)
        if self._partial:  # a patch without its ends means no edge
            source, target = self._ends()
            self._index.run(f"DELETE FROM {_INPUT} WHERE {source} IS NULL OR {target} IS NULL")

    def _fill_stored(self) -> None:
        """Stored edges that may have the ends of an input row, unless the input names their ids."""
        index = self._index
        named = f" ANTI JOIN {index.input(self._key)} g ON s.{ID} = g.{ID}"
        source = self._spelled[SOURCE]
        for rows in self._stored_rows():
            with index.shown(self._renamed(rows)) as shown:
                chosen = (
                    f"SELECT s.* FROM (SELECT * FROM {shown} s "
                    f"SEMI JOIN {_INPUT} i ON s.{source} = i.{source}) s"
                )
                if self._key in self._prepared.given_ids:
                    chosen += named
                self._add(_STORED, chosen)

    def _stored_rows(self) -> Iterator[pa.Table]:
        columns = [ID, *self._content]
        ends = self._few_ends()
        if ends is not None:
            yield find_candidates(self._dataset, ends, columns)
            return
        for batch in read_batches(self._dataset, columns, batch_rows=_ROWS_PER_BATCH):
            yield pa.Table.from_batches([batch])

    def _few_ends(self) -> dict[str, pa.Array] | None:
        """The ends of the input rows, if they are few enough to be looked up."""
        found = {}
        for name in (SOURCE, TARGET):
            query = f"SELECT DISTINCT {self._spelled[name]} AS v FROM {_INPUT} LIMIT {{}}"
            values = self._index.table(query.format(LONGEST_LIST + 1)).column("v")
            if len(values) > LONGEST_LIST:
                return None
            found[name] = values.combine_chunks()
        return found

    def _add(self, name: str, query: str) -> None:
        """Insert rows into a table, which the first rows create."""
        there = self._index.rows(f"SELECT 1 FROM duckdb_tables() WHERE table_name = '{name}'")
        verb = f"INSERT INTO {name}" if there else f"CREATE TABLE {name} AS"
        self._index.run(f"{verb} {query}")

    def _renamed(self, rows: pa.Table) -> pa.Table:
        """Names for SQL, and vectors as lists, which DuckDB can compare."""
        for number, field in enumerate(rows.schema):
            if pa.types.is_fixed_size_list(field.type):
                listed = rows.column(number).cast(pa.list_(field.type.value_type))
                rows = rows.set_column(number, field.name, listed)
        return rows.rename_columns([self._spelled.get(name, name) for name in rows.column_names])

    def _match_tuples(self) -> None:
        """By the first `@unique` with both ends whose values the row has.

        Of several rows with one tuple the first is matched. The others then break the rule, as they
        would in an empty graph.
        """
        left = "true"
        for columns in identifying_tuples(self._edge):
            names = [self._spelled[name] for name in columns]
            whole = " AND ".join(f"{name} IS NOT NULL" for name in names)
            self._index.run(
                f"INSERT INTO {self._index.matches(self._key)} "
                f"SELECT i.{PLACE}, s.{ID}, false FROM (SELECT min({PLACE}) AS {PLACE}, "
                f"{', '.join(names)} FROM {_INPUT} WHERE {whole} AND {left} "
                f"GROUP BY {', '.join(names)}) i JOIN {_STORED} s USING ({', '.join(names)})"
            )
            left += f" AND NOT ({whole})"
            self._drop_taken()
        if left != "true":
            self._index.run(f"DELETE FROM {_INPUT} WHERE NOT ({left})")

    def _drop_taken(self) -> None:
        taken = f"SELECT {ID} FROM {self._index.matches(self._key)}"
        self._index.run(f"DELETE FROM {_STORED} WHERE {ID} IN ({taken})")

    def _match_content(self) -> None:
        if not self._says_absent:
            equal = "false" if has_made_vectors(self._edge) else "true"
            self._match_columns(_INPUT, self._content, equal)
            return
        found = self._index.rows(f"SELECT DISTINCT {ABSENT} FROM {_INPUT}")
        if len(found) == 1:
            self._match_columns(_INPUT, _given(self._content, found[0][0]), "false")
        elif found:
            self._match_in_parts()

    def _match_in_parts(self) -> None:
        """Patches that leave out different properties, as in memory: a part of all ends at a time.

        A patch can only mean an edge with its own two ends, so the parts do not depend on each
        other.
        """
        index, matches = self._index, self._index.matches(self._key)
        parts = 1 + index.count(f"SELECT count(*) FROM {_INPUT}") // _PATCHES_AT_ONCE
        names = {spelled: name for name, spelled in self._spelled.items()}
        for part in range(parts):
            where = f"WHERE hash({', '.join(self._ends())}) % {parts} = {part}"
            rows = index.table(f"SELECT * FROM {_INPUT} {where} ORDER BY {PLACE}")
            stored = index.table(f"SELECT * FROM {_STORED} {where} ORDER BY {ID}")
            rows, stored = (
                some.rename_columns([names.get(name, name) for name in some.column_names])
                for some in (rows, stored)
            )
            with index.shown(_match_mixed_patches(rows, stored, self._content)) as shown:
                index.run(f"INSERT INTO {matches} SELECT * FROM {shown}")

    def _match_columns(self, rows: str, columns: Sequence[str], equal: str) -> None:
        """The n-th input row with some content means the n-th stored edge with that content."""
        names = [self._spelled[name] for name in columns]
        same = " AND ".join(
            f"i.{n} = s.{n}" if n in self._ends() else f"i.{n} IS NOT DISTINCT FROM s.{n}"
            for n in names
        )
        self._index.run(
            f"INSERT INTO {self._index.matches(self._key)} SELECT i.{PLACE}, s.{ID}, {equal} "
            f"FROM ({_numbered(rows, names, PLACE)}) i "
            f"JOIN ({_numbered(_STORED, names, ID)}) s ON {same} AND i.number = s.number"
        )

    def _ends(self) -> tuple[str, str]:
        return self._spelled[SOURCE], self._spelled[TARGET]


def _paired(edge: EdgeType, rows: pa.Table, stored: pa.Table) -> pa.Table | None:
    """Rows without ids and the stored edges that they mean; None if this cannot be told here."""
    found = [_MATCHES.empty_table()]
    for columns in identifying_tuples(edge):
        whole = _is_whole(rows, columns)
        pairs = _match(rows.filter(whole), stored, columns, equal=False)
        if pairs is None:
            return None
        rows = rows.filter(pc.invert(whole))
        stored = stored.filter(pc.invert(pc.is_in(stored.column(ID), value_set=_ids(pairs))))
        found.append(pairs)
    if ABSENT in rows.column_names:
        pairs = _match_patches(rows, stored, content_columns(edge))
    else:
        pairs = _match(rows, stored, content_columns(edge), equal=not has_made_vectors(edge))
    return None if pairs is None else pa.concat_tables([*found, pairs])


def _match(
    rows: pa.Table, stored: pa.Table, columns: Sequence[str], *, equal: bool
) -> pa.Table | None:
    pairs = paired_rows(rows.select(columns), stored.select(columns))
    if pairs is None:
        return None
    places = rows_at(rows.select([PLACE]), pairs.left).column(PLACE)
    ids = rows_at(stored.select([ID]), pairs.right).column(ID)
    return pa.table([places, ids, pa.repeat(equal, len(places))], schema=_MATCHES)


def _match_patches(rows: pa.Table, stored: pa.Table, content: Sequence[str]) -> pa.Table | None:
    """By the columns that each patch has."""
    spelled = pc.unique(rows.column(ABSENT)).to_pylist()
    if len(spelled) == 0:
        return _MATCHES.empty_table()
    if len(spelled) == 1:
        return _match(rows, stored, _given(content, spelled[0]), equal=False)
    return _match_mixed_patches(rows, stored, content)


def _match_mixed_patches(rows: pa.Table, stored: pa.Table, content: Sequence[str]) -> pa.Table:
    """Patches that leave out different properties."""
    spelled = pc.unique(rows.column(ABSENT)).to_pylist()
    # A stored edge may have the content of several patches that differ in their columns. Each
    # patch in its order takes the oldest edge that is left. So the same patches, given again, take
    # the same edges, and those that were inserted for the others.
    known: dict[str, dict[tuple[Any, ...], deque[int]]] = {}
    for text in spelled:
        columns = _given(content, text)
        edges = known.setdefault(text, {})
        for number, row in enumerate(hashable_rows(stored.select(columns))):
            edges.setdefault(tuple(row.values()), deque()).append(number)
    taken: dict[int, int] = {}
    texts = rows.column(ABSENT).to_pylist()
    for number, row in enumerate(hashable_rows(rows.select(content))):
        columns = _given(content, texts[number])
        edges_left = known[texts[number]].get(tuple(row[name] for name in columns), deque())
        while edges_left and edges_left[0] in taken:
            edges_left.popleft()
        if edges_left:
            taken[edges_left.popleft()] = number
    places = rows.column(PLACE).take(pa.array(list(taken.values()), pa.int64()))
    ids = stored.column(ID).take(pa.array(list(taken), pa.int64()))
    return pa.table([places, ids, pa.repeat(False, len(places))], schema=_MATCHES)


def _given(content: Sequence[str], absent: str) -> list[str]:
    """The columns that a patch has."""
    left_out = absent.split(",")
    return [name for name in content if name not in left_out]


def _is_whole(rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    found = rows.column(SOURCE).is_valid()
    for name in columns:
        found = pc.and_(found, rows.column(name).is_valid())
    return found


def _ids(matches: pa.Table) -> pa.Array:
    return matches.column(ID).combine_chunks()


def _numbered(table: str, names: Sequence[str], order: str) -> str:
    """SQL query: the rows, numbered among those with the same values."""
    return (
        f"SELECT *, row_number() OVER (PARTITION BY {', '.join(names)} ORDER BY {order}) AS number "
        f"FROM {table}"
    )
