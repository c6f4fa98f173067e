"""Random schema changes, writes, branches, merges, reverts and crashes against a model of dicts.

A merge is compared cell by cell with both sides and their ancestor (`check_merge`). After it, and
after a revert of an older commit, the model is read from the graph again.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnigraph import failpoints
from omnigraph.catalog.model import Catalog, EntityType, Unique
from omnigraph.errors import MergeConflicts, SchemaRefused, ValidationFailed
from omnigraph.graph.open import init, open_graph
from omnigraph_testing import workloads
from omnigraph_testing.invariants import assert_at_rest, content

TYPE_NAMES = ("A", "B", "C", "D")
NAMES = ("p", "q", "r", "s")
IDS = tuple(f"i{n}" for n in range(6))
CRASHES = (
    "schema_apply.before_effects",
    "schema_apply.after_backfill_batch",
    "schema_apply.after_table",
    "commit.after_stage",
    "commit.after_arm",
    "commit.after_advance_first",
    "commit.after_advance",
    "publish.after_stage",
    "publish.after_swap",
    "commit.after_publish",
)
WIDER = {"I32": "I64", "I64": "String", "String": "String"}


@dataclass
class Column:
    kind: str
    nullable: bool = True
    unique: bool = False


@dataclass
class Kind:
    """A node type of the model."""

    columns: dict[str, Column] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Link:
    """An edge type of the model."""

    source: str
    target: str
    rows: dict[str, tuple[str, str]] = field(default_factory=dict)


class Model(dict[str, Kind]):
    """The node types by name, and the edge types beside them."""

    def __init__(self, kinds: Any = (), edges: dict[str, Link] | None = None) -> None:
        super().__init__(kinds)
        self.edges = edges or {}

    def delete(self, type_name: str, gone: str) -> None:
        del self[type_name].rows[gone]
        for link in self.edges.values():
            ends = (link.source == type_name, link.target == type_name)
            link.rows = {
                i: pair
                for i, pair in link.rows.items()
                if not any(at and end == gone for at, end in zip(ends, pair, strict=True))
            }


def text_of(model: Model, hints: dict[tuple[str, ...], str] | None = None) -> str:
    """The schema text; `hints` are old names by (type,) and by (type, property)."""
    lines = []
    for name, kind in model.items():
        hint = (hints or {}).get((name,))
        lines.append(f"node {name} {_hint(hint)} {{ k: String @key")
        for prop, column in kind.columns.items():
            marks = "?" * column.nullable + " @unique" * column.unique
            lines.append(f"  {prop}: {column.kind}{marks} {_hint((hints or {}).get((name, prop)))}")
        lines.append("}")
    for name, link in model.edges.items():
        lines.append(f"edge {name}: {link.source} -> {link.target}")
    return "\n".join(lines) + "\n"


def _hint(old: str | None) -> str:
    return f'@rename_from("{old}")' if old else ""


def rows_of(model: Model) -> dict[str, Any]:
    """As `content` gives them."""
    return {
        name: {i: {"id": i, "k": i} | row for i, row in kind.rows.items()}
        for name, kind in model.items()
        if kind.rows
    } | {
        name: {i: {"id": i, "src": a, "dst": b} for i, (a, b) in link.rows.items()}
        for name, link in model.edges.items()
        if link.rows
    }


@dataclass
class Side:
    """A state as the graph tells it: its catalog, and its rows by type name and id."""

    catalog: Catalog
    rows: dict[str, dict[str, dict[str, Any]]]

    def type_like(self, other: EntityType) -> EntityType | None:
        return next((t for t in self.catalog.entity_types() if same(t, other)), None)


def same(a: Any, b: Any) -> bool:
    """One type or property: merges remember identities of what two branches added."""
    return bool({a.identity, *a.also} & {b.identity, *b.also})


def cells(side: Side, entity: EntityType | None, like: EntityType) -> dict[str, dict[str, Any]]:
    """Id -> property of `like` -> value as text, without properties that the side lacks."""
    if entity is None:
        return {}
    names = {p.name: q.name for p in entity.properties for q in like.properties if same(p, q)}
    names |= {"src": "src", "dst": "dst"}
    return {
        i: {names[n]: None if v is None else str(v) for n, v in row.items() if n in names}
        for i, row in side.rows.get(entity.name, {}).items()
    }


def check_merge(base: Side, ours: Side, theirs: Side, merged: Side) -> None:
    """Without conflicts, what only one side changed is as on that side."""
    for entity in base.catalog.entity_types():
        if ours.type_like(entity) is None or theirs.type_like(entity) is None:
            assert merged.type_like(entity) is None, f"{entity.name} was dropped"
    for entity in merged.catalog.entity_types():
        b, o, t, m = (
            cells(side, side.type_like(entity), entity) for side in (base, ours, theirs, merged)
        )
        for i in {*b, *o, *t, *m}:
            here, there, was = i in o, i in t, i in b
            assert (i in m) is (here if there == was else there), (entity.name, i)
            for name in m.get(i, {}):
                mine, yours, old = (rows.get(i, {}).get(name, "lacks") for rows in (o, t, b))
                if yours == "lacks" and here:
                    wanted = mine
                elif mine == "lacks" and there:
                    wanted = yours
                elif here and there:
                    wanted = mine if yours == old else yours
                else:
                    continue
                assert m[i][name] == wanted, (entity.name, i, name, old, mine, yours)


def breaks(kind: Kind) -> bool:
    for name, column in kind.columns.items():
        values = [row[name] for row in kind.rows.values()]
        if not column.nullable and None in values:
            return True
        present = [v for v in values if v is not None]
        if column.unique and len(set(present)) < len(present):
            return True
    return False


class SchemaMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evolve-machine-"))
        self.uri = str(self.folder / "g")
        kinds = {"A": Kind({"p": Column("I32"), "q": Column("String")})}
        model = Model(kinds, {"L": Link("A", "A")})
        self.graph = init(self.uri, text_of(model), settings=workloads.settings())
        self.branches: dict[str, Model] = {"main": model}
        self.tags: dict[str, dict[str, Any]] = {}
        self.texts = {"main": text_of(model)}
        self.commits: dict[str, dict[str, Any]] = {}
        self.undo: dict[str, tuple[str, Model]] = {}

    def teardown(self) -> None:
        failpoints.disarm_all()
        if hasattr(self, "folder"):
            report = self.graph.verify()
            assert report.ok, report
            assert_at_rest(self.graph)
            for commit, rows in self.commits.items():
                assert content(self.graph, at=commit) == rows, commit
            shutil.rmtree(self.folder)

    # Choices

    def branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.branches)))

    def some_type(self, data: st.DataObject, model: Model) -> str:
        return data.draw(st.sampled_from(sorted(model)))

    def value(self, data: st.DataObject, column: Column) -> Any:
        number = st.integers(0, 3)
        values = st.sampled_from(["x", "y", "7"]) if column.kind == "String" else number
        return data.draw(st.one_of(st.none(), values) if column.nullable else values)

    # Rows

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        model = copy.deepcopy(self.branches[branch])
        name = self.some_type(data, model)
        kind = model[name]
        rows = []
        for i in data.draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)):
            row = {prop: self.value(data, c) for prop, c in kind.columns.items()}
            kind.rows[i] = row
            rows.append({"k": i} | row)
        edit = {name: {"upsert": rows}}
        if breaks(kind):
            with pytest.raises(ValidationFailed):
                self.graph.apply(edit, branch)
            return
        self.graph.apply(edit, branch)
        self.branches[branch] = model

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        model = self.branches[branch]
        name = self.some_type(data, model)
        if not model[name].rows:
            return
        gone = data.draw(st.sampled_from(sorted(model[name].rows)))
        self.graph.apply({name: {"delete": [gone]}}, branch)
        model.delete(name, gone)

    @rule(data=st.data())
    def link(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        model = self.branches[branch]
        full = [n for n, e in model.edges.items() if model[e.source].rows and model[e.target].rows]
        if not full:
            return
        name = data.draw(st.sampled_from(sorted(full)))
        edge = model.edges[name]
        ends = [
            data.draw(st.sampled_from(sorted(model[n].rows))) for n in (edge.source, edge.target)
        ]
        i = data.draw(st.sampled_from(["e0", "e1", "e2"]))
        self.graph.apply({name: {"upsert": [{"id": i, "from": ends[0], "to": ends[1]}]}}, branch)
        edge.rows[i] = (ends[0], ends[1])

    # The schema

    def change(
        self,
        data: st.DataObject,
        branch: str,
        new: Model,
        hints: dict[tuple[str, ...], str] | None = None,
        backfill: dict[str, Any] | None = None,
    ) -> None:
        """Apply, sometimes with a crash in the middle; the model follows what was published."""
        text = text_of(new, hints)
        at = self.graph.commits.list(branch)[0].graph_commit_id
        grants: dict[str, Any] = {"allow_data_loss": True, "backfill": backfill or {}}
        plan = self.graph.schema.plan(text, branch=branch, **grants)
        refused = any(breaks(kind) for kind in new.values())
        assert plan.supported is not refused, plan
        if refused:
            with pytest.raises(ValidationFailed):
                self.graph.schema.apply(text, branch=branch, **grants)
            return
        crash = data.draw(st.one_of(st.none(), st.sampled_from(CRASHES)))
        if crash is not None:
            failpoints.arm(crash, "raise")
        try:
            self.graph.schema.apply(text, branch=branch, **grants)
        except failpoints.FailpointRaised:
            failpoints.disarm_all()
            self.graph = open_graph(self.uri, settings=workloads.settings())
            head = self.graph.commits.list(branch)[0]
            if head.graph_commit_id == at or head.operation != "schema_apply":
                assert self.graph.schema.show(branch).source == self.texts[branch]
                return
        failpoints.disarm_all()
        assert self.graph.schema.show(branch).source == text
        head = self.graph.commits.list(branch, 1)[0].graph_commit_id
        if head != at:
            self.undo[branch] = (head, self.branches[branch])
        self.remember(at, self.branches[branch])
        self.branches[branch], self.texts[branch] = new, text
        plain = {"allow_data_loss": True}
        assert not self.graph.schema.apply(text, branch=branch, **plain).applied

    @rule(data=st.data(), required=st.booleans())
    def add_property(self, data: st.DataObject, required: bool) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        free = sorted(set(NAMES) - new[owner].columns.keys())
        if not free:
            return
        name = data.draw(st.sampled_from(free))
        new[owner].columns[name] = Column(data.draw(st.sampled_from(list(WIDER))), not required)
        value: Any = None
        if required:
            value = "z" if new[owner].columns[name].kind == "String" else 9
        for row in new[owner].rows.values():
            row[name] = value
        given = '"z"' if value == "z" else value
        self.change(data, branch, new, None, {f"{owner}.{name}": given} if required else None)

    @rule(data=st.data(), shifts=st.booleans())
    def rename_property(self, data: st.DataObject, shifts: bool) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        kind = new[owner]
        free = sorted(set(NAMES) - kind.columns.keys())
        if not free or not kind.columns:
            return
        names = {data.draw(st.sampled_from(sorted(kind.columns))): data.draw(st.sampled_from(free))}
        others = sorted(kind.columns.keys() - names.keys())
        if shifts and others:
            # Another property takes the name that becomes free.
            names[data.draw(st.sampled_from(others))] = next(iter(names))
        kind.columns = {names.get(n, n): c for n, c in kind.columns.items()}
        for i, row in kind.rows.items():
            kind.rows[i] = {names.get(n, n): v for n, v in row.items()}
        hints = {(owner, after): before for before, after in names.items()}
        self.change(data, branch, new, hints)

    @rule(data=st.data())
    def drop_property(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        if not new[owner].columns:
            return
        gone = data.draw(st.sampled_from(sorted(new[owner].columns)))
        del new[owner].columns[gone]
        for row in new[owner].rows.values():
            del row[gone]
        self.change(data, branch, new)

    @rule(data=st.data())
    def replace_property(self, data: st.DataObject) -> None:
        """Drop it in one change and add it again in the next: no value comes back."""
        branch = self.branch(data)
        owner = self.some_type(data, self.branches[branch])
        columns = self.branches[branch][owner].columns
        if not columns:
            return
        name = data.draw(st.sampled_from(sorted(columns)))
        column = Column(columns[name].kind)
        without = copy.deepcopy(self.branches[branch])
        del without[owner].columns[name]
        for row in without[owner].rows.values():
            del row[name]
        self.change(data, branch, without)
        again = copy.deepcopy(self.branches[branch])
        if name in again[owner].columns:
            return  # the drop crashed
        again[owner].columns[name] = column
        for row in again[owner].rows.values():
            row[name] = None
        self.change(data, branch, again)

    @rule(data=st.data())
    def cast(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        narrow = sorted(n for n, c in new[owner].columns.items() if c.kind != "String")
        if not narrow:
            return
        name = data.draw(st.sampled_from(narrow))
        column = new[owner].columns[name]
        column.kind = WIDER[column.kind]
        if column.kind == "String":
            for row in new[owner].rows.values():
                row[name] = None if row[name] is None else str(row[name])
        self.change(data, branch, new)

    @rule(data=st.data())
    def turn_a_rule(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        owner = self.some_type(data, new)
        if not new[owner].columns:
            return
        column = new[owner].columns[data.draw(st.sampled_from(sorted(new[owner].columns)))]
        if data.draw(st.booleans()):
            column.nullable = not column.nullable
        else:
            column.unique = not column.unique
        self.change(data, branch, new)

    @rule(data=st.data())
    def add_type(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        free = sorted(set(TYPE_NAMES) - new.keys())
        if free:
            new[data.draw(st.sampled_from(free))] = Kind({"p": Column("I64")})
            self.change(data, branch, new)

    @rule(data=st.data())
    def drop_type(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        if len(new) > 1:
            gone = self.some_type(data, new)
            del new[gone]
            new.edges = {n: e for n, e in new.edges.items() if gone not in (e.source, e.target)}
            self.change(data, branch, new)

    @rule(data=st.data())
    def add_or_drop_edge_type(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        new = copy.deepcopy(self.branches[branch])
        name = data.draw(st.sampled_from(["L", "M"]))
        if name in new.edges:
            del new.edges[name]
        else:
            new.edges[name] = Link(self.some_type(data, new), self.some_type(data, new))
        self.change(data, branch, new)

    @rule(data=st.data(), shifts=st.booleans())
    def rename_type(self, data: st.DataObject, shifts: bool) -> None:
        branch = self.branch(data)
        old = self.branches[branch]
        free = sorted(set(TYPE_NAMES) - old.keys())
        if not free:
            return
        names = {self.some_type(data, old): data.draw(st.sampled_from(free))}
        others = sorted(old.keys() - names.keys())
        if shifts and others:
            names[data.draw(st.sampled_from(others))] = next(iter(names))
        edges = {
            n: Link(names.get(e.source, e.source), names.get(e.target, e.target), dict(e.rows))
            for n, e in old.edges.items()
        }
        new = Model({names.get(n, n): copy.deepcopy(kind) for n, kind in old.items()}, edges)
        self.change(data, branch, new, {(after,): before for before, after in names.items()})

    @rule(data=st.data())
    def swap(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        model = self.branches[branch]
        if len(model) < 2:
            return
        a, b = sorted(model)[:2]
        text = text_of(model, {(a,): b, (b,): a})
        with pytest.raises(SchemaRefused, match="swap"):
            self.graph.schema.apply(text, branch=branch, allow_data_loss=True)

    # Branches, tags, upkeep

    @precondition(lambda self: len(self.branches) < 3)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        source = self.branch(data)
        name = f"b{len(self.branches)}"
        self.graph.branches.create(name, source)
        self.branches[name] = copy.deepcopy(self.branches[source])
        self.texts[name] = self.texts[source]

    # Merges and reverts

    def remember(self, commit: str, model: Model) -> None:
        """This commit must read the same at the end."""
        if len(self.commits) < 8:
            self.commits[commit] = rows_of(copy.deepcopy(model))

    def state(self, branch: str = "main", at: str | None = None) -> Side:
        return Side(self.graph.snapshot(branch, at=at).catalog, content(self.graph, branch, at))

    def adopt(self, branch: str) -> None:
        """The model becomes what the graph says."""
        side = self.state(branch)
        kinds = {}
        for node in side.catalog.nodes:
            columns = {
                p.name: Column(str(p.type), p.nullable, Unique((p.name,)) in node.constraints)
                for p in node.properties
                if p.name != "k"
            }
            rows = {
                i: {n: row[n] for n in columns} for i, row in side.rows.get(node.name, {}).items()
            }
            kinds[node.name] = Kind(columns, rows)
        edges = {
            e.name: Link(
                e.source,
                e.target,
                {i: (r["src"], r["dst"]) for i, r in side.rows.get(e.name, {}).items()},
            )
            for e in side.catalog.edges
        }
        self.branches[branch] = Model(kinds, edges)
        self.texts[branch] = self.graph.schema.show(branch).source
        assert self.texts[branch]
        self.undo.pop(branch, None)

    def ancestors(self, one: str, other: str) -> set[str]:
        """The best common ancestors of two branches."""
        parents: dict[str, list[str]] = {}
        seen = []
        for branch in (one, other):
            listed = self.graph.commits.list(branch, None)
            for c in listed:
                both = (c.parent_commit_id, c.merged_parent_commit_id)
                parents[c.graph_commit_id] = [p for p in both if p]
            seen.append(self.reached([listed[0].graph_commit_id], parents))
        common = seen[0] & seen[1]
        below = self.reached([p for c in common for p in parents[c]], parents)
        return common - below

    def reached(self, start: list[str], parents: dict[str, list[str]]) -> set[str]:
        found: set[str] = set()
        waiting = list(start)
        while waiting:
            commit = waiting.pop()
            if commit not in found:
                found.add(commit)
                waiting += parents.get(commit, [])
        return found

    @precondition(lambda self: len(self.branches) > 1)
    @rule(data=st.data(), strategy=st.sampled_from(["fail", "fail", "ours", "theirs"]))
    def merge(self, data: st.DataObject, strategy: str) -> None:
        source, target = data.draw(st.permutations(sorted(self.branches)))[:2]
        ours, theirs = self.state(target), self.state(source)
        bases = self.ancestors(source, target)
        head = self.graph.commits.list(target, 1)[0].graph_commit_id
        try:
            self.graph.merge(source, target, strategy=strategy)
        except (MergeConflicts, SchemaRefused) as error:
            assert self.graph.commits.list(target, 1)[0].graph_commit_id == head
            assert self.state(target).rows == ours.rows
            undecided = [c.kind for c in getattr(error, "conflicts", ())]
            assert strategy == "fail" or "SchemaDivergence" not in undecided
            return
        self.remember(head, self.branches[target])
        self.adopt(target)
        if strategy == "fail" and len(bases) == 1:
            (base,) = bases
            check_merge(self.state(at=base), ours, theirs, self.state(target))
        assert self.graph.merge(source, target).outcome == "already_up_to_date"

    @rule(data=st.data())
    def revert_the_last_change(self, data: st.DataObject) -> None:
        branch = self.branch(data)
        commit, before = self.undo.pop(branch, (None, None))
        if commit is None or self.graph.commits.list(branch, 1)[0].graph_commit_id != commit:
            return
        self.graph.revert(commit, branch)
        self.adopt(branch)
        assert before is not None
        assert rows_of(self.branches[branch]) == rows_of(before)
        assert {n: k.columns for n, k in self.branches[branch].items()} == {
            n: k.columns for n, k in before.items()
        }

    @rule(data=st.data(), strategy=st.sampled_from(["fail", "ours", "theirs"]))
    def revert_a_change(self, data: st.DataObject, strategy: str) -> None:
        branch = self.branch(data)
        listed = self.graph.commits.list(branch, 8, first_parent=True)
        made = [c.graph_commit_id for c in listed if c.operation in ("schema_apply", "merge")]
        if not made:
            return
        before = self.state(branch)
        try:
            self.graph.revert(data.draw(st.sampled_from(made)), branch, strategy=strategy)
        except (MergeConflicts, SchemaRefused):
            assert (
                self.graph.commits.list(branch, 1)[0].graph_commit_id == listed[0].graph_commit_id
            )
            assert self.state(branch) == before
            return
        self.adopt(branch)

    @precondition(lambda self: len(self.tags) < 4)
    @rule()
    def tag(self) -> None:
        name = f"t{len(self.tags)}"
        self.graph.tags.create(name)
        self.tags[name] = rows_of(copy.deepcopy(self.branches["main"]))

    @rule()
    def optimize(self) -> None:
        self.graph.optimize()

    @rule()
    def reopen(self) -> None:
        self.graph = open_graph(self.uri, settings=workloads.settings())

    @invariant()
    def every_branch_and_tag_reads_as_the_model(self) -> None:
        if not hasattr(self, "branches"):
            return
        for branch, model in self.branches.items():
            assert content(self.graph, branch) == rows_of(model), branch
            for name, kind in model.items():
                shown = "".join(f", $n.{prop} as {prop}" for prop in kind.columns)
                query = f"query q() {{ match {{ $n: {name} }} return {{ $n.id as id{shown} }} }}"
                found = {
                    row.pop("id"): row for row in self.graph.query(query, branch=branch).to_pylist()
                }
                assert found == kind.rows, (branch, name)
        for tag, rows in self.tags.items():
            assert content(self.graph, at=tag) == rows, tag


def run(examples: int, steps: int) -> None:
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(SchemaMachine, settings=chosen)


def test_random_schema_changes() -> None:
    run(examples=12, steps=20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_random_schema_changes() -> None:
    run(examples=150, steps=40)
