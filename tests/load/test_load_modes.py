"""Loads with a mode for each type, and mode mirror, on the engine that runs in this process."""

from __future__ import annotations

import random
from typing import Any

import pytest

import omnigraph
from omnigraph import InvalidArgument, ValidationFailed

SCHEMA = """
node Package { name: String @key  version: String?  origin: String? }
node Author { name: String @key  mail: String?  age: I32? }
edge Requires: Package -> Package { range: String? }
edge Wrote: Author -> Package { since: I32? }
"""

Rows = list[dict[str, Any]]


@pytest.fixture
def graph(tmp_path: Any) -> Any:
    return omnigraph.init(tmp_path / "g.omni", SCHEMA)


def packages(*names: str, **values: Any) -> Rows:
    return [{"name": name, **values} for name in names]


def requires(*pairs: str, **values: Any) -> Rows:
    return [{"from": pair[0], "to": pair[1], **values} for pair in pairs]


def names(graph: Any, type_name: str = "Package") -> set[str]:
    return set(graph.read(type_name, columns=["id"])["id"].to_pylist())


def ends(graph: Any, type_name: str = "Requires") -> list[str]:
    rows = graph.read(type_name, columns=["src", "dst"]).to_pylist()
    return sorted(row["src"] + row["dst"] for row in rows)


def test_mirror_holds_exactly_the_rows(graph: Any) -> None:
    graph.load({"Package": packages("a", "b", "c"), "Requires": requires("ab", "bc", "ca")})
    receipt = graph.load({"Package": packages("a", "b", version="2")}, mode="mirror")
    assert names(graph) == {"a", "b"}
    assert ends(graph) == ["ab"], "the edges of a removed node go with it"
    (counts,) = receipt.nodes
    assert (counts.inserted, counts.updated, counts.removed) == (0, 2, 1)
    assert [(c.name, c.cascaded) for c in receipt.edges] == [("Requires", 2)]
    again = graph.load({"Package": packages("a", "b", version="2")}, mode="mirror")
    assert again.commit is None
    assert graph.load({"Package": []}, mode="mirror").nodes[0].removed == 2
    assert names(graph) == set()


def test_mirrored_edges_without_ids_keep_their_ids(graph: Any) -> None:
    graph.load({"Package": packages("a", "b", "c"), "Requires": requires("ab", "ab", "bc")})
    before = {row["id"]: row for row in graph.read("Requires").to_pylist()}
    receipt = graph.load({"Requires": requires("ab", "ca")}, mode="mirror")
    assert ends(graph) == ["ab", "ca"]
    kept = {row["id"] for row in graph.read("Requires").to_pylist()} & before.keys()
    assert len(kept) == 1
    (counts,) = receipt.edges
    assert (counts.inserted, counts.removed, counts.unchanged) == (1, 2, 1)
    assert graph.load({"Requires": requires("ab", "ca")}, mode="mirror").commit is None


def test_scope_limits_what_is_removed(graph: Any) -> None:
    graph.load({"Package": [*packages("a", "b", origin="npm"), *packages("x", origin="pypi")]})
    rows = {"Package": packages("b", "c", origin="npm")}
    receipt = graph.load(rows, mode={"Package": "mirror"}, scope='origin = "npm"')
    assert names(graph) == {"b", "c", "x"}
    assert receipt.total_removed == 1
    with pytest.raises(InvalidArgument, match="no condition"):
        graph.load(rows, mode={"Package": "mirror"}, scope="colour = 1")
    with pytest.raises(InvalidArgument, match="only mode mirror"):
        graph.load(rows, mode={"Package": "merge"}, scope={"Package": 'origin = "npm"'})


