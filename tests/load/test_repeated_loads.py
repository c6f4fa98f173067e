"""Any load repeated in mode merge or patch changes nothing, in every form of input.

Types have keys or not; edges come with or without ids, and have a key, a `@unique` with both ends,
or only their content. Two processes that load the same edges at the same time are a repeat, too.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph import init
from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import open_graph
from omnigraph.load.options import TypeCounts
from omnigraph_testing.crash import start
from omnigraph_testing.graph_helpers import with_parts
from omnigraph_testing.invariants import assert_at_rest
from omnigraph_testing.load_suite import exported

SCHEMA = """
node Keyed { name: String @key  x: I32?  y: I32? @default(1)  tags: [String]? }
node Plain { x: I32?  y: I32 @default(1) }
edge Content: Keyed -> Keyed { x: I32?  y: I32? @default(1)  tags: [String]? }
edge Tuple: Keyed -> Keyed { x: I32?  y: I32? @default(1)  @unique(src, dst, x) }
edge Pair: Keyed -> Keyed { x: I32?  y: I32?  @unique(src, dst)  @unique(src, x) }
edge ByKey: Keyed -> Keyed { x: I32?  y: I32? @default(1)  @key(src, dst) }
"""
EDGES = ("Content", "Tuple", "Pair", "ByKey")
NAMES = st.sampled_from("ab")
NUMBERS = st.none() | st.integers(0, 1)
TAGS = st.none() | st.lists(st.sampled_from("st"), max_size=2)
OWN = {"x": NUMBERS, "y": NUMBERS}
COLUMN_TYPES = {"x": pa.int32(), "y": pa.int32(), "tags": pa.list_(pa.string())}
Row = dict[str, Any]
Load = tuple[str, str, dict[str, list[Row]]]


def rows_of(type_name: str) -> st.SearchStrategy[Row]:
    """Rows of a type with any of its properties; edges with or without an id."""
    own = {**OWN, "tags": TAGS} if type_name in ("Keyed", "Content") else OWN
    if type_name == "Keyed":
        return st.fixed_dictionaries({"name": NAMES}, optional=own)
    ids = st.sampled_from([f"{type_name}{n}" for n in range(3)])
    if type_name == "Plain":
        return st.fixed_dictionaries({"id": ids}, optional=own)
    ends = {"from": NAMES, "to": NAMES}
    optional = own if type_name == "ByKey" else {**own, "id": ids}
    return st.fixed_dictionaries(ends, optional=optional)


def batches(most: int) -> st.SearchStrategy[dict[str, list[Row]]]:
    return st.dictionaries(st.sampled_from(["Keyed", "Plain", *EDGES]), st.just(None)).flatmap(
        lambda types: st.fixed_dictionaries(
            {name: st.lists(rows_of(name), min_size=1, max_size=most) for name in types}
        )
    )


LOADS = st.tuples(
    st.sampled_from(["merge", "patch"]),
    st.sampled_from(["ndjson", "rows", "flat", "csv", "parquet", "arrow"]),
    batches(4),
)


def as_input(form: str, batch: dict[str, list[Row]], folder: Path) -> Any:
    """The batch as what `Graph.load` takes. Tables have the columns of all of their rows."""
    folder.mkdir(exist_ok=True)
    if form == "ndjson":
        path = folder / "in.ndjson"
        lines = [json.dumps(entity(name, row)) for name, rows in batch.items() for row in rows]
        path.write_text("\n".join(lines))
        return path
    if form == "rows":
        return [entity(name, row) for name, rows in batch.items() for row in rows]
    if form == "flat":
        return batch
    if form == "arrow":
        return {name: table(rows) for name, rows in batch.items()}
    paths = [folder / f"{name}.{form}" for name in batch]
    for path, rows in zip(paths, batch.values(), strict=True):
        if form == "parquet":
            pq.write_table(table(rows), path)
        else:
            write_csv(path, rows)
    return paths


def entity(type_name: str, row: Row) -> Row:
    if type_name not in EDGES:
        return {"type": type_name, "data": row}
    data = {name: value for name, value in row.items() if name not in ("from", "to")}
    return {"edge": type_name, "from": row["from"], "to": row["to"], "data": data}


def table(rows: list[Row]) -> pa.Table:
    names = sorted({name for row in rows for name in row})
    return pa.table(
        {n: pa.array([row.get(n) for row in rows], COLUMN_TYPES.get(n, pa.string())) for n in names}
    )


def write_csv(path: Path, rows: list[Row]) -> None:
    names = sorted({name for row in rows for name in row})
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in rows:
            cells = (row.get(name) for name in names)
            writer.writerow([json.dumps(c) if isinstance(c, list) else c for c in cells])


def totals(counts: tuple[TypeCounts, ...]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in counts:
        found.update(loaded=each.entities_loaded, unchanged=each.unchanged)
    return found


def new_graph(folder: Path, *, joined: bool) -> Graph:
    graph = init(folder / "g.omni", SCHEMA)
    graph.load([{"name": name} for name in "ab"], type="Keyed")
    if joined:
        return with_parts(graph, loader=replace(graph.engine.loader, small_input=-1))
    return graph


@settings(max_examples=40)
@given(st.lists(LOADS, min_size=1, max_size=3), st.booleans())
def test_a_repeated_load_changes_nothing(loads: list[Load], joined: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = new_graph(folder, joined=joined)
        for mode, form, batch in loads:
            if not batch:
                continue
            try:
                graph.load(as_input(form, batch, folder / "in"), mode)
            except ValidationFailed:
                continue  # a row breaks a rule: two edges with one tuple, NULL for `Plain.y`
            before = exported(graph)
            again = graph.load(as_input(form, batch, folder / "in"), mode)
            assert again.commit is None, (mode, form, batch)
            assert exported(graph) == before
            counts = totals((*again.nodes, *again.edges))
            assert counts["unchanged"] == counts["loaded"] == sum(map(len, batch.values()))
        assert_at_rest(graph)


@pytest.mark.parametrize("mode", ["merge", "patch"])
def test_two_processes_load_the_same_edges(tmp_path: Path, mode: str) -> None:
    """Each edge without an id is in the graph once, although both processes found none at first."""
    graph = init(tmp_path / "g.omni", SCHEMA)
    names = [f"p{n}" for n in range(40)]
    graph.load([{"name": name} for name in names], type="Keyed")
    path = tmp_path / "in.ndjson"
    lines = [
        json.dumps(entity(kind, {"from": source, "to": target, "x": 1}))
        for kind in ("Content", "Tuple")
        for source in names
        for target in names[:10]
    ]
    path.write_text("\n".join(lines))
    gate = tmp_path / "go"
    given = {"uri": graph.uri, "path": str(path), "mode": mode, "gate": str(gate)}
    children = [start("omnigraph_testing.workloads:load_at_the_gate", given) for _ in range(2)]
    assert [child.wait_for_report() for child in children] == ["ready", "ready"]
    gate.touch()
    ends = [child.finish() for child in children]
    assert [code for code, _, _ in ends] == [0, 0], ends
    committed = [reports[-1] for _, reports, _ in ends]
    assert sorted(map(str, committed)) == ["False", "True"]
    graph = open_graph(graph.uri)
    for kind in ("Content", "Tuple"):
        rows = graph.read(kind).to_pylist()
        assert Counter((row["src"], row["dst"]) for row in rows) == Counter(
            (source, target) for source in names for target in names[:10]
        )
    assert graph.load(path, mode).commit is None
    assert_at_rest(graph)


@pytest.mark.parametrize("mode", ["append", "merge", "patch"])
@pytest.mark.parametrize("joined", [False, True])
def test_one_tuple_of_an_edge_with_an_id_and_of_one_without(
    tmp_path: Path, mode: str, joined: bool
) -> None:
    graph = new_graph(tmp_path, joined=joined)
    ends = {"from": "a", "to": "a"}
    for rows in ([ends, {**ends, "id": "p"}], [{**ends, "id": "p"}, ends], [ends, ends]):
        with pytest.raises(ValidationFailed, match="<rows>:2: Pair 'a' -> 'a': @unique"):
            graph.load(rows, mode, type="Pair")
