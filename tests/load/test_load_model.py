"""Random loads against a dictionary that says what they mean."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph import init
from omnigraph.errors import ValidationFailed
from omnigraph.graph.handle import Graph
from omnigraph_testing.graph_helpers import with_parts

SCHEMA = "node P { name: String @key  age: I32? }\nedge E: P -> P { w: I32? }"
NAMES = st.sampled_from("abcd")
PEOPLE = st.tuples(st.just("P"), NAMES, st.none() | st.integers(0, 2))
EDGES = st.tuples(st.just("E"), st.sampled_from("xyz"), NAMES, NAMES)
BATCHES = st.tuples(
    st.sampled_from(["append", "merge", "merge", "overwrite"]),
    st.lists(PEOPLE | PEOPLE | EDGES, max_size=6),
)
Model = dict[str, dict[str, Any]]


def model_load(model: Model, mode: str, batch: list[tuple[Any, ...]]) -> Model | None:
    """The graph afterwards; None when the load is refused."""
    after = {name: dict(rows) for name, rows in model.items()}
    given_ids = [(entry[0], entry[1]) for entry in batch]
    if mode != "merge" and len(set(given_ids)) != len(given_ids):
        return None
    if mode == "append" and any(identity in model[name] for name, identity in given_ids):
        return None
    if mode == "overwrite":
        for name in {entry[0] for entry in batch}:
            after[name] = {}
    for name, identity, *values in batch:
        after[name][identity] = tuple(values)
    written = {identity for name, identity in given_ids if name == "E"}
    for identity, (source, target) in list(after["E"].items()):
        if source not in after["P"] or target not in after["P"]:
            if identity in written:
                return None
            del after["E"][identity]
    return after


def to_line(entry: tuple[Any, ...]) -> str:
    if entry[0] == "P":
        return json.dumps({"type": "P", "data": {"name": entry[1], "age": entry[2]}})
    return json.dumps({"edge": "E", "from": entry[2], "to": entry[3], "data": {"id": entry[1]}})


def stored(graph: Graph) -> Model:
    people = graph.read("P").to_pylist()
    edges = graph.read("E").to_pylist()
    return {
        "P": {row["id"]: (row["age"],) for row in people},
        "E": {row["id"]: (row["src"], row["dst"]) for row in edges},
    }


@settings(max_examples=12)
@given(st.lists(BATCHES, max_size=4), st.booleans(), st.booleans())
def test_loads_mean_what_the_model_says(batches: list[Any], joined: bool, streamed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = init(Path(folder) / "g.omni", SCHEMA)
        if joined:
            graph = with_parts(graph, loader=replace(graph.engine.loader, small_input=-1))
        if streamed:
            graph = with_parts(graph, loader=replace(graph.engine.loader, most_prepared=1))
        model: Model = {"P": {}, "E": {}}
        path = Path(folder) / "in.ndjson"
        for mode, batch in batches:
            path.write_text("\n".join(map(to_line, batch)))
            wanted = model_load(model, mode, batch)
            try:
                receipt = graph.load(path, mode)
            except ValidationFailed:
                assert wanted is None, (mode, batch)
            else:
                assert wanted is not None, (mode, batch)
                assert mode == "overwrite" or (receipt.commit is None) == (wanted == model)
                model = wanted
            assert stored(graph) == model, (mode, batch)