def test_modes_of_several_types_in_one_commit(graph: Any) -> None:
    graph.load(
        {
            "Package": packages("a", "b", "c", version="1"),
            "Author": [{"name": "ada", "mail": "a@x", "age": 36}, {"name": "bob", "age": 4}],
            "Requires": requires("ab", "bc"),
            "Wrote": [{"from": "ada", "to": "c", "since": 1}, {"from": "bob", "to": "a"}],
        }
    )
    head = graph.branches.show("main").head_commit_id
    receipt = graph.load(
        {
            "Package": packages("a", "b", "d", version="2"),
            "Author": [{"name": "ada", "age": 37}, {"name": "cy"}],
            "Requires": requires("ab", "ad"),
            "Wrote": [{"from": "cy", "to": "d"}],
        },
        mode={
            "Package": "mirror",
            "Author": "patch",
            "Requires": "merge",
            "Wrote": "append",
        },
    )
    assert receipt.commit is not None
    assert receipt.commit.parent_commit_id == head
    assert receipt.mode == "mixed"
    assert names(graph) == {"a", "b", "d"}
    authors = {row["name"]: row for row in graph.read("Author").to_pylist()}
    assert (authors["ada"]["mail"], authors["ada"]["age"]) == ("a@x", 37)
    assert set(authors) == {"ada", "bob", "cy"}
    assert ends(graph) == ["ab", "ad"], "b -> c went with c"
    assert ends(graph, "Wrote") == ["boba", "cyd"]
    counts = {c.name: c for c in (*receipt.nodes, *receipt.edges)}
    assert counts["Package"].removed == 1
    assert counts["Requires"].cascaded == 1
    assert counts["Wrote"].cascaded == 1
    assert graph.verify(full=True).ok


def test_an_edge_to_a_removed_node_is_refused(graph: Any) -> None:
    graph.load({"Package": packages("a", "b"), "Requires": requires("ab")})
    for mode in ("merge", "mirror", "append"):
        with pytest.raises(ValidationFailed, match="no Package 'b'"):
            graph.load(
                {"Package": packages("a"), "Requires": requires("ab")},
                mode={"Package": "mirror", "Requires": mode},
            )
    assert names(graph) == {"a", "b"}


def test_rejected_rows_keep_their_entities(graph: Any) -> None:
    graph.load({"Author": [{"name": "ada", "age": 36}, {"name": "bob", "age": 4}]})
    rows = [{"name": "ada", "age": "old"}, {"name": "cy", "age": 1}]
    receipt = graph.load({"Author": rows}, mode="mirror", on_error="skip")
    assert receipt.rejected == 1
    assert names(graph, "Author") == {"ada", "cy"}


def test_wrong_modes(graph: Any) -> None:
    with pytest.raises(InvalidArgument, match="no load mode"):
        graph.load({"Package": packages("a")}, mode={"Package": "upsert"})
    with pytest.raises(InvalidArgument, match="no entry for Author"):
        graph.load({"Author": packages("a")}, mode={"Package": "merge"})
    rows = [{"type": "Package", "data": {"name": "a"}}]
    with pytest.raises(InvalidArgument, match="dict by type"):
        graph.load(rows, mode={"Package": "merge"})


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_loads_against_a_model(tmp_path: Any, seed: int) -> None:
    """Random modes for two types; the model is a dict, and edges are pairs of names."""
    chance = random.Random(seed)
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    nodes: dict[str, dict[str, Any]] = {}
    edges: set[tuple[str, str]] = set()
    for _ in range(10):
        mode = chance.choice(["merge", "patch", "mirror", "overwrite"])
        edge_mode = chance.choice(["merge", "mirror", "patch"])
        given = {
            name: {"name": name, "version": str(chance.randint(1, 3))}
            | ({"origin": chance.choice(["x", "y"])} if mode != "patch" else {})
            for name in chance.sample("abcdefgh", chance.randint(1, 6))
        }
        after = {} if mode in ("mirror", "overwrite") else dict(nodes)
        for name, row in given.items():
            old = nodes.get(name, {}) if mode == "patch" else {}
            after[name] = {"origin": None, **old, **row}
        pairs = {(a, b) for a in after for b in after if chance.random() < 0.2}
        graph.load(
            {
                "Package": list(given.values()),
                "Requires": [{"from": a, "to": b} for a, b in sorted(pairs)],
            },
            mode={"Package": mode, "Requires": edge_mode},
        )
        left = set() if edge_mode == "mirror" else {(a, b) for a, b in edges if {a, b} <= {*after}}
        nodes, edges = after, left | pairs
        stored = {
            row["id"]: {k: row[k] for k in ("name", "version", "origin")}
            for row in graph.read("Package").to_pylist()
        }
        assert stored == nodes
        assert ends(graph) == sorted(a + b for a, b in edges)
    assert graph.verify(full=True).ok
