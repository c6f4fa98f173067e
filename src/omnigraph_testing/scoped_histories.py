"""Random histories of a random graph, and what an actor in a scope must see of them.

The expected answers come from dicts: the reference evaluator filters each state, differences are
found by comparing rows, and merges by the model of merges.
"""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from omnigraph import Edit
from omnigraph.catalog.model import EdgeType
from omnigraph.diff.change import Change
from omnigraph.graph.handle import Graph
from omnigraph.graph.open import init
from omnigraph.merge.conflicts import MergePreview
from omnigraph_testing.executor_suite import plain
from omnigraph_testing.graph_data import GraphData, Tables, typed
from omnigraph_testing.merge_model import Content, merge_contents
from omnigraph_testing.random_graphs import COLUMNS
from omnigraph_testing.scoped_gate import Rules, ScopedGate
from omnigraph_testing.scoped_graphs import FilteredGraph, filtered_graph

Seen = dict[tuple[str, str], tuple[str, Any, Any]]
"""(type, id) -> (op, the row before, the row after)."""


@dataclass(frozen=True)
class ScopedHistory:
    """A graph with commits on main, and a branch `side` that left main at one of them."""

    whole: Graph
    main: tuple[str, ...]
    """The commits with data, in order."""
    base: str
    side: str

    @staticmethod
    def create(graph: GraphData, folder: Path, chance: random.Random) -> ScopedHistory:
        whole = init(folder / "g", schema=graph.schema)
        whole.apply(graph.edits())
        commits = [_head(whole, "main")]
        new = iter(range(1000))
        _change(whole, "main", chance, new)
        commits.append(_head(whole, "main"))
        whole.branches.create("side")
        _change(whole, "side", chance, new)
        _change(whole, "main", chance, new)
        commits.append(_head(whole, "main"))
        return ScopedHistory(whole, tuple(commits), commits[1], _head(whole, "side"))

    def state(self, commit: str) -> GraphData:
        """All entities after a commit, read without rules."""
        return exported(self.whole, commit)


def _head(graph: Graph, branch: str) -> str:
    return graph.branches.show(branch).head_commit_id


def exported(graph: Graph, commit: str) -> GraphData:
    """What a handle exports as NDJSON, read by the schema that it is shown."""
    stream = io.BytesIO()
    graph.export(stream, at=commit)
    lines = tuple(line for line in stream.getvalue().decode().split("\n") if line)
    return GraphData(graph.schema.show(at=commit).source, lines)


def exported_files(graph: Graph, commit: str, folder: Path) -> Tables:
    """What a handle exports as Parquet."""
    graph.export(folder, format="parquet", at=commit)
    return {
        file.stem: {row["id"]: row for row in pq.read_table(file).to_pylist()}
        for file in folder.glob("*.parquet")
    }


def _change(graph: Graph, branch: str, chance: random.Random, new: Any) -> None:
    """One commit that updates, deletes and inserts a few entities."""
    state = exported(graph, _head(graph, branch))
    edits: dict[str, Edit] = {}
    gone: set[tuple[str, str]] = set()
    for entity in state.catalog.entity_types():
        rows = state.tables[entity.name]
        deleted = [name for name in rows if chance.random() < 0.12]
        if not isinstance(entity, EdgeType):
            gone |= {(entity.name, name) for name in deleted}
        kept = [row for name, row in rows.items() if name not in deleted]
        names = [p.name for p in entity.properties if p.name in COLUMNS]
        updated = []
        for row in kept:
            loose = isinstance(entity, EdgeType) and (
                (entity.source, row["src"]) in gone or (entity.target, row["dst"]) in gone
            )
            if names and not loose and chance.random() < 0.4:
                updated.append(
                    {**row, **_values([chance.choice(names)], state, entity.name, chance)}
                )
        inserted = []
        fresh = _values(names, state, entity.name, chance)
        if isinstance(entity, EdgeType):
            sources, targets = (
                [n for n in state.tables[end] if (end, n) not in gone]
                for end in (entity.source, entity.target)
            )
            if sources and targets and chance.random() < 0.7:
                ends = {"src": chance.choice(sources), "dst": chance.choice(targets)}
                inserted.append({"id": f"new{next(new)}", **ends, **fresh})
        elif not entity.key and chance.random() < 0.5:
            inserted.append({"id": f"new{next(new)}", **fresh})
        edits[entity.name] = Edit(insert=inserted, upsert=updated, delete=deleted)
    graph.apply(edits, branch)


def _values(
    names: list[str], state: GraphData, type_name: str, chance: random.Random
) -> dict[str, Any]:
    declared = {p.name: p for p in state.catalog.resolve(type_name).properties}
    return {
        name: typed(
            chance.choice((*COLUMNS[name][1], *([None] if declared[name].nullable else []))),
            declared[name].type,
        )
        for name in names
    }


