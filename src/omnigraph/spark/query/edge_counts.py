"""How many edges each node has, and which nodes have none, found by numpy instead of by Spark.

A row costs the JVM about a microsecond at every step: to arrive from Python, to be shuffled, to be
grouped. So tasks read the ends of edges, hash them, and give the hashes of each part of the nodes
as one value of bytes. Spark shuffles these values, and the tasks behind it count the edges of each
node of their part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.model import ID, EdgeType, NodeType
from omnigraph.errors import InvalidArgument
from omnigraph.lance_store.reads.scan import FragmentGroups, fragment_groups, read_fragments
from omnigraph.lance_store.store import VersionAddress
from omnigraph.spark.jvm import task_frame
from omnigraph.spark.query.hashed_keys import hashes_of
from omnigraph.values.identifiers import TableKey

if TYPE_CHECKING:
    from omnigraph.spark.query.graph_tables import GraphTables

Hashes = npt.NDArray[np.int64]
_NOTHING: Hashes = np.empty(0, np.int64)
Batches = Iterator[pa.RecordBatch]

_ROWS_PER_PART = 1024 * 1024
_ROWS_PER_BATCH = 64 * 1024
_SPLIT = pa.schema(
    [("part", pa.int32()), ("hop", pa.int32()), ("starts", pa.binary()), ("ends", pa.binary())]
)
_SPLIT_FIELDS = "part int, hop int, starts binary, ends binary"
_ODD = np.uint64(0x9E3779B97F4A7C15)
_TOO_LARGE = float(2**63)


@dataclass(frozen=True, slots=True)
class CountedHop:
    """Edges of one type, counted by their column `start`."""

    edge: EdgeType
    start: str
    end: str
    distinct: bool
    """Several edges between the same two nodes count once."""


@dataclass(frozen=True, slots=True)
class _Ends:
    """Which columns of an edge one hop needs. Pickles."""

    hop: int
    columns: tuple[str, ...]


def edge_counts(tables: GraphTables, hops: Sequence[CountedHop], node: str, name: str) -> Any:
    """A DataFrame of hashed nodes that have an edge of each hop.

    The column `name` is the product of the numbers of these edges.
    """
    numbered: dict[TableKey, list[_Ends]] = {}
    for number, hop in enumerate(hops):
        columns = (hop.start, hop.end) if hop.distinct else (hop.start,)
        numbered.setdefault(hop.edge.table_key, []).append(_Ends(number, columns))
    count = count_parts(len(hops), node, name)
    return _by_parts(tables, numbered, count, f"{node} bigint not null, {name} bigint not null")


def nodes_without(tables: GraphTables, node: NodeType, hop: CountedHop, name: str) -> Any:
    """A DataFrame of the hashed nodes of a type that have no edge of the hop, each once."""
    read = {node.table_key: [_Ends(0, (ID,))], hop.edge.table_key: [_Ends(1, (hop.start,))]}
    return _by_parts(tables, read, unmatched_parts(name), f"{name} bigint not null")


def without_starts(tables: GraphTables, nodes: int, hop: CountedHop, name: str) -> tuple[Any, int]:
    """A DataFrame of numbers, and what their sum lacks to be the nodes without an edge of the hop.

    If it lacks nothing, there is one number.
    """
    read = {hop.edge.table_key: [_Ends(0, (hop.start,))]}
    is_one = tables.rows_of(read) > 0 and _parts(tables, read) == 1
    count = count_without_starts(name, nodes if is_one else 0)
    return _by_parts(tables, read, count, f"{name} bigint not null"), 0 if is_one else nodes


def _by_parts(
    tables: GraphTables,
    wanted: Mapping[TableKey, Sequence[_Ends]],
    find: Callable[[Batches], Batches],
    schema: str,
) -> Any:
    """What `find`, a function for `mapInArrow`, gives for the hashes of each part of the nodes."""
    pins = [tables.snapshot.pin(key) for key in wanted]
    parts = _parts(tables, wanted)
    session = tables.sessions.session
    splits = []
    for pin in pins:
        tasks = fragment_groups(tables.store, pin.at)
        split = split_tasks(tables.store.address(pin.at), tasks, tuple(wanted[pin.key]), parts)
        if tasks:
            splits.append((len(tasks), split))
    if not splits:
        return tables.empty(schema)
    if parts == 1 and [count for count, _ in splits] == [1]:
        # Spark then knows that there is one task, and shuffles nothing.
        return task_frame(session, 1, _in_turn(splits[0][1], find), schema).coalesce(1)
    frames = [task_frame(session, count, split, _SPLIT_FIELDS) for count, split in splits]
    return tables.union(frames).repartitionById(parts, "part").mapInArrow(find, schema)


def _parts(tables: GraphTables, wanted: Iterable[TableKey]) -> int:
    return 1 + max(tables.rows_of([key]) for key in wanted) // _ROWS_PER_PART


def _in_turn(
    first: Callable[[Batches], Batches], second: Callable[[Batches], Batches]
) -> Callable[[Batches], Batches]:
    """Two functions for `mapInArrow` as one."""

    def run(batches: Batches) -> Batches:
        yield from second(first(batches))

    return run


def split_tasks(
    target: VersionAddress, tasks: FragmentGroups, wanted: tuple[_Ends, ...], parts: int
) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over task numbers: the hashed ends of edges, by parts."""

    def run(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                hashed = _hashed_ends(target, tasks[number], wanted)
                for ends in wanted:
                    yield _split(ends.hop, [hashed[name] for name in ends.columns], parts)

    return run


def _hashed_ends(
    target: VersionAddress, fragments: tuple[int, ...], wanted: tuple[_Ends, ...]
) -> dict[str, Hashes]:
    columns = list(dict.fromkeys(name for ends in wanted for name in ends.columns))
    found: dict[str, list[Hashes]] = {name: [] for name in columns}
    for table in read_fragments(target, fragments, columns):
        for name in columns:
            found[name].append(hashes_of(table.column(name)))
    return {name: np.concatenate([*each, _NOTHING]) for name, each in found.items()}


def _split(hop: int, hashed: Sequence[Hashes], parts: int) -> pa.RecordBatch:
    split = [[each.tobytes()] for each in hashed] if parts == 1 else _parts_of(hashed, parts)
    ends = split[1] if len(split) > 1 else [b""] * parts
    numbers = np.arange(parts, dtype=np.int32)
    return pa.record_batch(
        [pa.array(numbers), pa.array(np.full(parts, hop, np.int32)), split[0], ends], schema=_SPLIT
    )


def _parts_of(hashed: Sequence[Hashes], parts: int) -> list[list[bytes]]:
    # The first half of a hash is as evenly spread as the whole, and its product does not overflow.
    first = hashed[0].view(np.uint64) >> np.uint64(32)
    part = ((first * np.uint64(parts)) >> np.uint64(32)).astype(np.uint16)
    order = np.argsort(part, kind="stable")
    cuts = np.searchsorted(part[order], np.arange(1, parts, dtype=np.uint16))
    return [[piece.tobytes() for piece in np.split(each[order], cuts)] for each in hashed]


def count_parts(hops: int, node: str, name: str) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over parts: the product of the counts of each node."""
    schema = pa.schema([(node, pa.int64()), (name, pa.int64())])

    def run(batches: Batches) -> Batches:
        counted = [
            np.unique(_distinct(starts, ends), return_counts=True)
            for starts, ends in _hashes_by_hop(batches, hops)
        ]
        nodes, counts = reduce(_product, counted)
        table = pa.table([nodes, counts], schema=schema)
        yield from table.to_batches(max_chunksize=_ROWS_PER_BATCH)

    return run


def unmatched_parts(node: str) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over parts: the starts of hop 0 that are no start of hop 1."""

    def run(batches: Batches) -> Batches:
        (nodes, _), (starts, _) = _hashes_by_hop(batches, 2)
        # Sorted numbers are searched for in order, which is several times faster.
        nodes, starts = np.sort(nodes), np.sort(starts)
        found = np.searchsorted(starts, nodes)
        found[found == len(starts)] = 0
        alone = nodes[starts[found] != nodes] if len(starts) else nodes
        yield from pa.table({node: alone}).to_batches(max_chunksize=_ROWS_PER_BATCH)

    return run


def count_without_starts(name: str, nodes: int) -> Callable[[Batches], Batches]:
    """A function for `mapInArrow` over parts: a number of nodes less the starts of a part."""

    def run(batches: Batches) -> Batches:
        ((starts, _),) = _hashes_by_hop(batches, 1)
        starts = np.sort(starts)
        different = np.count_nonzero(starts[1:] != starts[:-1]) + min(len(starts), 1)
        yield pa.record_batch({name: pa.array([nodes - different], pa.int64())})

    return run


def _hashes_by_hop(batches: Batches, hops: int) -> list[tuple[Hashes, Hashes]]:
    """The starts and the ends of each hop in one part."""
    starts: list[list[Hashes]] = [[_NOTHING] for _ in range(hops)]
    ends: list[list[Hashes]] = [[_NOTHING] for _ in range(hops)]
    for batch in batches:
        for number, hop in enumerate(batch.column("hop").to_pylist()):
            starts[hop].append(_numbers(batch.column("starts")[number]))
            ends[hop].append(_numbers(batch.column("ends")[number]))
    return [(np.concatenate(s), np.concatenate(e)) for s, e in zip(starts, ends, strict=True)]


def _product(left: tuple[Hashes, Hashes], right: tuple[Hashes, Hashes]) -> tuple[Hashes, Hashes]:
    """Nodes that are in both, and the products of their counts."""
    nodes, ours, theirs = np.intersect1d(left[0], right[0], assume_unique=True, return_indices=True)
    a, b = left[1][ours], right[1][theirs]
    if len(nodes) and float((a.astype(float) * b).max()) >= _TOO_LARGE:
        raise InvalidArgument("a number is out of range: a product of numbers of edges")
    return nodes, a * b


def _numbers(value: pa.BinaryScalar) -> Hashes:
    return np.frombuffer(value.as_buffer(), np.int64)


def _distinct(starts: Hashes, ends: Hashes) -> Hashes:
    """The starts of distinct pairs; all starts when the ends were not read."""
    if len(ends) == 0:
        return starts
    # Pairs that have a hash of their own are distinct. The others are compared.
    mixed = starts.view(np.uint64) * _ODD ^ ends.view(np.uint64)
    mixed ^= mixed >> np.uint64(29)
    mixed *= _ODD
    order = np.sort(mixed)
    shared = np.unique(order[1:][order[1:] == order[:-1]])
    if len(shared) == 0:
        return starts
    alike = np.isin(mixed, shared)
    pairs = np.unique(np.stack([starts[alike], ends[alike]], axis=1), axis=0)
    return np.concatenate([starts[~alike], pairs[:, 0]])