@dataclass(frozen=True)
class Expected:
    """What an actor in the scope of `rules` must see of a history."""

    history: ScopedHistory
    rules: Rules

    @cached_property
    def reader(self) -> Graph:
        return self.history.whole.as_actor("reader", gate=ScopedGate(self.rules))

    @cached_property
    def states(self) -> dict[str, GraphData]:
        commits = (*self.history.main, self.history.side)
        return {commit: self.history.state(commit) for commit in commits}

    @cached_property
    def left(self) -> dict[str, FilteredGraph]:
        """The visible part of each state, by the reference evaluator."""
        return {c: filtered_graph(state, self.rules) for c, state in self.states.items()}

    def tables(self, commit: str) -> Tables:
        return {**self.left[commit].nodes, **self.left[commit].edges}

    def check_exports(self, folder: Path) -> None:
        for number, commit in enumerate(self.states):
            wanted = self.tables(commit)
            found = exported(self.reader, commit)
            assert same(found.tables, wanted), (self.rules, found.tables, wanted)
            files = exported_files(self.reader, commit, folder / f"files{number}")
            assert same({name: files.get(name, {}) for name in wanted}, wanted), self.rules
            assert not any(rows for name, rows in files.items() if name not in wanted)

    def check_differences(self) -> None:
        first, base, last = self.history.main
        side = self.history.side
        for a, b in ((first, base), (base, last), (base, side), (last, side), (last, first)):
            wanted = differences(self.tables(a), self.tables(b))
            found = seen(self.reader.diff(a, b))
            assert same(found, wanted), (self.rules, found, wanted)
        for branch, commits in (("main", (first, base, last)), ("side", (base, side))):
            page = self.reader.changes(branch, start="beginning")
            blocks = {x.commit.graph_commit_id: seen(x.changes) for x in page.blocks}
            for a, b in itertools.pairwise(commits):
                wanted = differences(self.tables(a), self.tables(b))
                assert same(blocks.get(b, {}), wanted), (self.rules, blocks.get(b), wanted)

    @property
    def whole_types(self) -> set[str]:
        """The types of which the rules hide no row and no property."""
        open_rows = {name for name, (_, rows) in self.rules.items() if rows is None}
        found = set()
        for entity in self.states[self.history.base].catalog.entity_types():
            ends = {entity.source, entity.target} if isinstance(entity, EdgeType) else set()
            if {entity.name, *ends} <= open_rows and not self.rules[entity.name][0]:
                found.add(entity.name)
        return found

    def check_previews(self) -> None:
        """Conflicts and changes of a merge, of the types that are seen whole."""
        base, ours, theirs = (
            content_of(self.states[commit])
            for commit in (self.history.base, self.history.main[-1], self.history.side)
        )
        catalog = self.states[self.history.base].catalog
        merged, _ = merge_contents(base, ours, theirs, "fail")
        lost = {
            (name, row_id)
            for edge in catalog.edges
            for (name, row_id), row in merged.items()
            if name == edge.name
            and not {(edge.source, row["src"]), (edge.target, row["dst"])} <= merged.keys()
        }
        preview = self.reader.preview_merge("side", "main")
        assert isinstance(preview, MergePreview)
        shown = self.whole_types
        found = {
            (c.type_name, c.entity_id, c.property, c.kind): (c.base, c.ours, c.theirs)
            for c in preview
        }
        assert preview.conflict_count == len(preview)
        assert {(n, i) for n, i, _, kind in found if kind == "OrphanEdge"} == {
            (name, i) for name, i in lost if name in shown
        }
        wanted = {
            key: value for key, value in conflicts_of(base, ours, theirs).items() if key[0] in shown
        }
        found = {key: value for key, value in found.items() if key[3] != "OrphanEdge"}
        assert same(found, wanted), (self.rules, found, wanted)
        if not lost:
            changes = differences(tables_of(ours, shown), tables_of(merged, shown))
            assert same(seen(preview.changes), changes), (self.rules, changes)


def conflicts_of(base: Content, ours: Content, theirs: Content) -> dict[tuple[Any, ...], Any]:
    """(type, id, property, kind) -> the three values."""
    found: dict[tuple[Any, ...], Any] = {}
    for entity in {*base, *ours, *theirs}:
        one = [{entity: side[entity]} if entity in side else {} for side in (base, ours, theirs)]
        for entity_id, name, kind in merge_contents(one[0], one[1], one[2], "fail")[1]:
            rows = [side.get(entity) for side in one]
            values = rows if name is None else [row and row[name] for row in rows]
            found[entity[0], entity_id, name, kind] = tuple(values)
    return found


def content_of(state: GraphData) -> Content:
    return {(name, i): row for name, rows in state.tables.items() for i, row in rows.items()}


def tables_of(content: Content, shown: set[str]) -> Tables:
    found: Tables = {name: {} for name in shown}
    for (name, entity_id), row in content.items():
        if name in shown:
            found[name][entity_id] = row
    return found


def differences(before: Tables, after: Tables) -> Seen:
    found: Seen = {}
    for name in {*before, *after}:
        old, new = before.get(name, {}), after.get(name, {})
        for entity in {*old, *new}:
            was, now = old.get(entity), new.get(entity)
            if was != now:
                op = "insert" if was is None else "delete" if now is None else "update"
                found[name, entity] = (op, was, now)
    return found


def seen(changes: Iterable[Change]) -> Seen:
    return {(c.type.name, c.id): (c.op, c.before, c.after) for c in changes}


def same(found: Any, wanted: Any) -> bool:
    """Whether answers are equal, apart from the order and names of the ends of edges."""
    return bool(_plain(found) == _plain(wanted))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        ends = {"from": "src", "to": "dst"}
        return {ends.get(k, k) if isinstance(k, str) else k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return plain(value)
